r"""`Pattern`: the index structure of one tensor, compared by meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from incidence.algebra.grammar import (
    UNDIRECTED,
    Face,
    Kind,
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
    r"""The index structure of one tensor, for example `i {i j}`: a node and an edge that contains
    it.

    Patterns are values: immutable, hashable, and equal when they mean the same. The canonical form
    is the name, the kinds of the faces, the multiset of (sort, signature) of the letters
    (docs/math.md section 3), and a sign (section 16): neither the names of letters nor the order
    inside `{ }` matters, and the order inside `< >` up to sign.

    Args:
        text: The pattern as text, as parsed syntax, or another pattern.

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
        if not isinstance(text, (TensorSyntax, Pattern)):
            [[text]] = parse(text, is_map=False)
        self.__dict__.update(faces=text.faces, name=text.name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Pattern cannot be changed; make a new one instead of setting `{name}`"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Pattern cannot be changed; `{name}` stays")

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The letters in order of appearance: the order of the rows of an index tensor."""
        # Dicts keep the order of insertion.
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
        """The signature of every letter: its faces, and its positions in them."""
        places: dict[str, list[tuple[int, int]]] = {name: [] for name in self.letters}
        for number, face in enumerate(self.faces):
            for position, letter in enumerate(face.letters):
                places[letter.name].append((number, position if face.kind.is_ordered else -1))
        return MappingProxyType({name: tuple(place) for name, place in places.items()})

    @cached_property
    def canonical_letters(self) -> tuple[str, ...]:
        """The letters in an order that depends on the meaning of the pattern only.

        Letters that may be exchanged tie. If exchanging two of them changes the sign, they stand in
        the order in which the orientation of the faces is positive.
        """
        letters = list(self._sorted_letters)
        if self.odd_pair is not None and orientation_sign(self.faces, _ranks(letters)) < 0:
            one, other = map(letters.index, self.odd_pair)
            letters[one], letters[other] = letters[other], letters[one]
        return tuple(letters)

    @cached_property
    def _sorted_letters(self) -> tuple[str, ...]:
        return tuple(sorted(self.letters, key=self.place))

    def place(self, name: str) -> tuple[Signature, str]:
        """Return the signature and the sort of a letter."""
        return self.signatures[name], self.sorts[name]

    @cached_property
    def odd_pair(self) -> tuple[str, str] | None:
        """Two letters whose exchange leaves every entry as it is and reverses its orientation.

        It is None if the text settles the orientation of every entry.

        Example:
            >>> Pattern("<i j k>").odd_pair, Pattern("i <i j>").odd_pair
            (('i', 'j'), None)
        """
        for one, other in pairwise(self._sorted_letters):
            is_tie = self.place(one) == self.place(other)
            # Letters that may be exchanged lie in the same faces.
            if is_tie and is_odd(self.kinds, self.signatures[one]):
                return one, other
        return None

    @cached_property
    def fixed_letters(self) -> tuple[str, ...]:
        """The letters that stand in some face of fixed size, in order of appearance."""
        fixed = (face for face in self.faces if not face.is_open)
        names = {letter.name for face in fixed for letter in face.letters}
        return tuple(name for name in self.letters if name in names)

    @property
    def is_open(self) -> bool:
        """Whether some face has a mixed size (`...`)."""
        return any(face.is_open for face in self.faces)

    @property
    def is_oriented(self) -> bool:
        """Whether some face is oriented, so that values change sign with the orientation."""
        return any(face.kind.is_oriented for face in self.faces)

    @cached_property
    def sign(self) -> int:
        """The sign of the values, relative to the pattern with its faces in canonical order.

        It is 1 without such faces. It is 0 if two letters can be exchanged against the sign: both
        spellings then mean the same (docs/math.md section 16).

        Example:
            >>> [Pattern(text).sign for text in ("i <i j>", "i <j i>", "<i j>", "{i j}")]
            [1, -1, 0, 1]
        """
        if self.odd_pair is not None:
            return 0
        return orientation_sign(self.faces, _ranks(self._sorted_letters))

    @property
    def order(self) -> int:
        """The number of faces."""
        return len(self.faces)

    @cached_property
    def orbits(self) -> tuple[Orbit, ...]:
        """The orbits of the entries under relabelling, by size, then classes.

        With open faces these are families of orbits.

        Raises:
            TooLargeError: There are too many to list.
        """
        return orbits(self)

    def unnamed(self) -> Pattern:
        """Return the pattern without its name."""
        return self if self.name is None else Pattern(TensorSyntax(None, self.faces))

    def unoriented(self) -> Pattern:
        """Return the pattern with `{ }` for `< >`: the same entries, for values without a sign.

        Example:
            >>> Pattern("flow=<i j> <j k>").unoriented()
            Pattern('flow={i j} {j k}')
        """
        if not self.is_oriented:
            return self
        faces = [
            face._replace(kind=UNDIRECTED) if face.kind.is_oriented else face for face in self.faces
        ]
        return Pattern(TensorSyntax(self.name, tuple(faces)))

    def restrict(self, sort: str) -> Pattern:
        """Return the pattern with only the letters of one sort, and the faces that have some.

        Example:
            >>> Pattern("{i:a j:a k:b} k:b").restrict("a")
            Pattern('{i:a j:a}')
        """
        faces = []
        for face in self.faces:
            letters = tuple(letter for letter in face.letters if letter.sort == sort)
            if letters:
                # A face that loses letters may become a single node.
                faces.append(make_face(face.kind, letters, face.is_open))
        return Pattern(TensorSyntax(None, tuple(faces)))

    def rename(self, names: dict[str, str]) -> Pattern:
        """Return the pattern in other letters."""
        faces = []
        for face in self.faces:
            letters = (x._replace(name=names.get(x.name, x.name)) for x in face.letters)
            faces.append(face._replace(letters=tuple(letters)))
        return Pattern(TensorSyntax(self.name, tuple(faces)))

    @cached_property
    def _key(self) -> tuple[object, ...]:
        # Two letters with equal sort and signature may be exchanged, so only their number counts.
        letters = Counter((self.sorts[name], self.signatures[name]) for name in self.letters)
        return (
            self.name,
            tuple((kind.opening, is_open) for kind, is_open in self.kinds),
            frozenset(letters.items()),
            self.sign,
        )

    def is_opposite(self, other: Pattern) -> bool:
        """Return whether two patterns have the same entries and values of opposite signs.

        Example:
            >>> Pattern("i <i j>").is_opposite(Pattern("i <j i>"))
            True
            >>> Pattern("<i j>").is_opposite(Pattern("<j i>"))  # they are equal
            False
        """
        # The sign is the last part of the key.
        return self._key[:-1] == other._key[:-1] and self.sign == -other.sign != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self is other or self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        faces = ((face.kind, map(write_letter, face.letters), face.is_open) for face in self.faces)
        name = "" if self.name is None else f"{self.name}="
        return name + write_faces(faces)

    def __repr__(self) -> str:
        return f"Pattern({str(self)!r})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[type[Pattern], tuple[str]]:
        return Pattern, (str(self),)


def _ranks(letters: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(letters)}
