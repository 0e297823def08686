"""How long the algebra takes: every measurement in a fresh process, so that no cache helps; the
median of five.
"""

import statistics
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from incidence.errors import command

SETS = "{a b c d e f} {g h i j k l}"
EIGHT = "a b c d e f g h"
WORK = {
    "import incidence.algebra": ("", "import incidence.algebra", None),
    "list i j k l -> i j k l": (
        "from incidence.algebra import EquivariantMap",
        "assert len(list(EquivariantMap('i j k l -> i j k l').operations)) == 4140",
        0.3,
    ),
    "count 6 nodes -> 6 nodes": (
        "from incidence.algebra import EquivariantMap",
        f"assert EquivariantMap('{EIGHT[:11]} -> {EIGHT[:11]}').dimension == 4213597",
        0.1,
    ),
    "count 8 nodes -> 8 nodes": (
        "from incidence.algebra import EquivariantMap",
        f"assert EquivariantMap('{EIGHT} -> {EIGHT}').dimension == 10480142147",
        1.0,
    ),
    f"count {SETS} -> itself": (
        "from incidence.algebra import EquivariantMap",
        f"assert EquivariantMap('{SETS} -> {SETS}').dimension == 52450",
        0.2,
    ),
}


def seconds(setup: str, work: str) -> float:
    code = (
        f"import time\n{setup}\nstart = time.perf_counter()\n{work}\nprint(time.perf_counter() -"
        " start)"
    )
    return float(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
    )


def main(words: Sequence[str] = ()) -> int:
    ArgumentParser(prog=f"{command()} bench algebra", description=__doc__).parse_args(words)
    print(f"{'work':48} {'median':>10} {'spread':>19}   bar")
    for name, (setup, work, bar) in WORK.items():
        times = sorted(seconds(setup, work) for _ in range(5))
        spread = f"{times[0] * 1e3:.1f} to {times[-1] * 1e3:.1f} ms"
        verdict = (
            ""
            if bar is None
            else f"{bar * 1e3:.0f} ms {'met' if statistics.median(times) <= bar else 'MISSED'}"
        )
        print(f"{name:48} {statistics.median(times) * 1e3:7.1f} ms {spread:>19}   {verdict}")
    return 0
