r"""`MultilinearMap`: all equivariant multilinear maps, each a product (docs/math.md section 17).

A multilinear map of P_1, ..., P_n to R is an orbit of the joint pattern `P_1 ... P_n R` with fresh
letters. Written with one letter for each node, an orbit is the text of a product; on complete
structures these products are a basis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import islice

from incidence.algebra.grammar import Face, Letter, TensorSyntax, parse, write_letter
from incidence.algebra.maps import num_orbits
from incidence.algebra.orbit import Orbit, profiles
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, needs_join
from incidence.errors import IncidenceError, PatternError

__all__ = ["MultilinearMap", "is_entrywise"]


class MultilinearMap:
    r"""The multilinear maps between patterns that commute with every relabelling of the nodes.

    The operands are separated by `*`: `i j * i j -> i j` has the products of two matrices. A comma
    means the same here, though in a *linear* map it separates the tensors of a collection. Letters
    of different tensors are unrelated, as in every map.

    Args:
        text: The operands, an arrow, and one output.

    Raises:
        PatternError: The text is outside the grammar, mixes `*` and commas, or has several outputs.
        IncidenceError: Some face is open or symmetric, so that its products have no texts.

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
        """The output in a tuple, for code that works with all maps."""
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
        """The number of independent products if there are enough nodes; they are not listed."""
        return num_orbits(self._joint, with_bias=True)

    @cached_property
    def _by_size(self) -> dict[str, Counter[int]]:
        """The numbers of products with so many nodes, for every sort on its own."""
        by_size: dict[str, Counter[int]] = {}
        for sort in sorted(set(self._joint.sorts.values())):
            by_size[sort] = Counter()
            for profile, number in profiles(self._joint.restrict(sort)).items():
                # Odd classes with two nodes have no invariant: the product would be 0.
                if not any(c.is_odd for c in profile):
                    by_size[sort][sum(c.size or 0 for c in profile)] += number
        return by_size

    def dimension_at(self, num_nodes: int | Mapping[str, int]) -> int:
        """Return the number of independent products at a number of nodes.

        Args:
            num_nodes: The number of nodes, for every sort at once or for each sort.
        """
        if isinstance(num_nodes, int):
            num_nodes = dict.fromkeys(self._by_size, num_nodes)
        if set(num_nodes) != set(self._by_size):
            known = ", ".join(self._by_size) or "none"
            raise IncidenceError(
                f"give a number of nodes for each sort of `{self}`, which are: {known}; got"
                f" {dict(num_nodes)}."
            )
        total = 1
        for sort, sizes in self._by_size.items():
            total *= sum(ways for size, ways in sizes.items() if size <= num_nodes[sort])
        return total

    @property
    def enough_nodes(self) -> Mapping[str, int]:
        """For each sort, the least number of nodes from which on all products are independent."""
        return {sort: max(sizes, default=0) for sort, sizes in self._by_size.items()}

    @cached_property
    def products(self) -> tuple[ProductText, ...]:
        """The products, sorted by the number of their nodes, then by classes of the joint pattern.

        The order depends on the meaning of the map only, not on its spelling.

        Raises:
            TooLargeError: There are too many to list.
        """
        return tuple(map(self.product_of, self.orbits))

    @cached_property
    def orbits(self) -> tuple[Orbit, ...]:
        """The orbits of the joint pattern, one for each product and in the same order.

        They are faster to list than the texts.

        Raises:
            TooLargeError: There are too many to list.
        """
        return tuple(orbit for orbit in self._joint.orbits if orbit.has_bias)

    def product_of(self, orbit: Orbit) -> ProductText:
        """Return an orbit of the joint pattern as a text, with letters in order of appearance."""
        nodes = [c for c in orbit.classes for _ in range(c.size or 0)]
        # A node of the orbit becomes a letter; its faces say where it stands.
        inside: list[list[tuple[int, int]]] = [[] for _ in orbit.kinds]  # (position, node) by face
        for v, c in enumerate(nodes):
            for face, position in c.faces:
                inside[face].append((position, v))
        names: dict[int, str] = {}  # of nodes, in order of appearance

        def place(member: tuple[int, int]) -> tuple[int, int, int]:
            position, v = member
            # Named nodes keep their order in unordered faces; new ones follow by number.
            return position, [*names, v].index(v), v

        faces = []
        for (kind, _), members in zip(orbit.kinds, inside, strict=True):
            ordered = [v for _, v in sorted(members, key=place)]
            for v in ordered:
                names.setdefault(v, _letter(len(names)))
            letters = (write_letter(Letter(names[v], nodes[v].sort)) for v in ordered)
            faces.append(kind.opening + " ".join(letters) + kind.closing)
        # The faces of the joint pattern, cut into tensors again.
        rest = iter(faces)
        texts = []
        for pattern in (*self.operands, self.output):
            name = f"{pattern.name}=" if pattern.name else ""
            texts.append(name + " ".join(islice(rest, pattern.order)))
        return ProductText(f"{', '.join(texts[:-1])} -> {texts[-1]}")

    @property
    def num_beyond_entrywise(self) -> int:
        """The number of products that do not just multiply pooled operands entry by entry."""
        return sum(not is_entrywise(product) for product in self.products)

    @property
    def num_joins(self) -> int:
        """The number of products that need a join."""
        return sum(map(needs_join, self.products))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MultilinearMap):
            return NotImplemented
        return (self.operands, self.output) == (other.operands, other.output)

    def __hash__(self) -> int:
        return hash((self.operands, self.output))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"MultilinearMap({self.text!r})"

    def __reduce__(self) -> tuple[type[MultilinearMap], tuple[str]]:
        return MultilinearMap, (self.text,)


def is_entrywise(product: ProductText) -> bool:
    """Return whether a product pools every operand on its own and multiplies entry by entry.

    Example:
        >>> is_entrywise(ProductText("i j, i -> i")), is_entrywise(ProductText("i j, j -> i"))
        (True, False)
    """
    counts = Counter(name for pattern in product.operands for name in pattern.letters)
    return all(counts[name] < 2 for name in product.summed)


_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


def _letter(number: int) -> str:
    return f"{_LETTERS[number % 26]}{number // 26 or ''}"


def _parsed(text: str) -> tuple[tuple[Pattern, ...], Pattern]:
    """Return the operands and the output of a text, with `*` or commas between the operands."""
    if not isinstance(text, str):
        problem = f"a multilinear map is written as text, not as {type(text).__name__}"
        raise PatternError("", 0, problem)
    left = text.partition("->")[0]
    if "*" in left and "," in left:
        hint = (
            "a comma makes a collection, of which there are linear maps; a product has `*` between"
            " all operands"
        )
        raise PatternError(text, left.index(","), "a comma beside `*`", hint)
    try:
        # The positions in error messages stay right, as both marks have one character.
        operands, outputs = parse(text.replace("*", ","), is_map=True, may_repeat=True)
    except PatternError as error:
        raise PatternError(text, error.position, error.problem, error.hint) from None
    if len(outputs) > 1:
        place = next(k for k in range(len(left), len(text)) if text[k] in ",*")
        hint = "a multilinear map has one output: take one for each"
        raise PatternError(text, place, "a second output", hint)
    return tuple(map(Pattern, operands)), Pattern(outputs[0])


def _assert_writable(pattern: Pattern, text: str) -> None:
    """Raise if products would need letters that cannot be written."""
    for face in pattern.faces:
        if face.is_open:
            raise IncidenceError(
                f"`{text}` has an open face, whose members are no letters: make it a sort of its"
                " own, as in `v e:edge`."
            )
        if not face.kind.is_distinct:
            raise IncidenceError(
                f"`{text}` has a symmetric face, in which a node may stand twice, and a letter may"
                " not: write the faces by what they are made of, `i` and `{i j}` for `[i j]`,"
                " and take one multilinear map for each."
            )
