"""The wheel: it holds the library and nothing else, and works where there is only what it depends
on.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow  # it is built, unpacked, and started again and again


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "build", "runs", "dist", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = folder.glob("*.whl")
    return path


def needed(names: list[str]) -> set[str]:
    """Distributions, with all that they depend on."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            wanted = map(Requirement, distribution(name).requires or [])
            names += [
                r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    return found


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the wheel and what it depends on, and nothing else: the latter as links
    to where it is installed here.
    """
    home = tmp_path_factory.mktemp("bare")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(home / "own"),
        str(wheel),
    ]
    assert subprocess.run(command, capture_output=True).returncode == 0
    (home / "core").mkdir()
    for name in needed(["torch", "numpy", "sympy"]):
        for file in distribution(name).files or ():
            target = home / "core" / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not target.exists():
                target.symlink_to(Path(str(distribution(name).locate_file(file.parts[0]))))
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("INCIDENCE", "PYTHON"))
    }
    paths = os.pathsep.join((str(home / "own"), str(home / "core")))
    return {
        **kept,
        "PYTHONPATH": paths,
        "XDG_CACHE_HOME": str(home / "cache"),
        "OMP_NUM_THREADS": "1",
    }


def run(bare: dict[str, str], *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Python without the packages that are installed here."""
    return subprocess.run(
        [sys.executable, "-S", *words], env=bare, cwd=folder, capture_output=True, text=True
    )


def program(bare: dict[str, str]) -> str:
    return str(Path(bare["PYTHONPATH"].partition(os.pathsep)[0]) / "bin" / "incidence")


def test_it_holds_the_library_its_data_and_its_licence_and_nothing_else(wheel):
    names = ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"incidence"}
    own = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "incidence").rglob("*")
        if path.is_file()
    }
    own = {name for name in own if "__pycache__" not in name}
    assert {name for name in names if name.startswith("incidence/")} == own
    assert own >= {
        "incidence/py.typed",
        "incidence/engine/products/join.c",
        "incidence/data/solubility.npz",
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("incidence/tests", "incidence/benchmarks")) for name in names)


SCRIPT = """
import importlib.util, torch, incidence as inc
absent = ("lightning", "rdkit", "scipy", "matplotlib", "yaml", "pytest")
assert all(importlib.util.find_spec(name) is None for name in absent)
from incidence.engine.products import join
layer = inc.nn.Linear("i, (i j) -> i, (i j)", 2, 2)
s = inc.Structure(3, {"(i j)": [[0, 1], [1, 2]]})
y = layer({"i": torch.ones(3, 2), "(i j)": torch.ones(2, 2)}, s)
count = len(inc.EquivariantMap("i j -> i j").operations)
print(inc.__version__, count, y["i"].isfinite().all().item(), join._library() is not None)
"""


def test_it_computes_with_torch_numpy_and_sympy_alone_and_compiles_its_engine(bare, tmp_path):
    import incidence

    done = run(bare, "-c", SCRIPT, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    has_compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
    assert done.stdout.split() == [incidence.__version__, "15", "True", str(has_compiler)]


def test_the_data_that_comes_with_it_is_there(bare, tmp_path):
    script = "import incidence as inc; print(len(inc.data.load('solubility').examples))"
    done = run(bare, "-c", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000


def test_the_program_explains_and_helps_itself(bare, tmp_path):
    done = run(bare, program(bare), "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout
    done = run(bare, program(bare), "explain", "i j -> i j", folder=tmp_path)
    assert "15 operations" in done.stdout


@pytest.mark.parametrize("way", ["program", "python"])
def test_training_without_its_extra_says_what_to_install(bare, tmp_path, way):
    script = (
        "import incidence as inc\ntry: inc.train.train({'data': 'solubility'})\nexcept"
        " inc.errors.MissingExtraError as error: print(error)"
    )
    done = run(
        bare, *([program(bare), "train"] if way == "program" else ["-c", script]), folder=tmp_path
    )
    told = done.stdout + done.stderr
    assert "needs lightning, which is not installed: pip install 'incidence[train]'" in told, told
    assert "Traceback" not in told
    assert "./run" not in told
