"""Partners: entries on one node set that read each other.

An operation that matches all nodes of an orbit needs no key. Every entry reads the entries on the
same nodes that the operation relates to it: itself, or its reverse `(j i)`, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import torch
from torch import Tensor

from incidence.algebra.maps import TensorOrbit
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.words import overlap_of, sign_of
from incidence.engine.bags import Lists
from incidence.engine.store import Listed
from incidence.structure.arrange import Arranged
from incidence.structure.data import Array
from incidence.structure.entries import Bucket
from incidence.structure.ragged import are_short, ranges

__all__ = [
    "PartnerKey",
    "Partners",
    "partner_operations",
    "partners_of",
    "reads_itself",
    "reads_once",
]

PartnerKey = tuple[TensorOrbit, Matrix]
"""An orbit, by the number of its pattern, and the operation that matches all its nodes."""

_MOST_ROWS = 2  # for each row that reads a partner, up to which all rows are listed


@dataclass(frozen=True, eq=False)
class Partners:
    """The entries that one operation relates on the same nodes.

    Attributes:
        num_rows: The number of entries of the tensor.
        counts: The number of pairs of each structure; on the host.
        targets: The rows that read, ascending, shape (pairs,). None if every row of the tensor
            reads exactly once.
        sources: The rows that they read, shape (pairs,). None if each reads itself.
        signs: With oriented faces, 1 or -1 for every pair, shape (pairs,); else None.
    """

    num_rows: int
    counts: Array
    targets: Tensor | None
    sources: Tensor | None
    signs: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """The lists."""
        return [t for t in (self.targets, self.sources, self.signs) if t is not None]

    def lists(self, overlap: Matrix, pairs: int, rows: int) -> list[Listed]:
        """Return the lists for plans of batches, by the spaces of pairs and of rows.

        There are as many for every structure: whoever reads exactly once is listed too.
        """
        count = int(self.counts.sum())
        targets = self.targets
        if targets is None:
            like = self.counts if self.sources is None else self.sources
            targets = torch.arange(count, device=like.device)
        listed = [Listed(targets, pairs, rows)]
        if not reads_itself(overlap):
            listed.append(Listed(targets if self.sources is None else self.sources, pairs, rows))
        if self.signs is not None:
            listed.append(Listed(self.signs, pairs, None))
        return listed

    def remade(
        self, overlap: Matrix, counts: Array, num_rows: int, tensors: Iterator[Tensor]
    ) -> Partners:
        """Return the partners in a batch, from its lists."""
        targets: Tensor | None = next(tensors)
        sources = None if reads_itself(overlap) else next(tensors)
        signs = None if self.signs is None else next(tensors).float()
        if reads_once(overlap) and int(counts.sum()) == num_rows:
            targets = None
        return Partners(num_rows, counts, targets, sources, signs)

    @cached_property
    def by_row(self) -> Lists | None:
        """The partners of every row, where most rows read one; None where few do."""
        if self.targets is None or self.num_rows > _MOST_ROWS * len(self.targets):
            return None
        with torch.inference_mode(False):
            counts = torch.bincount(self.targets, minlength=self.num_rows)
            members = self.targets if self.sources is None else self.sources
            return Lists(members, ranges(counts).to(members.dtype), self.signs)


def partner_operations(classes: Sequence[Class]) -> list[Matrix]:
    """Return the operations of an orbit with itself that match all nodes."""
    size = sum(c.size or 0 for c in classes)
    return [matrix for matrix in overlaps(classes, classes) if sum(map(sum, matrix)) == size]


def partners_of(
    arrangements: Sequence[Arranged],
    classes: Sequence[Class],
    home: Tensor,
    num_structures: int,
    is_oriented: bool,
) -> Iterator[tuple[Matrix, Partners]]:
    """Yield the partners of the entries of an orbit, operation by operation.

    Args:
        arrangements: The entries of the orbit, by the node sets that they lie on.
        classes: The classes of the orbit.
        home: The structure of every row of the tensor.
        num_structures: The number of structures.
        is_oriented: Whether the tensor has an oriented face.
    """
    none = torch.zeros(0, dtype=torch.long, device=home.device)
    pairs: dict[Matrix, list[tuple[Tensor, ...]]] = {}
    for overlap in partner_operations(classes):
        has_signs = is_oriented and not reads_itself(overlap)
        pairs[overlap] = [(none, none, none.float()) if has_signs else (none, none)]
    for arranged in arrangements:
        rows = arranged.bucket.rows
        for target, source, u, w in _pairs_on_one_set(arranged, home.device):
            if not sign_of(classes, classes, u, w):
                continue
            overlap = overlap_of(u, w, len(classes), len(classes))
            signs: tuple[Tensor, ...] = ()
            if is_oriented and not reads_itself(overlap):
                signs = (_pair_signs(arranged.bucket, classes, source, target),)
            pairs[overlap].append((rows[target], rows[source], *signs))
    for overlap, parts in pairs.items():
        columns = [torch.cat(part) for part in zip(*parts, strict=True)]
        yield overlap, _sorted_partners(overlap, columns, home, num_structures)


def _pairs_on_one_set(
    arranged: Arranged, device: torch.device
) -> Iterator[tuple[Tensor, Tensor, tuple[int, ...], tuple[int, ...]]]:
    """Yield all pairs of entries on one node set: target, source, and the words of the source and
    of the target.
    """
    rows = torch.arange(len(arranged.bucket.rows), device=device)
    order = rows if arranged.is_single else arranged.order
    start = 0
    for mask, num_sets in zip(arranged.masks, arranged.num_sets, strict=True):
        stop = start + num_sets * len(mask)
        columns = order[start:stop].view(num_sets, len(mask)).unbind(1)  # (sets,) for every word
        start = stop
        for (source, u), (target, w) in product(zip(columns, mask, strict=True), repeat=2):
            yield target, source, u, w


def _sorted_partners(
    overlap: Matrix, columns: Sequence[Tensor], home: Tensor, num_structures: int
) -> Partners:
    """Return partners from pairs (targets, sources[, signs]) in any order."""
    order = _ascending(columns[0], len(home))  # by target: rows read block by block
    targets, sources, *signs = (column[order] for column in columns)
    rows = torch.arange(len(home), device=home.device)
    is_full = torch.equal(targets, rows)  # then the rows need no list
    homes = home if is_full else home[targets]  # (pairs,): the structure of each
    dtype = torch.int32 if are_short(len(home)) else torch.long
    return Partners(
        len(home),
        torch.bincount(homes, minlength=num_structures).cpu().numpy(),
        None if is_full else targets.to(dtype),
        None if reads_itself(overlap) else sources.to(dtype),
        signs[0] if signs else None,
    )


def _pair_signs(
    bucket: Bucket, classes: Sequence[Class], sources: Tensor, targets: Tensor
) -> Tensor:
    """Return the signs by which entries on the same nodes read each other.

    This is `words.sign_of` for the words along the ascending nodes, times the signs of both
    entries.
    """
    assert bucket.signs is not None
    labels = torch.tensor(bucket.labels, device=sources.device)
    odd = torch.tensor([c.is_odd for c in classes], device=sources.device)
    # (pairs, nodes)
    u, w = (labels[bucket.nodes[entries].argsort(dim=1)] for entries in (sources, targets))
    is_reversed = bucket.signs[sources] != bucket.signs[targets]  # (pairs,)
    for q, r in combinations(range(u.shape[1]), 2):
        for one, other in ((u, w), (w, u)):
            is_reversed ^= (one[:, q] == one[:, r]) & odd[one[:, q]] & (other[:, q] > other[:, r])
    return 1.0 - 2 * is_reversed.float()


def reads_itself(overlap: Matrix) -> bool:
    """Return whether the only partner of an entry is the entry itself.

    So it is for an operation that matches all nodes and takes every node to its own class.
    """
    return all(n == 0 for i, row in enumerate(overlap) for j, n in enumerate(row) if i != j)


def reads_once(overlap: Matrix) -> bool:
    """Return whether an entry has at most one partner: every class goes to one class as a whole."""
    return all(sum(n > 0 for n in row) <= 1 for row in overlap)


def _ascending(values: Tensor, bound: int) -> Tensor:
    """Return the order in which values ascend; without a sort where all differ."""
    numbers = torch.arange(len(values), device=values.device)
    # the last position of every value
    place = torch.full((bound,), -1, device=values.device).index_copy_(0, values, numbers)
    order = place[place >= 0]  # shorter if some value occurs twice
    return order if len(order) == len(values) else values.sort(stable=True)[1]
