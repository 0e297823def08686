r"""Texts of products: letters *link* the tensors, as in einsum (docs/math.md section 17).

In a map letters of different tensors are unrelated; here a letter is one node throughout the text.
Letters that the text cannot tell apart are *exchangeable*: assignments that differ by exchanging
them are counted once, so that `{i j} -> ` adds up every edge once.

The letters also say how a product can be computed. Every operand is a table with a column for each
of its letters, and so is the output, whose present entries say what is read. Two kinds of steps
take linear time and never make a table longer: summing away letters that no other table has, and
multiplying a table into another one that has all its letters. A product whose tables form a tree
needs no other steps. Else a *core* of tables is left, which needs a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import permutations
from types import MappingProxyType
from typing import NamedTuple

from incidence.algebra.grammar import Face, Letter, parse
from incidence.algebra.orbit import placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError

__all__ = [
    "OUTPUT",
    "Letters",
    "MultiplyInto",
    "ProductText",
    "SumAway",
    "fits",
    "key_faces",
    "needs_join",
    "next_step",
    "parse_product",
    "private_letters",
]


class ProductText:
    """The text of a product, `P_1, ..., P_n -> R`: n operands and one output, linked by letters.

    Args:
        text: The text.

    Raises:
        PatternError: The text is outside the grammar, has no arrow, several outputs or an open
            face.
        IncidenceError: The product is always 0.

    Example:
        >>> product = ProductText("{i j}, {j k} -> {i k}")
        >>> product.summed, product.copied, product.exchangeable
        (('j',), (), ())
        >>> ProductText("{i j k}, {i j} -> ").exchangeable
        (('i', 'j'),)
    """

    def __init__(self, text: str) -> None:
        self.operands, self.output = _parsed(text)
        self.text = f"{', '.join(map(str, self.operands))} -> {self.output}"
        self._assert_not_zero()

    @property
    def tensors(self) -> tuple[Pattern, ...]:
        """The operands, then the output."""
        return *self.operands, self.output

    @cached_property
    def sorts(self) -> Mapping[str, str]:
        """The sort of every letter, in order of appearance."""
        return MappingProxyType(
            {name: sort for pattern in self.tensors for name, sort in pattern.sorts.items()}
        )

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters, in order of appearance."""
        return tuple(self.sorts)

    @property
    def summed(self) -> tuple[str, ...]:
        """The letters that the output lacks: the product is summed over them."""
        return tuple(name for name in self.letters if name not in self.output.sorts)

    @property
    def copied(self) -> tuple[str, ...]:
        """The letters that only the output has: values are copied along them."""
        read = {name for pattern in self.operands for name in pattern.letters}
        return tuple(name for name in self.letters if name not in read)

    @cached_property
    def exchangeable(self) -> tuple[tuple[str, ...], ...]:
        """The groups of letters that the text cannot tell apart: of one sort, in the same unordered
        faces and in no other face.
        """
        groups: dict[object, list[str]] = {}
        for name, faces in self._faces.items():
            # Positions in an ordered face tell letters apart.
            if all(not face.kind.is_ordered for face in faces.values()):
                groups.setdefault((self.sorts[name], tuple(faces)), []).append(name)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    @cached_property
    def _faces(self) -> dict[str, dict[tuple[int, int], Face]]:
        """The faces of every letter, by the number of the tensor and of the face."""
        faces: dict[str, dict[tuple[int, int], Face]] = {name: {} for name in self.letters}
        for number, pattern in enumerate(self.tensors):
            for d, face in enumerate(pattern.faces):
                for letter in face.letters:
                    faces[letter.name][number, d] = face
        return faces

    def _assert_not_zero(self) -> None:
        # Exchanging two such letters maps every term to its negative if they share an odd number of
        # oriented faces.
        for group in self.exchangeable:
            oriented = [face for face in self._faces[group[0]].values() if face.kind.is_oriented]
            if len(oriented) % 2:
                i, j = group[:2]
                raise IncidenceError(
                    f"`{self.text}` is always 0: exchanging {i} and {j} changes nothing but its"
                    f" sign, as they stand together in {len(oriented)} oriented"
                    f" face{'s' * (len(oriented) > 1)}. Tell them apart, as in `<i j>, j -> i`, or"
                    " use a second oriented face, as in `<i j>, <i j> -> `."
                )

    @cached_property
    def key(self) -> str:
        """The text with letters named by order of appearance; equal products have equal keys."""
        names = {name: f"a{number}" for number, name in enumerate(self.letters)}
        operands = ", ".join(str(pattern.rename(names)) for pattern in self.operands)
        return f"{operands} -> {self.output.rename(names)}"

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, ProductText) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ProductText({self.text!r})"

    def __reduce__(self) -> tuple[type[ProductText], tuple[str]]:
        return ProductText, (self.text,)


parse_product = lru_cache(maxsize=1024)(ProductText)
"""Return the `ProductText` of a text, from a cache."""


def _parsed(text: str) -> tuple[tuple[Pattern, ...], Pattern]:
    """Return the operands and the output of a text."""
    if not isinstance(text, str):
        raise PatternError("", 0, f"a product is written as text, not as {type(text).__name__}")
    if "->" not in text:
        hint = (
            "write `operands -> output`, for example `i j, j k -> i k`; an output without letters"
            " adds up everything: `i j -> `"
        )
        raise PatternError(text, len(text), "a product needs an arrow", hint)
    if "*" in text:
        hint = (
            "commas separate the operands of a product, `i j, j k -> i k`; `*` those of a"
            " multilinear map, with letters of their own"
        )
        raise PatternError(text, text.index("*"), "a `*` in a product", hint)
    operands, outputs = parse(text, is_map=True, may_repeat=True)
    if len(outputs) > 1:
        place = text.index(",", text.index("->"))
        hint = "a product has one output: take one product for each"
        raise PatternError(text, place, "a second output", hint)
    if any(face.is_open for tensor in (*operands, *outputs) for face in tensor.faces):
        hint = (
            "its members are no letters; make the hyperedge a node of its own sort, as in `v"
            " e:edge`"
        )
        raise PatternError(text, text.index("..."), "an open face in a product", hint)
    return tuple(map(Pattern, operands)), Pattern(outputs[0])


def fits(pattern: Pattern, stored: Pattern) -> bool:
    """Return whether a pattern of a product can read a stored tensor.

    Their faces must have the same kinds and sizes, and letters that are equal in the stored pattern
    must be equal in the other.

    Example:
        >>> fits(Pattern("i i"), Pattern("i j")), fits(Pattern("i j"), Pattern("i i"))
        (True, False)
    """
    if len(pattern.faces) != len(stored.faces):
        return False
    pairs = list(zip(pattern.faces, stored.faces, strict=True))
    return all(_shape(one) == _shape(other) for one, other in pairs) and _matches(pairs, {})


def _shape(face: Face) -> tuple[object, ...]:
    sorts = [letter.sort for letter in face.letters]
    return face.kind, face.is_open, sorts if face.kind.is_ordered else sorted(sorts)


def _matches(faces: Sequence[tuple[Face, Face]], taken: Mapping[Letter, Letter]) -> bool:
    """Return whether each stored letter can stand for one letter of the text throughout."""
    if not faces:
        return True
    (face, stored), *rest = faces
    later = {letter for _, other in rest for letter in other.letters}
    return any(_matches(rest, extended) for extended in _assignments(face, stored, taken, later))


def _assignments(
    face: Face, stored: Face, taken: Mapping[Letter, Letter], later: set[Letter]
) -> Iterator[Mapping[Letter, Letter]]:
    """Yield the ways to extend an assignment to a stored face.

    In an unordered face only the letters that stand in later faces, too, need a place.
    """
    if face.kind.is_ordered:
        pairs = list(zip(stored.letters, face.letters, strict=True))
        if all(taken.get(one, other) == other for one, other in pairs):
            yield {**taken, **dict(pairs)}
        return
    # Letters that earlier faces have placed must lie in this face, on different letters.
    placed = [taken[letter] for letter in stored.letters if letter in taken]
    if len(set(placed)) < len(placed) or not set(placed) <= set(face.letters):
        return
    new = [letter for letter in stored.letters if letter in later and letter not in taken]
    free = [letter for letter in face.letters if letter not in placed]
    for chosen in permutations(free, len(new)):
        if all(one.sort == other.sort for one, other in zip(new, chosen, strict=True)):
            yield {**taken, **dict(zip(new, chosen, strict=True))}


Letters = frozenset[str]
OUTPUT = -1
"""The number of the output table; the operands have numbers from 0."""


class SumAway(NamedTuple):
    """Sum away the letters of a table that no other table has."""

    table: int
    kept: Letters


class MultiplyInto(NamedTuple):
    """Multiply a table into another one that has all its letters."""

    source: int
    target: int


def private_letters(tables: Mapping[int, Letters], number: int) -> Letters:
    """Return the letters of a table that no other one has."""
    others = (letters for other, letters in tables.items() if other != number)
    return tables[number].difference(*others)


def next_step(tables: Mapping[int, Letters]) -> SumAway | MultiplyInto | None:
    """Return the next step that takes linear time.

    It is None if only the output is left, or if the tables that are left need a join.

    Example:
        >>> next_step({0: frozenset("ij"), 1: frozenset("j"), OUTPUT: frozenset("i")})
        MultiplyInto(source=1, target=0)
    """
    operands = sorted(number for number in tables if number != OUTPUT)
    for number in operands:
        # Fewer letters first: smaller tables make the later steps cheaper.
        private = private_letters(tables, number)
        if private:
            return SumAway(number, tables[number] - private)
    steps = [
        MultiplyInto(a, b) for a in operands for b in tables if a != b and tables[a] <= tables[b]
    ]

    def cost(step: MultiplyInto) -> tuple[int, bool, int, int]:
        # Few letters mean few rows. The output comes last, so that its rows are read only once.
        return len(tables[step.target]), step.target == OUTPUT, -step.source, step.target

    return min(steps, key=cost, default=None)


def needs_join(product: ProductText) -> bool:
    """Return whether a product needs more than pooling, copying and multiplying entry by entry.

    Example:
        >>> needs_join(ProductText("i j, j k -> i k")), needs_join(ProductText("i j, j k -> i"))
        (True, False)
    """
    tables = {number: frozenset(pattern.letters) for number, pattern in enumerate(product.operands)}
    tables[OUTPUT] = frozenset(product.output.letters)
    # The order of these steps does not matter: what is left in the end is the core.
    while (step := next_step(tables)) is not None:
        if isinstance(step, SumAway):
            tables[step.table] = step.kept
        else:
            del tables[step.source]
    return len(tables) > 1


def key_faces(text: str, over: str) -> tuple[Face, ...]:
    """Return the faces of a pattern without some letters: the key of an entry in a softmax.

    A softmax over these letters takes all entries with equal keys together.

    Raises:
        IncidenceError: `over` names no letter, or one that the pattern lacks; a face is oriented or
            open; or some entry has two keys.

    Example:
        >>> [[letter.name for letter in face.letters] for face in key_faces("(i j)", "j")]
        [['i']]
    """
    if not isinstance(over, str):
        raise IncidenceError(
            f"over= is the letters to sum over as text, such as 'j' or 'i j'; got {over!r}."
        )
    return _key_faces(text, over)


@lru_cache(maxsize=256)
def _key_faces(text: str, over: str) -> tuple[Face, ...]:
    pattern = Pattern(text)
    letters = _letters_over(pattern, over)
    if pattern.is_open:
        raise IncidenceError(
            f"a softmax of `{text}`: members of an open face are no letters; make it a sort of its"
            " own, `v e:edge`."
        )
    if pattern.is_oriented:
        raise IncidenceError(
            f"a softmax of `{text}`: the exponential of values that change their sign means"
            " nothing. Make weights on `{ }` and multiply."
        )
    remaining = (
        face._replace(letters=tuple(x for x in face.letters if x.name not in letters))
        for face in pattern.faces
    )
    faces = tuple(face for face in remaining if face.letters)
    for orbit in pattern.orbits:
        placed = (dict(zip(pattern.letters, p, strict=True)) for p in placements(pattern, orbit))
        # Every way to lay the letters on an entry must give the same key.
        keys = {_key(faces, node_of) for node_of in placed}
        if len(keys) > 1:
            raise IncidenceError(
                f"`{text}` over {over}: the entry `{orbit}` has {len(keys)} keys, as its letters"
                " can be laid on it in several ways. Sum over all letters of an unordered face, or"
                " use ordered faces: `(i j)` or `i {i j}` over j."
            )
    return faces


def _letters_over(pattern: Pattern, over: str) -> list[str]:
    letters = over.split()
    known = ", ".join(pattern.letters) or "none"
    if not letters:
        raise IncidenceError(
            "over= names the letters that a softmax sums over, as in over='j'; got none."
            f" `{pattern}` has: {known}."
        )
    for letter in letters:
        if letter not in pattern.letters:
            raise IncidenceError(
                f"over= names letters of the pattern; `{letter}` is not in `{pattern}`, which has:"
                f" {known}."
            )
    return letters


def _key(faces: tuple[Face, ...], node_of: Mapping[str, int]) -> tuple[object, ...]:
    """Return the nodes of the faces, as a value that does not depend on how they are written."""
    key = []
    for face in faces:
        nodes = [node_of[letter.name] for letter in face.letters]
        key.append(tuple(nodes if face.kind.is_ordered else sorted(nodes)))
    return tuple(key)
