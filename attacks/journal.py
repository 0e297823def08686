"""`Journal`: what a job has done, a line for each thing, so that it can go on after it was
stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Journal"]


class Journal:
    """Records by key, in a file that is only ever added to; the last one of a key counts.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     journal = Journal(Path(folder, "journal.jsonl"))
        ...     journal.add("a", {"outcome": "killed"})
        ...     list(Journal(journal.path))
        [('a', {'outcome': 'killed'})]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                found = json.loads(line)
            except ValueError:  # half a line, of a job that was killed
                continue
            self._records[found.pop("key")] = found

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(self._records.items())

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._records[key]

    def __len__(self) -> int:
        return len(self._records)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Adds a record, and leaves it on the disk before it returns."""
        self._records[key] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **record}) + "\n")
