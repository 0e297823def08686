"""`./run mutate`: breaks the code on purpose, one small change at a time, and counts the changes
that no test notices.

Mutants are drawn by a seed from all small changes of the algebra, kernels, plans, structure and nn.
Each is tried in a copy of the project by the tests that call the function it lies in, which are
found out once, before anything is broken (`attacks/calls.py`): first by those that are named after
its module, then by those of its package, then by others, and the quickest first; then by those that
call anything else of its file. The first test that fails kills it. What survives is listed: a test
is missing there, or the change makes no difference, and then the reason stands in
`attacks/equivalents.txt`.
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
from threading import Lock

from attacks.calls import Call, Calls, chosen, watch
from attacks.journal import Journal
from attacks.mutants import Mutant, mutants_of
from attacks.warm import WarmTests

__all__ = ["all_mutants", "draw", "equivalents", "files_of_tests", "main", "stages", "survivors"]

ROOT = Path(__file__).parents[1]
PACKAGES = ("algebra", "engine", "nn", "structure")
_EQUIVALENTS = Path(__file__).with_name("equivalents.txt")
_NEAREST, _OTHERS = 15, 100  # seconds of tests, as long as they took when they were watched
# seconds of work that any tests may take, and how many times as long as they took before
_LEAST, _TIMES = 30, 3


def all_mutants(root: Path = ROOT, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Every mutant of some packages."""
    files = [
        p
        for name in packages
        for p in sorted((root / "src" / "incidence" / name).rglob("*"))
        if p.suffix in (".py", ".c")
    ]
    return [
        mutant
        for path in files
        for mutant in mutants_of(str(path.relative_to(root)), path.read_bytes())
    ]


def draw(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of the mutants, by a number made of the seed and of what each is called: they stay drawn
    when code changes elsewhere.
    """
    return sorted(
        mutants, key=lambda mutant: hashlib.blake2b(f"{seed} {mutant.key}".encode()).digest()
    )[:count]


def equivalents(path: Path = _EQUIVALENTS) -> dict[str, str]:
    """The reason, for every mutant that makes no difference."""
    found, key = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[key] = line.strip()
        elif line and not line.startswith("#"):
            key = line
    return found


def stages(mutant: Mutant, calls: Calls, source: bytes) -> list[list[Call]]:
    """The tests that are asked about a mutant: some seconds of those nearest to it, the others that
    call its function, then its file.
    """
    package, name = mutant.path.split("/")[2], Path(mutant.path).stem.strip("_")

    def distance(call: Call) -> int:
        file = call.test.partition("::")[0]
        if file == mutant.path or file.endswith(f"/test_{name}.py"):
            return 0
        if file.startswith(f"tests/{package}/test_") and name in file:
            return 0
        return 1 if file.startswith((f"tests/{package}/", f"src/incidence/{package}/")) else 2

    # and the quickest first, as they were
    found = sorted(calls.of(mutant.path, source, mutant.line), key=distance)
    nearest = chosen(found, _NEAREST)
    # What runs in another process, or is followed by a compiler, is not seen to be called.
    hidden = [
        call
        for call in calls
        if call not in found and (mutant.path in call.lines or not distance(call))
    ]
    return [
        stage
        for stage in (
            nearest,
            chosen(found[len(nearest) :], _OTHERS),
            chosen(sorted(hidden, key=distance), _OTHERS),
        )
        if stage
    ]


def files_of_tests(package: str, folder: Path) -> list[str]:
    """The files whose tests are asked about a package: its own, and those of layers and networks,
    in which all below comes together.
    """
    rooms = dict.fromkeys((package, "nn", "models") if package != "algebra" else (package,))
    examples, files = [], []  # of docstrings, and tests
    for room in rooms:
        examples += sorted((folder / "src/incidence" / room).rglob("*.py"))
        files += sorted((folder / "tests" / room).rglob("test_*.py"))
    return [str(path.relative_to(folder)) for path in (*examples, *files)]


def survivors(journal: Journal) -> list[str]:
    """The mutants that no test noticed, other than those that make no difference."""
    known = equivalents()
    return [key for key, record in journal if record["outcome"] == "survived" and key not in known]


@contextmanager
def _copy() -> Iterator[Path]:
    """A copy of the project, as git has it, with changes that are not committed yet."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for path in listed.stdout.splitlines():
            if (ROOT / path).is_file():
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, Path(name) / path)
        yield Path(name)


def _try(mutant: Mutant, copy: Path, tests: WarmTests, calls: Calls) -> dict[str, object]:
    """What becomes of a mutant: the stage and the test that kills it, or that it survived."""
    path, begun = copy / mutant.path, time.monotonic()
    record: dict[str, object] = {"line": mutant.line, "outcome": "survived", "tests": 0}
    whole = path.read_bytes()
    _write(path, mutant.applied(whole))
    try:
        for number, some in enumerate(stages(mutant, calls, whole)):
            found = tests.run(
                [call.test for call in some], _LEAST + _TIMES * sum(call.seconds for call in some)
            )
            record |= {"tests": len(some) if not number else record["tests"] + len(some)}  # type: ignore[operator]
            if found.has_failed:
                record |= {"outcome": "killed", "stage": number, "by": found.by}
                break
    finally:
        _write(path, whole)
    return {**record, "seconds": round(time.monotonic() - begun, 1)}


def _write(path: Path, source: bytes) -> None:
    """Writes a source, and removes what Python compiled of it: it looks at size and second alone to
    see that it changed.
    """
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
    known, lines = (
        equivalents(),
        [f"{'package':<12}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'survived':>10}"],
    )
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
    lines.append(
        f"{share:.1%} of those that make a difference are killed; {len(drawn) - len(done)} are left"
        " to be tried."
    )
    left = {m.key: m for m in drawn}
    lines += [
        f"survived: {left[key].path}:{left[key].line} {key.partition(' ')[2]}"
        for key in survivors(journal)
        if key in left
    ]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Tries mutants until all that were drawn are done; tells what survived."""
    parser = argparse.ArgumentParser(
        prog="./run mutate", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument(
        "--count", type=int, default=300, help="how many mutants are drawn (default 300)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tried at once"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="try those that survived once more, after tests were added",
    )
    parser.add_argument("--table", action="store_true", help="only tell what was found so far")
    arguments = parser.parse_args(words)
    drawn = draw(all_mutants(), arguments.count, arguments.seed)
    journal = Journal(ROOT / "build" / "attacks" / f"mutants-{_digest()}.jsonl")
    old = set(survivors(journal)) if arguments.again else set()
    left = [m for m in drawn if m.key not in journal or m.key in old]
    if left and not arguments.table:
        print(
            f"{len(left)} of {len(drawn)} mutants are to be tried; results go to {journal.path}",
            file=sys.stderr,
        )
        _try_all(left, journal, arguments.jobs)
    print(_table(journal, drawn))
    return int(bool(survivors(journal)))


def _try_all(mutants: Sequence[Mutant], journal: Journal, jobs: int) -> None:
    free: Queue[tuple[Path, WarmTests]] = Queue()
    one_at_a_time = Lock()

    def one(mutant: Mutant) -> None:
        copy, tests = free.get()
        try:
            record = _try(mutant, copy, tests, calls)  # of its package
        finally:
            free.put((copy, tests))
        with one_at_a_time:
            journal.add(mutant.key, record)
            what = mutant.key.partition(" ")[2]
            print(
                f"{record['outcome']:<9}{record['seconds']:>7} s  {mutant.path}:{mutant.line}"
                f" {what}",
                file=sys.stderr,
                flush=True,
            )

    path = journal.path.with_name(journal.path.name.replace("mutants", "calls"))
    with ExitStack() as opened, ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            copy = opened.enter_context(_copy())
            free.put((copy, opened.enter_context(WarmTests(copy, INCIDENCE_CALLS=str(path)))))
        for package in PACKAGES:
            own = [mutant for mutant in mutants if mutant.path.split("/")[2] == package]
            if own:
                copy, tests = free.queue[0]
                watch(path, files_of_tests(package, copy), copy, tests)
                calls = Calls(path)
                list(pool.map(one, own))
