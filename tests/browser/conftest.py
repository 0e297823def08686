"""A browser without a window, and the explorer as it is built, behind a server for files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the browser tests need playwright: ./run browser installs it"
    )
    program = find_chromium()
    if program is None:
        pytest.skip(
            "the browser tests need Chromium: apt-get install chromium, or set CHROMIUM=/path/to/it"
        )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()
    server.server_close()


def built(folder: Path, *flags: str) -> Path:
    subprocess.run(
        [sys.executable, PROJECT / "scripts" / "build_explorer.py", folder, *flags], check=True
    )
    return folder


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the explorer is."""
    folder = built(tmp_path_factory.mktemp("explorer"))
    if json.loads((folder / "site.json").read_text())["python"] is None:
        pytest.skip("the browser tests need Pyodide, which npm fetches: install npm")
    yield from served(folder)


@pytest.fixture(scope="session")
def bare_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the explorer is as it is built without npm."""
    yield from served(built(tmp_path_factory.mktemp("bare"), "--without-python"))
