"""`./run fuzz`: mangles files of every kind that is read, and puts random cases to properties that
always hold.

A mangled file must be read, or refused with one sentence: no other error, no crash, no more than
some seconds, no large memory. A case of a property is told by its number. What breaks the rule is
written to `build/attacks/found/`; put it into `tests/attacks/found/`, where a test reads it for
ever after.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from random import Random

from attacks.journal import Journal
from attacks.properties import PROPERTIES
from attacks.samples import SUFFIXES, read, samples

__all__ = ["main", "mangle", "verdict"]

ROOT = Path(__file__).parents[1]
_FOUND = ROOT / "build" / "attacks" / "found"
_ODD = [
    b"1" + b"0" * 400,
    b"9" * 5000,
    b"-1",
    b"NaN",
    b"1e999",
    b"[" * 3000,
    b"\0",
    b"\xff\xfe",
    b"\n",
    b"",
    b"2" * 20,
    b"{i",
]
_TOGETHER = 500  # cases of one process
_SECONDS, _MEMORY = 20, 8 << 30  # of work for a case, and bytes of addresses of a process
_LONGEST = 4000  # characters of a message
_EXECUTED = {
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pty.spawn",
    "socket.connect",
    "socket.getaddrinfo",
}
_HAS_EXECUTED = 77  # what a process ends with that has executed something


def mangle(data: bytes, random: Random) -> bytes:
    """The bytes with some pieces changed; every other time that of an archive is a file in it, so
    that its sums are right.
    """
    if zipfile.is_zipfile(BytesIO(data)) and random.random() < 0.5:
        return _within(data, random)
    return _mangled(data, random)


def _within(data: bytes, random: Random) -> bytes:
    """An archive with one of its files mangled."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    attacked = random.choice(sorted(files))
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, _mangled(content, random) if name == attacked else content)
    return made.getvalue()


def _mangled(data: bytes, random: Random) -> bytes:
    """The bytes with one to four pieces flipped, cut, doubled, moved or replaced by
    something odd.
    """
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        stop = min(len(data), start + random.choice((1, 1, 2, 4, 16, 64)))
        piece = data[start:stop]
        new = random.choice(
            (
                bytes(byte ^ 1 << random.randrange(8) for byte in piece),
                random.randbytes(len(piece)),
                random.choice(_ODD),
                piece * random.choice((0, 2, 3, 50)),
                b"",
            )
        )
        data = data[:start] + new + data[stop:]
        if random.random() < 0.1:
            data = data[: random.randrange(len(data) + 1)]
    return data


def verdict(path: Path) -> str | None:
    """What is wrong with how a file is read; None if it was read, or refused in a sentence."""
    from incidence.errors import IncidenceError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except IncidenceError as error:
        return None if len(str(error)) < _LONGEST else f"a message of {len(str(error))} characters"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _file_case(sound: dict[str, bytes], seed: int, number: int, folder: Path) -> str | None:
    random = Random(f"file {seed} {number}")
    suffix = SUFFIXES[number % len(SUFFIXES)]
    path = folder / f"{seed}-{number}{suffix}"
    path.write_bytes(mangle(sound[suffix], random))
    problem = verdict(path)
    if problem is None:
        path.unlink()
    return problem


def _property_case(seed: int, number: int) -> str | None:
    name = list(PROPERTIES)[number % len(PROPERTIES)]
    try:
        PROPERTIES[name](Random(f"{name} {seed} {number}"))
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error)[:200]}"
    return None


def _end_if_executed(event: str, arguments: object) -> None:
    """Ends the process at once if it starts a program or calls another machine."""
    if event in _EXECUTED:
        os._exit(_HAS_EXECUTED)


def _guarded(case: Callable[[int], str | None], numbers: Sequence[int]) -> dict[int, str]:
    """The problems of some cases, which are run in a process of their own; one that dies is a
    problem of the case it was at.
    """
    inner, outer = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.addaudithook(_end_if_executed)
        with os.fdopen(outer, "w") as told:
            for number in numbers:
                signal.setitimer(signal.ITIMER_PROF, _SECONDS)
                told.write(f"{number}\n")
                told.flush()
                problem = case(number)
                told.write(f"{number} {' '.join(problem.split())}\n" if problem else "")
            told.write("end\n")
        os._exit(0)
    os.close(outer)
    with os.fdopen(inner) as said:
        lines = said.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    problems = {int(line.split()[0]): line.partition(" ")[2] for line in lines if " " in line}
    if lines[-1:] != ["end"]:
        at = int(next(line for line in reversed(lines) if " " not in line))
        problems[at] = (
            "something was executed" if code == _HAS_EXECUTED else f"the process ended with {code}"
        )
        problems |= _guarded(case, [number for number in numbers if number > at])
    return problems


def _load_all(sound: dict[str, bytes]) -> None:
    """Loads what is loaded late, before processes are made that would each load it again."""
    for hold in PROPERTIES.values():
        hold(Random(0))
    with tempfile.TemporaryDirectory() as name:
        for suffix, data in sound.items():
            path = Path(name, f"sound{suffix}")
            path.write_bytes(data)
            if (problem := verdict(path)) is not None:
                raise SystemExit(f"a sound {suffix} cannot be read: {problem}")


def main(words: Sequence[str]) -> int:
    """Goes on with the cases where the last run stopped, for so many minutes or cases; tells what
    was found.
    """
    parser = argparse.ArgumentParser(
        prog="./run fuzz", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument("--minutes", type=float, default=5, help="how long (default 5)")
    parser.add_argument(
        "--count",
        type=int,
        default=10**5,
        help="cases of each kind after which to stop (default 100,000)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--only", choices=("files", "properties"), help="cases of one kind alone")
    arguments = parser.parse_args(words)
    journal = Journal(ROOT / "build" / "attacks" / f"fuzz-{arguments.seed}.jsonl")
    _FOUND.mkdir(parents=True, exist_ok=True)
    until, sound = time.monotonic() + 60 * arguments.minutes, samples()
    cases: dict[str, Callable[[int], str | None]] = {
        "files": lambda number: _file_case(sound, arguments.seed, number, _FOUND),
        "properties": lambda number: _property_case(arguments.seed, number),
    }
    _load_all(sound)
    done = {kind: int(journal[kind]["cases"]) if kind in journal else 0 for kind in cases}
    asked = {kind: case for kind, case in cases.items() if arguments.only in (None, kind)}
    while time.monotonic() < until and min(done[kind] for kind in asked) < arguments.count:
        for kind, case in asked.items():
            if done[kind] < arguments.count:
                problems = _guarded(case, range(done[kind], done[kind] + _TOGETHER))
                done[kind] += _TOGETHER
                for number, problem in problems.items():
                    journal.add(f"{kind} {number}", {"problem": problem})
                    print(f"{kind} {number}: {problem}", file=sys.stderr)
                journal.add(kind, {"cases": done[kind]})
    found = sum("problem" in record for _, record in journal)
    print(
        f"{done['files']:,} files and {done['properties']:,} cases of properties; {found} broke the"
        " rule."
    )
    return int(found > 0)
