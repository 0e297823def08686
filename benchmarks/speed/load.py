"""Who used the processors: of a benchmark that did not have the machine to itself, no verdict is
given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_native_id

__all__ = ["Load", "Time", "Watch", "of_others", "of_threads"]

_WAITING = 1.2  # on an idle machine this is at most 1.05
_OTHERS, _SHARE = 0.2, 0.25


@dataclass(frozen=True)
class Time:
    """The best time of a variant, in seconds: by the clock, and of the thread (or the processes it
    waited for) that was busiest meanwhile.

    Where the clock shows much more, the machine was busy with other work.
    """

    name: str
    wall: float
    busiest: float


@dataclass(frozen=True)
class Load:
    """What else went on during a benchmark.

    Attributes:
        others: How many cores other processes used, or a hypervisor took.
        waiting: Time by the clock over that of the busiest thread.
        spare: How many cores the benchmark left free.
    """

    others: float = 0.0
    waiting: float = 1.0
    spare: int = 0

    @staticmethod
    def of(others: float, times: Sequence[Time], threads: int) -> Load:
        """The load from what others used, and what the variants took."""
        busiest = sum(own.busiest for own in times)
        waiting = sum(own.wall for own in times) / busiest if busiest else 1.0
        return Load(others, waiting, max(0, (os.cpu_count() or 1) - threads))

    @property
    def reason(self) -> str:
        """Why no verdict can be given; empty if one can. On cores that are free others may work, a
        little: caches are shared.
        """
        if self.others > _OTHERS + _SHARE * self.spare:
            return f"other processes used {self.others:.1f} cores"
        if self.waiting > _WAITING:
            return f"the clock showed {self.waiting:.1f} times the time of the busiest thread"
        return ""


class Watch:
    """Sees how many cores other processes use, from when it is made; none where the system does not
    tell.
    """

    def __init__(self) -> None:
        self._start = _clocks()

    def others(self) -> float:
        """How many cores they used on average until now."""
        wall, machine, own = (now - then for now, then in zip(_clocks(), self._start, strict=True))
        return max(0.0, machine - own) / wall if machine else 0.0


def of_others(seconds: float = 0.5) -> float:
    """How many cores other processes use while this one sleeps."""
    watch = Watch()
    time.sleep(seconds)
    return watch.others()


def _clocks() -> tuple[float, float, float]:
    """The time by the clock, of all processors together, and of this process with its children that
    have ended.
    """
    spent = os.times()
    return time.perf_counter(), _machine_time(), sum(spent[:4])


def _machine_time() -> float:
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, path.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def of_threads() -> dict[str, float]:
    """How long every other thread of this process has run, and the children that it waited for, in
    seconds.
    """
    found = {"children": sum(os.times()[2:4])}
    with suppress(OSError):  # there is no such folder, or a thread ended meanwhile
        for path in Path("/proc/self/task").iterdir():
            if path.name != str(get_native_id()):
                found[path.name] = int((path / "schedstat").read_text().split()[0]) / 1e9
    return found
