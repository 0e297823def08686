"""Build the explorer, a page that needs no server but one for files: python
scripts/build_explorer.py OUTPUT.

The output has the pages (docs/explorer), the colours of the library, the modules that run in the
browser, prepared answers for the examples, and Pyodide. npm fetches Pyodide, which is never
committed. Without npm the page still shows the examples, and says so.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from incidence.plot.explorer import css, reply, requests

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "explorer"
VERSION = "314.0.7"
INTEGRITY = "sha512-" + (
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
PYODIDE_FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
EXAMPLES = {
    "i j -> i j": "A matrix",
    "i -> i": "A set",
    "(i j) -> i": "Edges to nodes",
    "{i j} -> {i j}": "Edges",
    "i, {i j}, {i j k} -> i, {i j}, {i j k}": "Complexes",
    "<i j> -> i, <i j>, <i j k>": "Flows",
    "i {i j} -> i {i j}": "Incidences",
    "u:user m:movie -> u:user m:movie": "Ratings",
    "{i ...} -> {i ...}": "Hyperedges",
    "i j -> ": "A readout",
    "i j k -> i j k": "Triples",
    "i j * i j -> i j": "Products",
    "{i j} * {i j} -> {i j}": "Products of edges",
}

NODES = "i, {i j} -> i, {i j}"
TRIANGLES = "i, {i j}, {i j k} -> i, {i j}, {i j k}"
HEXAGON = "0-1-2-3-4-5-0", "0-1-2-0 3-4-5-3"
TREES = "0-1-2-3-4-5 2-6", "0-1-2-3-4-5 1-6"
MOLECULES = "0-1-2-3-4-5-6-7-8-9-0 0-5", "0-1-2-3-4-0 5-6-7-8-9-5 0-5"
ROOK = (
    "0-1-2-3-0-2 1-3 4-5-6-7-4-6 5-7 8-9-10-11-8-10 9-11 12-13-14-15-12-14 13-15"
    " 0-4-8-12-0-8 4-12 1-5-9-13-1-9 5-13 2-6-10-14-2-10 6-14 3-7-11-15-3-11 7-15",
    "0-1-2-3-0 4-5-6-7-4 8-9-10-11-8 12-13-14-15-12"
    " 0-4-8-12-0 1-5-9-13-1 2-6-10-14-2 3-7-11-15-3"
    " 0-5-10-15-0 1-6-11-12-1 2-7-8-13-2 3-4-9-14-3",
)
PAIRS = {
    "Hexagon, two triangles": (NODES, HEXAGON),
    "… with triangles": (TRIANGLES, HEXAGON),
    "Two trees": (NODES, TREES),
    "Decalin, bicyclopentyl": (NODES, MOLECULES),
    "… as triples": ("i j k -> i j k", MOLECULES),
    "Rook, Shrikhande": (TRIANGLES, ROOK),
    "… with cliques of 4": ("i, {i j}, {i j k l} -> i, {i j}, {i j k l}", ROOK),
}


def build(output: Path, with_python: bool = True) -> bool:
    """Write the page to a folder; return whether Python is part of it."""
    output.mkdir(parents=True, exist_ok=True)
    for file in PAGE.iterdir():
        shutil.copyfile(file, output / file.name)
    (output / "theme.css").write_text(css(), encoding="utf-8")
    examples = [_example(output, number, text) for number, text in enumerate(EXAMPLES)]
    pairs = [_pair(output, number, title) for number, title in enumerate(PAIRS)]
    has_python = with_python and _bring_pyodide(output / "pyodide")
    if has_python:
        _pack(output / "incidence.zip")
    site = {"python": VERSION if has_python else None, "examples": examples, "pairs": pairs}
    (output / "site.json").write_text(json.dumps(site, ensure_ascii=False), encoding="utf-8")
    return has_python


def _example(output: Path, number: int, text: str) -> dict[str, str]:
    """Write the answers to everything that the page requests about an example."""
    answers = ",".join(
        f"{json.dumps(request, ensure_ascii=False)}:{reply(request)}" for request in requests(text)
    )
    name = f"example-{number}.json"
    (output / name).write_text(f"{{{answers}}}", encoding="utf-8")
    return {"title": EXAMPLES[text], "text": text, "file": name}


def _pair(output: Path, number: int, title: str) -> dict[str, str]:
    """Write the answer about two graphs."""
    text, (one, other) = PAIRS[title]
    request = json.dumps(["colours", text, 1, one, other], separators=(",", ":"))
    name = f"pair-{number}.json"
    (output / name).write_text(f"{{{json.dumps(request)}:{reply(request)}}}", encoding="utf-8")
    return {"title": title, "map": text, "one": one, "other": other, "file": name}


def modules() -> dict[str, Path]:
    """Return the modules that the page needs, by name. They are the modules that its answers
    import, in a process without torch and numpy.
    """
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; import"
        " incidence.plot.explorer\nfor name, module in sys.modules.items():\n    if"
        " name.split('.')[0] == 'incidence': print(name, module.__file__, sep='=')"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    return {
        name: Path(file) for name, _, file in (line.partition("=") for line in said.splitlines())
    }


def _pack(archive: Path) -> None:
    with ZipFile(archive, "w", ZIP_DEFLATED) as packed:
        for name, file in sorted(modules().items()):
            inside = name.replace(".", "/") + (
                "/__init__.py" if file.name == "__init__.py" else ".py"
            )
            entry = ZipInfo(inside)  # without a date: the same sources make the same archive
            entry.compress_type = ZIP_DEFLATED
            packed.writestr(entry, file.read_bytes())


def _bring_pyodide(folder: Path) -> bool:
    """Copy Pyodide to a folder; return False if npm is absent or cannot get it."""
    archive = PROJECT / "build" / "npm" / f"pyodide-{VERSION}.tgz"
    if not archive.is_file() and not _fetch(archive.parent):
        return False
    assert_is_pyodide(archive)
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for name in PYODIDE_FILES:
            member = packed.extractfile(f"package/{name}")
            assert member is not None
            (folder / name).write_bytes(member.read())
    return True


def _fetch(folder: Path) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        print(
            "explorer: npm is not installed, so only the examples can be explored", file=sys.stderr
        )
        return False
    folder.mkdir(parents=True, exist_ok=True)
    print(f"explorer: fetching pyodide {VERSION} (6 MB, once)", file=sys.stderr)
    fetched = subprocess.run(
        [npm, "pack", "--silent", f"pyodide@{VERSION}"], cwd=folder, capture_output=True, text=True
    )
    if fetched.returncode:
        print(
            "explorer: npm could not fetch pyodide, so only the examples can be"
            f" explored\n{fetched.stderr.strip()}",
            file=sys.stderr,
        )
    return fetched.returncode == 0


def assert_is_pyodide(archive: Path) -> None:
    """Refuse an archive that does not have the sum above."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(
            f"{archive} is not pyodide {VERSION}: its sum is {found}, not {INTEGRITY}. Delete it,"
            " and build again."
        )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Builds the explorer.")
    parser.add_argument("output", type=Path, metavar="OUTPUT", help="the folder to write to")
    parser.add_argument(
        "--without-python", action="store_true", help="leaves Pyodide out, as where npm is absent"
    )
    arguments = parser.parse_args()
    build(arguments.output, with_python=not arguments.without_python)
    print(f"wrote {arguments.output / 'index.html'}")


if __name__ == "__main__":
    main()
