"""One structure over several processes and machines: every process holds a part, and layers take a
part as they take a structure (docs/distributed.md).

Processes are those of `torch.distributed`, as `torchrun` starts them.
"""

from __future__ import annotations

from incidence.distributed.assembling import assemble
from incidence.distributed.blocks import run_blocks
from incidence.distributed.part import Part, gather, rows
from incidence.distributed.part_files import load, save
from incidence.distributed.processes import TorchWorld
from incidence.distributed.splitting import split
from incidence.distributed.training import sum_gradients

__all__ = [
    "Part",
    "TorchWorld",
    "assemble",
    "gather",
    "load",
    "rows",
    "run_blocks",
    "save",
    "split",
    "sum_gradients",
]
