"""The examples with the worst and the best predictions, drawn.

RDKit draws molecules whose SMILES are known, and `plot.structure` draws everything else. Of data
that is one structure, such as a graph with labels of nodes, or ratings, entries are drawn with some
of their surroundings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence import plot
from incidence.algebra.pattern import Pattern
from incidence.data.completion import KNOWN
from incidence.data.dataset import DataSet, Task
from incidence.data.molecule_files import smiles_of
from incidence.errors import IncidenceError, need
from incidence.plot.structures import TINTS, molecule_of
from incidence.plot.theme import LIGHT
from incidence.structure.example import Example
from incidence.structure.structure import Structure
from incidence.train.evaluation import Scored

__all__ = ["Card", "badness", "gallery"]

_COUNT = 4  # cards of each kind
_MOST_LABELS = 4  # in a caption, the worst first
_MOST_ENTRIES = 4_000  # of a structure that is drawn
_SIZES = (8, 2)  # neighbours of an entry that are drawn, and of each of these
# Points of the paper. All pictures of a page have one size, which a lone node would fill.
_LEAST_SIDE = 150.0
_MANY_NODES = 60  # so many nodes and their edges would cover the faces


class Card(NamedTuple):
    """An example with its prediction.

    Attributes:
        picture: The example as SVG; may be empty.
        name: Its name.
        caption: What was measured and predicted.
        is_right: Whether the predicted class is the true one, if there are classes.
    """

    picture: str
    name: str
    caption: str
    is_right: bool = True


class _Item(NamedTuple):
    """An example, or an entry of the only one, with its rows and their mean error."""

    number: int
    rows: list[int]
    error: float
    is_right: bool


def gallery(data: DataSet, scored: Scored) -> tuple[list[Card], list[Card]]:
    """Return the examples with the largest errors, and those with the smallest.

    Of transductive data, they are entries. Of classes, right predictions come before wrong ones,
    however probable the true class is.

    Args:
        data: The data set.
        scored: The predictions of a part of it.
    """
    items = _items(data, scored)
    count = min(_COUNT, len(items) // 2)
    best = [item for item in items[:count] if item.is_right] or items[:count]
    worst = items[len(items) - count :][::-1]
    card = _card_maker(data, scored)
    return [card(item) for item in worst], [card(item) for item in best]


def _items(data: DataSet, scored: Scored) -> list[_Item]:
    """Return what has a target, the best first."""
    errors, is_wrong = badness(data.task, scored), _is_wrong(data.task, scored)
    rows: dict[int, list[int]] = {}
    for row, (example, entry) in enumerate(scored.places):
        if not errors[row].isnan():
            rows.setdefault(entry if data.is_transductive else example, []).append(row)
    wrong = {number: float(is_wrong[some].float().mean()) for number, some in rows.items()}
    items = [
        _Item(number, some, float(errors[some].double().mean()), not wrong[number])
        for number, some in rows.items()
    ]
    return sorted(items, key=lambda item: (wrong[item.number], item.error))


def _is_wrong(task: Task, scored: Scored) -> Tensor:
    """Return for every row whether the most probable class is wrong; False without classes."""
    if task.kind != "classification":
        return torch.zeros(len(scored.target), dtype=torch.bool)
    return scored.predicted.argmax(1) != scored.target


def badness(task: Task, scored: Scored) -> Tensor:
    """Return the error of every row, (rows,); NaN without a target.

    It is the mean error of numbers, on the scale of each, or of labels; or the probability of other
    classes than the true one.
    """
    if task.kind == "classification":
        true = scored.predicted.gather(1, scored.target.clamp(min=0)[:, None])[:, 0]
        return torch.where(scored.target >= 0, 1 - true, torch.nan)
    target = scored.target.reshape(scored.predicted.shape)
    errors = (scored.predicted - target).abs()
    if task.kind == "regression":
        spread = (target - target.nanmean(0)).square().nanmean(0).sqrt()
        errors = errors / spread.clamp(min=1e-12)
    return errors.nanmean(1)


def _card_maker(data: DataSet, scored: Scored) -> Callable[[_Item], Card]:
    """Return what makes a card of an item."""
    task, count = data.task, len(data.examples)
    smiles = smiles_of(data) if data.reader == "molecule" else ()
    if len(smiles) != count:
        smiles = [""] * count

    def of_example(item: _Item) -> Card:
        name = data.names[item.number] if len(data.names) == count else f"example {item.number}"
        caption = _caption(task, scored, item.rows[0])
        if task.at:
            caption = f"{len(item.rows)} rows, mean error {item.error:.3g}"
        picture = _picture(data.examples[item.number], smiles[item.number])
        return Card(picture, str(name), caption, item.is_right)

    def of_entry(item: _Item) -> Card:
        words = data.label(0, item.number)[: max(1, len(task.at.split()))]
        caption = _caption(task, scored, item.rows[0])
        picture = _surroundings(data, item.number)
        return Card(picture, ", ".join(map(str, words)), caption, item.is_right)

    return of_entry if data.is_transductive else of_example


def _caption(task: Task, scored: Scored, row: int) -> str:
    """Return what was measured and predicted of a row."""
    y, target = scored.predicted[row], scored.target[row]
    if task.kind == "classification":
        best = int(y.argmax())
        true, predicted = task.names[int(target)], task.names[best]
        return f"is {true}, predicted {predicted} ({100 * float(y[best]):.0f} %)"
    values = [
        (name, measured, predicted)
        for name, measured, predicted in zip(
            task.names, target.reshape(-1).tolist(), y.tolist(), strict=True
        )
        if measured == measured  # not NaN
    ]
    if task.kind == "multilabel":
        values.sort(key=lambda one: (abs(one[1] - one[2]), *one), reverse=True)
        words = [f"{name}: is {m:.0f}, predicted {100 * p:.0f} %" for name, m, p in values]
        more = len(words) - _MOST_LABELS
        return "; ".join([*words[:_MOST_LABELS], *([f"and {more} more"] if more > 0 else [])])
    has_several = len(task.names) > 1
    return "; ".join(
        f"{f'{name}: ' if has_several else ''}measured {m:.3g}, predicted {p:.3g}"
        for name, m, p in values
    )


def _surroundings(data: DataSet, entry: int) -> str:
    """Return an SVG of some neighbours of an entry, and of theirs, with the entry marked.

    Of ratings, between nodes of several sorts, it shows some that are known of either node,
    coloured by their values.
    """
    whole = data.examples[0].structure
    query = whole.resolve(data.task.at)
    seeds = _nodes(whole, query, entry)
    has_sorts = len(set(query.sorts.values())) > 1
    sizes = _SIZES[:1] if has_sorts else _SIZES
    part = whole.sample(seeds, sizes=sizes, generator=torch.Generator().manual_seed(0))
    shown, values = part.structure, {}
    for sort, count in shown.counts.items():
        is_seed = torch.arange(count) < len(seeds[sort])  # seeds come first
        values["i" if sort == "node" else f"i:{sort}"] = is_seed.long()
    tensors = [p.name or str(p) for p in whole.patterns if p != query and p.order == 1]
    if has_sorts and data.completion is not None:
        first = torch.tensor([[len(seeds[sort])] for sort in query.sorts.values()])
        is_near = (shown[KNOWN] < first).any(0)
        shown, tensors = shown.select(KNOWN, is_near), [KNOWN]
        if data.completion.target.ndim > 1:  # of ratings; links are all alike
            values[KNOWN] = data.completion.target[part.rows(KNOWN)[is_near], 0]
    return _drawn(shown, values, tensors=tensors, labels=False, legend=False)


def _nodes(structure: Structure, pattern: Pattern, entry: int) -> dict[str, Tensor]:
    """Return the nodes of an entry of a tensor, by sort, each once."""
    fixed, *members = structure.index(pattern)
    nodes = {sort: [torch.zeros(0, dtype=torch.long)] for sort in structure.counts}
    letters = fixed[:, entry] if len(fixed) else ()  # a lone open face has none
    for sort, node in zip(pattern.sorts.values(), letters, strict=False):
        nodes[sort].append(node[None])
    for node, owner in members:
        nodes[next(iter(pattern.sorts.values()))].append(node[owner == entry])
    return {sort: torch.cat(some).unique() for sort, some in nodes.items()}


def _picture(example: Example, smiles: str) -> str:
    """Return an SVG of an example; an empty text if it has too many entries."""
    mol = _mol(smiles, example) if smiles and find_spec("rdkit") is not None else None
    if mol is not None:
        return _drawn_by_rdkit(mol)
    structure = example.structure
    count = structure.total_nodes + sum(structure.num_entries(p) for p in structure.patterns)
    if count > _MOST_ENTRIES:
        return ""
    if structure.total_nodes <= _MANY_NODES:
        return _drawn(example)
    faces = [
        p for p in structure.patterns if len(p.letters) == 3 and not p.is_open and p.order == 1
    ]
    return _drawn(example, tensors=[p.name or str(p) for p in faces] or None, labels=False)


def _mol(smiles: str, example: Example) -> Any:
    """Return a molecule for RDKit; None for a column that only looks like SMILES.

    Then the text is no SMILES, or has other numbers of atoms.
    """
    with need("rdkit.rdBase", "a picture", "molecules").BlockLogs():
        mol = need("rdkit.Chem", "a picture", "molecules").MolFromSmiles(smiles)
    known = molecule_of(example)
    if mol is None or known is None:
        return mol
    ours, theirs = list(known.elements), [atom.GetSymbol() for atom in mol.GetAtoms()]
    has_same_size = len(ours) - ours.count("H") == len(theirs) - theirs.count("H")
    return mol if has_same_size else None


def _drawn_by_rdkit(mol: Any) -> str:
    chem = need("rdkit.Chem", "a picture", "molecules")
    draw = need("rdkit.Chem.Draw.rdMolDraw2D", "a picture", "molecules")
    number = chem.GetPeriodicTable().GetAtomicNumber
    # colours of the theme alone, which a dark page replaces
    palette = {-1: _rgb(LIGHT.ink)}
    palette |= {number(element): _rgb(LIGHT.palette[k]) for element, k in TINTS.items()}
    canvas = draw.MolDraw2DSVG(260, 200)
    canvas.drawOptions().clearBackground = False
    canvas.drawOptions().setAtomPalette(palette)
    draw.PrepareAndDrawMolecule(canvas, mol)
    canvas.FinishDrawing()
    text: str = canvas.GetDrawingText()
    return text[text.index("<svg") :]


def _rgb(colour: str) -> tuple[float, ...]:
    """Return the red, green and blue of `#rrggbb`, from 0 to 1."""
    return tuple(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))


def _drawn(what: Any, values: Any = None, **options: Any) -> str:
    """Return an SVG by `plot.structure`; an empty text for what it cannot draw."""
    try:
        picture = plot.structure(what, values, **options)
    except IncidenceError:
        return ""
    return replace(picture, scene=picture.scene.on_paper(_LEAST_SIDE)).svg(transparent=True)
