r"""Text to syntax: the grammar of patterns and maps (docs/math.md section 1), and the table of the kinds of faces.

    map      := side "->" side
    side     := tensor ("," tensor)*
    tensor   := [name "="] face*                    (no face at all: one value per structure)
    face     := letter | "(" letter+ ")" | "{" letter+ ["..."] "}" | "[" letter+ "]"
    letter   := an ASCII letter with optional digits [":" sort]

The grammar is regular, so the parser is a loop: no input can make it recurse. Every refusal is a `PatternError` that points
at the place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from incidence.errors import PatternError

__all__ = [
    "DEFAULT_SORT",
    "KINDS",
    "MAX_LETTERS",
    "MAX_TENSORS",
    "MAX_TEXT",
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
        may_be_open: Whether `...` may end it (a face of any size).
        title: What the kind is called in messages.
    """

    opening: str
    closing: str
    is_ordered: bool
    is_distinct: bool
    may_be_open: bool
    title: str

    @property
    def article(self) -> str:
        """What stands before the title in a sentence."""
        return "an" if self.title[0] in "aeiou" else "a"


NODE = Kind("", "", is_ordered=True, is_distinct=True, may_be_open=False, title="node")

# A new bracket is one new entry here; the tokens, the parser and the orbits read this table.
KINDS = {
    kind.opening: kind
    for kind in (
        NODE,
        Kind("(", ")", is_ordered=True, is_distinct=True, may_be_open=False, title="directed face"),
        Kind("{", "}", is_ordered=False, is_distinct=True, may_be_open=True, title="undirected face"),
        Kind("[", "]", is_ordered=False, is_distinct=False, may_be_open=False, title="symmetric face"),
    )
}
_CLOSING = {kind.closing: kind for kind in KINDS.values() if kind.closing}
_BRACKETS = "".join(KINDS) + "".join(_CLOSING)


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
    """A face in its normal form: `i`, `(i)`, `{i}` and `[i]` mean the same."""
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


class _Marked(NamedTuple):
    """A parsed letter that remembers where it stands and whether its sort was written."""

    letter: Letter
    start: int
    has_sort: bool


_TOKEN = re.compile(rf"\s+|->|\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[{re.escape(_BRACKETS)}:=,]")
_LETTER = re.compile(r"[A-Za-z][0-9]*")
_WORD = re.compile(r"[A-Za-z_]")


def is_letter(text: str) -> bool:
    """Whether a word is a letter of a pattern, and so no name of a tensor.

    Example:
        >>> is_letter("i2"), is_letter("bond")
        (True, False)
    """
    return _LETTER.fullmatch(text) is not None


_LOOKALIKES = {"→": "->", "⟶": "->", "↦": "->", ">": "->", "…": "...", "≔": "="}
_STRAY = {
    ".": "write `...`, in one piece",
    "-": "the arrow is `->`, in one piece; names and sorts take `_`",
    ";": "tensors are separated by commas, letters by spaces",
}


def parse(text: str, *, is_map: bool) -> tuple[tuple[TensorSyntax, ...], ...]:
    """Parses a pattern (one side with one tensor) or a map (two sides).

    Raises:
        PatternError: With the place and a hint, for any text outside the grammar.
    """
    if not isinstance(text, str):
        what = "a map" if is_map else "a pattern"
        raise PatternError("", 0, f"{what} is written as text, not as {type(text).__name__}")
    return _Parser(text).parse(is_map)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_TEXT:
            self.fail(MAX_TEXT, f"the text has {len(text):,} characters", f"at most {MAX_TEXT:,} are read")
        self.tokens = list(self.scan())
        self.sorts: dict[str, _Marked] = {}  # where each letter first got its sort; one sort throughout a map

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
        hint = "letters are a-z and A-Z with optional digits; faces are `i`, `(i j)`, `{i j}`, `[i j]`, `{i ...}`"
        if plain != character and _TOKEN.fullmatch(plain):
            hint = f"did you mean the plain `{plain}`?"
        elif not character.isascii():
            hint = f"this is {unicodedata.name(character, 'an unnamed character')}; {hint}"
        self.fail(position, f"unexpected character `{shown}`", hint)

    def parse(self, is_map: bool) -> tuple[tuple[TensorSyntax, ...], ...]:
        sides = _split(self.tokens, "->")
        arrows = [t for t in self.tokens if t.text == "->"]
        if is_map and not arrows:
            self.fail(len(self.text), "a map needs an arrow", "write `tensors -> tensors`, for example `i j -> i j`")
        if is_map and len(arrows) > 1:
            self.fail(arrows[1].start, "a second `->`", "a map has one arrow; compose two maps with `compose`")
        if not is_map and arrows:
            self.fail(arrows[0].start, "a pattern has no arrow", "for a map use EquivariantMap, or nn.Linear for a layer")
        return tuple(self.side(tokens, is_map) for tokens in sides)

    def refuse_commas_inside(self, tokens: list[_Token]) -> None:
        comma: _Token | None = None
        is_inside = False
        for token in tokens:
            if token.text in KINDS:
                is_inside, comma = True, None
            elif token.text == "," and is_inside:
                comma = comma or token
            elif token.text in _CLOSING:
                if comma is not None:
                    self.fail(comma.start, "a comma inside brackets", "letters are separated by spaces: `{i j}`")
                is_inside = False

    def side(self, tokens: list[_Token], is_map: bool) -> tuple[TensorSyntax, ...]:
        self.refuse_commas_inside(tokens)
        commas = [t for t in tokens if t.text == ","]
        if commas and not is_map:
            self.fail(commas[0].start, "a pattern is one tensor", "a comma separates the tensors of a map")
        if len(commas) >= MAX_TENSORS:
            self.fail(commas[MAX_TENSORS - 1].start, "too many tensors", f"a side has at most {MAX_TENSORS}")
        names: dict[str, int] = {}
        side = []
        for chunk in _split(tokens, ","):
            tensor = self.tensor(chunk)
            if tensor.name in names:
                hint = "a name means one tensor: use another one"
                self.fail(chunk[0].start, f"the name `{tensor.name}` is used twice on this side", hint)
            if tensor.name is not None:
                names[tensor.name] = chunk[0].start
            side.append(tensor)
        return tuple(side)

    def tensor(self, tokens: list[_Token]) -> TensorSyntax:
        name = None
        if len(tokens) > 1 and tokens[1].text == "=":
            name = self.name(tokens[0])
            tokens = tokens[2:]
        faces: list[Face] = []
        rest = _Cursor(tokens)
        while rest.peek:
            faces.append(self.face(rest))
        letters = {letter for face in faces for letter in face.letters}
        if len(letters) > MAX_LETTERS:
            self.fail(tokens[0].start, f"{len(letters)} letters in one pattern", f"at most {MAX_LETTERS} are read")
        return TensorSyntax(name, tuple(faces))

    def name(self, token: _Token) -> str:
        if not _WORD.match(token.text):
            self.fail(token.start, f"`{token.text}` is not a name", "write `name=pattern`, for example `bond={i j}`")
        if is_letter(token.text):
            hint = f"`{token.text}` is a letter, and names must differ from letters: `{token.text}_name={{i j}}`"
            self.fail(token.start, f"`{token.text}` cannot be a name", hint)
        return token.text

    def face(self, rest: _Cursor) -> Face:
        first = rest.take()
        kind = KINDS.get(first.text)
        if kind is None:
            if first.text in _CLOSING:
                opening = _CLOSING[first.text].opening
                self.fail(first.start, f"this `{first.text}` closes nothing", f"open it with `{opening}`, or remove it")
            return make_face(NODE, (self.letter(first, rest).letter,))
        return self.bracket(kind, first, rest)

    def bracket(self, kind: Kind, first: _Token, rest: _Cursor) -> Face:
        marked: list[_Marked] = []
        is_open = False
        while True:
            if not rest.peek:
                self.fail(first.start, f"this `{first.text}` is never closed", f"add `{kind.closing}`")
            token = rest.take()
            if token.text == kind.closing:
                break
            self.refuse_inside(kind, first, token, is_open)
            if token.text == "...":
                self.refuse_open(kind, token, marked)
                is_open = True
                continue
            marked.append(self.letter(token, rest))
            self.refuse_repeat(marked)
        if not marked:
            hint = f"a face has at least one letter: `{kind.opening}i{kind.closing}`; the empty pattern has no face at all"
            self.fail(first.start, "empty brackets", hint)
        return make_face(kind, tuple(m.letter for m in marked), is_open)

    def refuse_inside(self, kind: Kind, first: _Token, token: _Token, is_open: bool) -> None:
        if token.text in KINDS:
            hint = f"close the `{first.text}` first; faces stand side by side, as in `i {{i j}}`"
            self.fail(token.start, "brackets inside brackets", hint)
        if token.text in _CLOSING:
            hint = f"close it with `{kind.closing}`"
            self.fail(token.start, f"`{token.text}` does not close the `{first.text}`", hint)
        if is_open:
            self.fail(token.start, f"`{token.text}` after `...`", "`...` stands last in its face: `{i j ...}`")

    def refuse_open(self, kind: Kind, token: _Token, marked: list[_Marked]) -> None:
        if not kind.may_be_open:
            hint = f"only `{{ }}` takes `...`; a {kind.title} has a fixed size"
            self.fail(token.start, f"`...` in a {kind.title}", hint)
        if not marked:
            self.fail(token.start, "`...` without a letter", "an open face starts with a letter: `{i ...}`")
        sorts = {m.letter.sort for m in marked}
        if len(sorts) > 1:
            hint = "use one open face for each sort"
            self.fail(token.start, f"an open face with {len(sorts)} sorts: {', '.join(sorted(sorts))}", hint)

    def refuse_repeat(self, marked: list[_Marked]) -> None:
        *earlier, last = marked
        if any(m.letter.name == last.letter.name for m in earlier):
            hint = "a letter stands once in a face; repeat it in another face to say that two faces share the node"
            self.fail(last.start, f"`{last.letter.name}` twice in one face", hint)

    def letter(self, token: _Token, rest: _Cursor) -> _Marked:
        text, start = token
        if text in ("...", ":", "="):
            hint = {
                "...": "it belongs at the end of an undirected face: `{i ...}`",
                ":": "it stands between a letter and its sort: `u:user`",
                "=": "it stands between a name and its pattern, once: `bond={i j}`",
            }[text]
            self.fail(start, f"a stray `{text}`", hint)
        if not _LETTER.fullmatch(text):
            spaced = " ".join(text) if len(text) == 2 and text.isalpha() else "i j"
            hint = f"letters are one character with optional digits, separated by spaces: `{spaced}`; a name takes `=`: `{text}={{i j}}`"
            self.fail(start, f"`{text}` is not a letter", hint)
        has_sort = rest.peek == ":"
        sort = self.sort(rest) if has_sort else DEFAULT_SORT
        return self.one_sort(_Marked(Letter(text, sort), start, has_sort))

    def sort(self, rest: _Cursor) -> str:
        colon = rest.take()
        if not _WORD.match(rest.peek):
            self.fail(colon.start, "a `:` without a sort", "write the sort after it: `u:user`")
        return rest.take().text

    def one_sort(self, marked: _Marked) -> _Marked:
        known = self.sorts.setdefault(marked.letter.name, marked)
        if known.letter.sort != marked.letter.sort:
            self.fail_sort(known, marked)
        return marked

    def fail_sort(self, known: _Marked, marked: _Marked) -> NoReturn:
        name = marked.letter.name
        if known.has_sort and marked.has_sort:
            problem = f"`{name}` has the sort `{known.letter.sort}` elsewhere and `{marked.letter.sort}` here"
            self.fail(marked.start, problem, "a letter has one sort throughout a map: use another letter")
        written = next(m.letter.sort for m in (known, marked) if m.has_sort)
        problem = f"`{name}` is written with the sort `{written}` in one place and without in another"
        self.fail(marked.start, problem, f"write `{name}:{written}` in every place, or use another letter")


class _Cursor:
    """The tokens that are left."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._next = tokens, 0

    @property
    def peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) else ""

    def take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]


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
    return " ".join(kind.opening + " ".join([*words, "..."] if is_open else words) + kind.closing for kind, words, is_open in faces)
