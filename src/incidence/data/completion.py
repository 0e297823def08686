"""`Completion`: one structure of which some entries are known and others are asked for, and never the same at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Parts, Split
from incidence.structure.example import Example
from incidence.structure.examples import pack
from incidence.structure.structure import Structure

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FOLDS", "KNOWN", "QUERY", "ROWS", "Completion", "without"]

KNOWN, QUERY, ROWS = "known", "query", "rows"
"""The names of the tensors: entries that are known, entries that are asked for; and of the store of all rows."""
FOLDS = 10


@dataclass(frozen=True, kw_only=True)
class Completion(ABC):
    """The rows of a table, each an entry over nodes with a target, and all examples in which some are known and others asked for.

    Training asks for a fold of its rows after the other, and knows the others: what is asked for is never among what is seen. Validation
    knows the training rows, testing those and the validation rows.

    Attributes:
        context: The nodes, and what else is known about them, with features; those of the nodes may have no columns.
        rows: The same nodes with one tensor, `rows=...`: an entry for each row, in their order.
        values: What else is told about rows that are known, shape (rows, channels); there may be no channels.
        target: A row for each: numbers [rows, 1], or classes [rows].
        is_fact: Which rows can be known, shape (rows,).
        names: Of the nodes, by sort.
        keys: What the columns of a table are called that have the nodes of a row.
        seed: Of the folds.
        folds: How many.
    """

    context: Example
    rows: Structure
    values: Tensor
    target: Tensor
    is_fact: Tensor
    names: Mapping[str, Sequence[str]]
    keys: tuple[str, ...]
    seed: int = 0
    folds: int = FOLDS

    def __repr__(self) -> str:
        """A line, however much is known."""
        nodes = ", ".join(f"{len(own):,} of sort {sort}" for sort, own in self.names.items())
        return (
            f"{type(self).__name__}({len(self.target):,} rows of `{self.pattern}`; nodes: {nodes})"
        )

    @property
    def pattern(self) -> str:
        """The pattern of a row."""
        return str(self.rows.resolve(ROWS)).partition("=")[2]

    @property
    def query(self) -> str:
        """The tensor whose entries are asked for."""
        return f"{QUERY}={self.pattern}"

    @staticmethod
    def store(structure: Structure, pattern: str, index: object) -> Structure:
        """The nodes of a structure with an entry for each row."""
        return Structure(structure.counts, {f"{ROWS}={pattern}": index})

    @abstractmethod
    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """The features of nodes, known and asked entries, by tensor; those of nodes stand beside what the context has.

        Args:
            structure: With the tensors `known` and `query`.
            known: The rows that are known.
        """

    @property
    @abstractmethod
    def baselines(self) -> Mapping[str, int]:
        """Predictors that learn nothing, by what they are called: which feature of asked entries has what they say."""

    def example(self, known: Tensor, asked: Tensor) -> Example:
        """What a network sees that knows some rows and is asked for others, in their order; facts alone are known."""
        known = known[self.is_fact[known]]
        pattern, context = self.pattern, self.context
        index = {
            name: self.rows.select(ROWS, rows)[ROWS]
            for name, rows in ((KNOWN, known), (QUERY, asked))
        }
        structure = context.structure.with_index(
            {f"{name}={pattern}": own for name, own in index.items()}
        )
        features, spelt = (
            context.features,
            {context.structure.resolve(key): key for key in context.features},
        )
        for key, x in self.features(structure, known).items():
            own = spelt.get(structure.resolve(key), key)
            features[own] = torch.cat([features[own], x], dim=1) if own in features else x
        return Example(
            structure,
            {key: x for key, x in features.items() if x.shape[1]},
            {self.query: self.target[asked]},
        )

    def whole(self) -> Example:
        """The example in which everything is known and everything asked for: good for shapes and targets, and not to learn from."""
        every = torch.arange(len(self.target))
        return self.example(every, every)

    def order(self, split: Split) -> Split:
        """The rows of every part as its examples have them."""
        return Split(
            torch.cat(self._folds(split.train)), *(part.sort().values for part in split[1:])
        )

    def _folds(self, rows: Tensor) -> list[Tensor]:
        """Rows in folds of about one size, each in ascending order."""
        drawn = rows.sort().values[
            torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.seed))
        ]
        return [
            fold.sort().values for fold in drawn.tensor_split(max(1, min(self.folds, len(rows))))
        ]

    def parts(self, split: Split) -> Parts:
        """The examples of every part: a fold each for training, one for validation and one for testing, if there are such parts."""
        train, validation, test = self.order(split)
        told = torch.cat([train, validation])
        return Parts(
            self.folded(split.train, split.train) if len(train) else [],
            [self.example(train, validation)] if len(validation) else [],
            [self.example(told, test)] if len(test) else [],
        )

    def folded(self, asked: Tensor, known: Tensor) -> list[Example]:
        """Rows asked for fold by fold, each with what else is known."""
        return pack([self.example(without(known, fold), fold) for fold in self._folds(asked)])

    def rest(self, split: Split, asked: Tensor) -> Example:
        """Rows that belong to no part."""
        return self.example(torch.cat([split.train, split.validation]), asked)

    def baseline(self, example: Example) -> dict[str, Tensor]:
        """What predictors say that learn nothing, by what they are called; shape (asked entries,)."""
        x = example.features[self.query]
        return {name: x[:, column] for name, column in self.baselines.items()}

    def sorts_of(self, length: int) -> list[str]:
        """The sorts of the nodes of an entry; an open face has any number of one sort."""
        sorts = list(self.rows.resolve(ROWS).sorts.values())
        return [sorts[min(k, len(sorts) - 1)] for k in range(length)]

    def ask(self, entries: Sequence[Sequence[str]]) -> Iterator[tuple[list[list[int]], Example]]:
        """Examples that ask for entries by the names of their nodes, each with the places of every entry that it asks for.

        All facts are known, but for those that are asked for: these are asked fold by fold, as in training. A name that is not known is a
        node about which nothing is known.
        """
        one, rows = self._with_entries(entries)
        facts, asked = one.is_fact.nonzero()[:, 0], torch.tensor(sorted(set(rows)))
        at: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            at.setdefault(row, []).append(place)
        among = asked[one.is_fact[asked]]
        for fold in [without(asked, among), *(one._folds(among) if len(among) else [])]:
            if len(fold):
                yield [at[row] for row in fold.tolist()], one.example(without(facts, fold), fold)

    def _with_entries(self, entries: Sequence[Sequence[str]]) -> tuple[Self, list[int]]:
        """The same with all nodes and rows that entries have, and the row of each."""
        one = self._with_nodes(self.new_names(entries))
        number = {sort: {name: k for k, name in enumerate(own)} for sort, own in one.names.items()}
        nodes = [
            [number[sort][name] for sort, name in zip(one.sorts_of(len(entry)), entry, strict=True)]
            for entry in entries
        ]
        is_set = one.rows.resolve(ROWS).faces[0].kind.opening in ("{", "[")
        rows, new = (
            one.rows.locate(ROWS, _index(one.pattern, nodes)).tolist(),
            dict[tuple[int, ...], int](),
        )
        for k, entry in enumerate(nodes):
            if rows[k] < 0:
                rows[k] = new.setdefault(
                    tuple(sorted(entry) if is_set else entry), len(one.target) + len(new)
                )
        return one.with_rows(list(new)), rows

    def new_names(self, entries: Sequence[Sequence[str]]) -> dict[str, list[str]]:
        """The names in entries that no node has, by sort."""
        known, found = (
            {sort: set(own) for sort, own in self.names.items()},
            {sort: dict[str, None]() for sort in self.names},
        )
        for entry in entries:
            for sort, name in zip(self.sorts_of(len(entry)), entry, strict=True):
                if name not in known[sort]:
                    found[sort][name] = None
        return {sort: list(own) for sort, own in found.items()}

    def _with_nodes(self, names: Mapping[str, Sequence[str]]) -> Self:
        """The same with further nodes, about which nothing is known: their features are the means of the others."""
        context, counts = (
            self.context.structure,
            {sort: n + len(names[sort]) for sort, n in self.context.structure.counts.items()},
        )
        features = self.context.features
        for key, x in features.items():
            pattern = context.resolve(key)
            if pattern not in context.patterns and pattern.faces:  # the nodes of a sort
                added = names[next(iter(pattern.sorts.values()))]
                features[key] = torch.cat([x, x.mean(0, keepdim=True).expand(len(added), -1)])
        wider, rows = (
            Structure(counts, {str(p): s[p] for p in s.patterns}) for s in (context, self.rows)
        )
        return replace(
            self,
            context=Example(wider, features),
            rows=rows,
            names={sort: [*own, *names[sort]] for sort, own in self.names.items()},
        )

    def with_rows(self, nodes: Sequence[Sequence[int]]) -> Self:
        """The same with further rows, of which nothing is known."""
        old, new = self.rows[ROWS], _index(self.pattern, nodes)
        if self.rows.resolve(ROWS).is_open:
            new = torch.stack([new[0], new[1] + len(self.target)])
        missing = torch.nan if self.target.is_floating_point() else -1
        count = len(nodes)
        return replace(
            self,
            rows=self.store(self.rows, self.pattern, torch.cat([old, new], dim=1)),
            values=torch.cat([self.values, self.values.new_zeros(count, self.values.shape[1])]),
            target=torch.cat(
                [self.target, self.target.new_full((count, *self.target.shape[1:]), missing)]
            ),
            is_fact=torch.cat([self.is_fact, self.is_fact.new_zeros(count)]),
        )

    def facts(self) -> Self:
        """The same without rows that cannot be known."""
        kept = self.is_fact.nonzero()[:, 0]
        rows = self.rows.select(ROWS, kept)
        return replace(
            self,
            rows=rows,
            values=self.values[kept],
            target=self.target[kept],
            is_fact=self.is_fact[kept],
        )


def _index(pattern: str, nodes: Sequence[Sequence[int]]) -> Tensor:
    """Lists of nodes as the index of a pattern: [letters, entries], or of a lone open face [2, incidences]."""
    if Pattern(pattern).is_open:
        pairs = [[node, number] for number, entry in enumerate(nodes) for node in entry]
        return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
    return (
        torch.tensor([list(entry) for entry in nodes], dtype=torch.long)
        .view(-1, len(Pattern(pattern).letters))
        .T.contiguous()
    )


def without(rows: Tensor, others: Tensor) -> Tensor:
    """Rows that are none of some others."""
    return rows[~torch.isin(rows, others)]
