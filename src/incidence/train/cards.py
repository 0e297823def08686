"""Examples that are predicted worst and best, drawn: molecules by RDKit where their SMILES are known, all others by `plot.structure`.

Of data that is one structure, such as a graph with labels of nodes, or ratings, they are entries, drawn with some of their surroundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence import plot
from incidence.algebra.pattern import Pattern
from incidence.data.completion import KNOWN
from incidence.data.dataset import DataSet, Task
from incidence.data.molecules.smiles import smiles_of
from incidence.errors import IncidenceError, need
from incidence.plot.molecules import TINTS, molecule_of
from incidence.plot.theme import LIGHT
from incidence.structure.example import Example
from incidence.structure.structure import Structure
from incidence.train.evaluate import Scored

__all__ = ["Card", "badness", "cards"]

_COUNT = 4  # of each kind
_LABELS = 4  # of a row that are told, the worst first
_MOST_ENTRIES = 4_000  # of a structure that is drawn
_SIZES = (8, 2)  # neighbours of an entry that are drawn, and of each of these
_LEAST_SIDE = 150.0  # points of the paper: a page shows all pictures in one size, and a lone node would fill it
_MANY_NODES = 60  # from which on nodes and edges would cover the faces


class Card(NamedTuple):
    """One example: its picture as SVG, its name, and what was predicted; and whether that is the true class, where there are classes."""

    picture: str
    name: str
    told: str
    is_right: bool = True


def cards(data: DataSet, scored: Scored) -> tuple[list[Card], list[Card]]:
    """The examples with the largest errors, and those with the smallest; of data that is one structure, its entries.

    Of classes those that are found come before those that are not, however probable the true one is; if any are, the best are all right.
    """
    wrong = _is_wrong(data.task, scored)
    errors: dict[int, list[float]] = {}
    rows: dict[int, list[int]] = {}
    for row, ((example, entry), bad) in enumerate(
        zip(scored.places, badness(data.task, scored).tolist(), strict=True)
    ):
        if bad == bad:  # there is a target
            one = entry if data.is_transductive else example
            errors.setdefault(one, []).append(bad)
            rows.setdefault(one, []).append(row)
    missed = {one: float(wrong[own].float().mean()) for one, own in rows.items()}
    order = sorted(errors, key=lambda one: (missed[one], sum(errors[one]) / len(errors[one])))
    count, card = (
        min(_COUNT, len(order) // 2),
        _entry_card if data.is_transductive else partial(_card, _smiles(data)),
    )
    best = [k for k in order[:count] if not missed[k]] or order[:count]
    shown = [*best, *order[len(order) - count :]]
    drawn = {
        k: card(data, scored, k, rows[k], sum(errors[k]) / len(errors[k]))._replace(
            is_right=not missed[k]
        )
        for k in shown
    }
    return [drawn[k] for k in reversed(order[len(order) - count :])], [drawn[k] for k in best]


def _is_wrong(task: Task, scored: Scored) -> Tensor:
    """Of every row, whether another class than the true one is the most probable; of numbers and labels, nobody can say so."""
    if task.kind != "classification":
        return torch.zeros(len(scored.target), dtype=torch.bool)
    return scored.predicted.argmax(1) != scored.target


def badness(task: Task, scored: Scored) -> Tensor:
    """How wrong every row is: the mean distance of numbers, on the scale of each, or that of labels; or the probability of other classes
    than the true one.
    """
    if task.kind == "classification":
        known = scored.target.clamp(min=0)[:, None]
        return torch.where(
            scored.target >= 0, 1 - scored.predicted.gather(1, known)[:, 0], torch.nan
        )
    target = scored.target.reshape(scored.predicted.shape)
    spread = (
        (target - target.nanmean(0)).square().nanmean(0).sqrt().clamp(min=1e-12)
        if task.kind == "regression"
        else 1.0
    )
    return ((scored.predicted - target).abs() / spread).nanmean(1)


def _smiles(data: DataSet) -> Sequence[str]:
    """A SMILES for each example, or an empty text where none is known."""
    found = smiles_of(data) if data.reader == "molecule" else ()
    return found if len(found) == len(data.examples) else [""] * len(data.examples)


def _card(
    smiles: Sequence[str], data: DataSet, scored: Scored, number: int, rows: list[int], bad: float
) -> Card:
    names = (
        data.names
        if len(data.names) == len(data.examples)
        else [f"example {k}" for k in range(len(data.examples))]
    )
    told = (
        _told(data.task, scored, rows[0])
        if not data.task.at
        else f"{len(rows)} rows, mean error {bad:.3g}"
    )
    return Card(_picture(data.examples[number], smiles[number]), str(names[number]), told)


def _entry_card(data: DataSet, scored: Scored, entry: int, rows: list[int], bad: float) -> Card:
    name = ", ".join(
        str(word) for word in data.label(0, entry)[: max(1, len(data.task.at.split()))]
    )
    return Card(_surroundings(data, entry), name, _told(data.task, scored, rows[0]))


def _surroundings(data: DataSet, entry: int) -> str:
    """An SVG of some of the neighbours of an entry, and of theirs; the nodes of the entry have a colour of their own.

    Of ratings, between nodes of several sorts, it is some of those that are known of either node, coloured by their values.
    """
    whole, asked = data.examples[0].structure, data.examples[0].structure.resolve(data.task.at)
    seeds = _nodes(whole, asked, entry)
    has_sorts = len(set(asked.sorts.values())) > 1
    part = whole.sample(
        seeds, sizes=_SIZES[:1] if has_sorts else _SIZES, generator=torch.Generator().manual_seed(0)
    )
    shown, values = part.structure, {}
    for sort, count in shown.counts.items():
        values["i" if sort == "node" else f"i:{sort}"] = (
            torch.arange(count) < len(seeds[sort])
        ).long()  # seeds come first
    tensors = [p.name or str(p) for p in whole.patterns if p != asked and p.order == 1]
    if has_sorts and data.completion is not None:
        nodes, first = (
            shown[KNOWN],
            torch.tensor([[len(seeds[sort])] for sort in asked.sorts.values()]),
        )
        is_near = (nodes < first).any(0)
        shown, tensors = shown.select(KNOWN, is_near), [KNOWN]
        if data.completion.target.ndim > 1:  # of ratings; links are all alike
            values[KNOWN] = data.completion.target[part.rows(KNOWN)[is_near], 0]
    try:
        return _svg(plot.structure(shown, values, tensors=tensors, labels=False, legend=False))
    except IncidenceError:
        return ""


def _nodes(structure: Structure, pattern: Pattern, entry: int) -> dict[str, Tensor]:
    """The nodes of an entry of a tensor, by sort, each once."""
    fixed, *members = structure.index(pattern)
    found: dict[str, list[Tensor]] = {
        sort: [torch.zeros(0, dtype=torch.long)] for sort in structure.counts
    }
    for sort, node in zip(
        pattern.sorts.values(), fixed[:, entry] if len(fixed) else (), strict=False
    ):  # a lone open face has no letters
        found[sort].append(node[None])
    for own in members:
        found[next(iter(pattern.sorts.values()))].append(own[0, own[1] == entry])
    return {sort: torch.cat(nodes).unique() for sort, nodes in found.items()}


def _told(task: Task, scored: Scored, row: int) -> str:
    y, target = scored.predicted[row], scored.target[row]
    if task.kind == "classification":
        best = int(y.argmax())
        return f"is {task.names[int(target)]}, predicted {task.names[best]} ({100 * float(y[best]):.0f} %)"
    pairs = zip(task.names, target.reshape(-1).tolist(), y.tolist(), strict=True)
    if task.kind == "multilabel":
        wrong = sorted(
            (abs(true - ours), name, true, ours) for name, true, ours in pairs if true == true
        )[::-1]
        told = [
            f"{name}: is {true:.0f}, predicted {100 * ours:.0f} %"
            for _, name, true, ours in wrong[:_LABELS]
        ]
        return "; ".join(
            [*told, *([f"and {len(wrong) - _LABELS} more"] if len(wrong) > _LABELS else [])]
        )
    label = {name: f"{name}: " if len(task.names) > 1 else "" for name in task.names}
    return "; ".join(
        f"{label[name]}measured {true:.3g}, predicted {ours:.3g}"
        for name, true, ours in pairs
        if true == true
    )


def _picture(example: Example, smiles: str) -> str:
    """An SVG of an example; an empty one where it has too many entries, or cannot be drawn."""
    mol = _mol(smiles, example) if smiles and find_spec("rdkit") is not None else None
    return _by_plot(example) if mol is None else _by_rdkit(mol)


def _mol(smiles: str, example: Example) -> Any:
    """A molecule for RDKit; None if the text is no SMILES, or has other numbers of atoms: a column may only look like SMILES."""
    with need("rdkit.rdBase", "a picture", "molecules").BlockLogs():
        mol = need("rdkit.Chem", "a picture", "molecules").MolFromSmiles(smiles)
    known = molecule_of(example)
    if mol is None or known is None:
        return mol
    ours, others = list(known.elements), [atom.GetSymbol() for atom in mol.GetAtoms()]
    return mol if len(ours) - ours.count("H") == len(others) - others.count("H") else None


def _by_rdkit(mol: Any) -> str:
    chem, draw = (
        need("rdkit.Chem", "a picture", "molecules"),
        need("rdkit.Chem.Draw.rdMolDraw2D", "a picture", "molecules"),
    )
    number = chem.GetPeriodicTable().GetAtomicNumber
    palette = {
        -1: _parts(LIGHT.ink),
        **{number(element): _parts(LIGHT.palette[place]) for element, place in TINTS.items()},
    }
    canvas = draw.MolDraw2DSVG(260, 200)
    canvas.drawOptions().clearBackground = False
    canvas.drawOptions().setAtomPalette(
        palette
    )  # colours of the theme alone, for which a dark page has others
    draw.PrepareAndDrawMolecule(canvas, mol)
    canvas.FinishDrawing()
    text: str = canvas.GetDrawingText()
    return text[text.index("<svg") :]


def _parts(colour: str) -> tuple[float, ...]:
    """The red, green and blue of `#rrggbb`, from 0 to 1."""
    return tuple(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))


def _by_plot(example: Example) -> str:
    structure = example.structure
    count = structure.total_nodes + sum(structure.num_entries(p) for p in structure.patterns)
    if count > _MOST_ENTRIES:
        return ""
    faces = [
        p for p in structure.patterns if len(p.letters) == 3 and not p.is_open and p.order == 1
    ]
    tensors = (
        [p.name or str(p) for p in faces] if faces and structure.total_nodes > _MANY_NODES else None
    )
    try:
        return _svg(
            plot.structure(
                example,
                tensors=tensors,
                labels=False if structure.total_nodes > _MANY_NODES else None,
            )
        )
    except IncidenceError:
        return ""


def _svg(picture: plot.Picture) -> str:
    return replace(picture, scene=picture.scene.on_paper(_LEAST_SIDE)).svg(transparent=True)
