"""`Completion`: one structure of which some entries are known and others are queried.

An entry is never known and queried at once. What a trained model knows is saved as plain arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Parts, Split
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError
from incidence.structure.collate import pack
from incidence.structure.example import Example
from incidence.structure.storage import (
    arrays_of,
    read_arrays,
    tensor_arrays,
    tensors_from,
    write_arrays,
)
from incidence.structure.structure import Structure

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "FOLDS",
    "KNOWN",
    "QUERY",
    "ROWS",
    "Completion",
    "read_completion",
    "write_completion",
]

KNOWN, QUERY, ROWS = "known", "query", "rows"
"""The names of tensors: entries that are known, entries that are queried, and all entries."""
FOLDS = 10
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Completion(ABC):
    """The rows of a table, each an entry with a target, and the examples made of them.

    Training queries its rows fold by fold, and knows the rows of the other folds: a network never
    sees what it must predict. Validation knows the training rows; testing knows those and the
    validation rows.

    Attributes:
        context: The nodes, and what else is known about them, with features. Features of nodes may
            have no columns.
        rows: The same nodes with one tensor, `rows=...`: an entry for each row, in order.
        values: Features of rows that are known, (rows, channels); there may be no channels.
        target: A row for each: numbers [rows, 1], or classes [rows].
        is_fact: Which rows can be known, (rows,).
        names: The names of the nodes by sort.
        keys: The columns of a table that name the nodes of a row.
        seed: Seed of the folds.
        folds: How many folds there are.
    """

    kind: ClassVar[str]
    """What files and messages call this kind of data."""

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
        """Return a line, however much is known."""
        nodes = ", ".join(f"{len(names):,} of sort {sort}" for sort, names in self.names.items())
        return (
            f"{type(self).__name__}({len(self.target):,} rows of `{self.pattern}`; nodes: {nodes})"
        )

    @property
    def pattern(self) -> str:
        """The pattern of a row."""
        return str(self.rows.resolve(ROWS)).partition("=")[2]

    @property
    def query(self) -> str:
        """The tensor whose entries are queried."""
        return f"{QUERY}={self.pattern}"

    @staticmethod
    def store(structure: Structure, pattern: str, index: object) -> Structure:
        """Return the nodes of a structure with an entry for each row."""
        return Structure(structure.counts, {f"{ROWS}={pattern}": index})

    @abstractmethod
    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """Return the features of nodes, and of known and queried entries, by tensor.

        Features of nodes stand beside those of the context.

        Args:
            structure: A structure with the tensors `known` and `query`.
            known: The rows that are known.
        """

    @property
    @abstractmethod
    def baselines(self) -> Mapping[str, int]:
        """Predictors that need no training: for each, the feature of queried entries that it is."""

    @property
    def ranked(self) -> tuple[str, ...]:
        """The names of the metrics of `rank`, the main one first; none for most kinds."""
        return ()

    @property
    def is_cheap_to_rank(self) -> bool:
        """Whether every evaluation has the metrics of `rank`, and not only where they are named."""
        return False

    def rank(
        self, known: Tensor, rows: Tensor, score: Callable[[Example], Tensor]
    ) -> dict[str, float]:
        """Return how well a scorer ranks rows among all other candidates.

        Args:
            known: The rows that are known.
            rows: The rows to rank.
            score: Returns a score for every queried entry of an example.
        """
        return {}

    def example(self, known: Tensor, query: Tensor) -> Example:
        """Return the example in which some rows are known and some are queried, in their order.

        Args:
            known: Rows that are known, as far as they can be.
            query: Rows that are queried.
        """
        return self.example_of(known, self.rows.select(ROWS, query), self.target[query])

    def example_of(self, known: Tensor, query: Structure, target: Tensor | None = None) -> Example:
        """Return the example in which some rows are known, and entries are queried.

        Args:
            known: Rows that are known, as far as they can be.
            query: The nodes with the queried entries, as `store` returns them; none is known.
            target: A row for each queried entry, if it has targets.
        """
        # Absent links may be listed among rows, but nobody can know them.
        known = known[self.is_fact[known]]
        context = self.context
        index = {
            f"{KNOWN}={self.pattern}": self.rows.select(ROWS, known)[ROWS],
            f"{QUERY}={self.pattern}": query[ROWS],
        }
        structure = context.structure.with_index(index)
        features = context.features
        # Features of one tensor under two spellings would be two features.
        spelling = {context.structure.resolve(key): key for key in features}
        for key, x in self.features(structure, known).items():
            key = spelling.get(structure.resolve(key), key)
            features[key] = torch.cat([features[key], x], dim=1) if key in features else x
        non_empty = {key: x for key, x in features.items() if x.shape[1]}
        return Example(structure, non_empty, None if target is None else {self.query: target})

    def whole(self) -> Example:
        """Return the example in which everything is known and queried: for shapes and targets."""
        every = torch.arange(len(self.target))
        return self.example(every, every)

    def order(self, split: Split) -> Split:
        """Return the rows of every part in the order of its examples."""
        train = torch.cat(self._folds(split.train))
        return Split(train, split.validation.sort().values, split.test.sort().values)

    def _folds(self, rows: Tensor) -> list[Tensor]:
        """Return rows in folds of about one size, each in ascending order."""
        generator = torch.Generator().manual_seed(self.seed)
        # Sorted first: folds depend on which rows there are, not on their order.
        shuffled = rows.sort().values[torch.randperm(len(rows), generator=generator)]
        count = max(1, min(self.folds, len(rows)))
        return [fold.sort().values for fold in shuffled.tensor_split(count)]

    def parts(self, split: Split) -> Parts:
        """Return the examples of every part: one for each fold of training, else one."""
        train, validation, test = self.order(split)
        known_in_test = torch.cat([train, validation])
        return Parts(
            self._folded(split.train) if len(train) else [],
            [self.example(train, validation)] if len(validation) else [],
            [self.example(known_in_test, test)] if len(test) else [],
        )

    def _folded(self, rows: Tensor) -> list[Example]:
        """Return an example for each fold of some rows: it is queried, and the others are known."""
        # Packed, so that one plan serves all folds.
        return pack([self.example(_without(rows, fold), fold) for fold in self._folds(rows)])

    def rest(self, split: Split, query: Tensor) -> Example:
        """Return the example that queries rows of no part."""
        return self.example(torch.cat([split.train, split.validation]), query)

    def baseline(self, example: Example) -> dict[str, Tensor]:
        """Return what each of `baselines` predicts for the queried entries, (entries,)."""
        x = example.features[self.query]
        return {name: x[:, column] for name, column in self.baselines.items()}

    def sorts_of(self, length: int) -> list[str]:
        """Return the sorts of the nodes of an entry of some length."""
        sorts = list(self.rows.resolve(ROWS).sorts.values())
        return [sorts[min(k, len(sorts) - 1)] for k in range(length)]  # open faces have one sort

    def ask(self, entries: Sequence[Sequence[str]]) -> Iterator[tuple[list[list[int]], Example]]:
        """Yield examples that query entries, given by the names of their nodes.

        All facts are known, except for those that are queried: these are queried fold by fold, as
        in training. A name that is not known is a node without any facts.

        Yields:
            For each entry of an example, its places in the list of entries; and the example.
        """
        wider, rows = self._with_entries(entries)
        facts = wider.is_fact.nonzero()[:, 0]
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row, []).append(place)
        query = torch.tensor(sorted(places))
        facts_in_query = query[wider.is_fact[query]]
        folds = [_without(query, facts_in_query)]
        if len(facts_in_query):
            folds += wider._folds(facts_in_query)
        for fold in folds:
            if len(fold):
                example = wider.example(_without(facts, fold), fold)
                yield [places[row] for row in fold.tolist()], example

    def _with_entries(self, entries: Sequence[Sequence[str]]) -> tuple[Self, list[int]]:
        """Return the completion with the nodes and rows of some entries, and their rows."""
        wider = self._with_nodes(self.new_names(entries))
        number = {
            sort: {name: k for k, name in enumerate(names)} for sort, names in wider.names.items()
        }
        nodes = [
            [
                number[sort][name]
                for sort, name in zip(wider.sorts_of(len(entry)), entry, strict=True)
            ]
            for entry in entries
        ]
        # Of a set, the names may come in any order.
        is_set = wider.rows.resolve(ROWS).faces[0].kind.opening in ("{", "[")
        rows: list[int] = wider.rows.locate(ROWS, _index(wider.pattern, nodes)).tolist()
        new: dict[tuple[int, ...], int] = {}
        for place, entry in enumerate(nodes):
            if rows[place] < 0:
                key = tuple(sorted(entry)) if is_set else tuple(entry)
                rows[place] = new.setdefault(key, len(wider.target) + len(new))
        return wider.with_rows(list(new)), rows

    def are_known(self, entries: Sequence[Sequence[str]]) -> list[bool]:
        """Return which entries, given by the names of their nodes, are facts."""
        wider, rows = self._with_entries(entries)
        facts: list[bool] = wider.is_fact[rows].tolist()
        return facts

    def with_facts(self, table: TextTable, entries: Sequence[Sequence[str]]) -> Self:
        """Return the completion with further facts.

        Args:
            table: A table with a row for each.
            entries: The names of the nodes of each row.
        """
        wider, rows = self._with_entries(entries)
        target, is_fact = wider.target.clone(), wider.is_fact.clone()
        target[rows] = self.targets_of(table)
        is_fact[rows] = True
        return replace(wider, target=target, is_fact=is_fact)

    @abstractmethod
    def targets_of(self, table: TextTable) -> Tensor:
        """Return the targets of facts in a table, a row for each."""

    def new_names(self, entries: Sequence[Sequence[str]]) -> dict[str, list[str]]:
        """Return the names in entries that no node has, by sort."""
        known = {sort: set(names) for sort, names in self.names.items()}
        new: dict[str, dict[str, None]] = {sort: {} for sort in self.names}
        for entry in entries:
            for sort, name in zip(self.sorts_of(len(entry)), entry, strict=True):
                if name not in known[sort]:
                    new[sort][name] = None
        return {sort: list(names) for sort, names in new.items()}

    def _with_nodes(self, names: Mapping[str, Sequence[str]]) -> Self:
        """Return the completion with further nodes, whose features are the means of the others."""
        context = self.context.structure
        counts = {sort: n + len(names[sort]) for sort, n in context.counts.items()}
        features = self.context.features
        for key, x in features.items():
            pattern = context.resolve(key)
            if pattern not in context.patterns and pattern.faces:  # the nodes of a sort
                added = names[next(iter(pattern.sorts.values()))]
                # (nodes, channels)
                features[key] = torch.cat([x, x.mean(0, keepdim=True).expand(len(added), -1)])
        wider, rows = (
            Structure(counts, {str(p): s[p] for p in s.patterns}) for s in (context, self.rows)
        )
        all_names = {sort: [*known, *names[sort]] for sort, known in self.names.items()}
        return replace(self, context=Example(wider, features), rows=rows, names=all_names)

    def with_rows(self, nodes: Sequence[Sequence[int]]) -> Self:
        """Return the completion with further rows, whose targets are missing."""
        old, new = self.rows[ROWS], _index(self.pattern, nodes)
        if self.rows.resolve(ROWS).is_open:
            # Row 1 of an open face has the numbers of entries, which go on after the old ones.
            new = torch.stack([new[0], new[1] + len(self.target)])
        count = len(nodes)
        missing = torch.nan if self.target.is_floating_point() else -1
        new_target = self.target.new_full((count, *self.target.shape[1:]), missing)
        return replace(
            self,
            rows=self.store(self.rows, self.pattern, torch.cat([old, new], dim=1)),
            values=torch.cat([self.values, self.values.new_zeros(count, self.values.shape[1])]),
            target=torch.cat([self.target, new_target]),
            is_fact=torch.cat([self.is_fact, self.is_fact.new_zeros(count)]),
        )

    def facts(self) -> Self:
        """Return the completion without rows that cannot be known."""
        rows = self.is_fact.nonzero()[:, 0]
        return replace(
            self,
            rows=self.rows.select(ROWS, rows),
            values=self.values[rows],
            target=self.target[rows],
            is_fact=self.is_fact[rows],
        )


def _index(pattern: str, nodes: Sequence[Sequence[int]]) -> Tensor:
    """Return lists of nodes as an index: [letters, entries], or [2, incidences] of an open face."""
    if Pattern(pattern).is_open:
        pairs = [[node, number] for number, entry in enumerate(nodes) for node in entry]
        return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
    num_letters = len(Pattern(pattern).letters)
    entries = torch.tensor([list(entry) for entry in nodes], dtype=torch.long)
    return entries.view(-1, num_letters).T.contiguous()


def _without(rows: Tensor, others: Tensor) -> Tensor:
    return rows[~torch.isin(rows, others)]


def write_completion(completion: Completion, path: Path) -> None:
    """Write all facts, with what belongs to them, atomically."""
    facts = completion.facts()
    whole = facts.context.structure.with_index({f"{ROWS}={facts.pattern}": facts.rows[ROWS]})
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "kind": np.array(facts.kind),
        "keys": np.array(facts.keys, dtype=str),
        "seed": np.array([facts.seed, facts.folds]),
        **arrays_of(whole),
    }
    for sort, names in facts.names.items():
        # Texts of one width, as arrays of objects would need pickle.
        arrays[f"names/{sort}"] = np.array(list(names), dtype=str)
    tensors = {**facts.context.features, ":values": facts.values, ":target": facts.target}
    for number, (key, x) in enumerate(tensors.items()):
        arrays |= tensor_arrays(f"feature/{number}", key, x)
    write_arrays(path, arrays)


def read_completion(path: Path, kinds: Mapping[str, type[Completion]]) -> Completion:
    """Read what `write_completion` wrote; nothing in the file can execute code.

    Args:
        path: The file.
        kinds: The classes by their `kind`.

    Raises:
        IncidenceError: The file is not there, or damaged.
    """

    def read(arrays: Mapping[str, Any]) -> Completion:
        return _from_arrays(arrays, kinds)

    return read_arrays(path, "what a model of ratings or links knows", _FORMAT, read)


def _from_arrays(arrays: Mapping[str, Any], kinds: Mapping[str, type[Completion]]) -> Completion:
    whole, tensors = Structure._from_arrays(arrays), tensors_from(arrays, "feature")
    values, target = tensors.pop(":values"), tensors.pop(":target")
    names = {
        key.removeprefix("names/"): [str(name) for name in arrays[key]]
        for key in arrays
        if key.startswith("names/")
    }
    num_rows = whole.num_entries(ROWS)
    have_names = {sort: len(one) for sort, one in names.items()} == whole.counts
    if not have_names or not num_rows == len(values) == len(target):
        raise IncidenceError("its names or rows do not add up.")
    others = {str(p): whole[p] for p in whole.patterns if p.name != ROWS}
    seed, folds = arrays["seed"].tolist()
    return kinds[str(arrays["kind"])](
        context=Example(Structure(whole.counts, others), tensors),
        rows=Structure(whole.counts, {str(whole.resolve(ROWS)): whole[ROWS]}),
        values=values,
        target=target,
        is_fact=torch.ones(num_rows, dtype=torch.bool),
        names=names,
        keys=tuple(str(key) for key in arrays["keys"]),
        seed=seed,
        folds=folds,
    )
