"""The algebra stands alone, and the front door opens lazily."""

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import incidence
from incidence.lazy import uninterrupted

ROOT = Path(__file__).parents[1]


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("module", ["incidence", "incidence.algebra", "incidence.algebra.explain"])
def test_the_algebra_loads_neither_torch_nor_numpy(module):
    code = f"import sys, {module}; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_the_algebra_works_in_a_process_without_torch():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\nimport incidence as inc;"
        " print(inc.EquivariantMap('i j -> i j').dimension, inc.counting.bell(4))"
    )
    assert run_python(code).split() == ["15", "15"]


def test_layers_load_nothing_but_the_standard_library_beside_torch_and_numpy():
    code = (
        "import sys, torch; before = {*sys.modules}; import incidence.nn\n"
        "ours = {*sys.stdlib_module_names, 'incidence', 'numpy'}\n"
        "print(sorted(name for name in {*sys.modules} - before if name.split('.')[0] not in ours))"
    )
    # the compiler of torch, for one, takes as long as torch
    assert run_python(code).strip() == "[]"


def test_the_first_layer_loads_nothing_that_importing_layers_did_not():
    code = (
        "import sys, torch, incidence as inc, incidence.nn; before = {*sys.modules}\nlayer, s ="
        " inc.nn.Linear('(i j) -> i', 2, 2), inc.Structure(2, {'(i j)': torch.tensor([[0],"
        " [1]])})\nlayer(torch.ones(1, 2), s).sum().backward(); print(sorted({*sys.modules} -"
        " before))"
    )
    assert run_python(code).strip() == "[]"


def test_importing_layers_leaves_what_few_networks_need_until_it_is_used():
    code = (
        "import sys, torch; before = {*sys.modules}; import incidence.nn, incidence.algebra\n"
        "rare = {'attention', 'symmetry', 'harmonic', 'composition', 'html', 'fractions'}\n"
        "print([name for name in {*sys.modules} - before if name.split('.')[-1] in rare])\n"
        "from incidence.nn import *; from incidence.algebra import *\n"
        "print(Attention.__name__, Exchangeable.__name__, Polynomial.__name__)\n"
        "print('Attention' in dir(incidence.nn), 'Polynomial' in dir(incidence.algebra))"
    )
    assert run_python(code).splitlines() == [
        "['incidence.nn.composition']",
        "Attention Exchangeable Polynomial",
        "True True",
    ]


def test_every_name_at_the_front_door_can_be_had():
    assert incidence.__all__ == sorted(incidence.__all__)
    assert all(getattr(incidence, name) is not None for name in incidence.__all__)
    assert set(incidence.__all__) <= set(dir(incidence))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Patern'"):
        _ = incidence.Patern


def packages() -> set[str]:
    folder = Path(incidence.__file__).parent
    return {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"__init__", "__main__"}


def test_the_map_of_the_packages_lists_each_with_what_it_decides():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {
        name for name, words in re.findall(r"^\| `(\w+)` \| (\w.*) \|$", page, flags=re.MULTILINE)
    } >= packages()


def test_the_import_contract_covers_every_package():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r"^layers = \[(.*?)^\]", settings, flags=re.MULTILINE | re.DOTALL)
    assert layers is not None
    assert set(re.findall(r"\w+", layers[1])) >= packages()


def test_loading_layers_leaves_the_collection_of_garbage_as_it_was():
    for before in ("enable", "disable"):
        code = f"import gc, torch; gc.{before}(); import incidence.nn; print(gc.isenabled())"
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == str(before == "enable")


def test_what_is_loaded_without_garbage_collection_is_old_afterwards():
    gc.unfreeze()
    with uninterrupted():
        assert not gc.isenabled()
        loaded = [[] for _ in range(100)]
    assert gc.isenabled()
    old = {id(known) for known in gc.get_objects(generation=2)}
    assert all(id(own) in old for own in loaded)
    assert gc.get_freeze_count() == 0


def test_what_somebody_froze_stays_frozen_while_modules_are_loaded():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with uninterrupted():
            loaded = [[] for _ in range(100)]
        assert gc.get_freeze_count() >= frozen - 100 > 0
        assert loaded
    finally:
        gc.unfreeze()
