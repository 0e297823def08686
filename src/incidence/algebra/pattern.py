r"""`Pattern`: the index structure of one tensor, compared by meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from incidence.algebra.grammar import (
    KINDS,
    Face,
    Kind,
    Letter,
    Signature,
    TensorSyntax,
    make_face,
    parse,
    write_faces,
    write_letter,
)
from incidence.algebra.orbit import Orbit, orbits
from incidence.algebra.signs import is_odd, orientation_sign
from incidence.notebook import html_of

__all__ = ["Pattern"]


class Pattern:
    r"""The index structure of one tensor, for example `i {i j}`: a node and an edge that contains it.

    Patterns are values: immutable, hashable, and equal when they mean the same. The canonical form is the name, the kinds of
    the faces, the multiset of (sort, signature) of the letters (docs/math.md section 3), and a sign (section 16): neither the
    names of letters nor the order inside `{ }` matters, and the order inside `< >` up to sign.

    Args:
        text: The pattern as text, as syntax that was parsed, or another pattern.

    Raises:
        PatternError: The text is outside the grammar; the message points at the place.

    Example:
        >>> Pattern("{i j} {j k}") == Pattern("{a b} {a c}")
        True
        >>> [str(orbit) for orbit in Pattern("{i j} {j k}").orbits]
        ['{i j} {i j}', '{i j} {j k}']
    """

    faces: tuple[Face, ...]
    name: str | None

    def __init__(self, text: str | TensorSyntax | Pattern) -> None:
        tensor = (
            text if isinstance(text, (TensorSyntax, Pattern)) else parse(text, is_map=False)[0][0]
        )
        self.__dict__.update(faces=tensor.faces, name=tensor.name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Pattern cannot be changed; make a new one instead of setting `{name}`"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Pattern cannot be changed; `{name}` stays")

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The letters in order of appearance: the order of the rows of an index tensor."""
        return tuple(self.sorts)

    @cached_property
    def sorts(self) -> Mapping[str, str]:
        """The sort of every letter."""
        return MappingProxyType(
            {letter.name: letter.sort for face in self.faces for letter in face.letters}
        )

    @cached_property
    def kinds(self) -> tuple[tuple[Kind, bool], ...]:
        """The kind of every face, and whether it is open."""
        return tuple((face.kind, face.is_open) for face in self.faces)

    @cached_property
    def signatures(self) -> Mapping[str, Signature]:
        """The signature of every letter: in which faces it stands, and where."""
        places: dict[str, list[tuple[int, int]]] = {name: [] for name in self.letters}
        for number, face in enumerate(self.faces):
            for position, letter in enumerate(face.letters):
                places[letter.name].append((number, position if face.kind.is_ordered else -1))
        return MappingProxyType({name: tuple(place) for name, place in places.items()})

    @cached_property
    def canonical_letters(self) -> tuple[str, ...]:
        """The letters in an order that depends on meaning only; ties are letters that may be exchanged.

        Where exchanging two of them changes the sign, they stand such that the orientation of the faces is that of this order.
        """
        letters = list(self._sorted_letters)
        if self.odd_pair is not None and orientation_sign(self.faces, _ranks(letters)) < 0:
            one, other = map(letters.index, self.odd_pair)
            letters[one], letters[other] = letters[other], letters[one]
        return tuple(letters)

    @cached_property
    def _sorted_letters(self) -> tuple[str, ...]:
        return tuple(sorted(self.letters, key=self._place))

    def _place(self, name: str) -> tuple[Signature, str]:
        return self.signatures[name], self.sorts[name]

    @cached_property
    def odd_pair(self) -> tuple[str, str] | None:
        """Two letters whose exchange leaves every entry as it is and reverses its orientation; None where the text settles it.

        Example:
            >>> Pattern("<i j k>").odd_pair, Pattern("i <i j>").odd_pair
            (('i', 'j'), None)
        """
        ties = (
            pair
            for pair in pairwise(self._sorted_letters)
            if self._place(pair[0]) == self._place(pair[1])
        )
        return next((pair for pair in ties if is_odd(self.kinds, self.signatures[pair[0]])), None)

    @cached_property
    def fixed_letters(self) -> tuple[str, ...]:
        """The letters that stand in some face of fixed size, in order of appearance."""
        return tuple(
            n for n in self.letters if any(not self.faces[d].is_open for d, _ in self.signatures[n])
        )

    @property
    def is_open(self) -> bool:
        """Whether some face is of mixed size (`...`)."""
        return any(face.is_open for face in self.faces)

    @property
    def is_oriented(self) -> bool:
        """Whether some face is oriented: values change sign with the reference orientation of their entry."""
        return any(face.kind.is_oriented for face in self.faces)

    @cached_property
    def sign(self) -> int:
        """By which sign the values differ from those of the pattern with its oriented faces in canonical order; 1 without such faces.

        It is 0 where two letters can be exchanged against the sign: then both spellings mean the same (docs/math.md section 16).

        Example:
            >>> [Pattern(text).sign for text in ("i <i j>", "i <j i>", "<i j>", "{i j}")]
            [1, -1, 0, 1]
        """
        return (
            orientation_sign(self.faces, _ranks(self._sorted_letters))
            if self.odd_pair is None
            else 0
        )

    @property
    def order(self) -> int:
        """The number of faces."""
        return len(self.faces)

    @cached_property
    def orbits(self) -> tuple[Orbit, ...]:
        """The orbits of the entries under relabelling, by size, then classes (with open faces: the families).

        Raises:
            TooLargeError: There are too many to list.
        """
        return orbits(self)

    def unnamed(self) -> Pattern:
        """The same pattern without its name."""
        return self if self.name is None else Pattern(TensorSyntax(None, self.faces))

    def unoriented(self) -> Pattern:
        """The same pattern with `{ }` for `< >`: the same entries in the same orbits, for values without a sign.

        Example:
            >>> Pattern("flow=<i j> <j k>").unoriented()
            Pattern('flow={i j} {j k}')
        """
        undirected = KINDS["{"]
        faces = (
            face._replace(kind=undirected) if face.kind.is_oriented else face for face in self.faces
        )
        return Pattern(TensorSyntax(self.name, tuple(faces))) if self.is_oriented else self

    def restrict(self, sort: str) -> Pattern:
        """The pattern with all letters of other sorts deleted, faces kept in place only if a letter is left.

        Example:
            >>> Pattern("{i:a j:a k:b} k:b").restrict("a")
            Pattern('{i:a j:a}')
        """
        kept = (
            make_face(face.kind, tuple(x for x in face.letters if x.sort == sort), face.is_open)
            for face in self.faces
        )
        return Pattern(TensorSyntax(None, tuple(face for face in kept if face.letters)))

    def rename(self, names: dict[str, str]) -> Pattern:
        """The same pattern in other letters."""
        faces = (
            face._replace(
                letters=tuple(Letter(names.get(x.name, x.name), x.sort) for x in face.letters)
            )
            for face in self.faces
        )
        return Pattern(TensorSyntax(self.name, tuple(faces)))

    @cached_property
    def _key(self) -> tuple[object, ...]:
        letters = Counter((self.sorts[name], self.signatures[name]) for name in self.letters)
        return (
            self.name,
            tuple((kind.opening, is_open) for kind, is_open in self.kinds),
            frozenset(letters.items()),
            self.sign,
        )

    def is_opposite(self, other: Pattern) -> bool:
        """Whether two patterns have the same entries and values of opposite signs, as `i <i j>` and `i <j i>`.

        Example:
            >>> Pattern("i <i j>").is_opposite(Pattern("i <j i>")), Pattern("<i j>").is_opposite(Pattern("<j i>"))
            (True, False)
        """
        return self._key[:-1] == other._key[:-1] and self.sign == -other.sign != 0

    def __eq__(self, other: object) -> bool:
        return self is other or (
            self._key == other._key if isinstance(other, Pattern) else NotImplemented
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        name = "" if self.name is None else f"{self.name}="
        return name + write_faces(
            (face.kind, map(write_letter, face.letters), face.is_open) for face in self.faces
        )

    def __repr__(self) -> str:
        return f"Pattern({str(self)!r})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[type[Pattern], tuple[str]]:
        return Pattern, (str(self),)


def _ranks(letters: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(letters)}
