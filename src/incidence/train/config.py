"""`Config`: all that can be said about a run, typed, the same in files, on the command line and in Python.

The words of this package, one for each thing:

    option     one named value of a run, such as `epochs`
    Config     all options of a run; one that is None was left open
    recipe     options that learned well on a data set, or on a kind of files: they fill what was left open
    preset     a network by name (`incidence.models`), with its settings: they fill what is open still
    settings   the keyword arguments of a network, which are the options of the section `model`
    ModelSpec  what a trained model is and reads, made of a full Config and its data; `model.json` in the folder of the run

A config is made here from defaults, a file and flags (`read_config`), and filled in one place, by `incidence.train.prepare`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from os.path import isdir
from pathlib import Path
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from incidence.errors import IncidenceError, need, shown
from incidence.files import regular_file

__all__ = [
    "RECIPES",
    "SECTIONS",
    "Config",
    "is_list_option",
    "option_type",
    "read_config",
    "read_options",
    "read_yaml",
]

SECTIONS = ("data", "model", "training", "run")

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "molecule": {"model": "molecule"},
    "mesh": {
        "model": "mesh", "lr": 6e-3, "weight_decay": 1e-3, "batch_size": 16, "label_smoothing": 0.1, "augment": True, "epochs": 24,
    },
    "graph": {"model": "graph"},
    "example": {"model": "relational"},
}  # fmt: skip
"""Options that learned well, by the reader of the data."""

_LARGEST = 2**63 - 1
_MOST_CHANNELS, _MOST_LAYERS, _MOST_PROCESSES = 1 << 20, 1000, 1024
_PRECISIONS = (
    "32-true",
    "64-true",
    "16-mixed",
    "bf16-mixed",
)  # half precision throughout is not offered


def _option(
    default: Any,
    section: str,
    about: str,
    among: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
) -> Any:
    return field(
        default=default,
        metadata={
            "section": section,
            "about": about,
            "among": tuple(among),
            "least": least,
            "most": most,
        },
    )


@dataclass(frozen=True, init=False)
class Config:
    """Every option of a run. None means: what the recipe of the data set or the preset of the model says.

    Example:
        >>> Config(epochs=3).replace(hidden=16).hidden
        16
    """

    data: str = _option(
        "solubility", "data", "a data set by name, or the path of a folder or file of your own"
    )
    folder: str | None = _option(None, "data", "where the files of a named data set are")
    target: str | None = _option(
        None, "data", "which value to predict, where the data has several; your own data: also A,B"
    )
    task: str | None = _option(
        None,
        "data",
        "for your own data, if it is not clear",
        ("regression", "classification", "multilabel", "links"),
    )
    smiles: str | None = _option(
        None, "data", "the column of a table that has SMILES, if it is not clear"
    )
    nodes: tuple[str, ...] | None = _option(
        None,
        "data",
        "tables with the features, and perhaps labels, of nodes, beside a table of edges",
    )
    keys: tuple[str, ...] | None = _option(
        None,
        "data",
        "the columns of a table of ratings, or of links, that say of whom and what, as in: user movie",
    )
    tables: tuple[str, ...] | None = _option(
        None, "data", "tables beside ratings: features of users or movies, or edges between them"
    )
    metric: str | None = _option(
        None,
        "data",
        "which metric counts, if not accuracy, rmse or auc",
        ("accuracy", "ap", "auc", "hits@10", "hits@50", "rmse", "mae"),
    )
    reader: str | None = _option(
        None,
        "data",
        "of your own files, if their suffix does not tell: graph, molecule, mesh, example",
    )
    data_options: tuple[str, ...] | None = _option(
        None, "data", "others of the data, its reader or its lift, as in labels=7 cutoff=4"
    )
    split: int = _option(0, "data", "which split or fold, counted from 0", least=0)
    validation: float | None = _option(
        None, "data", "part of the training data to validate on", least=0
    )
    cv: int | None = _option(
        None,
        "data",
        "folds of a cross validation, where the data tells no parts; --split says which",
        least=2,
    )
    groups: str | None = _option(
        None, "data", "what keeps rows in one part: a column of the data, or scaffold (molecules)"
    )
    data_seed: int = _option(0, "data", "of splits that are drawn", least=0)
    lift: str | None = _option(
        None, "data", "tensors to add: rings, cliques, matrix, pairs, hops, triples, space"
    )
    max_size: int | None = _option(None, "data", "of rings or cliques that a lift adds", least=3)
    augment: bool | None = _option(
        None, "data", "change the training data a little in every epoch (meshes)"
    )

    model: str | None = _option(
        None, "model", "a network by name, or the tensors it reads: 'i, {i j}'"
    )
    through: str | None = _option(None, "model", "the hidden tensors, if they differ")
    hidden: int | None = _option(
        None, "model", "channels of the hidden tensors", least=1, most=_MOST_CHANNELS
    )
    depth: int | None = _option(None, "model", "number of blocks", least=0, most=_MOST_LAYERS)
    aggr: tuple[str, ...] | None = _option(
        None, "model", "how layers pool: sum, mean, max, min, std, or several"
    )
    whole: str | None = _option(None, "model", "how layers pool over whole structures")
    norm: str | None = _option(None, "model", "batch, layer or none", ("batch", "layer", "none"))
    first_norm: str | None = _option(
        None, "model", "of the encoder, if it differs", ("same", "batch", "layer", "none")
    )
    activation: str | None = _option(
        None, "model", "relu, gelu, silu, elu, tanh, softshrink, sin, gate or none"
    )
    dropout: float | None = _option(None, "model", "in blocks", least=0, most=1)
    dropout_at: str | None = _option(
        None, "model", "of what a block adds, or of what it starts from", ("branch", "stream")
    )
    head_dropout: float | None = _option(None, "model", "in heads, if it differs", least=0, most=1)
    head_depth: int | None = _option(
        None, "model", "hidden layers in the head of a whole structure", least=0, most=_MOST_LAYERS
    )
    readout: tuple[str, ...] | None = _option(
        None, "model", "statistics for outputs of whole structures"
    )
    max_overlap: int | None = _option(
        None, "model", "with open faces: matched nodes in one", least=1
    )
    operations: tuple[str, ...] | None = _option(
        None, "model", "which operations layers have: local, boundary, adjacency, global, self"
    )
    ends: str | None = _option(
        None,
        "model",
        "start and end with complete layers, maps of each entry, or with what is asked",
        ("layer", "entry", "query"),
    )
    hops: int | None = _option(
        None, "model", "averages over neighbours before the head", least=0, most=_MOST_LAYERS
    )
    adjacent: bool | None = _option(
        None, "model", "add the neighbours of every node in blocks; nodes alone are hidden"
    )
    in_dropout: float | None = _option(None, "model", "of the features", least=0, most=1)
    scale: str | None = _option(
        None,
        "model",
        "scale columns of features to deviation 1, or rows to sum 1",
        ("columns", "rows"),
    )
    products: tuple[str, ...] | None = _option(
        None, "model", "products in every block, such as 'i j, j k -> i k'"
    )
    attention: tuple[str, ...] | None = _option(
        None, "model", "attention in every block, such as 'near=i j over j'"
    )
    heads: int | None = _option(None, "model", "of attention", least=1, most=_MOST_CHANNELS)

    epochs: int = _option(50, "training", "how often every example is seen", least=1)
    batch_size: int = _option(64, "training", "examples in a step, over all processes", least=1)
    neighbours: str | None = _option(
        None,
        "training",
        "one large graph: draw so many around each node of a batch, as in 10,10 or all,all",
    )
    lr: float = _option(3e-3, "training", "peak of the learning rate", least=0)
    optimizer: str = _option(
        "adamw",
        "training",
        "adam: weights decay as part of the gradient, as for small graphs",
        ("adamw", "adam"),
    )
    weight_decay: float = _option(1e-4, "training", "how fast weights decay", least=0)
    warmup: float = _option(0.15, "training", "part of the steps before the peak", least=0, most=1)
    schedule: str = _option("cosine", "training", "what follows the peak", ("cosine", "constant"))
    clip: float = _option(1.0, "training", "largest norm of a gradient; 0 for none", least=0)
    label_smoothing: float = _option(0.0, "training", "of classes", least=0, most=1)
    loss: str = _option("squared", "training", "of numbers", ("squared", "absolute", "huber"))
    keep: str = _option(
        "last",
        "training",
        "which weights to keep: of the last epoch, or of the best validation",
        ("last", "best"),
    )
    patience: int = _option(
        0,
        "training",
        "stop after that many epochs without a better validation; 0 for never",
        least=0,
    )
    seed: int = _option(0, "training", "of weights, order and dropout", least=0)

    out: str | None = _option(None, "run", "folder of the run; by default a new one in runs/")
    devices: int = _option(1, "run", "processes on this machine", least=1, most=_MOST_PROCESSES)
    machines: int = _option(
        1, "run", "machines, started with torchrun", least=1, most=_MOST_PROCESSES
    )
    accelerator: str = _option("auto", "run", "cpu, gpu, mps, or auto")
    precision: str = _option("32-true", "run", "of numbers, as Lightning calls it", _PRECISIONS)
    threads: int = _option(
        1,
        "run",
        "of torch in each process; other counts round otherwise",
        least=1,
        most=_MOST_PROCESSES,
    )
    logger: str = _option("csv", "run", "csv, tensorboard, or both", ("csv", "tensorboard", "both"))

    _given: ClassVar[frozenset[str]]

    def __init__(self, **options: Any) -> None:
        _assert_known(options)
        hints = get_type_hints(Config)
        for f in fields(self):
            object.__setattr__(
                self, f.name, _checked(f, options.get(f.name, f.default), hints[f.name])
            )
        object.__setattr__(self, "_given", frozenset(options))

    def __repr__(self) -> str:
        """The options that are not at their default."""
        return f"Config({', '.join(f'{f.name}={value!r}' for f in fields(self) if (value := getattr(self, f.name)) != f.default)})"

    def replace(self, **changes: Any) -> Config:
        """The same with some options changed."""
        return Config(**{**self.given(), **changes})

    def given(self) -> dict[str, Any]:
        """The options that were given, be they at their default or not."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in self._given}

    def all_given(self) -> Config:
        """The same with nothing left open: no recipe changes a run that has begun."""
        return Config(**{f.name: getattr(self, f.name) for f in fields(self)})

    def with_recipe(self, recipe: Mapping[str, Any]) -> Config:
        """The same with what was left open as a recipe has it; what is of its model is of no use to another."""
        is_its_model = self.model in (None, recipe["model"])
        return Config(
            **{
                **{
                    key: value
                    for key, value in recipe.items()
                    if is_its_model or key not in _OF_MODEL
                },
                **self.given(),
            }
        )

    def settings(self) -> dict[str, Any]:
        """Of the network, as far as they are known."""
        known = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.metadata["section"] == "model" and f.name != "model"
        }
        return {key: value for key, value in known.items() if value is not None}

    def to_yaml(self) -> str:
        """The options that have a value, as the text of a file; `out` is none of them, as a folder may move."""
        yaml = need("yaml", "a config file", "train")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "out"}
        plain = {
            key: list(v) if isinstance(v, tuple) else v
            for key, v in values.items()
            if v is not None
        }
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        return text


_OF_MODEL = {f.name for f in fields(Config) if f.metadata["section"] == "model"} | {
    "lift",
    "max_size",
    "data_options",
}


def option_type(hint: Any) -> Any:
    """The type of a value that is there: `int` for `int | None`, `str` for the members of a tuple."""
    if get_origin(hint) in (Union, types.UnionType):
        [hint] = [t for t in get_args(hint) if t is not type(None)]
    return hint


def is_list_option(name: str) -> bool:
    """Whether an option takes several values at once."""
    return get_origin(option_type(get_type_hints(Config).get(name))) is tuple


def _checked(f: dataclasses.Field[Any], value: Any, hint: Any) -> Any:
    kind = option_type(hint)
    if value is None and kind is not hint:
        return None
    if get_origin(kind) is tuple:
        value = (value,) if isinstance(value, str) else value
        good = isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value)
        value = tuple(value) if good else value
    elif kind is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            good, value = True, float(value)  # YAML takes 1e-3 for a text
        except (ValueError, OverflowError):
            good = False
    else:
        good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not good or (kind is float and not isfinite(value)):
        wanted = {
            str: "a text",
            int: "a whole number",
            float: "a finite number",
            bool: "true or false",
        }
        raise IncidenceError(
            f"the option `{f.name}` is {wanted.get(kind, 'a text or a list of texts')}; got {shown(value)}."
        )
    among, least, most = f.metadata["among"], f.metadata["least"], f.metadata["most"]
    most = _LARGEST if kind is int and most is None else most
    if among and value not in among:
        raise IncidenceError(
            f"the option `{f.name}` is one of {', '.join(among)}; got {shown(value)}."
        )
    if least is not None and not value >= least:
        raise IncidenceError(f"the option `{f.name}` is at least {least}; got {shown(value)}.")
    if most is not None and not value <= most:
        raise IncidenceError(f"the option `{f.name}` is at most {most}; got {shown(value)}.")
    return value


def _assert_known(options: Mapping[str, Any], where: str = "") -> None:
    known = [f.name for f in fields(Config)]
    for key in options:
        if key not in known:
            name = key if isinstance(key, str) and len(key) < 100 else shown(key)
            close = get_close_matches(name, known, n=1)
            guess = f" Did you mean `{close[0]}`?" if close else f" There are: {', '.join(known)}."
            raise IncidenceError(f"{where}no option `{name}`.{guess}")


def read_yaml(path: Path) -> dict[str, Any]:
    """The options of a file, or of the run in a folder; nothing in it is executed."""
    parse = need("incidence.train.plain_yaml", "a config file", "train").parse_yaml
    path = path / "config.yaml" if isdir(path) else path
    try:
        content = parse(regular_file(path, "a config").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IncidenceError(
            f"the config {str(path)!r} cannot be read: {' '.join(str(error).split()).rstrip('.')}."
        ) from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise IncidenceError(
            f"the config {str(path)!r} has lines like `epochs: 50`; got {type(content).__name__}."
        )
    _assert_known(content, f"{path}: ")
    return content


def read_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """The config of a file, with flags that win over it."""
    return Config(**{**({} if file is None else read_yaml(file)), **flags})


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of data, of its reader or its lift, as people write them, `labels=7`, with plain values.

    Raises:
        IncidenceError: A text is not of that form.

    Example:
        >>> read_options(["labels=[1, 6, 8]", "family=sr251256"])
        {'labels': [1, 6, 8], 'family': 'sr251256'}
    """
    parse = need("incidence.train.plain_yaml", "reading options", "train").parse_yaml
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        try:
            found[key.strip()] = parse(value)
        except ValueError:
            equals = ""
        if not equals or not key.strip():
            raise IncidenceError(
                f"an option of the data is written as in --data-options labels=7; got {shown(text)}."
            )
    return found
