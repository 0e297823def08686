"""Ratings from tables: a row for each pair with its number, and further tables with features of either, or with edges between them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.data.building import Asked, splits_of
from incidence.data.columns import as_features, columns_of, find_column
from incidence.data.completion import FOLDS, QUERY, Completion
from incidence.data.dataset import DataSet
from incidence.data.node_tables import IDS, edge_columns
from incidence.data.ratings import Ratings
from incidence.data.readers import as_float
from incidence.data.tables import Table, listed, numbered
from incidence.data.targets import is_missing, is_split, read_parts, read_targets
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "Pairs",
    "are_measured",
    "called_keys",
    "find_keys",
    "find_rating",
    "from_rating_tables",
    "of_nodes",
    "read_pairs",
]

_RATINGS = ("rating", "ratings", "score", "stars", "value", "target", "y")
"""What people call a rating."""
_KEYS = (
    ("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid", "person", "rater"),
    ("item", "itemid", "movie", "movieid", "film", "filmid", "book", "bookid", "isbn", "track", "trackid", "song", "artist", "product",
     "productid", "asin", "business", "iid"),
)  # fmt: skip
"""What people call who rates, and what is rated."""
_LETTERS = "abcdefghklmn"
_OPTIONS = ("keys", "tables", "folds")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def find_rating(table: Table, asked: Sequence[str] = ()) -> str | None:
    """The column of the numbers: the one asked for, or the one that is called so; None if neither is there."""
    if asked:
        return table.named(asked[0])
    found = find_column(table, _RATINGS)
    return found if found is not None and _are_numbers(table[found]) else None


def find_keys(table: Table, rating: str, asked: Sequence[str] = ()) -> tuple[str, ...] | None:
    """The columns that say what a number belongs to: those asked for, those that are called so, or the two that are left.

    A column of numbers that are not whole is none, nor is one that tells the part. None if it is not clear.
    """
    if asked:
        return tuple(table.named(name) for name in asked)
    free = [
        name
        for name in table.columns
        if name != rating and not is_split(name) and not are_measured(table[name])
    ]
    called = called_keys(free)
    if called is not None:
        return called
    is_clear = len(free) == 2 and any(len(set(table[name])) < len(table) for name in free)
    return (free[0], free[1]) if is_clear else None


def _are_numbers(texts: Sequence[str]) -> bool:
    return all(is_missing(text) or as_float(text) is not None for text in texts)


def called_keys(columns: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that are called as people call who rates, and what is rated; None if nothing is."""
    found = [next((name for name in columns if _plain(name) in words), None) for words in _KEYS]
    return None if None in found else tuple(str(name) for name in found)


def are_measured(texts: Sequence[str]) -> bool:
    """Whether texts are numbers that name nothing, as some are not whole."""
    return _are_numbers(texts) and any(
        not is_missing(text) and isfinite(float(text)) and float(text) % 1 for text in texts
    )


def from_rating_tables(table: Table, others: Mapping[str, Table], asked: Asked) -> DataSet:
    """Numbers of pairs, to be completed: some are known and others asked for; parts by a column `split`.

    Raises:
        IncidenceError: It is not clear which columns have the keys and the number, or what another table belongs to.
    """
    unknown = next((key for key in asked.options if key not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(
            f"a table of ratings has no option `{unknown}`: it takes {', '.join(_OPTIONS)}."
        )
    rating, keys = _columns(table, asked)
    if asked.task == "classification":
        raise IncidenceError(
            f"{table.source}: ratings are numbers, so leave out --task; for pairs that are there or not, use --task links."
        )
    found = read_pairs(table, keys, others)
    kept, names = found.table, found.names
    task, target = read_targets(kept.source, {rating: kept[rating]}, "regression")
    completion = Ratings(
        context=found.context, rows=Completion.store(found.context.structure, found.pattern, found.places), values=target[:, :0],
        target=target, is_fact=~target[:, 0].isnan(), names=names, keys=keys, folds=int(asked.options.get("folds", FOLDS)),
    )  # fmt: skip
    own = {
        name: list(texts)
        for name, texts in kept.columns.items()
        if name != rating and not is_split(name)
    }
    counts = " and ".join(
        f"{len(own_names):,} of {key}" for key, own_names in zip(keys, names.values(), strict=True)
    )
    return DataSet(
        asked.name, [completion.whole()], type(task)(task.kind, task.names, at=f"{QUERY}={found.pattern}"), splits_of(read_parts(kept)),
        reader="ratings", about=f"Your own data: {len(kept):,} rows, {counts}.", is_transductive=True, metric="rmse",
        columns={**{key: own.pop(key) for key in keys}, **own}, passed_over=tuple(found.passed_over), completion=completion,
    )  # fmt: skip


class Pairs(NamedTuple):
    """The rows of a table, each about a node of every sort.

    Attributes:
        table: The rows that can be used, by their first key, then the next: the order in which structures are fastest.
        pattern: Of the nodes of a row.
        places: The nodes of every row, shape [letters, rows].
        names: Of the nodes, by sort.
        context: The nodes with what further tables tell about them.
        passed_over: What was left out, and why.
    """

    table: Table
    pattern: str
    places: Tensor
    names: dict[str, list[str]]
    context: Example
    passed_over: list[str]


def read_pairs(table: Table, keys: Sequence[str], others: Mapping[str, Table]) -> Pairs:
    """The rows of a table by the nodes that columns name, each column a sort of its own, with further tables by name.

    Raises:
        IncidenceError: Most rows cannot be used, it is not clear what another table belongs to, or that agrees with none of the nodes.
    """
    kept, passed_over = _once(table, keys)
    sorts = dict(zip(_sorts(keys), keys, strict=True))
    names = {sort: numbered(kept[key]) for sort, key in sorts.items()}
    of_pairs = [
        name for name, other in others.items() if sum(bool(_called(other, key)) for key in keys) > 1
    ]
    passed_over += [
        f"{others[name].source}: it tells about pairs, and neither about {' nor '.join(keys)} alone."
        for name in of_pairs
    ]
    beside = [
        (sort_of(name, other, names, sorts), other)
        for name, other in others.items()
        if name not in of_pairs
    ]
    for (sort, columns), other in beside:
        _tell_unknown(other, columns, names[sort], sorts[sort])
    for (sort, columns), other in beside:
        names[sort] = numbered(
            [*names[sort], *(text for column in columns for text in other[column])]
        )
    index = places(kept, sorts, names)
    order = torch.tensor(_sorted(index), dtype=torch.long)
    pattern = " ".join(f"{letter}:{sort}" for letter, sort in zip(_LETTERS, sorts, strict=False))
    return Pairs(
        kept.only(order.tolist()),
        pattern,
        index[:, order],
        names,
        _context(names, beside),
        passed_over,
    )


def _tell_unknown(table: Table, columns: Sequence[str], names: Sequence[str], key: str) -> None:
    """Refuses a table that tells about none of the nodes, and tells how many it leaves out.

    Raises:
        IncidenceError: Its names are none of those of the rows.
    """
    told = {text for column in columns for text in table[column]}
    lacking = [name for name in names if name not in told]
    if names and len(lacking) == len(names):
        raise IncidenceError(
            f"{table.source}: none of its rows is about a `{key}` of the other table, which has {names[0]!r}, and this one {min(told)!r}: "
            f"names must be the same in both."
        )
    if lacking and len(columns) == 1:
        warnings.warn(
            f"{table.source}: {len(lacking)} of {len(names)} of `{key}` have no row, as {lacking[0]!r}; they get the mean of the others.",
            stacklevel=2,
        )


def _columns(table: Table, asked: Asked) -> tuple[str, tuple[str, ...]]:
    given = asked.options.get("keys") or ()
    wanted = [given] if isinstance(given, str) else list(given)
    rating = find_rating(table, asked.target)
    if rating is None or len(asked.target) > 1:
        raise IncidenceError(
            f"{table.source}: which of {listed(table.columns)} has the number to predict is not clear: say --target."
        )
    keys = find_keys(table, rating, wanted)
    if keys is None or len(keys) < 2 or rating in keys or len(set(keys)) < len(keys):
        raise IncidenceError(
            f"{table.source}: which columns of {listed(table.columns)} name what a number of `{rating}` belongs to is not clear: say two, "
            f"as in --keys user movie."
        )
    return rating, keys


def _once(table: Table, keys: Sequence[str]) -> tuple[Table, list[str]]:
    """The rows without those that lack a key or come again, and what is wrong with these."""
    first: dict[tuple[str, ...], int] = {}
    wrong = []
    for row, pair in enumerate(zip(*(table[key] for key in keys), strict=True)):
        lacking = next((key for key, text in zip(keys, pair, strict=True) if not text), None)
        if lacking is not None or first.setdefault(pair, row) != row:
            why = (
                f"has no `{lacking}`"
                if lacking
                else f"is there already, in {table.places[first[pair]]}"
            )
            wrong.append(f"{table.source}, {table.places[row]}: the row {why}.")
    if len(wrong) > len(first):
        raise IncidenceError(
            f"{len(wrong)} of {len(table)} rows cannot be used, so columns are hardly what they seem. {wrong[0]}"
        )
    return table.only(sorted(first.values())), wrong


def _sorts(keys: Sequence[str]) -> list[str]:
    """A sort for each column, which must be an identifier."""
    names = [re.sub(r"\W", "_", key.strip(), flags=re.ASCII) for key in keys]
    good = [re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.strip("_") for name in names]
    return [
        name if ok and names.index(name) == k else f"key{k + 1}"
        for k, (name, ok) in enumerate(zip(names, good, strict=True))
    ]


def places(table: Table, sorts: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> Tensor:
    """The nodes of every row, shape [letters, rows]."""
    found = []
    for sort, key in sorts.items():
        number = {name: k for k, name in enumerate(names[sort])}
        found.append([number[text] for text in table[key]])
    return torch.tensor(found, dtype=torch.long)


def _sorted(index: Tensor) -> list[int]:
    """Rows by their first key, then the next: the order in which structures are fastest."""
    rows: list[list[int]] = index.T.tolist()
    return sorted(range(len(rows)), key=rows.__getitem__)


def _called(table: Table, key: str) -> list[str]:
    """The columns that are called after a key: `user`, `user_id`, `user1`, ..."""
    meant = _plain(key).removesuffix("id")
    return [
        column
        for column in table.columns
        if _plain(column).rstrip("0123456789ab").removesuffix("id") == meant
    ]


def sort_of(
    name: str, table: Table, names: Mapping[str, Sequence[str]], sorts: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """What a further table belongs to: a sort, and the column that names its nodes, or the two that do if it has edges.

    By the names of its columns, then by its own name, then by what is in it.

    Raises:
        IncidenceError: It is not clear.
    """
    ids = find_column(table, IDS, 0)
    ends = edge_columns(table)
    for sort, key in sorts.items():
        called = _called(table, key)
        if len(called) == 1:
            return sort, (called[0],)
        if len(called) == 2:
            return sort, (called[0], called[1])
    of_name = [
        sort for sort, key in sorts.items() if _plain(key).removesuffix("id") in _plain(name)
    ]
    known = {sort: set(names[sort]) for sort in of_name or sorts}
    fits = [
        sort
        for sort, own in known.items()
        if ids is not None and 2 * sum(text in own for text in table[ids]) >= len(table)
    ]
    if len(fits) == 1 and ids is not None:
        is_graph = ends is not None or (
            len(table.columns) == 2 and len(set(table[ids])) < len(table)
        )
        return fits[0], (ends or tuple(list(table.columns)[:2])) if is_graph else (ids,)
    raise IncidenceError(
        f"{table.source}: what the table tells about is not clear: name a column as the ratings do ({', '.join(sorts.values())}); it has "
        f"{listed(table.columns)}."
    )


def _context(
    names: Mapping[str, Sequence[str]], beside: Sequence[tuple[tuple[str, tuple[str, ...]], Table]]
) -> Example:
    """Nodes with the features that tables give, and edges that tables have."""
    index: dict[str, Tensor] = {}
    letters, others = (
        dict(zip(names, _LETTERS, strict=False)),
        dict(zip(names, _LETTERS[len(names) :], strict=False)),
    )
    features = {
        f"{letters[sort]}:{sort}": torch.zeros(len(found), 0) for sort, found in names.items()
    }
    for (sort, columns), table in beside:
        if len(columns) == 1:
            key = f"{letters[sort]}:{sort}"
            features[key] = torch.cat(
                [features[key], of_nodes(table, columns[0], names[sort])], dim=1
            )
        else:
            text = f"{{{letters[sort]}:{sort} {others[sort]}:{sort}}}"
            if text in index:
                raise IncidenceError(
                    f"{table.source}: there is another table of edges between `{sort}` already: join them."
                )
            index[text] = _edges(table, columns, names[sort])
            features[text] = torch.ones(index[text].shape[1], 1)
    counts = {sort: len(found) for sort, found in names.items()}
    return Example(Structure(counts, index), features)


def of_nodes(table: Table, key: str, names: Sequence[str]) -> Tensor:
    """The features of nodes, [nodes, channels]; those that have no row get the mean of the others."""
    row: dict[str, int] = {}
    again = next((k for k, name in enumerate(table[key]) if row.setdefault(name, k) != k), None)
    if again is not None:
        raise IncidenceError(
            f"{table.source}, {table.places[again]}: `{key}` {table[key][again]!r} has a row already."
        )
    x = as_features(
        table,
        columns_of(table, [name for name in table.columns if name != key and not is_split(name)]),
    )
    made = x.mean(0, keepdim=True).repeat(len(names), 1)
    known = [k for k, name in enumerate(names) if name in row]
    made[known] = x[[row[names[k]] for k in known]]
    return made


def _edges(table: Table, columns: Sequence[str], names: Sequence[str]) -> Tensor:
    """Edges between nodes of one sort, each once and without loops, [2, edges]."""
    number = {name: k for k, name in enumerate(names)}
    ends = zip(*([number[text] for text in table[column]] for column in columns), strict=True)
    pairs = sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
