r"""Texts of products: letters *link* the tensors, as in einsum (docs/math.md section 17).

In a map letters of different tensors are unrelated; here a letter is one node throughout the text. Letters that the text cannot tell
apart are *exchangeable*: assignments that differ by exchanging them are counted once, so that `{i j} -> ` adds up every edge once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import permutations
from types import MappingProxyType

from incidence.algebra.grammar import Face, Letter, parse
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError

__all__ = ["ProductText", "fits", "parse_product"]


class ProductText:
    """The text of a product, `P_1, ..., P_n -> R`: n operands and one output, linked by their letters.

    Args:
        text: The text.

    Raises:
        PatternError: The text is outside the grammar, has no arrow, several outputs or an open face.
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
        return tuple(
            name
            for name in self.letters
            if not any(name in pattern.sorts for pattern in self.operands)
        )

    @cached_property
    def exchangeable(self) -> tuple[tuple[str, ...], ...]:
        """The groups of letters that the text cannot tell apart: of one sort, in the same unordered faces and in no other face."""
        groups: dict[object, list[str]] = {}
        for name, faces in self._faces.items():
            if all(not face.kind.is_ordered for face in faces.values()):
                groups.setdefault((self.sorts[name], tuple(faces)), []).append(name)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    @cached_property
    def _faces(self) -> dict[str, dict[tuple[int, int], Face]]:
        """For every letter its faces, by the number of the tensor and of the face."""
        faces: dict[str, dict[tuple[int, int], Face]] = {name: {} for name in self.letters}
        for number, pattern in enumerate(self.tensors):
            for d, face in enumerate(pattern.faces):
                for letter in face.letters:
                    faces[letter.name][number, d] = face
        return faces

    def _assert_not_zero(self) -> None:
        for group in self.exchangeable:
            oriented = [face for face in self._faces[group[0]].values() if face.kind.is_oriented]
            if len(oriented) % 2:
                i, j = group[:2]
                raise IncidenceError(
                    f"`{self.text}` is always 0: exchanging {i} and {j} changes nothing but its sign, as they stand together in "
                    f"{len(oriented)} oriented face{'s' * (len(oriented) > 1)}. Tell them apart, as in `<i j>, j -> i`, or use a second "
                    f"oriented face, as in `<i j>, <i j> -> `."
                )

    @cached_property
    def key(self) -> str:
        """The text in letters by order of appearance: the same for products that differ by the names of letters alone."""
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
"""`ProductText`, which remembers what it has read."""


def _parsed(text: str) -> tuple[tuple[Pattern, ...], Pattern]:
    """The operands and the output of a text."""
    if not isinstance(text, str):
        raise PatternError("", 0, f"a product is written as text, not as {type(text).__name__}")
    if "->" not in text:
        hint = "write `operands -> output`, for example `i j, j k -> i k`; an output without letters adds up everything: `i j -> `"
        raise PatternError(text, len(text), "a product needs an arrow", hint)
    if "*" in text:
        hint = "commas separate the operands of a product, `i j, j k -> i k`; `*` those of a multilinear map, with letters of their own"
        raise PatternError(text, text.index("*"), "a `*` in a product", hint)
    sides = parse(text, is_map=True, may_repeat=True)
    if len(sides[1]) > 1:
        place = text.index(",", text.index("->"))
        raise PatternError(
            text, place, "a second output", "a product has one output: take one product for each"
        )
    for face in (face for side in sides for tensor in side for face in tensor.faces):
        if face.is_open:
            hint = "its members are no letters; make the hyperedge a node of its own sort, as in `v e:edge`"
            raise PatternError(text, text.index("..."), "an open face in a product", hint)
    return tuple(map(Pattern, sides[0])), Pattern(sides[1][0])


def fits(pattern: Pattern, stored: Pattern) -> bool:
    """Whether a pattern reads a stored one: faces of the same kinds and sizes, and all equalities of the stored one hold in it.

    Example:
        >>> fits(Pattern("i i"), Pattern("i j")), fits(Pattern("i j"), Pattern("i i"))
        (True, False)
    """
    pairs = list(zip(pattern.faces, stored.faces, strict=False))
    alike = len(pattern.faces) == len(stored.faces) and all(
        _meaning(one) == _meaning(other) for one, other in pairs
    )
    return alike and _matches(pairs, {})


def _meaning(face: Face) -> tuple[object, ...]:
    """The kind, the size and the sorts of a face."""
    sorts = [letter.sort for letter in face.letters]
    return face.kind, face.is_open, sorts if face.kind.is_ordered else sorted(sorts)


def _matches(faces: Sequence[tuple[Face, Face]], taken: Mapping[Letter, Letter]) -> bool:
    """Whether the letters of stored faces can be read as letters of the faces of a text, each as one letter throughout."""
    if not faces:
        return True
    (face, stored), *rest = faces
    later = {letter for _, other in rest for letter in other.letters}
    return any(_matches(rest, found) for found in _readings(face, stored, taken, later))


def _readings(
    face: Face, stored: Face, taken: Mapping[Letter, Letter], later: set[Letter]
) -> Iterator[Mapping[Letter, Letter]]:
    """The ways to read a stored face; of an unordered one only the letters that later faces have need a place."""
    if face.kind.is_ordered:
        pairs = list(zip(stored.letters, face.letters, strict=True))
        if all(taken.get(one, other) == other for one, other in pairs):
            yield {**taken, **dict(pairs)}
        return
    placed = [taken[letter] for letter in stored.letters if letter in taken]
    if len(set(placed)) < len(placed) or not set(placed) <= set(face.letters):
        return
    new = [letter for letter in stored.letters if letter in later and letter not in taken]
    for chosen in permutations(
        [letter for letter in face.letters if letter not in placed], len(new)
    ):
        if all(one.sort == other.sort for one, other in zip(new, chosen, strict=True)):
            yield {**taken, **dict(zip(new, chosen, strict=True))}
