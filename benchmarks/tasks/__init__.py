"""The tasks of the literature: what is measured, with which protocol, published figures and goals.

`TASKS` has them by the name that `./run bench learn` takes, in the order of the page of results.
"""

from benchmarks.tasks.communities import TASKS as _COMMUNITIES
from benchmarks.tasks.forecasts import TASKS as _FORECASTS
from benchmarks.tasks.molecules import TASKS as _MOLECULES
from benchmarks.tasks.others import TASKS as _OTHERS
from benchmarks.tasks.power import TASKS as _POWER
from benchmarks.tasks.task import Task

__all__ = ["TASKS", "WAITING"]

TASKS: dict[str, Task] = {**_COMMUNITIES, **_POWER, **_MOLECULES, **_OTHERS, **_FORECASTS}

WAITING = {
    "surfaces: orientability and type, also refined": (
        "GIN 55.2, 72.9; refined 42.4, 6.8",
        "`python -m benchmarks.surfaces` measures them, without files of results",
    ),
    "ablations of operations, faces and products": (
        "",
        "no task yet, for ZINC, MUTAG, counting and SHREC11",
    ),
}
"""What is to be measured and has no task yet: published figures, and what is missing."""
