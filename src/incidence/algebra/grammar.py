r"""Text to syntax: the grammar of patterns and maps (docs/math.md section 1), and the table of the kinds of faces.

    map      := side "->" side
    side     := tensor ("," tensor)*
    tensor   := [name "="] face*                    (no face at all: one value per structure)
    face     := letter | "(" letter+ ")" | "{" letter+ ["..."] "}" | "[" letter+ "]" | "<" letter+ ">"
    letter   := an ASCII letter with optional digits [":" sort]

The grammar is regular, so the parser is a loop: no input can make it recurse. Every refusal is a `PatternError` that points
at the place.
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
MAX_TEXT, MAX_TENSORS, MAX_LETTERS = 10_000, 256, 64


@dataclass(frozen=True)
class Kind:
    """One kind of face: what its brackets are, and what it means for the nodes inside.

    Attributes:
        opening, closing: The brackets; empty for a plain letter.
        is_ordered: Whether positions matter.
        is_distinct: Whether all nodes of the face differ.
        title: What the kind is called in messages.
        may_be_open: Whether `...` may end it (a face of any size).
        is_oriented: Whether tensors change sign when two nodes of the face are exchanged (docs/math.md section 16).
    """

    opening: str
    closing: str
    is_ordered: bool
    is_distinct: bool
    title: str
    may_be_open: bool = False
    is_oriented: bool = False


NODE = Kind("", "", is_ordered=True, is_distinct=True, title="a node")

# A new bracket is one new entry here; the tokens, the parser and the orbits read this table.
KINDS = {
    kind.opening: kind
    for kind in (
        NODE,
        Kind("(", ")", is_ordered=True, is_distinct=True, title="a directed face"),
        Kind(
            "{",
            "}",
            is_ordered=False,
            is_distinct=True,
            title="an undirected face",
            may_be_open=True,
        ),
        Kind("[", "]", is_ordered=False, is_distinct=False, title="a symmetric face"),
        Kind(
            "<", ">", is_ordered=False, is_distinct=True, title="an oriented face", is_oriented=True
        ),
    )
}
_CLOSING = {kind.closing: kind for kind in KINDS.values() if kind.closing}
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
    """A face in its normal form: `i`, `(i)`, `{i}`, `[i]` and `<i>` mean the same."""
    return Face(NODE if len(letters) == 1 and not is_open else kind, letters, is_open)


Signature = tuple[tuple[int, int], ...]
"""The places of a letter or node: sorted pairs (face number, position), position -1 in an unordered face.

A node that stands twice in a symmetric face has that pair twice.
"""


class TensorSyntax(NamedTuple):
    """One place of a map: an optional name and the faces."""

    name: str | None
    faces: tuple[Face, ...]


class _Token(NamedTuple):
    text: str
    start: int


_TOKEN = re.compile(rf"\s+|->|\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[{_OPENED}{_CLOSED}:=,]")
_COMMA_INSIDE = re.compile(
    rf"[{_OPENED}][^{_OPENED}{_CLOSED},]*(,)[^{_OPENED}{_CLOSED}]*[{_CLOSED}](?<!->)"
)  # the first of a face
_LONE_CLOSING = re.compile(r"<[^<>]*>|(>)")
_LETTER = re.compile(r"[A-Za-z][0-9]*")
_WORD = re.compile(r"[A-Za-z_]")


def is_letter(text: str) -> bool:
    """Whether a word is a letter of a pattern, and so no name of a tensor.

    Example:
        >>> is_letter("i2"), is_letter("bond")
        (True, False)
    """
    return _LETTER.fullmatch(text) is not None


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
    """Parses a pattern (one side with one tensor) or a map (two sides); names of one side differ, unless they `may_repeat`.

    Raises:
        PatternError: With the place and a hint, for any text outside the grammar.
    """
    if not isinstance(text, str):
        what = "a map" if is_map else "a pattern"
        raise PatternError("", 0, f"{what} is written as text, not as {type(text).__name__}")
    return _Parser(text, may_repeat).parse(is_map)


class _Parser:
    def __init__(self, text: str, may_repeat: bool) -> None:
        self.text, self.may_repeat = text, may_repeat
        if len(text) > MAX_TEXT:
            self.fail(
                MAX_TEXT, f"the text has {len(text):,} characters", f"at most {MAX_TEXT:,} are read"
            )
        self.tokens = list(self.scan())
        self.sorts: dict[
            str, str | None
        ] = {}  # of every letter as first written, None without; one sort throughout a map

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
        plain = _LOOKALIKES.get(character) or unicodedata.normalize("NFKC", character)
        hint = "letters are a-z and A-Z with optional digits; faces are `i`, `(i j)`, `{i j}`, `[i j]`, `<i j>`, `{i ...}`"
        if plain != character and _TOKEN.fullmatch(plain):
            hint = f"did you mean the plain `{plain}`?"
        elif not character.isascii():
            hint = f"this is {unicodedata.name(character, 'an unnamed character')}; {hint}"
        self.fail(position, f"unexpected character `{shown}`", hint)

    def parse(self, is_map: bool) -> tuple[tuple[TensorSyntax, ...], ...]:
        comma = _COMMA_INSIDE.search(self.text)
        if comma:
            self.fail(
                comma.start(1),
                "a comma inside brackets",
                "letters are separated by spaces: `{i j}`",
            )
        sides = _split(self.tokens, "->")
        arrows = [t for t in self.tokens if t.text == "->"]
        if is_map and not arrows:
            lone = next(
                (match.start(1) for match in _LONE_CLOSING.finditer(self.text) if match[1]), None
            )
            if lone is not None:
                self.fail(lone, "this `>` closes nothing", "the arrow is `->`, in one piece")
            self.fail(
                len(self.text),
                "a map needs an arrow",
                "write `tensors -> tensors`, for example `i j -> i j`",
            )
        if is_map and len(arrows) > 1:
            self.fail(
                arrows[1].start,
                "a second `->`",
                "a map has one arrow; compose two maps with `compose`",
            )
        if not is_map and arrows:
            self.fail(
                arrows[0].start,
                "a pattern has no arrow",
                "for a map use EquivariantMap, or nn.Linear for a layer",
            )
        return tuple(self.side(tokens, is_map) for tokens in sides)

    def side(self, tokens: list[_Token], is_map: bool) -> tuple[TensorSyntax, ...]:
        commas = [t for t in tokens if t.text == ","]
        if commas and not is_map:
            self.fail(
                commas[0].start, "a pattern is one tensor", "a comma separates the tensors of a map"
            )
        if len(commas) >= MAX_TENSORS:
            self.fail(
                commas[MAX_TENSORS - 1].start,
                "too many tensors",
                f"a side has at most {MAX_TENSORS}",
            )
        side: list[TensorSyntax] = []
        for chunk in _split(tokens, ","):
            tensor = self.tensor(chunk)
            if (
                tensor.name is not None
                and not self.may_repeat
                and any(tensor.name == other.name for other in side)
            ):
                hint = "a name means one tensor: use another one"
                self.fail(
                    chunk[0].start, f"the name `{tensor.name}` is used twice on this side", hint
                )
            side.append(tensor)
        return tuple(side)

    def tensor(self, tokens: list[_Token]) -> TensorSyntax:
        name = None
        if len(tokens) > 1 and tokens[1].text == "=":
            name = self.name(tokens[0])
            tokens = tokens[2:]
        faces: list[Face] = []
        rest = deque(tokens)
        while rest:
            faces.append(self.face(rest))
        letters = {letter for face in faces for letter in face.letters}
        if len(letters) > MAX_LETTERS:
            self.fail(
                tokens[0].start,
                f"{len(letters)} letters in one pattern",
                f"at most {MAX_LETTERS} are read",
            )
        return TensorSyntax(name, tuple(faces))

    def name(self, token: _Token) -> str:
        if not _WORD.match(token.text):
            self.fail(
                token.start,
                f"`{token.text}` is not a name",
                "write `name=pattern`, for example `bond={i j}`",
            )
        if is_letter(token.text):
            hint = f"`{token.text}` is a letter, and names must differ from letters: `{token.text}_name={{i j}}`"
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
                self.fail(
                    first.start, f"this `{first.text}` is never closed", f"add `{kind.closing}`"
                )
            token = rest.popleft()
            if token.text == kind.closing:
                break
            self.refuse_inside(kind, first, token, is_open)
            if token.text == "...":
                self.refuse_open(kind, token, letters)
                is_open = True
                continue
            letters.append(self.letter(token, rest))
            if letters[-1] in letters[:-1]:
                hint = "a letter stands once in a face; repeat it in another face to say that two faces share the node"
                self.fail(token.start, f"`{token.text}` twice in one face", hint)
        if not letters:
            hint = f"a face has at least one letter: `{kind.opening}i{kind.closing}`; the empty pattern has no face at all"
            self.fail(first.start, "empty brackets", hint)
        return make_face(kind, tuple(letters), is_open)

    def refuse_inside(self, kind: Kind, first: _Token, token: _Token, is_open: bool) -> None:
        if token.text in KINDS:
            hint = f"close the `{first.text}` first; faces stand side by side, as in `i {{i j}}`"
            if {first.text, token.text} == {"<", "["}:
                hint = "there is no oriented face with repeats, as its tensors would be 0 there: write `<i j>`, or `[i j]` without signs"
            self.fail(token.start, "brackets inside brackets", hint)
        if token.text in _CLOSING:
            self.fail(
                token.start,
                f"`{token.text}` does not close the `{first.text}`",
                f"close it with `{kind.closing}`",
            )
        if is_open:
            self.fail(
                token.start,
                f"`{token.text}` after `...`",
                "`...` stands last in its face: `{i j ...}`",
            )

    def refuse_open(self, kind: Kind, token: _Token, letters: list[Letter]) -> None:
        if not kind.may_be_open:
            sizes = (
                ": write a tensor for each size, `i, <i j>, <i j k>`" if kind.is_oriented else ""
            )
            self.fail(
                token.start,
                f"`...` in {kind.title}",
                f"only `{{ }}` takes `...`; {kind.title} has a fixed size{sizes}",
            )
        if not letters:
            self.fail(
                token.start,
                "`...` without a letter",
                "an open face starts with a letter: `{i ...}`",
            )
        sorts = sorted({letter.sort for letter in letters})
        if len(sorts) > 1:
            self.fail(
                token.start,
                f"an open face with {len(sorts)} sorts: {', '.join(sorts)}",
                "use one open face for each sort",
            )

    def letter(self, token: _Token, rest: deque[_Token]) -> Letter:
        text, start = token
        if text in _MISPLACED:
            self.fail(start, f"a stray `{text}`", _MISPLACED[text])
        if not is_letter(text):
            spaced = " ".join(text) if len(text) == 2 and text.isalpha() else "i j"
            hint = f"letters are one character with optional digits, separated by spaces: `{spaced}`; a name takes `=`: `{text}={{i j}}`"
            self.fail(start, f"`{text}` is not a letter", hint)
        sort = self.sort(rest) if rest and rest[0].text == ":" else None
        known = self.sorts.setdefault(text, sort)
        if (known or DEFAULT_SORT) != (sort or DEFAULT_SORT):
            if known and sort:
                problem = f"`{text}` has the sort `{known}` elsewhere and `{sort}` here"
                self.fail(
                    start, problem, "a letter has one sort throughout a map: use another letter"
                )
            problem = f"`{text}` is written with the sort `{known or sort}` in one place and without in another"
            self.fail(
                start,
                problem,
                f"write `{text}:{known or sort}` in every place, or use another letter",
            )
        return Letter(text, sort or DEFAULT_SORT)

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
    """A letter with its sort, which is left out where it is the default."""
    return letter.name if letter.sort == DEFAULT_SORT else f"{letter.name}:{letter.sort}"


def write_faces(faces: Iterable[tuple[Kind, Iterable[str], bool]]) -> str:
    """Faces as text, from their kinds and the words inside."""
    return " ".join(
        kind.opening + " ".join([*words, "..."] if is_open else words) + kind.closing
        for kind, words, is_open in faces
    )
