"""How a process of training starts: which of several it is, what it says at once, and how it loads what is heavy. Needs no torch itself."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from incidence.errors import as_called, need

__all__ = ["is_first", "load", "say"]


def is_first() -> bool:
    """Whether this is the first of several processes, as Lightning or torchrun started them.

    Ours, as Lightning knows it when its trainer is made, and the folder of the run is made before.
    """
    return (
        int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
        and int(os.environ.get("NODE_RANK", "0")) == 0
    )


def say(text: str) -> None:
    """Tells what is about to happen, and that torch and Lightning are loaded for it, if they have yet to be: it takes seconds."""
    waits = "" if "lightning" in sys.modules else "\nLoading torch and Lightning ..."
    print(as_called(text) + waits, file=sys.stderr, flush=True)


def load(part: str, purpose: str) -> Any:
    """A module of this package, and all that it needs.

    Modules are no garbage: in a process that has only begun, none is looked for while they load, nor among them ever after. To do so,
    while they make a million objects, takes a fifth of the time.

    Raises:
        MissingExtraError: An optional library that it needs is not installed.
    """
    name = f"incidence.train.{part}"
    if "torch" in sys.modules or not gc.isenabled():  # a process of others, with objects of theirs
        return need(name, purpose, "train")
    gc.disable()
    try:
        return need(name, purpose, "train")
    finally:
        gc.freeze()
        gc.enable()
