"""A sweep: one YAML file with lists of values, and a run for every combination; what is done stays done, so that it can be resumed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.train.compare import Comparison, compare
from incidence.train.config import Config, is_list_option, read_yaml
from incidence.train.folder import RunFolder, write
from incidence.train.report import tell
from incidence.train.run import Interrupted, resume, train

__all__ = ["combinations", "sweep"]

_FILE = "sweep.yaml"
_LONGEST = 120  # letters of the name of a folder


def combinations(options: Mapping[str, Any]) -> dict[str, Config]:
    """The configs of a sweep, by a name that says what is swept.

    Args:
        options: Those of a config, where a list stands for several values. An option that is a list itself, such as `aggr`, is swept by
            a list of lists. A value that is there twice is taken once.

    Raises:
        IncidenceError: An option is unknown or has a value that it cannot have, or a list is empty.

    Example:
        >>> list(combinations({"hidden": [16, 32], "aggr": [["sum"], ["sum", "max"]], "epochs": 3}))
        ['hidden=16,aggr=sum', 'hidden=16,aggr=sum+max', 'hidden=32,aggr=sum', 'hidden=32,aggr=sum+max']
    """
    swept = {key: value for key, value in options.items() if _is_swept(key, value)}
    empty = next((key for key, values in swept.items() if not values), None)
    if empty is not None:
        raise IncidenceError(
            f"the option `{empty}` of the sweep has an empty list of values: give at least one, or leave it out."
        )
    found: dict[str, Config] = {}
    for number, values in enumerate(product(*swept.values())):
        chosen = dict(zip(swept, values, strict=True))
        config = Config(**{**options, **chosen})
        if config in found.values():  # the same value twice
            continue
        name = ",".join(f"{key}={_shown(value)}" for key, value in chosen.items()) or "run"
        name = re.sub(r"[^\w.,=+-]+", "_", name)
        found[name if len(name) <= _LONGEST and name not in found else f"{number}"] = config
    return found


def _is_swept(key: str, value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return not is_list_option(key) or any(isinstance(one, list) for one in value)


def _shown(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def sweep(
    file: Path, out: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> tuple[Comparison, list[IncidenceError]]:
    """Trains a run for every combination of a file; those that are finished are left, and those that were stopped go on.

    Args:
        file: The YAML file.
        out: The folder of the runs; by default one in `runs/` that is called as the file.
        say: Is told what begins.

    Returns:
        All finished runs, and the errors of those that could not be finished.

    Raises:
        IncidenceError: The file does not say a sweep, the folder belongs to another, or no run could be finished.
        Interrupted: The user stopped it.
    """
    options, again = (
        read_yaml(file),
        ["incidence", "sweep", str(file), *([] if out is None else ["--out", str(out)])],
    )
    if not options:
        raise IncidenceError(
            f"{file} has no options: a sweep is a config with lists of values, as in `hidden: [32, 64]`."
        )
    out = Path("runs", file.stem) if out is None else out
    configs, errors = combinations(options), list[IncidenceError]()
    if "out" in options:
        raise IncidenceError(f"{file}: leave out `out`; the folder of a sweep is given by --out.")
    _begin(out, options)
    for number, (name, config) in enumerate(configs.items(), 1):
        path = out / name
        if (path / "report.html").is_file():
            continue
        say(f"Run {number} of {len(configs)}: {name}")
        try:
            run = (
                resume(path, is_shown=True)
                if (path / "config.yaml").is_file()
                else train(config.replace(out=str(path)), is_shown=True)
            )
            if run is not None:
                tell(run)
        except IncidenceError as error:  # the others are not lost for it
            errors.append(IncidenceError(f"{name}: {error}"))
        except KeyboardInterrupt as stop:  # to resume this run would leave out the others
            raise Interrupted(RunFolder(path), shlex.join(again)) from stop
    done = [path for path in _folders(out, configs) if RunFolder(path).metrics.is_file()]
    if not done:
        raise errors[0]
    return compare(done), errors


def _folders(out: Path, configs: Mapping[str, Config]) -> Iterator[Path]:
    return (out / name for name in configs)


def _begin(out: Path, options: Mapping[str, Any]) -> None:
    """Makes the folder, or sees that it is that of the same sweep."""
    yaml, path = need("yaml", "a sweep", "train"), out / _FILE
    if path.is_file():
        if read_yaml(path) != options:
            raise IncidenceError(
                f"the sweep in {out} was begun with other options ({path}): give another --out, or the same file."
            )
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise IncidenceError(f"{out} has something in it that is no sweep: give another --out.")
    except OSError as error:
        raise IncidenceError(
            f"no folder can be made for the sweep: {error}. Choose one with --out."
        ) from error
    write(path, yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True))
