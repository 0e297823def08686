r"""`MultilinearMap`: all equivariant multilinear maps, each a product (docs/math.md section 17, Theorem 5).

A multilinear map of P_1, ..., P_n to R is an orbit of the joint pattern `P_1 ... P_n R` with fresh letters. Written with one letter for
each node, an orbit is the text of a product; on complete structures these products are a basis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from math import prod

from incidence.algebra.contraction import needs_join
from incidence.algebra.grammar import Face, Letter, TensorSyntax, parse, write_letter
from incidence.algebra.maps import num_orbits
from incidence.algebra.orbit import Orbit, profiles
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError, PatternError

__all__ = ["MultilinearMap", "is_entrywise"]


class MultilinearMap:
    r"""The multilinear maps between patterns that commute with every relabelling of the nodes.

    The operands are separated by `*`: `i j * i j -> i j` has the products of two matrices, where a comma would make a collection of two,
    as the *linear* maps have it (here it is taken for `*`). Letters of different tensors are unrelated, as in every map.

    Args:
        text: The operands, an arrow, and one output.

    Raises:
        PatternError: The text is outside the grammar, mixes `*` and commas, or has several outputs.
        IncidenceError: Some face is open, or symmetric: the texts of its products cannot be written.

    Example:
        >>> m = MultilinearMap("i j * i j -> i j")
        >>> m.dimension, m.num_joins, m.dimension_at(2)
        (203, 8, 32)
        >>> str(MultilinearMap("i * i -> i").products[-1])
        'i, j -> k'
    """

    def __init__(self, text: str) -> None:
        self.operands, self.output = _parsed(text)
        self.text = f"{' * '.join(map(str, self.operands))} -> {self.output}"
        for pattern in (*self.operands, self.output):
            _assert_writable(pattern, self.text)

    @property
    def inputs(self) -> tuple[Pattern, ...]:
        """The different tensors among the operands."""
        return tuple(dict.fromkeys(self.operands))

    @property
    def outputs(self) -> tuple[Pattern]:
        """The output, as maps have it."""
        return (self.output,)

    @cached_property
    def _joint(self) -> Pattern:
        """All tensors side by side, in fresh letters."""
        faces: list[Face] = []
        for number, pattern in enumerate((*self.operands, self.output)):
            names = {
                name: f"{chr(ord('a') + number % 26)}{number // 26 * 100 + k}"
                for k, name in enumerate(pattern.letters)
            }
            faces += pattern.rename(names).faces
        return Pattern(TensorSyntax(None, tuple(faces)))

    @property
    def dimension(self) -> int:
        """The number of independent products when there are enough nodes; counted, not listed."""
        return num_orbits(self._joint, with_bias=True)

    @cached_property
    def _by_size(self) -> dict[str, Counter[int]]:
        """For every sort, how many ways there are to have so many nodes of it."""
        counts: dict[str, Counter[int]] = {
            sort: Counter() for sort in sorted(set(self._joint.sorts.values()))
        }
        for sort, ways in counts.items():
            for profile, number in profiles(self._joint.restrict(sort)).items():
                if not any(c.is_odd for c in profile):
                    ways[sum(c.size or 0 for c in profile)] += number
        return counts

    def dimension_at(self, num_nodes: int | Mapping[str, int]) -> int:
        """The number of independent products at that many nodes (of every sort, or for each sort)."""
        counts = (
            dict.fromkeys(self._by_size, num_nodes)
            if isinstance(num_nodes, int)
            else dict(num_nodes)
        )
        if set(counts) != set(self._by_size):
            known = ", ".join(self._by_size) or "none"
            raise IncidenceError(
                f"give a number of nodes for each sort of `{self}`, which are: {known}; got {counts}."
            )
        return prod(
            sum(ways for size, ways in sizes.items() if size <= counts[sort])
            for sort, sizes in self._by_size.items()
        )

    @property
    def enough_nodes(self) -> Mapping[str, int]:
        """For each sort, the least number of nodes from which on all products are independent."""
        return {sort: max(sizes, default=0) for sort, sizes in self._by_size.items()}

    @cached_property
    def products(self) -> tuple[ProductText, ...]:
        """The products, by the number of their nodes, then by classes of the joint pattern; the order depends on meaning only.

        Raises:
            TooLargeError: There are too many to list.
        """
        return tuple(map(self.product_of, self.orbits))

    @cached_property
    def orbits(self) -> tuple[Orbit, ...]:
        """The orbits of the joint pattern that the products are, in their order: found sooner than their texts are written.

        Raises:
            TooLargeError: There are too many to list.
        """
        return tuple(orbit for orbit in self._joint.orbits if orbit.has_bias)

    def product_of(self, orbit: Orbit) -> ProductText:
        """One of the orbits as a text, with letters in order of appearance."""
        nodes = [c for c in orbit.classes for _ in range(c.size or 0)]
        names: dict[int, str] = {}  # of nodes, as they are met
        words: list[str] = []
        for d, (kind, _) in enumerate(orbit.kinds):
            inside = [
                (position, v)
                for v, c in enumerate(nodes)
                for face, position in c.faces
                if face == d
            ]
            met = [
                v
                for _, v in sorted(
                    inside,
                    key=lambda member: (member[0], [*names, member[1]].index(member[1]), member[1]),
                )
            ]
            for v in met:
                names.setdefault(v, _letter(len(names)))
            letters = (write_letter(Letter(names[v], nodes[v].sort)) for v in met)
            words.append(kind.opening + " ".join(letters) + kind.closing)
        faces = iter(words)
        *operands, output = (
            (f"{pattern.name}=" if pattern.name else "")
            + " ".join(next(faces) for _ in pattern.faces)
            for pattern in (*self.operands, self.output)
        )
        return ProductText(f"{', '.join(operands)} -> {output}")

    @property
    def num_beyond_entrywise(self) -> int:
        """How many are no product, on the entries of the output, of pooled operands."""
        return sum(not is_entrywise(product) for product in self.products)

    @property
    def num_joins(self) -> int:
        """How many need a join: more than pooling, copying and one product entry by entry."""
        return sum(map(needs_join, self.products))

    def __eq__(self, other: object) -> bool:
        return (
            (self.operands, self.output) == (other.operands, other.output)
            if isinstance(other, MultilinearMap)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((self.operands, self.output))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"MultilinearMap({self.text!r})"

    def __reduce__(self) -> tuple[type[MultilinearMap], tuple[str]]:
        return MultilinearMap, (self.text,)


def is_entrywise(product: ProductText) -> bool:
    """Whether a product multiplies, on the entries of its output, operands that were pooled one by one.

    Example:
        >>> is_entrywise(ProductText("i j, i -> i")), is_entrywise(ProductText("i j, j -> i"))
        (True, False)
    """
    return all(
        sum(name in pattern.sorts for pattern in product.operands) < 2 for name in product.summed
    )


_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


def _letter(number: int) -> str:
    return f"{_LETTERS[number % 26]}{number // 26 or ''}"


def _parsed(text: str) -> tuple[tuple[Pattern, ...], Pattern]:
    """The operands and the output of a text, in which `*` or commas separate the operands."""
    if not isinstance(text, str):
        raise PatternError(
            "", 0, f"a multilinear map is written as text, not as {type(text).__name__}"
        )
    left = text.partition("->")[0]
    if "*" in left and "," in left:
        hint = "a comma makes a collection, of which there are linear maps; a product has `*` between all operands"
        raise PatternError(text, left.index(","), "a comma beside `*`", hint)
    try:
        operands, outputs = parse(text.replace("*", ","), is_map=True, may_repeat=True)
    except PatternError as error:
        raise PatternError(text, error.position, error.problem, error.hint) from None
    if len(outputs) > 1:
        place = min(text.find(mark, len(left)) % (len(text) + 1) for mark in ",*")
        raise PatternError(
            text, place, "a second output", "a multilinear map has one output: take one for each"
        )
    return tuple(map(Pattern, operands)), Pattern(outputs[0])


def _assert_writable(pattern: Pattern, text: str) -> None:
    """Refuses faces in which products of Theorem 5 have letters that cannot be written."""
    for face in pattern.faces:
        if face.is_open:
            raise IncidenceError(
                f"`{text}` has an open face, whose members are no letters: make it a sort of its own, as in `v e:edge`."
            )
        if not face.kind.is_distinct:
            raise IncidenceError(
                f"`{text}` has a symmetric face, in which a node may stand twice, and a letter may not: write the faces by what they "
                f"are made of, `i` and `{{i j}}` for `[i j]`, and take one multilinear map for each."
            )
