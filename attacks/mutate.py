"""`./run mutate`: breaks the code on purpose, one small change at a time, and counts the changes that no test notices.

Mutants are drawn at random, by a seed, from all small changes of the algebra, kernels, plans, structure and nn. Each is tried in a copy
of the project: first by the doctests of its module and the tests that are named after it, then by those of its package, then by all
others; the first test that fails kills it. What survives all of them is listed: a test is missing there, or the change makes no
difference, and then the reason stands in `attacks/equivalents.txt`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from random import Random
from threading import Lock

from attacks.journal import Journal
from attacks.mutants import Mutant, mutants_of
from attacks.warm import WarmTests

__all__ = ["all_mutants", "equivalents", "main", "stages", "survivors"]

ROOT = Path(__file__).parents[1]
PACKAGES = ("algebra", "kernels", "nn", "plans", "structure")
_EQUIVALENTS = Path(__file__).with_name("equivalents.txt")
_LAST = ("benchmarks", "data", "geometry", "models", "plot", "symmetry", "theorems", "train")
"""Rooms whose tests are about something else, and are asked last."""


def all_mutants(root: Path = ROOT, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Every mutant of some packages."""
    files = [p for name in packages for p in sorted((root / "src" / "incidence" / name).rglob("*")) if p.suffix in (".py", ".c")]
    return [mutant for path in files for mutant in mutants_of(str(path.relative_to(root)), path.read_bytes())]


def equivalents(path: Path = _EQUIVALENTS) -> dict[str, str]:
    """The reason, for every mutant that makes no difference."""
    found, key = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[key] = line.strip()
        elif line and not line.startswith("#"):
            key = line
    return found


def stages(path: str, root: Path = ROOT) -> list[list[str]]:
    """The tests that are asked about a file, those nearest to it first; every test is in one stage."""
    source = Path(path)
    package, name = source.parts[2], source.stem.strip("_")
    own = sorted(str(p.relative_to(root)) for p in (root / "tests" / package).glob(f"test_{name}*.py"))
    nearest = [*([path] if path.endswith(".py") else []), *own]
    room = [str(p.relative_to(root)) for p in sorted((root / "tests" / package).rglob("test_*.py"))]
    every = [str(p.relative_to(root)) for p in sorted((root / "tests").rglob("test_*.py"))]
    is_far = {test: test.split("/")[1] in _LAST or test.count("/") == 1 for test in every}
    near = [f"src/incidence/{package}", *room]
    middle = [test for test in every if not is_far[test] and test not in near]
    far = ["src", *(test for test in every if is_far[test] and test not in near)]
    return [nearest, near, middle, far]


def survivors(journal: Journal) -> list[str]:
    """The mutants that no test noticed, other than those that make no difference."""
    known = equivalents()
    return [key for key, record in journal if record["outcome"] == "survived" and key not in known]


@contextmanager
def _copy() -> Iterator[Path]:
    """A copy of the project, as git has it, with changes that are not committed yet."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        for path in listed.stdout.splitlines():
            if (ROOT / path).is_file():
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, Path(name) / path)
        yield Path(name)


def _try(mutant: Mutant, copy: Path, tests: WarmTests, seconds: float) -> dict[str, object]:
    """What becomes of a mutant: the stage and the test that kills it, or that it survived."""
    path, begun = copy / mutant.path, time.monotonic()
    record: dict[str, object] = {"line": mutant.line, "outcome": "survived"}
    whole = path.read_bytes()
    _write(path, mutant.applied(whole))
    try:
        for number, some in enumerate(stages(mutant.path, copy)):
            found = tests.run(some, seconds)
            if found.has_failed:
                record |= {"outcome": "killed", "stage": number, "by": found.by}
                break
    finally:
        _write(path, whole)
    return {**record, "seconds": round(time.monotonic() - begun, 1)}


def _write(path: Path, source: bytes) -> None:
    """Writes a source, and removes what Python compiled of it: it looks at size and second alone to see that it changed."""
    path.write_bytes(source)
    for old in path.parent.glob(f"__pycache__/{path.stem}.*"):
        old.unlink()


def _digest() -> str:
    """Some letters that change with any source that is mutated."""
    digest = hashlib.blake2b(digest_size=6)
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "incidence" / package).rglob("*.[pc]*")):
            if path.suffix in (".py", ".c"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _table(journal: Journal, drawn: Sequence[Mutant]) -> str:
    """How many mutants of each package were killed, and which survived."""
    known, lines = equivalents(), [f"{'package':<12}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'survived':>10}"]
    done = [(m, journal[m.key]) for m in drawn if m.key in journal]
    total = [0, 0, 0, 0]
    for package in PACKAGES:
        own = [(m, r["outcome"] == "killed") for m, r in done if m.path.split("/")[2] == package]
        killed, same = sum(k for _, k in own), sum(not k and m.key in known for m, k in own)
        counts = [len(own), killed, same, len(own) - killed - same]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        lines.append(f"{package:<12}{counts[0]:>8}{counts[1]:>8}{counts[2]:>12}{counts[3]:>10}")
    lines.append(f"{'all':<12}{total[0]:>8}{total[1]:>8}{total[2]:>12}{total[3]:>10}")
    share = total[1] / max(1, total[0] - total[2])
    lines.append(f"{share:.1%} of those that make a difference are killed; {len(drawn) - len(done)} are left to be tried.")
    left = {m.key: m for m in drawn}
    lines += [f"survived: {left[key].path}:{left[key].line} {key.partition(' ')[2]}" for key in survivors(journal) if key in left]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Tries mutants until all that were drawn are done; tells what survived."""
    parser = argparse.ArgumentParser(prog="./run mutate", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--count", type=int, default=300, help="how many mutants are drawn (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tried at once")
    parser.add_argument("--seconds", type=float, default=1800, help="after which a stage of tests is taken for one without end")
    parser.add_argument("--again", action="store_true", help="try those that survived once more, after tests were added")
    parser.add_argument("--table", action="store_true", help="only tell what was found so far")
    arguments = parser.parse_args(words)
    drawn = Random(arguments.seed).sample(found := all_mutants(), min(arguments.count, len(found)))
    journal = Journal(ROOT / "build" / "attacks" / f"mutants-{_digest()}.jsonl")
    old = set(survivors(journal)) if arguments.again else set()
    left = [m for m in drawn if m.key not in journal or m.key in old]
    if left and not arguments.table:
        print(f"{len(left)} of {len(drawn)} mutants are to be tried; results go to {journal.path}", file=sys.stderr)
        _try_all(left, journal, arguments.jobs, arguments.seconds)
    print(_table(journal, drawn))
    return int(bool(survivors(journal)))


def _assert_sound(mutants: Sequence[Mutant], copy: Path, tests: WarmTests, seconds: float) -> None:
    """Refuses to begin where tests fail without any mutant."""
    for path in sorted({mutant.path for mutant in mutants})[:3]:
        found = tests.run(stages(path, copy)[0], seconds)
        if found.has_failed:
            raise SystemExit(f"tests fail before anything is broken ({found.by}): mend them first.")


def _try_all(mutants: Sequence[Mutant], journal: Journal, jobs: int, seconds: float) -> None:
    free: Queue[tuple[Path, WarmTests]] = Queue()
    one_at_a_time = Lock()

    def one(mutant: Mutant) -> None:
        copy, tests = free.get()
        try:
            record = _try(mutant, copy, tests, seconds)
        finally:
            free.put((copy, tests))
        with one_at_a_time:
            journal.add(mutant.key, record)
            what = mutant.key.partition(" ")[2]
            print(f"{record['outcome']:<9}{record['seconds']:>7} s  {mutant.path}:{mutant.line} {what}", file=sys.stderr)

    with ExitStack() as opened, ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            copy = opened.enter_context(_copy())
            free.put((copy, opened.enter_context(WarmTests(copy))))
        copy, tests = free.queue[0]
        _assert_sound(mutants, copy, tests, seconds)
        list(pool.map(one, mutants))
