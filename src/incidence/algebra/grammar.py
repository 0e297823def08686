r"""Text to syntax: the grammar of patterns and maps (docs/math.md section 1), and the table of the
kinds of faces.

    map      := side "->" side
    side     := tensor ("," tensor)*
    tensor   := [name "="] face*                    (no face at all: one value per structure)
    face     := letter | "(" letter+ ")" | "{" letter+ ["..."] "}" | "[" letter+ "]"
                | "<" letter+ ">"
    letter   := an ASCII letter with optional digits [":" sort]

The grammar is regular, so the parser is a loop: no input can make it recurse. Every error is a
`PatternError` that points at the place.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from incidence.errors import PatternError

__all__ = [
    "DEFAULT_SORT",
    "KINDS",
    "Face",
    "Kind",
    "Letter",
    "Signature",
    "TensorSyntax",
    "is_letter",
    "make_face",
    "parse",
    "write_faces",
    "write_letter",
]

DEFAULT_SORT = "node"
# Bounds on hostile texts, far above what anybody writes.
MAX_TEXT, MAX_TENSORS, MAX_LETTERS = 10_000, 256, 64


@dataclass(frozen=True)
class Kind:
    """One kind of face: its brackets, and what they mean for the nodes inside.

    Attributes:
        opening, closing: The brackets; empty for a plain letter.
        is_ordered: Whether positions matter.
        is_distinct: Whether all nodes of the face differ.
        title: The name of the kind in messages.
        may_be_open: Whether it may end with `...`, as a face of any size.
        is_oriented: Whether tensors change sign when two nodes of the face are exchanged
            (docs/math.md section 16).
    """

    opening: str
    closing: str
    is_ordered: bool
    is_distinct: bool
    title: str
    may_be_open: bool = False
    is_oriented: bool = False


NODE = Kind("", "", is_ordered=True, is_distinct=True, title="a node")

DIRECTED = Kind("(", ")", is_ordered=True, is_distinct=True, title="a directed face")
UNDIRECTED = Kind(
    "{", "}", is_ordered=False, is_distinct=True, title="an undirected face", may_be_open=True
)
SYMMETRIC = Kind("[", "]", is_ordered=False, is_distinct=False, title="a symmetric face")
ORIENTED = Kind(
    "<", ">", is_ordered=False, is_distinct=True, title="an oriented face", is_oriented=True
)

# A new bracket is one new entry here; the tokens, the parser and the orbits read this table.
KINDS = {kind.opening: kind for kind in (NODE, DIRECTED, UNDIRECTED, SYMMETRIC, ORIENTED)}
_CLOSING = {kind.closing: kind for kind in KINDS.values() if kind.closing}
# The empty bracket of plain letters adds nothing here.
_OPENED, _CLOSED = re.escape("".join(KINDS)), re.escape("".join(_CLOSING))


class Letter(NamedTuple):
    """A letter of a face with its sort."""

    name: str
    sort: str


class Face(NamedTuple):
    """A face of a pattern: its kind, its letters, and whether it is open (`...`)."""

    kind: Kind
    letters: tuple[Letter, ...]
    is_open: bool


def make_face(kind: Kind, letters: tuple[Letter, ...], is_open: bool = False) -> Face:
    """Return a face in normal form: `i`, `(i)`, `{i}`, `[i]` and `<i>` mean the same."""
    return Face(NODE if len(letters) == 1 and not is_open else kind, letters, is_open)


Signature = tuple[tuple[int, int], ...]
"""The places of a letter or node: sorted pairs (number of the face, position in it).

The position in an unordered face is -1. A node that stands twice in a symmetric face has that pair
twice.
"""


class TensorSyntax(NamedTuple):
    """One tensor of a map: its faces, and a name or None."""

    name: str | None
    faces: tuple[Face, ...]


class _Token(NamedTuple):
    text: str
    start: int


_TOKEN = re.compile(rf"\s+|->|\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[{_OPENED}{_CLOSED}:=,]")
# Its group is the first comma inside of a face.
_COMMA_INSIDE = re.compile(
    rf"[{_OPENED}][^{_OPENED}{_CLOSED},]*(,)[^{_OPENED}{_CLOSED}]*[{_CLOSED}](?<!->)"
)
# Its group is a `>` that no `<` opens: most likely the end of a mistyped arrow.
_LONE_CLOSING = re.compile(r"<[^<>]*>|(>)")
_LETTER = re.compile(r"[A-Za-z][0-9]*")
_WORD = re.compile(r"[A-Za-z_]")


def is_letter(text: str) -> bool:
    """Return whether a word is a letter of a pattern, and so no name of a tensor.

    Example:
        >>> is_letter("i2"), is_letter("bond")
        (True, False)
    """
    return _LETTER.fullmatch(text) is not None


# What word processors and web pages make of our characters.
_LOOKALIKES = {"→": "->", "⟶": "->", "↦": "->", "…": "...", "≔": "=", "⟨": "<", "⟩": ">"}
_STRAY = {
    ".": "write `...`, in one piece",
    "-": "the arrow is `->`, in one piece; names and sorts take `_`",
    ";": "tensors are separated by commas, letters by spaces",
}
_MISPLACED = {
    "...": "it belongs at the end of an undirected face: `{i ...}`",
    ":": "it stands between a letter and its sort: `u:user`",
    "=": "it stands between a name and its pattern, once: `bond={i j}`",
}


def parse(
    text: str, *, is_map: bool, may_repeat: bool = False
) -> tuple[tuple[TensorSyntax, ...], ...]:
    """Parse a pattern or a map.

    Args:
        text: The pattern or map.
        is_map: Whether the text is a map, with two sides; a pattern has one side with one tensor.
        may_repeat: Whether two tensors on one side may have the same name.

    Returns:
        The tensors of every side.

    Raises:
        PatternError: The text is outside the grammar. The message shows the place and a hint.
    """
    if not isinstance(text, str):
        what = "a map" if is_map else "a pattern"
        raise PatternError("", 0, f"{what} is written as text, not as {type(text).__name__}")
    return _PatternParser(text, may_repeat).parse(is_map)


class _PatternParser:
    def __init__(self, text: str, may_repeat: bool) -> None:
        self.text, self.may_repeat = text, may_repeat
        if len(text) > MAX_TEXT:
            self.fail(
                MAX_TEXT, f"the text has {len(text):,} characters", f"at most {MAX_TEXT:,} are read"
            )
        # Scanning first means that a wrong character is reported before any other error.
        self.tokens = list(self.scan())
        # The sort of every letter as first written, None if without; it is the same in a whole map.
        self.sorts: dict[str, str | None] = {}

    def fail(self, position: int, problem: str, hint: str = "") -> NoReturn:
        raise PatternError(self.text, position, problem, hint)

    def scan(self) -> Iterator[_Token]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                self.fail_character(position)
            if not match[0].isspace():
                yield _Token(match[0], position)
            position = match.end()

    def fail_character(self, position: int) -> NoReturn:
        character = self.text[position]
        shown = character if character.isprintable() else repr(character)
        if character in _STRAY:
            self.fail(position, f"a stray `{character}`", _STRAY[character])
        if character.isdigit() and character.isascii():
            hint = "letters, names and sorts start with a-z or A-Z: `i`, `i2`"
            self.fail(position, f"`{character}` is not a letter", hint)
        # NFKC turns full-width letters and similar forms into plain ones.
        plain = _LOOKALIKES.get(character) or unicodedata.normalize("NFKC", character)
        hint = (
            "letters are a-z and A-Z with optional digits; faces are `i`, `(i j)`, `{i j}`, `[i"
            " j]`, `<i j>`, `{i ...}`"
        )
        if plain != character and _TOKEN.fullmatch(plain):
            hint = f"did you mean the plain `{plain}`?"
        elif not character.isascii():
            hint = f"this is {unicodedata.name(character, 'an unnamed character')}; {hint}"
        self.fail(position, f"unexpected character `{shown}`", hint)

    def parse(self, is_map: bool) -> tuple[tuple[TensorSyntax, ...], ...]:
        # Splitting at commas would tear the brackets apart, and report one that is not closed.
        comma = _COMMA_INSIDE.search(self.text)
        if comma:
            hint = "letters are separated by spaces: `{i j}`"
            self.fail(comma.start(1), "a comma inside brackets", hint)
        arrows = [token.start for token in self.tokens if token.text == "->"]
        if is_map and not arrows:
            self.fail_without_arrow()
        if is_map and len(arrows) > 1:
            hint = "a map has one arrow; compose two maps with `compose`"
            self.fail(arrows[1], "a second `->`", hint)
        if not is_map and arrows:
            hint = "for a map use EquivariantMap, or nn.Linear for a layer"
            self.fail(arrows[0], "a pattern has no arrow", hint)
        return tuple(self.side(tokens, is_map) for tokens in _split(self.tokens, "->"))

    def fail_without_arrow(self) -> NoReturn:
        for match in _LONE_CLOSING.finditer(self.text):
            if match[1]:
                hint = "the arrow is `->`, in one piece"
                self.fail(match.start(1), "this `>` closes nothing", hint)
        hint = "write `tensors -> tensors`, for example `i j -> i j`"
        self.fail(len(self.text), "a map needs an arrow", hint)

    def side(self, tokens: list[_Token], is_map: bool) -> tuple[TensorSyntax, ...]:
        commas = [token.start for token in tokens if token.text == ","]
        if commas and not is_map:
            hint = "a comma separates the tensors of a map"
            self.fail(commas[0], "a pattern is one tensor", hint)
        if len(commas) >= MAX_TENSORS:
            place = commas[MAX_TENSORS - 1]
            self.fail(place, "too many tensors", f"a side has at most {MAX_TENSORS}")
        side: list[TensorSyntax] = []
        for chunk in _split(tokens, ","):
            tensor = self.tensor(chunk)
            names = [other.name for other in side if other.name is not None]
            if tensor.name in names and not self.may_repeat:
                problem = f"the name `{tensor.name}` is used twice on this side"
                self.fail(chunk[0].start, problem, "a name means one tensor: use another one")
            side.append(tensor)
        return tuple(side)

    def tensor(self, tokens: list[_Token]) -> TensorSyntax:
        name = None
        # A name; `=` in any other place is reported by `letter`.
        if len(tokens) > 1 and tokens[1].text == "=":
            name = self.name(tokens[0])
            tokens = tokens[2:]
        faces: list[Face] = []
        rest = deque(tokens)
        while rest:
            faces.append(self.face(rest))
        count = len({letter for face in faces for letter in face.letters})
        if count > MAX_LETTERS:
            hint = f"at most {MAX_LETTERS} are read"
            self.fail(tokens[0].start, f"{count} letters in one pattern", hint)
        return TensorSyntax(name, tuple(faces))

    def name(self, token: _Token) -> str:
        if not _WORD.match(token.text):
            hint = "write `name=pattern`, for example `bond={i j}`"
            self.fail(token.start, f"`{token.text}` is not a name", hint)
        if is_letter(token.text):
            hint = (
                f"`{token.text}` is a letter, and names must differ from letters:"
                f" `{token.text}_name={{i j}}`"
            )
            self.fail(token.start, f"`{token.text}` cannot be a name", hint)
        return token.text

    def face(self, rest: deque[_Token]) -> Face:
        first = rest.popleft()
        if first.text in KINDS:
            return self.bracket(KINDS[first.text], first, rest)
        if first.text in _CLOSING:
            arrow = "; the arrow is `->`" if first.text == ">" else ""
            hint = f"open it with `{_CLOSING[first.text].opening}`, or remove it{arrow}"
            self.fail(first.start, f"this `{first.text}` closes nothing", hint)
        return make_face(NODE, (self.letter(first, rest),))

    def bracket(self, kind: Kind, first: _Token, rest: deque[_Token]) -> Face:
        letters: list[Letter] = []
        is_open = False
        while True:
            if not rest:
                problem = f"this `{first.text}` is never closed"
                self.fail(first.start, problem, f"add `{kind.closing}`")
            token = rest.popleft()
            # The other brackets are errors, with a hint that depends on which one it is.
            if token.text == kind.closing:
                break
            self.refuse_inside(kind, first, token, is_open)
            if token.text == "...":
                self.refuse_open(kind, token, letters)
                is_open = True
                continue
            letters.append(self.letter(token, rest))
            if letters[-1] in letters[:-1]:
                hint = (
                    "a letter stands once in a face; repeat it in another face to say that two"
                    " faces share the node"
                )
                self.fail(token.start, f"`{token.text}` twice in one face", hint)
        if not letters:
            hint = (
                f"a face has at least one letter: `{kind.opening}i{kind.closing}`; the empty"
                " pattern has no face at all"
            )
            self.fail(first.start, "empty brackets", hint)
        return make_face(kind, tuple(letters), is_open)

    def refuse_inside(self, kind: Kind, first: _Token, token: _Token, is_open: bool) -> None:
        if token.text in KINDS:
            hint = f"close the `{first.text}` first; faces stand side by side, as in `i {{i j}}`"
            if {first.text, token.text} == {"<", "["}:
                hint = (
                    "there is no oriented face with repeats, as its tensors would be 0 there: write"
                    " `<i j>`, or `[i j]` without signs"
                )
            self.fail(token.start, "brackets inside brackets", hint)
        if token.text in _CLOSING:
            problem = f"`{token.text}` does not close the `{first.text}`"
            self.fail(token.start, problem, f"close it with `{kind.closing}`")
        if is_open:
            hint = "`...` stands last in its face: `{i j ...}`"
            self.fail(token.start, f"`{token.text}` after `...`", hint)

    def refuse_open(self, kind: Kind, token: _Token, letters: list[Letter]) -> None:
        if not kind.may_be_open:
            hint = f"only `{{ }}` takes `...`; {kind.title} has a fixed size"
            if kind.is_oriented:
                hint += ": write a tensor for each size, `i, <i j>, <i j k>`"
            self.fail(token.start, f"`...` in {kind.title}", hint)
        if not letters:
            hint = "an open face starts with a letter: `{i ...}`"
            self.fail(token.start, "`...` without a letter", hint)
        sorts = sorted({letter.sort for letter in letters})
        if len(sorts) > 1:
            problem = f"an open face with {len(sorts)} sorts: {', '.join(sorts)}"
            self.fail(token.start, problem, "use one open face for each sort")

    def letter(self, token: _Token, rest: deque[_Token]) -> Letter:
        text, start = token
        if text in _MISPLACED:
            self.fail(start, f"a stray `{text}`", _MISPLACED[text])
        if not is_letter(text):
            # `ij` was most likely meant as `i j`.
            spaced = " ".join(text) if len(text) == 2 and text.isalpha() else "i j"
            hint = (
                f"letters are one character with optional digits, separated by spaces: `{spaced}`;"
                f" a name takes `=`: `{text}={{i j}}`"
            )
            self.fail(start, f"`{text}` is not a letter", hint)
        sort = self.sort(rest) if rest and rest[0].text == ":" else None
        # `i` and `i:node` mean the same, so None stands for the default in this comparison.
        known = self.sorts.setdefault(text, sort)
        if (known or DEFAULT_SORT) != (sort or DEFAULT_SORT):
            self.fail_sorts(start, text, known, sort)
        return Letter(text, sort or DEFAULT_SORT)

    def fail_sorts(self, start: int, text: str, known: str | None, sort: str | None) -> NoReturn:
        if known and sort:
            problem = f"`{text}` has the sort `{known}` elsewhere and `{sort}` here"
            self.fail(start, problem, "a letter has one sort throughout a map: use another letter")
        sort = known or sort
        problem = f"`{text}` is written with the sort `{sort}` in one place and without in another"
        self.fail(start, problem, f"write `{text}:{sort}` in every place, or use another letter")

    def sort(self, rest: deque[_Token]) -> str:
        colon = rest.popleft()
        if not rest or not _WORD.match(rest[0].text):
            self.fail(colon.start, "a `:` without a sort", "write the sort after it: `u:user`")
        return rest.popleft().text


def _split(tokens: list[_Token], separator: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token.text == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def write_letter(letter: Letter) -> str:
    """Return a letter with its sort, or without if it has the default sort."""
    return letter.name if letter.sort == DEFAULT_SORT else f"{letter.name}:{letter.sort}"


def write_faces(faces: Iterable[tuple[Kind, Iterable[str], bool]]) -> str:
    """Return faces as text, from their kinds, the words inside and whether they are open."""
    texts = []
    for kind, words, is_open in faces:
        inside = " ".join([*words, "..."] if is_open else words)
        texts.append(f"{kind.opening}{inside}{kind.closing}")
    return " ".join(texts)
