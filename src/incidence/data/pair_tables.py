"""Tables with a row for each pair of nodes of two sorts: ratings, or links between two sorts.

Further tables may have features of the nodes, or edges between nodes of one sort.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.data.columns import find_column, is_missing, is_split, read_parts, read_targets
from incidence.data.completion import FOLDS, QUERY, Completion
from incidence.data.dataset import DataSet
from incidence.data.dataset_builder import DataRequest
from incidence.data.feature_columns import as_features, columns_of
from incidence.data.node_tables import IDS, edge_columns
from incidence.data.ratings import Ratings
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable, as_float, listed, sorted_names
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "PairTable",
    "are_measured",
    "features_of_nodes",
    "find_keys",
    "find_rating",
    "from_rating_tables",
    "read_pairs",
    "usual_keys",
]

_RATING_COLUMNS = ("rating", "ratings", "score", "stars", "value", "target", "y")
_KEY_COLUMNS = (
    "user userid uid customer customerid reviewer reviewerid person rater",
    "item itemid movie movieid film filmid book bookid isbn track trackid song artist product"
    " productid asin business iid",
)
"""What people call the columns of who rates, and of what is rated."""
_LETTERS = "abcdefghklmn"
_OPTIONS = ("keys", "tables", "folds")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def find_rating(table: TextTable, targets: Sequence[str] = ()) -> str | None:
    """Return the column of the numbers: the given one, or one with a usual name, or None."""
    if targets:
        return table.named(targets[0])
    column = find_column(table, _RATING_COLUMNS)
    return column if column is not None and _are_numbers(table[column]) else None


def find_keys(table: TextTable, rating: str, keys: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Return the columns that name the nodes of a row: the given ones, usual ones, or the two left.

    Columns of numbers that are not whole, and columns that define parts, are left out. None if it
    is not clear.

    Args:
        table: The table.
        rating: The column of the numbers.
        keys: The given columns, if any.
    """
    if keys:
        return tuple(table.named(name) for name in keys)
    free = [
        name
        for name in table.columns
        if name != rating and not is_split(name) and not are_measured(table[name])
    ]
    usual = usual_keys(free)
    if usual is not None:
        return usual
    # A column that differs in every row names rows, and two such columns are no pairs.
    is_clear = len(free) == 2 and any(len(set(table[name])) < len(table) for name in free)
    return (free[0], free[1]) if is_clear else None


def _are_numbers(texts: Sequence[str]) -> bool:
    return all(is_missing(text) or as_float(text) is not None for text in texts)


def usual_keys(columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns with usual names for who rates, and for what is rated, or None."""
    keys = []
    for usual in _KEY_COLUMNS:
        column = next((name for name in columns if _plain(name) in usual.split()), None)
        if column is None:
            return None
        keys.append(column)
    return tuple(keys)


def are_measured(texts: Sequence[str]) -> bool:
    """Return whether texts are numbers that cannot be names, as some are not whole."""
    if not _are_numbers(texts):
        return False
    numbers = [float(text) for text in texts if not is_missing(text)]
    # 3.0 may be a name that a spreadsheet has written as a number; 3.5 is none.
    return any(isfinite(number) and number % 1 for number in numbers)


def from_rating_tables(
    table: TextTable, others: Mapping[str, TextTable], request: DataRequest
) -> DataSet:
    """Return the data set of a table of ratings; a column `split` defines the parts.

    Args:
        table: The table of ratings.
        others: Further tables by name.
        request: The options of the user.

    Raises:
        IncidenceError: It is not clear which columns have the keys and the number, or what another
            table belongs to.
    """
    unknown = next((name for name in request.options if name not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(
            f"a table of ratings has no option `{unknown}`: it takes {', '.join(_OPTIONS)}."
        )
    rating, keys = _rating_and_keys(table, request)
    if request.task == "classification":
        raise IncidenceError(
            f"{table.source}: ratings are numbers, so leave out --task. To predict which pairs"
            " exist, use `--task links`."
        )
    pairs = read_pairs(table, keys, others)
    rows, names = pairs.table, pairs.names
    task, target = read_targets(rows.source, {rating: rows[rating]}, "regression")
    completion = Ratings(
        context=pairs.context,
        rows=Completion.store(pairs.context.structure, pairs.pattern, pairs.places),
        values=target[:, :0],  # the rating is the target: no feature may tell it
        target=target,
        is_fact=~target[:, 0].isnan(),  # a rating that is missing cannot be known
        names=names,
        keys=keys,
        folds=int(request.options.get("folds", FOLDS)),
    )
    columns = {key: list(rows[key]) for key in keys}
    for name, texts in rows.columns.items():
        if name not in (rating, *keys) and not is_split(name):
            columns[name] = list(texts)
    counts = zip(keys, names.values(), strict=True)
    sizes = " and ".join(f"{len(nodes):,} of {key}" for key, nodes in counts)
    return DataSet(
        request.name,
        [completion.whole()],
        replace(task, at=f"{QUERY}={pairs.pattern}"),
        splits_of(read_parts(rows)),
        reader=Ratings.kind,
        about=f"Your own data: {len(rows):,} rows, {sizes}.",
        is_transductive=True,
        metric="rmse",
        columns=columns,
        passed_over=tuple(pairs.skipped),
        completion=completion,
    )


def _rating_and_keys(table: TextTable, request: DataRequest) -> tuple[str, tuple[str, ...]]:
    given = request.options.get("keys") or ()
    keys = [given] if isinstance(given, str) else list(given)
    rating = find_rating(table, request.targets)
    if rating is None or len(request.targets) > 1:
        raise IncidenceError(
            f"{table.source}: which of {listed(table.columns)} has the number to predict is not"
            " clear: say --target."
        )
    found = find_keys(table, rating, keys)
    if found is None or len(found) < 2 or len({rating, *found}) <= len(found):
        raise IncidenceError(
            f"{table.source}: which columns of {listed(table.columns)} name what a number of"
            f" `{rating}` belongs to is not clear: say two, as in `--keys user movie`."
        )
    return rating, found


class PairTable(NamedTuple):
    """The rows of a table, each about a node of every sort.

    Attributes:
        table: The rows that can be used, sorted by their nodes: structures are fastest so.
        pattern: The pattern of the nodes of a row.
        places: The nodes of every row, [letters, rows].
        names: The names of the nodes by sort.
        context: The nodes with the features and edges of further tables.
        skipped: Why rows were skipped, a message for each.
    """

    table: TextTable
    pattern: str
    places: Tensor
    names: dict[str, list[str]]
    context: Example
    skipped: list[str]


def read_pairs(table: TextTable, keys: Sequence[str], others: Mapping[str, TextTable]) -> PairTable:
    """Read the rows of a table, whose keys name nodes of a sort each, and further tables.

    Args:
        table: The table.
        keys: The columns that name the nodes.
        others: Further tables by name.

    Raises:
        IncidenceError: Most rows cannot be used, it is not clear what another table belongs to, or
            that table has none of the nodes.
    """
    rows, skipped = _without_repetition(table, keys)
    sorts = dict(zip(_sorts(keys), keys, strict=True))
    names = {sort: sorted_names(rows[key]) for sort, key in sorts.items()}
    beside: list[_Beside] = []
    for name, other in others.items():
        if sum(bool(_columns_named_after(other, key)) for key in keys) > 1:
            skipped.append(
                f"{other.source}: it is about pairs, and neither about {' nor '.join(keys)} alone."
            )
        else:
            beside.append(_Beside(other, *_sort_of(name, other, names, sorts)))
    for other, sort, columns in beside:
        _assert_related(other, columns, names[sort], sorts[sort])
    for other, sort, columns in beside:
        added = [text for column in columns for text in other[column]]
        names[sort] = sorted_names([*names[sort], *added])
    places = _places(rows, sorts, names)
    # structures are fastest in order
    order = torch.tensor(_order_by_nodes(places), dtype=torch.long)
    pattern = " ".join(f"{letter}:{sort}" for letter, sort in zip(_LETTERS, sorts, strict=False))
    return PairTable(
        rows.only(order.tolist()),
        pattern,
        places[:, order],
        names,
        _context(names, beside),
        skipped,
    )


class _Beside(NamedTuple):
    """A further table: one column names nodes that it has features of, or two the ends of edges."""

    table: TextTable
    sort: str
    columns: tuple[str, ...]


def _assert_related(
    table: TextTable, columns: Sequence[str], names: Sequence[str], key: str
) -> None:
    """Refuse a table that has none of the nodes, and warn if it lacks some.

    Raises:
        IncidenceError: It has none of the nodes.
    """
    theirs = {text for column in columns for text in table[column]}
    lacking = [name for name in names if name not in theirs]
    if names and len(lacking) == len(names):
        raise IncidenceError(
            f"{table.source}: none of its rows is about a `{key}` of the other table, which has"
            f" {names[0]!r}, and this one {min(theirs)!r}: names must be the same in both."
        )
    if lacking and len(columns) == 1:
        warnings.warn(
            f"{table.source}: {len(lacking)} of {len(names)} of `{key}` have no row, as"
            f" {lacking[0]!r}; they get the mean of the others.",
            stacklevel=2,
        )


def _without_repetition(table: TextTable, keys: Sequence[str]) -> tuple[TextTable, list[str]]:
    """Return the rows that have all keys and come first, and why others are skipped."""
    first: dict[tuple[str, ...], int] = {}
    skipped = []
    for row, pair in enumerate(zip(*(table[key] for key in keys), strict=True)):
        problem = ""
        if "" in pair:
            problem = f"has no `{keys[pair.index('')]}`"
        elif first.setdefault(pair, row) != row:
            problem = f"is there already, in {table.places[first[pair]]}"
        if problem:
            skipped.append(f"{table.source}, {table.places[row]}: the row {problem}.")
    if len(skipped) > len(first):
        raise IncidenceError(
            f"{len(skipped)} of {len(table)} rows cannot be used, so columns are hardly what they"
            f" seem. {skipped[0]}"
        )
    return table.only(sorted(first.values())), skipped


def _sorts(keys: Sequence[str]) -> list[str]:
    """Return a sort for each key, which must be an identifier."""
    sorts: list[str] = []
    for number, key in enumerate(keys, 1):
        name = re.sub(r"\W", "_", key.strip(), flags=re.ASCII)
        is_identifier = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.strip("_")
        sorts.append(name if is_identifier and name not in sorts else f"key{number}")
    return sorts


def _places(
    table: TextTable, sorts: Mapping[str, str], names: Mapping[str, Sequence[str]]
) -> Tensor:
    """Return the nodes of every row, [letters, rows]."""
    places = []
    for sort, key in sorts.items():
        number = {name: k for k, name in enumerate(names[sort])}
        places.append([number[text] for text in table[key]])
    return torch.tensor(places, dtype=torch.long)


def _order_by_nodes(places: Tensor) -> list[int]:
    rows: list[list[int]] = places.T.tolist()
    return sorted(range(len(rows)), key=rows.__getitem__)


def _columns_named_after(table: TextTable, key: str) -> list[str]:
    """Return the columns that are called after a key: `user`, `user_id`, `user1`, ..."""
    stem = _plain(key).removesuffix("id")
    return [
        column
        for column in table.columns
        if _plain(column).rstrip("0123456789ab").removesuffix("id") == stem
    ]


def _sort_of(
    name: str, table: TextTable, names: Mapping[str, Sequence[str]], sorts: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Return the sort that a further table belongs to, and its column of nodes, or two of edges.

    The names of its columns decide, then its name, then what is in it.

    Raises:
        IncidenceError: It is not clear.
    """
    for sort, key in sorts.items():
        columns = _columns_named_after(table, key)
        if len(columns) in (1, 2):
            return sort, tuple(columns)
    by_name = [
        sort for sort, key in sorts.items() if _plain(key).removesuffix("id") in _plain(name)
    ]
    ids = find_column(table, IDS, 0)
    candidates = []
    for sort in by_name or sorts:
        known = set(names[sort])
        # Half is enough: a table of all movies lists many that nobody has rated.
        if ids is not None and 2 * sum(text in known for text in table[ids]) >= len(table):
            candidates.append(sort)
    if len(candidates) != 1 or ids is None:
        raise IncidenceError(
            f"{table.source}: it is not clear which nodes the table is about: name a column as the"
            f" ratings do ({', '.join(sorts.values())}); it has {listed(table.columns)}."
        )
    [sort] = candidates
    ends = edge_columns(table)
    if ends is None and len(table.columns) == 2 and len(set(table[ids])) < len(table):
        first, second = table.columns
        ends = (first, second)
    return sort, ends or (ids,)


def _context(names: Mapping[str, Sequence[str]], beside: Sequence[_Beside]) -> Example:
    """Return the nodes with the features of further tables, and with their edges."""
    letters = dict(zip(names, _LETTERS, strict=False))
    second_letters = dict(zip(names, _LETTERS[len(names) :], strict=False))
    index: dict[str, Tensor] = {}
    features = {
        f"{letters[sort]}:{sort}": torch.zeros(len(nodes), 0) for sort, nodes in names.items()
    }
    for table, sort, columns in beside:
        nodes = f"{letters[sort]}:{sort}"
        if len(columns) == 1:
            x = features_of_nodes(table, columns[0], names[sort])
            features[nodes] = torch.cat([features[nodes], x], dim=1)
            continue
        edges = f"{{{nodes} {second_letters[sort]}:{sort}}}"
        if edges in index:
            raise IncidenceError(
                f"{table.source}: there is another table of edges between `{sort}` already: join"
                " them."
            )
        index[edges] = _edges(table, columns, names[sort])
        features[edges] = torch.ones(index[edges].shape[1], 1)
    counts = {sort: len(nodes) for sort, nodes in names.items()}
    return Example(Structure(counts, index), features)


def features_of_nodes(table: TextTable, key: str, names: Sequence[str]) -> Tensor:
    """Return the features of nodes, [nodes, channels]; the mean for nodes without a row.

    Args:
        table: A table with a row for each node.
        key: The column with the names of the nodes.
        names: The names of all nodes.

    Raises:
        IncidenceError: A node has two rows.
    """
    row: dict[str, int] = {}
    for number, name in enumerate(table[key]):
        if row.setdefault(name, number) != number:
            raise IncidenceError(
                f"{table.source}, {table.places[number]}: `{key}` {name!r} has a row already."
            )
    columns = [name for name in table.columns if name != key and not is_split(name)]
    x = as_features(table, columns_of(table, columns))
    features = x.mean(0, keepdim=True).repeat(len(names), 1)
    known = [k for k, name in enumerate(names) if name in row]
    features[known] = x[[row[names[k]] for k in known]]
    return features


def _edges(table: TextTable, columns: Sequence[str], names: Sequence[str]) -> Tensor:
    """Return edges between nodes of one sort, each once and without loops, [2, edges]."""
    number = {name: k for k, name in enumerate(names)}
    ends = zip(*([number[text] for text in table[column]] for column in columns), strict=True)
    pairs = sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
