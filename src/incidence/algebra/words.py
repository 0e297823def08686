r"""Keys and words: the form in which overlap matrices meet data.

A *key* is a plain set of nodes; its *level* is the sorts of its nodes, in order. An entry that
contains a key describes it by a *word*: for each node of the key, the class of the entry in which
it lies. One key with an input word u and an output word w determines exactly one overlap matrix,
$a_{ij} = \#\{p : u_p = i, w_p = j\}$. So all operations of a level are one matrix of words by
words.

With oriented faces an entry has only keys that leave out at most one node of each odd class, and
the operation of two words stands in that matrix with a sign (docs/math.md section 16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product

from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix

__all__ = ["Level", "Word", "levels", "overlap_of", "sign_of", "words"]

Level = tuple[str, ...]
Word = tuple[int, ...]


@lru_cache(maxsize=4096)
def levels(classes: tuple[Class, ...], max_overlap: int) -> tuple[Level, ...]:
    """Return the levels of the keys in an entry, fewest nodes first.

    At most `max_overlap` nodes of a key lie in open classes.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [[orbit], [oriented]] = Pattern("{i:a j:a k:b}").orbits, Pattern("<i:a j:a k:b>").orbits
        >>> levels(orbit.classes, 1)
        ((), ('a',), ('b',), ('a', 'a'), ('a', 'b'), ('a', 'a', 'b'))
        >>> levels(oriented.classes, 1)
        (('a',), ('a', 'a'), ('a', 'b'), ('a', 'a', 'b'))
    """
    # Numbers of nodes by sort: all those in classes of fixed size, and the least of a key.
    fixed = Counter({c.sort: 0 for c in classes})
    least = Counter({c.sort: 0 for c in classes})
    for c in classes:
        fixed[c.sort] += c.size or 0
        least[c.sort] += _least(c)
    opened = {c.sort for c in classes if c.is_open}
    ranges = []
    for sort, n in fixed.items():
        most = n + max_overlap if sort in opened else n
        ranges.append(range(least[sort], most + 1))
    every = set()
    for counts in product(*ranges):
        # Nodes beyond the fixed classes lie in open ones.
        beyond = sum(max(0, k - n) for k, n in zip(counts, fixed.values(), strict=True))
        if beyond <= max_overlap:
            nodes = Counter(dict(zip(fixed, counts, strict=True)))
            every.add(tuple(sorted(nodes.elements())))  # a level is a sorted multiset of sorts
    return tuple(sorted(every, key=lambda level: (len(level), level)))


@lru_cache(maxsize=4096)
def words(classes: tuple[Class, ...], level: Level, max_overlap: int) -> tuple[Word, ...]:
    """Return the words for the keys of a level in an entry, in lexicographic order."""
    # Only classes of the sort of a node can contain it.
    choices = [[i for i, c in enumerate(classes) if c.sort == sort] for sort in level]

    def is_word(word: Word) -> bool:
        for i, c in enumerate(classes):
            count = word.count(i)
            if count < _least(c) or (c.size is not None and count > c.size):
                return False
        return sum(classes[i].is_open for i in word) <= max_overlap

    return tuple(filter(is_word, product(*choices)))


def _least(c: Class) -> int:
    """Return the least number of nodes of a class in a key: an odd class may lack one node."""
    return (c.size or 1) - 1 if c.is_odd else 0


def overlap_of(source: Word, target: Word, num_rows: int, num_cols: int) -> Matrix:
    """Return the overlap matrix that two words on one key determine.

    Example:
        >>> overlap_of((0, 1), (1, 0), 2, 2)
        ((0, 1), (1, 0))
    """
    counts = Counter(zip(source, target, strict=True))
    return tuple(tuple(counts[i, j] for j in range(num_cols)) for i in range(num_rows))


def sign_of(
    source_classes: Sequence[Class], target_classes: Sequence[Class], source: Word, target: Word
) -> int:
    r"""Return the sign $\tau(u, w)$ with which two words on one key determine their operation.

    It is 0 if they determine none. Nodes of one odd class stand in the order of the key; the
    operation needs them in the order of the classes of the other side.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [flow], [pair] = Pattern("<i j>").orbits, Pattern("(i j)").orbits
        >>> [sign_of(flow.classes, pair.classes, (0, 0), word) for word in [(0, 1), (1, 0)]]
        [1, -1]
    """
    swaps = 0
    for q, r in combinations(range(len(source)), 2):
        is_odd, is_odd_too = source_classes[source[q]].is_odd, target_classes[target[q]].is_odd
        alike, alike_too = source[q] == source[r], target[q] == target[r]
        if alike and alike_too and is_odd != is_odd_too:
            return 0  # the operation cancels itself
        # A pair counts if the other side has it in the opposite order.
        swaps += alike and is_odd and target[q] > target[r]
        swaps += alike_too and is_odd_too and source[q] > source[r]
    return -1 if swaps % 2 else 1
