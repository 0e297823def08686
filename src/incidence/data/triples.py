"""Typed triples, head, relation and tail: the relation is a node of a sort of its own.

Known triples are entries `known=h:entity r:relation t:entity`. What they say of a queried triple is
counted beforehand: how often the relation has this tail, which relations imply this one, and what
similar entities do. A network reads these counts, and the entities and the relation themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from incidence.data.columns import find_column, is_split, read_parts
from incidence.data.completion import FOLDS, KNOWN, QUERY, ROWS, Completion
from incidence.data.dataset import DataSet, Task
from incidence.data.links import Links
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable, as_float, sorted_names
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.ragged import code, distinct
from incidence.structure.structure import Structure

__all__ = [
    "HITS",
    "NEGATIVES",
    "TripleColumns",
    "Triples",
    "find_triples",
    "triples_of",
    "with_header",
]

HITS = (1, 3, 10)
"""The ranks at which hits are counted."""
NEGATIVES = 4
"""How many triples that do not exist are drawn for each that does."""
_ENTITY, _RELATION = "entity", "relation"
_PATTERN = f"h:{_ENTITY} r:{_RELATION} t:{_ENTITY}"
_HEADS = ("head", "subject", "source", "from", "h", "s", "subj", "head_id", "start", "src")
_RELATIONS = ("relation", "predicate", "rel", "relation_type", "type", "r", "p", "edge", "label")
_TAILS = ("tail", "object", "target", "to", "t", "o", "obj", "tail_id", "end", "dst")
_MOST_CELLS = 1 << 25  # of relations x entities x entities; more are not counted pair by pair
_MOST_ONE_HOT = 512  # relations with a feature each
_MOST_CANDIDATES = 1 << 22  # triples that are scored for ranks
_TOGETHER = 1 << 16  # triples that are scored at once
_DAMPING = 2.0  # as if every relation had so many more triples, none of which agrees
_SHARP = 4  # power of similarities, so that the most similar entities count


class TripleColumns(NamedTuple):
    """The columns of a table of triples."""

    head: str
    relation: str
    tail: str


def find_triples(table: TextTable, keys: Sequence[str] = ()) -> TripleColumns | None:
    """Return the columns of heads, relations and tails; None if the table has no triples.

    They are the given ones; or those with usual names; or the columns of a table without names, if
    there are three, the first and the last have names in common, and the second has names of its
    own, fewer than there are rows.
    """
    if len(keys) == 3:
        return TripleColumns(*(table.named(key) for key in keys))
    if keys:
        return None
    if table.has_names:
        names = [find_column(table, usual) for usual in (_HEADS, _RELATIONS, _TAILS)]
        if None in names or names[0] == names[2] or not _are_words(table[str(names[1])]):
            return None
        return TripleColumns(*map(str, names))
    columns = [name for name in table.columns if not is_split(name)]
    if len(columns) != 3:
        return None
    heads, relations, tails = (set(table[name]) for name in columns)
    are_typed = not relations & (heads | tails) and 2 * len(relations) <= len(table)
    if heads & tails and are_typed and _are_words(table[columns[1]]):
        return TripleColumns(*columns)
    return None


def with_header(table: TextTable, parts: Collection[TextTable]) -> TextTable:
    """Return a table whose first row names the columns, if it does.

    It does if it has the usual names, or if none of its words comes again in any part.

    Args:
        table: A table whose columns have no names.
        parts: All parts of the data, this table among them.
    """
    if table.has_names:
        return table
    first = [texts[0] for texts in table.columns.values()]
    usual = [any(word.lower() in names for word in first) for names in (_HEADS, _TAILS, _RELATIONS)]
    words = {
        text
        for part in parts
        for texts in part.columns.values()
        for text in (texts[1:] if part is table else texts)
    }
    if not all(usual) and not words.isdisjoint(first):
        return table
    if len(set(first)) < len(first):
        return table
    columns = zip(first, table.columns.values(), strict=True)
    return TextTable(table.source, {name: texts[1:] for name, texts in columns}, table.places[1:])


def _are_words(texts: Sequence[str]) -> bool:
    """Return whether texts are names of relations, and no weights."""
    return all(texts) and any(as_float(text) is None for text in texts)


class _Counts:
    """What known triples say of others; every count is about known triples alone.

    Args:
        triples: The known triples, [3, triples]: heads, relations, tails.
        num_entities: How many entities there are.
        num_relations: How many relations there are.
    """

    def __init__(self, triples: Tensor, num_entities: int, num_relations: int) -> None:
        heads, relations, tails = triples
        shape = (num_relations, num_entities)
        ones = torch.ones(triples.shape[1])
        self.of_tail = _table(shape, relations, tails, ones)
        self.of_head = _table(shape, relations, heads, ones)
        self.of_relation = self.of_tail.sum(1)  # (relations,)
        self.tables: Tensor | None = None
        if num_relations * num_entities**2 <= _MOST_CELLS:
            self.tables = torch.zeros(num_relations, num_entities, num_entities)
            self.tables[relations, heads, tails] = 1
            self._count_rules(self.tables)
            self._compare_entities(self.tables)

    def _count_rules(self, tables: Tensor) -> None:
        """Count how often one relation, or its inverse, implies another, [relations, relations]."""
        flat, turned = tables.flatten(1), tables.mT.flatten(1)
        damped = self.of_relation[:, None] + _DAMPING
        self.rules = [flat @ flat.T / damped, turned @ flat.T / damped]
        self.rules[0].fill_diagonal_(0)  # a relation that implies itself says nothing

    def _compare_entities(self, tables: Tensor) -> None:
        """Say for every triple whether it holds for similar heads, and for similar tails."""
        profiles = torch.cat([tables.transpose(0, 1), tables.permute(2, 0, 1)], 1).flatten(1)
        profiles = torch.nn.functional.normalize(profiles, dim=1)
        alike = (profiles @ profiles.T).fill_diagonal_(0).pow(_SHARP)
        alike = alike / alike.sum(1, keepdim=True).clamp(min=1e-9)  # (entities, entities)
        self.by_heads = alike @ tables
        self.by_tails = tables @ alike.T

    def features(self, triples: Tensor) -> Tensor:
        """Return what the counts say of triples, [triples, 14]; see `NAMES`."""
        heads, relations, tails = triples
        totals = self.of_relation[relations] + _DAMPING
        of_tail, of_head = self.of_tail[relations, tails], self.of_head[relations, heads]
        columns = [
            of_tail / totals,
            of_head / totals,
            of_tail.log1p(),
            of_head.log1p(),
            self.of_relation[relations].log1p(),
            (heads == tails).float(),
        ]
        if self.tables is None:
            return torch.nn.functional.pad(torch.stack(columns, 1), (0, 8))
        for table, rule in zip((self.tables, self.tables.mT), self.rules, strict=True):
            holds = table[:, heads, tails] * rule[:, relations]  # (relations, triples)
            columns += [holds.amax(0), 1 - (1 - holds.clamp(max=0.999)).prod(0)]
        columns.append(torch.maximum(columns[-4], columns[-2]))
        both = [table[relations, heads, tails] for table in (self.by_heads, self.by_tails)]
        return torch.stack([*columns, *both, both[0] + both[1]], 1)


def _table(shape: tuple[int, int], rows: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    flat = torch.zeros(shape[0] * shape[1]).index_add_(0, rows * shape[1] + columns, values)
    return flat.view(shape)


@dataclass(frozen=True, kw_only=True, repr=False)
class Triples(Links):
    """Typed triples that exist, which are facts, and others that do not exist."""

    kind: ClassVar[str] = "triples"

    @property
    def baselines(self) -> Mapping[str, int]:
        """Predictors that need no training, by the feature of queried triples that they are."""
        return {"the most frequent": 14, "the best rule": 10, "similar entities": 13}

    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """Return degrees of entities, ones for known triples, and counts for queried ones."""
        triples, counts = structure[KNOWN], structure.counts
        said = _Counts(triples, counts[_ENTITY], counts[_RELATION])
        degrees = [torch.bincount(ends, minlength=counts[_ENTITY]) for ends in triples[::2]]
        x = said.features(structure[QUERY])
        frequent = x[:, :2].sum(1, keepdim=True)  # (queried, 1): the baseline
        return {
            f"h:{_ENTITY}": torch.stack(degrees, 1).float().log1p(),
            f"r:{_RELATION}": said.of_relation.log1p()[:, None],
            f"{KNOWN}={self.pattern}": torch.ones(len(known), 1),
            self.query: torch.cat([x, frequent], 1),
        }

    @property
    def ranked(self) -> tuple[str, ...]:
        """The metrics of `rank`."""
        return ("mrr", *(f"hits@{rank}" for rank in HITS))

    def rank(
        self, known: Tensor, rows: Tensor, score: Callable[[Example], Tensor]
    ) -> dict[str, float]:
        """Return the mean reciprocal rank of heads and tails, and the share within each of `HITS`.

        The rank of a triple is that among all triples with another tail (or head) that do not
        exist; other triples that exist, in whatever part, are left out. Ties count half.

        Args:
            known: The rows that are known.
            rows: The rows to rank; those of links that do not exist are left out.
            score: Returns a score for every queried entry of an example.
        """
        rows = rows[self.is_fact[rows] & (self.target[rows] == 1)]
        num_entities = self.rows.counts[_ENTITY]
        step = max(1, -(-2 * len(rows) * num_entities // _MOST_CANDIDATES))
        rows = rows[::step]
        if not len(rows):
            return {}
        index = self.rows[ROWS]
        sizes = [num_entities, self.rows.counts[_RELATION], num_entities]
        candidates = torch.cat(
            [_corrupted(index[:, rows], side, num_entities) for side in (0, 2)], 1
        )
        codes = code(candidates.unbind(0), sizes)[0]  # (2 x rows x entities,)
        # Triples share candidates: each is scored once.
        different, place = codes.unique(return_inverse=True)
        is_true = torch.isin(different, code(index[:, self.target == 1].unbind(0), sizes)[0])
        is_ranked = torch.isin(different, code(index[:, rows].unbind(0), sizes)[0])
        wanted = (~is_true | is_ranked).nonzero()[:, 0]
        scores = torch.full((len(different),), -torch.inf)
        scores[wanted] = self._scores(_decoded(different[wanted], sizes), known, score)
        table = scores[place].view(-1, num_entities)  # (2 x rows, entities)
        true_codes = code(index[:, rows].unbind(0), sizes)[0].repeat(2)
        ours = scores[torch.searchsorted(different, true_codes)][:, None]
        # other ranked triples of the part are true as well
        is_other = is_ranked[place].view_as(table) & (codes.view_as(table) != true_codes[:, None])
        table = table.masked_fill(is_other, -torch.inf)
        ties = (table == ours).sum(1) - 1  # without the triple itself
        ranks = 1 + (table > ours).sum(1) + ties / 2
        hits = {f"hits@{rank}": float((ranks <= rank).double().mean()) for rank in HITS}
        return {"mrr": float((1 / ranks).mean()), **hits}

    def _scores(self, triples: Tensor, known: Tensor, score: Callable[[Example], Tensor]) -> Tensor:
        """Return the scores of triples, [3, triples], of which none is known."""
        parts = []
        for some in triples.split(_TOGETHER, dim=1):
            query = Completion.store(self.rows, self.pattern, some)
            parts.append(score(self.example_of(known, query)))
        return torch.cat(parts)


def _corrupted(triples: Tensor, side: int, num_entities: int) -> Tensor:
    """Return every triple with every entity for its head (0) or tail (2), [3, triples x n]."""
    wide = triples.repeat_interleave(num_entities, dim=1)
    wide[side] = torch.arange(num_entities).repeat(triples.shape[1])  # each entity for each triple
    return wide


def _decoded(codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the triples of codes, [3, codes]."""
    _, second, third = sizes
    return torch.stack([codes // (second * third), codes // third % second, codes % third])


def triples_of(
    name: str,
    table: TextTable,
    columns: TripleColumns,
    negatives: int = NEGATIVES,
    folds: int = FOLDS,
    seed: int = 0,
) -> DataSet:
    """Return the data set of a table of triples: those that exist, and others that do not.

    Args:
        name: The name of the data.
        table: The table; a column `split` defines the parts.
        columns: Its columns.
        negatives: How many triples that do not exist are drawn for each that does, by another head
            or tail.
        folds: Training queries the triples fold by fold.
        seed: Seed of what is drawn.

    Raises:
        IncidenceError: All possible triples exist.
    """
    heads, relations, tails = (table[column] for column in columns)
    names = {
        _ENTITY: sorted_names([*heads, *tails]),
        _RELATION: sorted_names(relations),
    }
    place = {sort: {one: k for k, one in enumerate(some)} for sort, some in names.items()}
    first: dict[tuple[int, int, int], int] = {}
    skipped = []
    for row, (head, relation, tail) in enumerate(zip(heads, relations, tails, strict=True)):
        where = f"{table.source}, {table.places[row]}: the triple"
        if not (head and relation and tail):
            skipped.append(f"{where} has an empty cell.")
            continue
        triple = (place[_ENTITY][head], place[_RELATION][relation], place[_ENTITY][tail])
        if first.setdefault(triple, row) != row:
            skipped.append(f"{where} is there already, in {table.places[first[triple]]}.")
    facts = torch.tensor(list(first)).T.contiguous()  # (3, triples)
    counts = {sort: len(some) for sort, some in names.items()}
    if counts[_RELATION] * counts[_ENTITY] ** 2 > _MOST_CELLS:
        warnings.warn(
            f"{name}: {counts[_ENTITY]:,} entities and {counts[_RELATION]:,} relations are too many"
            " to count rules and similar entities, so these features are 0.",
            stacklevel=2,
        )
    generator = torch.Generator().manual_seed(seed)
    absent = _absent(facts, counts, negatives, generator)
    if not absent.shape[1]:
        raise IncidenceError(
            f"{name}: all possible triples exist, so there are none to tell them from."
        )
    completion = Triples(
        context=_context(counts),
        rows=Completion.store(Structure(counts, {}), _PATTERN, torch.cat([facts, absent], 1)),
        values=torch.zeros(facts.shape[1] + absent.shape[1], 0),
        target=torch.tensor([1] * facts.shape[1] + [0] * absent.shape[1]),
        is_fact=torch.arange(facts.shape[1] + absent.shape[1]) < facts.shape[1],
        names=names,
        keys=tuple(columns) if table.has_names else ("head", "relation", "tail"),
        seed=seed,
        folds=folds,
    )
    parts = read_parts(table)
    if parts is not None:
        parts = [parts[row] for row in first.values()]
        # absent triples are spread over the parts as the triples are
        shuffled = torch.randperm(len(parts), generator=generator).tolist()
        parts += [parts[shuffled[k % len(parts)]] for k in range(absent.shape[1])]
    return DataSet(
        name,
        [completion.whole()],
        Task("classification", ("absent", "present"), at=completion.query),
        splits_of(parts),
        reader=Triples.kind,
        about=(
            f"Your own data: {facts.shape[1]:,} triples of {counts[_ENTITY]:,} entities by"
            f" {counts[_RELATION]:,} relations, and {absent.shape[1]:,} that do not exist."
        ),
        is_transductive=True,
        metric="mrr",
        columns=completion.columns(),
        passed_over=tuple(skipped),
        completion=completion,
    )


def _context(counts: Mapping[str, int]) -> Example:
    """Return the entities, and the relations with a feature each."""
    relations = torch.zeros(counts[_RELATION], 0)
    if counts[_RELATION] <= _MOST_ONE_HOT:
        relations = torch.eye(counts[_RELATION])
    features = {f"h:{_ENTITY}": torch.zeros(counts[_ENTITY], 0), f"r:{_RELATION}": relations}
    return Example(Structure(counts, {}), features)


def _absent(
    facts: Tensor, counts: Mapping[str, int], negatives: int, generator: torch.Generator
) -> Tensor:
    """Draw triples that do not exist, each once: facts with another head or tail, [3, triples]."""
    num_facts, num_entities = facts.shape[1], counts[_ENTITY]
    sizes = [num_entities, counts[_RELATION], num_entities]
    # Twice as many as are wanted, as some exist or are drawn twice.
    drawn = facts.repeat(1, 2 * negatives)
    sides = torch.arange(drawn.shape[1]) % 2 * 2  # heads and tails in turn
    other = torch.randint(num_entities, (drawn.shape[1],), generator=generator)
    drawn[sides, torch.arange(drawn.shape[1])] = other
    codes = code(drawn.unbind(0), sizes)[0]
    rows = distinct(codes).sort().values
    rows = rows[~torch.isin(codes[rows], code(facts.unbind(0), sizes)[0])]
    # Without this, the first facts would have all absent triples.
    rows = rows[torch.randperm(len(rows), generator=generator)]
    return drawn[:, rows[: negatives * num_facts]]
