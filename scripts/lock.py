"""`./run lock`: pins every package that `./run` installs, with the hashes of all its files, in `locked.txt`.

The versions of `constraints.txt` are kept, and the newest is taken of everything else. torch is left out, with what only its builds for
GPUs need: its file differs by platform, and `./run` installs it first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "# Every package that ./run installs, torch aside, with the hashes of all its files. Made by ./run lock.\n"
OPTIONS = (
    "--universal",
    "--python-version=3.10",
    "--generate-hashes",
    "--no-annotate",
    "--no-header",
    "--quiet",
)
_WITH_TORCH = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")


def without_torch(text: str) -> str:
    r"""The pins but for torch and what its builds for GPUs need.

    Example:
        >>> without_torch("six==1 \\\n    --hash=sha256:a\ntorch==2 \\\n    --hash=sha256:b\n")
        'six==1 \\\n    --hash=sha256:a\n'
    """
    pins = re.split(r"(?m)^(?=\S)", text)
    return "".join(pin for pin in pins if not _WITH_TORCH.match(pin))


def main(words: list[str]) -> int:
    """Writes `locked.txt`; further words go to uv."""
    locked = ROOT / "locked.txt"
    wanted = "pyproject.toml", "--extra=dev", "--constraints=constraints.txt"
    done = subprocess.run(
        ["uv", "pip", "compile", *wanted, *OPTIONS, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    locked.write_text(HEAD + without_torch(done.stdout), encoding="utf-8")
    print(f"{locked.name} has {locked.read_text(encoding='utf-8').count('==')} pins.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
