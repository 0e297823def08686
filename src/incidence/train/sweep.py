"""A sweep: a run for every combination of the values in a YAML file.

Finished runs stay, so that a sweep can be stopped and continued.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.train.compare import RunComparison, compare
from incidence.train.config import Config, is_list_option, read_yaml
from incidence.train.report import finish
from incidence.train.run import Interrupted, resume, train
from incidence.train.run_folder import RunFolder, write

__all__ = ["combinations", "sweep"]

_FILE = "sweep.yaml"
_LONGEST = 120  # characters of the name of a folder


def combinations(options: Mapping[str, Any]) -> dict[str, Config]:
    """Return the configs of a sweep, each by a name with the values that are swept.

    Args:
        options: Options of a config, where a list stands for several values. An option that is a
            list itself, such as `aggr`, is swept by a list of lists.

    Raises:
        IncidenceError: An option is unknown or has a value that it cannot have, or a list is empty.

    Example:
        >>> list(combinations({"hidden": [16, 32], "aggr": [["sum"], ["sum", "max"]], "epochs": 3}))
        ['hidden=16,aggr=sum', 'hidden=16,aggr=sum+max', 'hidden=32,aggr=sum',
        'hidden=32,aggr=sum+max']
    """
    swept = {key: value for key, value in options.items() if _is_swept(key, value)}
    empty = next((key for key, values in swept.items() if not values), None)
    if empty is not None:
        raise IncidenceError(
            f"the option `{empty}` of the sweep has an empty list of values: give at least one, or"
            " leave it out."
        )
    configs: dict[str, Config] = {}
    for number, values in enumerate(product(*swept.values())):
        chosen = dict(zip(swept, values, strict=True))
        config = Config(**{**options, **chosen})
        if config in configs.values():  # the file has a value twice
            continue
        words = ",".join(f"{key}={_as_text(value)}" for key, value in chosen.items()) or "run"
        name = re.sub(r"[^\w.,=+-]+", "_", words)
        if len(name) > _LONGEST or name in configs:
            name = str(number)
        configs[name] = config
    return configs


def _is_swept(key: str, value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return not is_list_option(key) or any(isinstance(one, list) for one in value)


def _as_text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def sweep(
    file: Path, out: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> tuple[RunComparison, list[IncidenceError]]:
    """Train a run for every combination of a file.

    Finished runs stay as they are, and runs that were stopped are resumed.

    Args:
        file: The YAML file.
        out: The folder of the runs; by default one in `runs/` with the name of the file.
        say: Called with a line about every run that begins.

    Returns:
        All finished runs, and the errors of the others.

    Raises:
        IncidenceError: The file is no sweep, the folder belongs to another, or no run could be
            finished.
        Interrupted: The user stopped it.
    """
    options = read_yaml(file)
    if not options:
        raise IncidenceError(
            f"{file} has no options: a sweep is a config with lists of values, as in `hidden: [32,"
            " 64]`."
        )
    configs, errors = combinations(options), list[IncidenceError]()
    if "out" in options:
        raise IncidenceError(f"{file}: leave out `out`; the folder of a sweep is given by --out.")
    folder = Path("runs", file.stem) if out is None else out
    _start(folder, options)
    for number, (name, config) in enumerate(configs.items(), 1):
        path = folder / name
        if (path / "report.html").is_file():
            continue
        say(f"Run {number} of {len(configs)}: {name}")
        try:
            _train_or_resume(config, path)
        except IncidenceError as error:  # the other runs are trained all the same
            errors.append(IncidenceError(f"{name}: {error}"))
        except KeyboardInterrupt as stop:  # resuming this run would leave out the others
            words = ["incidence", "sweep", str(file)]
            words += [] if out is None else ["--out", str(out)]
            raise Interrupted(RunFolder(path), shlex.join(words)) from stop
    done = [folder / name for name in configs if RunFolder(folder / name).metrics.is_file()]
    if not done:
        raise errors[0]
    return compare(done), errors


def _train_or_resume(config: Config, path: Path) -> None:
    if (path / "config.yaml").is_file():
        run = resume(path, is_shown=True)
    else:
        run = train(config.replace(out=str(path)), is_shown=True)
    if run is not None:
        finish(run)


def _start(out: Path, options: Mapping[str, Any]) -> None:
    """Make the folder, or check that it is that of the same sweep.

    Raises:
        IncidenceError: It belongs to something else, or cannot be made.
    """
    yaml, path = need("yaml", "a sweep", "train"), out / _FILE
    if path.is_file():
        if read_yaml(path) != options:
            raise IncidenceError(
                f"the sweep in {out} was started with other options ({path}): give another --out,"
                " or the same file."
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
