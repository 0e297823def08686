"""Long lists of cases: a fixed eighth runs by default, all of them with `./run test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

__all__ = ["SHARE", "some"]

SHARE = 8
"""One case in so many runs by default."""


def some(cases: Iterable[Any], share: int = SHARE) -> list[Any]:
    """Return the cases for `pytest.mark.parametrize`, and mark most of them as exhaustive.

    The cases that run by default are drawn once, by the number of cases alone: every run and every
    process draws the same ones. The first and the last case are always among them.

    Args:
        cases: The cases; one with several arguments is a tuple, or a `pytest.param`.
        share: One case in so many stays in the default run.
    """
    listed = [_as_param(case) for case in cases]
    count = -(-len(listed) // share)
    chosen = {0, len(listed) - 1, *Random(len(listed)).sample(range(len(listed)), count)}
    return [case if number in chosen else _marked(case) for number, case in enumerate(listed)]


def _as_param(case: Any) -> Any:
    if hasattr(case, "marks"):  # a `pytest.param`
        return case
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values)


def _marked(case: Any) -> Any:
    return pytest.param(*case.values, marks=[*case.marks, pytest.mark.exhaustive], id=case.id)
