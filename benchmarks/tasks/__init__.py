"""The tasks of the literature: what is measured, with which protocol, published figures and goals.

`TASKS` has them by the name that `./run bench learn` takes, in the order of the page of results.
"""

from benchmarks.tasks.communities import TASKS as _COMMUNITIES
from benchmarks.tasks.molecules import TASKS as _MOLECULES
from benchmarks.tasks.others import TASKS as _OTHERS
from benchmarks.tasks.power import TASKS as _POWER
from benchmarks.tasks.task import Task

__all__ = ["TASKS"]

TASKS: dict[str, Task] = {**_COMMUNITIES, **_POWER, **_MOLECULES, **_OTHERS}
