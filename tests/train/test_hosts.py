"""Several hosts, as network namespaces of this machine: only traffic between them connects them.

This needs root. Run it with `./run test -m slow tests/train/test_hosts.py`.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import incidence as inc
from incidence.train import train
from tests.train.several_processes import SMALL, labelled_nodes
from tests.train.small_runs import graphs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def _can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        _ip("netns", "add", "incidence-probe")
        _ip("netns", "del", "incidence-probe")
    except subprocess.SubprocessError:
        return False
    return True


def _children(parent: int) -> list[int]:
    """The processes that another one has started; torchrun gives them a session of their own."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                children.append(int(path.parent.name))
    return children


class Hosts:
    """Namespaces with one network between them."""

    def __init__(self, count: int) -> None:
        self.name = f"inc{os.getpid()}"
        self.count = count
        self.started: list[subprocess.Popen[str]] = []

    def host(self, number: int) -> str:
        return f"{self.name}h{number}"

    def make(self) -> None:
        hub = f"{self.name}hub"
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", hub, "link", "set", "bridge", "up")
        for number in range(self.count):
            host, plug = self.host(number), f"plug{number}"
            _ip("netns", "add", host)
            _ip("-n", hub, "link", "add", plug, "type", "veth", "peer", "name", "eth0",
                "netns", host)  # fmt: skip
            _ip("-n", hub, "link", "set", plug, "master", "bridge", "up")
            _ip("-n", host, "addr", "add", f"10.91.7.{number + 1}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "link", "set", "lo", "up")

    def remove(self) -> None:
        for process in self.started:
            for child in (*_children(process.pid), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()
        for name in (*(self.host(k) for k in range(self.count)), f"{self.name}hub"):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def unplug(self, number: int) -> None:
        _ip("-n", f"{self.name}hub", "link", "set", f"plug{number}", "down")

    def slow_down(self, number: int) -> None:
        """Limit what a host sends to 2 Mbit a second."""
        limit = ["root", "tbf", "rate", "2mbit", "burst", "32kbit", "latency", "400ms"]
        words = ["netns", "exec", self.host(number), "tc", "qdisc", "add", "dev", "eth0", *limit]
        _ip(*words)

    def start(
        self, words: list[str], torchrun: tuple[str, ...] = (), last: list[str] | None = None
    ) -> None:
        """Start the words on every host; the last one may get others."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        for number in range(self.count):
            command = ["ip", "netns", "exec", self.host(number), sys.executable]
            command += ["-m", "torch.distributed.run", f"--nnodes={self.count}", *torchrun]
            command += ["--nproc_per_node=1", f"--node_rank={number}"]
            command += ["--master_addr=10.91.7.1", "--master_port=29517"]
            own = words if last is None or number < self.count - 1 else last
            self.started.append(
                subprocess.Popen(
                    [*command, "-m", "incidence", *own],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=environment,
                    start_new_session=True,
                )
            )

    def printed(self, number: int, timeout: float) -> str:
        return self.started[number].communicate(timeout=timeout)[0]


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    if not _can_make_hosts():
        pytest.skip("hosts are network namespaces, which only root can make, with the tool `ip`")
    made = Hosts(request.param)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def _words(options: dict[str, object]) -> list[str]:
    words = ["train"]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return words


def _history(path: Path) -> list[list[float]]:
    rows = csv.DictReader((path / "history.csv").read_text().splitlines())
    return [[float(value) for value in row.values()] for row in rows]


@pytest.mark.parametrize("hosts", [2, 3], indirect=True)
@pytest.mark.parametrize("is_split", [True, False])
def test_hosts_have_the_losses_of_one_process(hosts: Hosts, is_split: bool, tmp_path: Path) -> None:
    if is_split:
        labelled_nodes("{i j}").save(tmp_path / "d.npz")
    else:
        inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz")}
    given |= {"split_structure": True, "batch_size": 1} if is_split else {}
    train({**given, "out": str(tmp_path / "one")})
    hosts.start(_words({**given, "out": str(tmp_path / "hosts")}))
    for number in range(hosts.count):
        text = hosts.printed(number, 240)
        assert hosts.started[number].returncode == 0, text
    one, other = _history(tmp_path / "one"), _history(tmp_path / "hosts")
    for first, second in zip(one, other, strict=True):
        assert first == pytest.approx(second, rel=1e-6, abs=1e-9)


def _long_run(tmp_path: Path) -> list[str]:
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run")}
    return _words({**given, "split_structure": True, "batch_size": 1, "epochs": 100000})


def _wait_for_checkpoint(path: Path) -> None:
    start = time.monotonic()
    while not (path / "checkpoints" / "last.ckpt").exists():
        assert time.monotonic() - start < 200, "training did not begin"
        time.sleep(0.05)


def _wait_for_epochs(path: Path) -> None:
    _wait_for_checkpoint(path)
    time.sleep(3)


@pytest.mark.parametrize("hosts", [2], indirect=True)
@pytest.mark.parametrize("unplugged", [1, 0])
def test_an_unplugged_host_ends_the_others_within_half_a_minute(
    hosts: Hosts, unplugged: int, tmp_path: Path
) -> None:
    hosts.start(_long_run(tmp_path))
    _wait_for_epochs(tmp_path / "run")
    hosts.unplug(unplugged)
    start = time.monotonic()
    text = hosts.printed(1 - unplugged, 90)
    seconds = time.monotonic() - start
    assert "incidence train --resume" in text
    assert seconds < 45  # torchrun itself takes some seconds to end


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_a_killed_process_ends_the_others(hosts: Hosts, tmp_path: Path) -> None:
    hosts.start(_long_run(tmp_path))
    _wait_for_epochs(tmp_path / "run")
    [worker] = _children(hosts.started[1].pid)
    os.kill(worker, signal.SIGKILL)
    start = time.monotonic()
    text = hosts.printed(0, 90)
    assert "incidence train --resume" in text
    assert time.monotonic() - start < 45


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_a_slow_host_slows_the_run_and_does_not_break_it(hosts: Hosts, tmp_path: Path) -> None:
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "split_structure": True}
    given |= {"batch_size": 1, "epochs": 200}
    train({**given, "out": str(tmp_path / "one")})
    hosts.slow_down(1)
    hosts.start(_words({**given, "out": str(tmp_path / "hosts")}))
    while not (tmp_path / "hosts" / "checkpoints" / "last.ckpt").exists():
        time.sleep(0.05)
    [worker] = _children(hosts.started[1].pid)
    os.kill(worker, signal.SIGSTOP)  # longer than the pauses between signs of life
    time.sleep(10)
    os.kill(worker, signal.SIGCONT)
    for number in range(2):
        text = hosts.printed(number, 240)
        assert hosts.started[number].returncode == 0, text
    one, other = _history(tmp_path / "one"), _history(tmp_path / "hosts")
    for first, second in zip(one, other, strict=True):
        assert first == pytest.approx(second, rel=1e-4, abs=1e-6)


def _both(hosts: Hosts, timeout: float = 120) -> list[str]:
    """What the hosts print that fail."""
    printed = [hosts.printed(number, timeout) for number in range(2)]
    assert all(process.returncode for process in hosts.started)
    return printed


@pytest.mark.parametrize("hosts", [2], indirect=True)
@pytest.mark.parametrize("is_split", [True, False])
def test_hosts_with_other_data_or_options_are_refused(
    hosts: Hosts, is_split: bool, tmp_path: Path
) -> None:
    for name, count in (("one", 20), ("other", 21)):
        inc.collate(graphs(count)).save(tmp_path / f"{name}.npz")
        if is_split:
            example = labelled_nodes("{i j}")
            example.replace(features={"i": example.features["i"] * count}).save(
                tmp_path / f"{name}.npz"
            )
    given = {**SMALL, "out": str(tmp_path / "run")}
    given |= {"split_structure": True, "batch_size": 1} if is_split else {}
    one = _words({**given, "data": str(tmp_path / "one.npz")})
    hosts.start(one, last=_words({**given, "data": str(tmp_path / "other.npz")}))
    for text in _both(hosts):
        assert "the data must be the same on all processes; process 0 differs from 1" in text
    for process in hosts.started:
        process.stdout.close()  # type: ignore[union-attr]
    hosts.started.clear()
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    hosts.start(one, last=[*one, "--hidden", "5"])
    for text in _both(hosts):
        assert "the options must be the same on all processes" in text


@pytest.mark.parametrize("hosts", [2], indirect=True)
@pytest.mark.parametrize("failing", [0, 1])
def test_a_host_that_cannot_begin_ends_the_other(
    hosts: Hosts, failing: int, tmp_path: Path
) -> None:
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "out": str(tmp_path / "run")}
    words = _words({**given, "data": str(tmp_path / "d.npz")})
    lacking = _words({**given, "data": str(tmp_path / "no.npz")})
    hosts.start(*(words, (), lacking) if failing else (lacking, (), words))
    printed = _both(hosts)
    assert "no.npz" in printed[failing]
    waiting = printed[1 - failing]
    stops = f"process {1 - failing} of 2 stops"
    # the first machine takes the store with it, if it ends before the other one looks
    assert f"{stops}, as process {failing} has failed: " in waiting or (
        failing == 0 and "process 1 of 2 lost the others: one of them has ended" in waiting
    ), waiting
    assert "incidence train --resume" in waiting


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    path = tmp_path / "disk"
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    subprocess.run(words, check=True, capture_output=True)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)


def _fill(disk: Path) -> None:
    with suppress(OSError), (disk / "zeros").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _move_away(disk: Path) -> None:
    (disk / "run").rename(disk / "elsewhere")


def _assert_ended_by_the_first(text: str) -> None:
    """The second process says that the first one has failed, and how to continue."""
    assert "process 0 has failed" in text or "one of them has ended" in text, text
    assert "incidence train --resume" in text


@pytest.mark.parametrize("hosts", [2], indirect=True)
@pytest.mark.parametrize(
    ("fail", "message"),
    [(_fill, "the disk is full"), (_move_away, "there is no folder|No such file")],
)
def test_a_shared_folder_that_fails_is_an_error(
    fail: Callable[[Path], None], message: str, hosts: Hosts, disk: Path, tmp_path: Path
) -> None:
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(disk / "run")}
    hosts.start(_words({**given, "split_structure": True, "batch_size": 1, "epochs": 100000}))
    _wait_for_epochs(disk / "run")
    fail(disk)
    start = time.monotonic()
    first, second = _both(hosts)
    assert time.monotonic() - start < 45
    assert re.search(message, first), first
    _assert_ended_by_the_first(second)


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_a_folder_that_is_read_only_is_an_error(hosts: Hosts, disk: Path, tmp_path: Path) -> None:
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    words = ["mount", "-o", "remount,ro", str(disk)]
    subprocess.run(words, check=True, capture_output=True)
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(disk / "run")}
    hosts.start(_words(given))
    first, second = _both(hosts)
    assert "no folder can be made for the run: [Errno 30] Read-only file system" in first
    _assert_ended_by_the_first(second)


@pytest.mark.parametrize("is_split", [True, False])
@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_restarts_a_run_where_it_was(victim: int, is_split: bool, tmp_path: Path) -> None:
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    if not is_split:
        inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "epochs": 200}
    given |= {"split_structure": True, "batch_size": 1} if is_split else {}
    train({**given, "out": str(tmp_path / "one")})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node=2", "--max-restarts=2", "-m", "incidence"]
    process = subprocess.Popen(
        [*command, *_words({**given, "out": str(tmp_path / "two")})],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        _wait_for_checkpoint(tmp_path / "two")
        os.kill(sorted(_children(process.pid))[victim], signal.SIGKILL)
        text = process.communicate(timeout=200)[0]
    finally:
        for child in (*_children(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    assert process.returncode == 0, text
    assert len(list((tmp_path / "two" / "logs" / "csv").iterdir())) == 2  # a part for each start
    one, other = _history(tmp_path / "one"), _history(tmp_path / "two")
    for first, second in zip(one, other, strict=True):
        assert first == pytest.approx(second, rel=1e-4, abs=1e-6)
