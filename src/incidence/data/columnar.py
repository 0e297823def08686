"""Parquet and Arrow files as columns of values, by pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.files import regular_file
from incidence.limits import assert_size

__all__ = ["COLUMNAR", "columnar_bytes", "columnar_pieces", "is_columnar", "read_columnar"]

COLUMNAR = (".parquet", ".pq", ".arrow", ".feather")
"""The suffixes of files with columns of values."""
_PER_CELL = 60  # bytes that a cell takes as a Python object
_PER_PACKED_CELL = 12  # bytes that a short text takes in one row of bytes
_TOGETHER = 4096  # rows that are read at once


def is_columnar(path: Path) -> bool:
    """Return whether the name of a file is that of Parquet or Arrow."""
    return path.name.lower().endswith(COLUMNAR)


def read_columnar(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a Parquet or Arrow file, with None for missing values.

    Raises:
        IncidenceError: The file is damaged, or has columns of lists or structs.
        TooLargeError: It has more cells than memory allows.
    """
    columns: dict[str, list[Any]] = {}
    for piece in columnar_pieces(path):
        for name, values in piece.items():
            columns.setdefault(name, []).extend(values)
    return columns


def columnar_pieces(path: Path, is_whole: bool = True) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of a Parquet or Arrow file, some rows at a time; at least one piece.

    Args:
        path: The file.
        is_whole: Whether all values will be in memory together.

    Raises:
        IncidenceError: The file is damaged, or has columns of lists or structs.
        TooLargeError: It has more cells than memory allows.
    """
    # A pipe or a device would make the reader wait for ever.
    regular_file(path, "a table")
    arrow = need("pyarrow", "reading Parquet and Arrow files", "parquet")
    read = _parquet if path.suffix.lower() in (".parquet", ".pq") else _arrow
    try:
        schema, pieces = read(path, _PER_CELL if is_whole else _PER_PACKED_CELL)
        nested = [field.name for field in schema if arrow.types.is_nested(field.type)]
        if not nested:
            yield {name: [] for name in schema.names}
            for piece in pieces:
                yield dict(zip(schema.names, (one.to_pylist() for one in piece), strict=True))
            return
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IncidenceError(
            f"{path} cannot be read as Parquet or Arrow ({' '.join(str(error).split())}): get the"
            " file again, or save the table as CSV."
        ) from None
    raise IncidenceError(
        f"{path}: the column `{nested[0]}` has lists or structs, and a cell is one value. Leave it"
        " out, or make a column of each value."
    )


def columnar_bytes(columns: Mapping[str, Sequence[Any]], suffix: str) -> bytes:
    """Return the content of a Parquet or Arrow file with some columns.

    Args:
        columns: The values of every column.
        suffix: The suffix of the file, which says the format.
    """
    arrow = need("pyarrow", "writing Parquet and Arrow files", "parquet")
    table, buffer = arrow.table(dict(columns)), io.BytesIO()
    if suffix in (".parquet", ".pq"):
        need("pyarrow.parquet", "writing Parquet files", "parquet").write_table(table, buffer)
    else:
        need("pyarrow.feather", "writing Arrow files", "parquet").write_feather(table, buffer)
    return buffer.getvalue()


def _parquet(path: Path, per_cell: int) -> tuple[Any, Iterable[Any]]:
    parquet = need("pyarrow.parquet", "reading Parquet files", "parquet")
    # The metadata is read first: a small file can unpack to any size.
    about = parquet.read_metadata(path)
    assert_size(about.num_rows * about.num_columns * per_cell, f"{path}, unpacked,")
    file = parquet.ParquetFile(path)
    return file.schema_arrow, file.iter_batches(_TOGETHER)


def _arrow(path: Path, per_cell: int) -> tuple[Any, Iterable[Any]]:
    feather = need("pyarrow.feather", "reading Arrow files", "parquet")
    table = feather.read_table(path)
    assert_size(table.num_rows * table.num_columns * per_cell, f"{path}, unpacked,")
    return table.schema, table.to_batches(_TOGETHER)
