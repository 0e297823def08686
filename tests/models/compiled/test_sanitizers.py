"""The C code under the sanitizers of gcc: no step reads or writes outside of its arrays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
TESTS = ("tests/models/compiled/test_network.py", "tests/engine/products/test_join.py")

# The library compiles its C with other flags; `used` shows that it did.
SCRIPT = """
import os
import sys
from pathlib import Path

import pytest
from incidence.engine import library

os.environ.pop("LD_PRELOAD")  # the compiler needs no sanitizers
library._FLAGS = ({flags}, "-shared", "-fPIC")
library._MOST_SECONDS = 600
{then}
"""

RUN_TESTS = """
status = pytest.main({options})
names = sorted(p.name.partition("-")[0] for p in library._cache_folder().iterdir())
assert names == ["join", "network"], names
sys.exit(status)
"""

READ_OUTSIDE = """
import ctypes

import torch

code = library.compiled_library(Path({source!r}))
code.last.argtypes = [ctypes.c_void_p, ctypes.c_int64]
code.last.restype = ctypes.c_float
x = torch.ones(1000)
print(code.last(x.data_ptr(), {count}))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="asks gcc where its sanitizers are"),
]


def runtimes() -> list[str]:
    """Return the libraries that a process must load before all others."""
    found = []
    for name in ("libasan.so", "libubsan.so"):
        command = ["gcc", f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_absolute():
            pytest.skip(f"gcc has no {name} here")
        found.append(path)
    return found


def sanitized(then: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the sanitizers."""
    script = SCRIPT.format(flags=", ".join(map(repr, FLAGS)), then=then)
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(runtimes()),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",  # Python keeps memory until its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT))),
        "PYTHONMALLOC": "malloc",
        "XDG_CACHE_HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("count", [1000, 1001])
def test_the_sanitizers_notice_one_number_outside_of_a_tensor(count, tmp_path):
    source = tmp_path / "last.c"
    source.write_text(
        "#include <stdint.h>\nfloat last(const float *x, int64_t n) { return x[n - 1]; }\n"
    )
    done = sanitized(READ_OUTSIDE.format(source=str(source), count=count), tmp_path)
    assert (done.returncode == 0) == (count == 1000), done.stderr
    assert ("heap-buffer-overflow" in done.stderr) == (count == 1001)


def test_networks_and_products_stay_within_their_arrays(tmp_path):
    # other processes compile with the flags of the library
    in_this_process = "not without_it and not starts_no_second_thread"
    options = ["-n", "0", "-p", "no:cacheprovider", "-m", "", "-k", in_this_process, *TESTS]
    done = sanitized(RUN_TESTS.format(options=options), tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
