"""`Config`: every option of a run, typed, the same in files, on the command line and in Python.

The words of this package:

- *option*: one named value of a run, such as `epochs`.
- *config*: all options of a run; one that is None is still open.
- *recipe*: options that learned well on a data set, or on data of one reader; they fill open ones.
- *preset*: a network by name (`incidence.models`) with its settings; they fill what is still open.
- *settings*: the keyword arguments of a network, which are the options of the section `model`.
- *experiment*: a config with nothing open, and its data (`prepare.py`).
- *model spec*: what a trained model is and reads; `model.json` in the folder of a run.

Defaults, a file and flags make a config here (`read_config`). One place fills it: `prepare.py`.
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

from incidence.errors import IncidenceError, need, optional, shown
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
        "model": "mesh",
        "lr": 6e-3,
        "weight_decay": 1e-3,
        "batch_size": 16,
        "label_smoothing": 0.1,
        "augment": True,
        "epochs": 24,
    },
    "graph": {"model": "graph"},
    "hypergraph": {"model": "hypergraph"},
    "database": {
        "model": "relational",
        "hidden": 32,
        "depth": 1,
        "aggr": ("mean",),
        "operations": ("local",),
        "readout": ("mean", "max"),
        "epochs": 8,
        "batch_size": 128,
        "lr": 3e-3,
        "dropout": 0.2,
        "norm": "layer",
    },
    "example": {"model": "relational"},
}
"""Options that learned well, by the reader of the data."""

_LARGEST = 2**63 - 1
_MOST_CHANNELS, _MOST_LAYERS, _MOST_PROCESSES = 1 << 20, 1000, 1024
# pure half precision is left out: it does not learn
_PRECISIONS = ("32-true", "64-true", "16-mixed", "bf16-mixed")


def _option(
    default: Any,
    section: str,
    about: str,
    *,
    metavar: str = "",
    among: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Return a field of `Config`.

    Args:
        default: None if a recipe or preset decides, or if there is no such value.
        section: One of `SECTIONS`.
        about: The help text, without the default.
        metavar: What the help calls the value.
        among: The values that it may have.
        least: The smallest value.
        most: The largest value.
    """
    metadata = {
        "section": section,
        "about": about,
        "metavar": metavar,
        "among": tuple(among),
        "least": least,
        "most": most,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, init=False)
class Config:
    """Every option of a run. None means that the recipe of the data, or the preset, decides.

    Example:
        >>> Config(epochs=3).replace(hidden=16).hidden
        16
    """

    data: str = _option(
        "solubility",
        "data",
        "data set: a name, or the path of a file or folder",
    )
    folder: str | None = _option(None, "data", "folder with the files of a named data set")
    target: str | None = _option(
        None,
        "data",
        "column or property to predict; several as A,B",
        metavar="COLUMN",
    )
    task: str | None = _option(
        None,
        "data",
        "what to learn, if the values do not decide it",
        among=("regression", "classification", "multilabel", "links"),
    )
    smiles: str | None = _option(
        None,
        "data",
        "column of a table of molecules with the SMILES",
        metavar="COLUMN",
    )
    nodes: tuple[str, ...] | None = _option(
        None,
        "data",
        "tables of nodes with features and labels, beside a table of edges",
        metavar="CSV",
    )
    keys: tuple[str, ...] | None = _option(
        None,
        "data",
        "two ID columns of a table of ratings or links, such as: user movie",
        metavar="COLUMN",
    )
    tables: tuple[str, ...] | None = _option(
        None,
        "data",
        "tables beside ratings: features of users or movies, or edges between them",
        metavar="CSV",
    )
    task_table: tuple[str, ...] | None = _option(
        None,
        "data",
        "for a database (a folder of tables, SQLite, DuckDB): columns entity, time and target;"
        " or a table for each part",
        metavar="CSV",
    )
    metric: str | None = _option(
        None,
        "data",
        "main metric: accuracy, ap, auc, rmse, mae; of links hits@10 and so on; of triples mrr; of"
        " ratings ndcg@10, recall@10 (default: rmse for numbers, accuracy for classes, auc for"
        " labels and links)",
        metavar="NAME",
        among=(
            *("accuracy", "ap", "auc", "rmse", "mae"),
            *("hits@1", "hits@3", "hits@10", "hits@50", "mrr", "recall@10", "ndcg@10"),
        ),
    )
    reader: str | None = _option(
        None,
        "data",
        "reader of your files, if the suffix does not decide it: graph, molecule, mesh, example",
    )
    data_options: tuple[str, ...] | None = _option(
        None,
        "data",
        "further options of the data set, its reader or its lift, such as: labels=7 cutoff=4",
        metavar="NAME=VALUE",
    )
    split: int = _option(0, "data", "number of the split or fold, from 0", least=0)
    validation: float | None = _option(
        None,
        "data",
        "share of the training data to validate on, from 0 to 1",
        metavar="SHARE",
        least=0,
    )
    cv: int | None = _option(
        None,
        "data",
        "number of folds of a cross validation; --split chooses the fold to test on",
        least=2,
    )
    groups: str | None = _option(
        None,
        "data",
        "column whose rows of one value stay in one part, or: scaffold (of molecules)",
        metavar="COLUMN",
    )
    time: str | None = _option(
        None,
        "data",
        "column of times: the latest rows are for testing, those before for validation",
        metavar="COLUMN",
    )
    data_seed: int = _option(0, "data", "seed of splits that are drawn", least=0)
    lift: str | None = _option(
        None,
        "data",
        "tensors to add to graphs: rings, cliques, matrix, pairs, hops, distances, walks, triples,"
        " space, or none"
        " (default: what the model reads)",
    )
    max_size: int | None = _option(
        None, "data", "largest size of rings (default 6) or cliques (default 3) to add", least=3
    )
    augment: bool | None = _option(
        None, "data", "change the training data at random in every epoch (meshes only)"
    )

    model: str | None = _option(
        None,
        "model",
        "network: a name, or the tensors it reads, such as 'i, {i j}' (default: by the data)",
    )
    through: str | None = _option(None, "model", "hidden tensors, such as 'i, {i j}'")
    hidden: int | None = _option(
        None, "model", "channels of the hidden tensors", least=1, most=_MOST_CHANNELS
    )
    depth: int | None = _option(None, "model", "number of blocks", least=0, most=_MOST_LAYERS)
    aggr: tuple[str, ...] | None = _option(
        None, "model", "aggregations of layers: sum, mean, max, min, std", metavar="NAME"
    )
    whole: str | None = _option(None, "model", "aggregation of layers over whole structures")
    norm: str | None = _option(
        None, "model", "norm of every block", among=("batch", "layer", "none")
    )
    first_norm: str | None = _option(
        None, "model", "norm after the encoder", among=("same", "batch", "layer", "none")
    )
    activation: str | None = _option(
        None,
        "model",
        "activation: relu, gelu, silu, elu, tanh, softshrink, sin, gate or none",
    )
    dropout: float | None = _option(
        None, "model", "dropout probability in blocks", metavar="P", least=0, most=1
    )
    dropout_at: str | None = _option(
        None,
        "model",
        "drop what a block adds (branch), or what it starts from (stream)",
        among=("branch", "stream"),
    )
    head_dropout: float | None = _option(
        None,
        "model",
        "dropout probability in heads, if it differs from --dropout",
        metavar="P",
        least=0,
        most=1,
    )
    head_depth: int | None = _option(
        None,
        "model",
        "hidden layers in the head of a whole structure",
        least=0,
        most=_MOST_LAYERS,
    )
    readout: tuple[str, ...] | None = _option(
        None,
        "model",
        "statistics that heads of whole structures read: sum, mean, max, min, std",
        metavar="NAME",
    )
    max_overlap: int | None = _option(
        None, "model", "for faces of any size, largest number of matched nodes", least=1
    )
    operations: tuple[str, ...] | None = _option(
        None,
        "model",
        "operations of layers: local, boundary, adjacency, global, self",
        metavar="NAME",
    )
    ends: str | None = _option(
        None,
        "model",
        "first and last layers: complete (layer), of single entries (entry), of queries (query)",
        among=("layer", "entry", "query"),
    )
    jumping: str | None = _option(
        None,
        "model",
        "what heads read: the last block, or the mean or max of all (jumping knowledge)",
        among=("last", "mean", "max"),
    )
    hops: int | None = _option(
        None,
        "model",
        "number of averages over neighbours before the head",
        least=0,
        most=_MOST_LAYERS,
    )
    adjacent: bool | None = _option(
        None, "model", "add the neighbours of every node in blocks; only nodes are hidden tensors"
    )
    harmonic: int | None = _option(
        None,
        "model",
        "columns of noise that show the holes of a complex; 0 for none",
        least=0,
        most=_MOST_CHANNELS,
    )
    in_dropout: float | None = _option(
        None,
        "model",
        "dropout probability applied to the input features",
        metavar="P",
        least=0,
        most=1,
    )
    scale: str | None = _option(
        None,
        "model",
        "scale columns of features to deviation 1, or rows to sum 1",
        among=("columns", "rows"),
    )
    products: tuple[str, ...] | None = _option(
        None, "model", "products in every block, such as 'i j, j k -> i k'", metavar="PRODUCT"
    )
    attention: tuple[str, ...] | None = _option(
        None, "model", "attention in every block, such as 'near=i j over j'", metavar="TENSOR"
    )
    heads: int | None = _option(
        None, "model", "number of attention heads", least=1, most=_MOST_CHANNELS
    )

    epochs: int = _option(50, "training", "number of passes over the training data", least=1)
    batch_size: int = _option(64, "training", "examples in a step, over all processes", least=1)
    neighbours: str | None = _option(
        None,
        "training",
        "for one large graph, neighbours to draw at each step around every node of a batch, such"
        " as 10,10 or all,all (default: the whole graph)",
        metavar="N,N",
    )
    lr: float = _option(3e-3, "training", "peak learning rate", metavar="RATE", least=0)
    optimizer: str = _option(
        "adamw",
        "training",
        "optimiser; adam adds the weight decay to the gradient",
        among=("adamw", "adam"),
    )
    weight_decay: float = _option(
        1e-4, "training", "weight decay of the optimiser", metavar="RATE", least=0
    )
    warmup: float = _option(
        0.15,
        "training",
        "share of the steps before the peak learning rate, from 0 to 1",
        metavar="SHARE",
        least=0,
        most=1,
    )
    schedule: str = _option(
        "cosine",
        "training",
        "learning rate after the peak",
        among=("cosine", "constant", "plateau"),
    )
    plateau_patience: int = _option(
        10,
        "training",
        "for the schedule plateau, epochs without a better metric before the rate is halved",
        least=1,
    )
    average: float = _option(
        0.0,
        "training",
        "decay of averaged weights (EMA), such as 0.999; they are validated and saved; 0 for none",
        metavar="DECAY",
        least=0,
        most=1,
    )
    max_minutes: float = _option(
        0.0,
        "training",
        "minutes after which training stops at the end of an epoch; 0 for no limit",
        metavar="MINUTES",
        least=0,
    )
    save_minutes: float = _option(
        10.0,
        "training",
        "minutes between checkpoints in the middle of an epoch; 0 for checkpoints of epochs alone",
        metavar="MINUTES",
        least=0,
    )
    clip: float = _option(
        1.0, "training", "largest norm of the gradient; 0 for no clipping", metavar="NORM", least=0
    )
    label_smoothing: float = _option(
        0.0, "training", "label smoothing, from 0 to 1", metavar="SHARE", least=0, most=1
    )
    loss: str = _option(
        "squared", "training", "loss of numbers", among=("squared", "absolute", "huber")
    )
    keep: str = _option(
        "last",
        "training",
        "weights to save: of the last epoch, or of the epoch with the best validation metric",
        among=("last", "best"),
    )
    patience: int = _option(
        0,
        "training",
        "epochs without a better validation metric after which training stops; 0 for never",
        least=0,
    )
    ensemble: int = _option(
        1,
        "training",
        "number of networks to train, with different seeds; the mean is predicted",
        least=1,
        most=100,
    )
    seed: int = _option(0, "training", "seed of weights, order and dropout", least=0)

    out: str | None = _option(
        None,
        "run",
        "folder for the results (default: a new one in runs/)",
        metavar="FOLDER",
    )
    devices: int = _option(
        1, "run", "number of processes on this machine", least=1, most=_MOST_PROCESSES
    )
    machines: int = _option(
        1, "run", "number of machines, started with torchrun", least=1, most=_MOST_PROCESSES
    )
    split_structure: bool = _option(
        False,
        "run",
        "spread one large structure over all processes, instead of giving them different examples",
    )
    accelerator: str = _option("auto", "run", "hardware to train on: cpu, gpu, mps or auto")
    precision: str = _option("32-true", "run", "precision of numbers", among=_PRECISIONS)
    threads: int = _option(
        1,
        "run",
        "threads of torch in each process; another number rounds differently",
        least=1,
        most=_MOST_PROCESSES,
    )
    logger: str = _option("csv", "run", "format of the logs", among=("csv", "tensorboard", "both"))

    _given: ClassVar[frozenset[str]]

    def __init__(self, **options: Any) -> None:
        _assert_known(options)
        hints = get_type_hints(Config)
        for f in fields(self):
            value = _checked(f, options.get(f.name, f.default), hints[f.name])
            object.__setattr__(self, f.name, value)
        object.__setattr__(self, "_given", frozenset(options))

    def __repr__(self) -> str:
        """Return the options that are not at their default."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        changed = [f"{f.name}={value!r}" for f, value in values if value != f.default]
        return f"Config({', '.join(changed)})"

    def replace(self, **changes: Any) -> Config:
        """Return a config with some options changed."""
        return Config(**{**self.given(), **changes})

    def given(self) -> dict[str, Any]:
        """Return the options that were given, even if they are at their default."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in self._given}

    def all_given(self) -> Config:
        """Return a config that no recipe changes, for a run that has begun."""
        return Config(**{f.name: getattr(self, f.name) for f in fields(self)})

    def with_recipe(self, recipe: Mapping[str, Any]) -> Config:
        """Return a config with open options filled by a recipe.

        Options of the model of the recipe are of no use to another model, and are left out there.
        """
        is_its_model = self.model in (None, recipe["model"])
        useful = {
            key: value for key, value in recipe.items() if is_its_model or key not in _OF_MODEL
        }
        return Config(**{**useful, **self.given()})

    def settings(self) -> dict[str, Any]:
        """Return the settings of the network that are not open."""
        settings = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata["section"] == "model" and f.name != "model" and value is not None:
                settings[f.name] = value
        return settings

    def to_yaml(self) -> str:
        """Return the options that have a value as YAML, without `out`, as a folder may move."""
        yaml = need("yaml", "a config file", "train")
        plain = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "out" and value is not None:
                plain[f.name] = list(value) if isinstance(value, tuple) else value
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        return text


_OF_MODEL = {
    *(f.name for f in fields(Config) if f.metadata["section"] == "model"),
    *("lift", "max_size", "data_options"),
}


def option_type(hint: Any) -> Any:
    """Return the type of a value that is not None: `int` for `int | None`."""
    if get_origin(hint) in (Union, types.UnionType):
        [hint] = [one for one in get_args(hint) if one is not type(None)]
    return hint


def is_list_option(name: str) -> bool:
    """Return whether an option takes several values at once."""
    return get_origin(option_type(get_type_hints(Config).get(name))) is tuple


_TYPE_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}


def _checked(f: dataclasses.Field[Any], value: Any, hint: Any) -> Any:
    """Return the value of an option in its type.

    Raises:
        IncidenceError: It has another type, or is out of bounds.
    """
    kind = option_type(hint)
    if value is None and kind is not hint:
        return None
    typed: Any
    if get_origin(kind) is tuple:
        typed = _as_texts(value)
    elif kind is float:
        typed = _as_finite(value)
    else:
        is_typed = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        typed = value if is_typed else None
    if typed is None:
        wanted = _TYPE_NAMES.get(kind, "a text or a list of texts")
        raise IncidenceError(f"the option `{f.name}` is {wanted}; got {shown(value)}.")
    _assert_in_bounds(f, typed, kind)
    return typed


def _as_texts(value: Any) -> tuple[str, ...] | None:
    texts = (value,) if isinstance(value, str) else value
    are_texts = isinstance(texts, (list, tuple)) and all(isinstance(one, str) for one in texts)
    return tuple(texts) if are_texts and texts else None


def _as_finite(value: Any) -> float | None:
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        return None
    try:
        number = float(value)  # PyYAML reads 1e-3 as a text
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _assert_in_bounds(f: dataclasses.Field[Any], value: Any, kind: type) -> None:
    among, least, most = f.metadata["among"], f.metadata["least"], f.metadata["most"]
    if kind is int and most is None:
        most = _LARGEST
    if among and value not in among:
        raise IncidenceError(
            f"the option `{f.name}` is one of {', '.join(among)}; got {shown(value)}."
        )
    if least is not None and not value >= least:
        raise IncidenceError(f"the option `{f.name}` is at least {least}; got {shown(value)}.")
    if most is not None and not value <= most:
        raise IncidenceError(f"the option `{f.name}` is at most {most}; got {shown(value)}.")


def _assert_known(options: Mapping[str, Any], where: str = "") -> None:
    known = [f.name for f in fields(Config)]
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        name = unknown if isinstance(unknown, str) and len(unknown) < 100 else shown(unknown)
        close = get_close_matches(name, known, n=1)
        guess = f" Did you mean `{close[0]}`?" if close else f" There are: {', '.join(known)}."
        raise IncidenceError(f"{where}no option `{name}`.{guess}")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the options in a file, or of the run in a folder; nothing in it is executed.

    Raises:
        IncidenceError: It cannot be read, or has something else than options.
    """
    with optional("a config file", "train"):
        from incidence.train.plain_yaml import parse_yaml

    path = path / "config.yaml" if isdir(path) else path
    try:
        content = parse_yaml(regular_file(path, "a config").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IncidenceError(
            f"the config {str(path)!r} cannot be read: {' '.join(str(error).split()).rstrip('.')}."
        ) from error
    if content is None:  # an empty file
        return {}
    if not isinstance(content, dict):
        raise IncidenceError(
            f"the config {str(path)!r} has lines like `epochs: 50`; got {type(content).__name__}."
        )
    _assert_known(content, f"{path}: ")
    return content


def read_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Return the config of a file and flags; flags win."""
    options = {} if file is None else read_yaml(file)
    return Config(**{**options, **flags})


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return options of data, written as `labels=7`, with plain values.

    Raises:
        IncidenceError: A text is not of that form.

    Example:
        >>> read_options(["labels=[1, 6, 8]", "family=sr251256"])
        {'labels': [1, 6, 8], 'family': 'sr251256'}
    """
    if not texts:
        return {}
    with optional("reading options", "train"):
        from incidence.train.plain_yaml import parse_yaml

    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            options[name.strip()] = parse_yaml(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise IncidenceError(
                "an option of the data is written as in `--data-options labels=7`; got"
                f" {shown(text)}."
            )
    return options
