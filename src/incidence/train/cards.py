"""Examples that are predicted worst and best, drawn: molecules by RDKit where their SMILES are known, all others by `plot.structure`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from incidence import plot
from incidence.data.dataset import DataSet, Task
from incidence.errors import IncidenceError, need
from incidence.structure.example import Example
from incidence.train.evaluate import Scored

__all__ = ["Card", "badness", "cards"]

_COUNT = 4  # of each kind
_MOST_ENTRIES = 4_000  # of a structure that is drawn
_MANY_NODES = 60  # from which on nodes and edges would cover the faces


class Card(NamedTuple):
    """One example: its picture as SVG, its name, and what was predicted."""

    picture: str
    name: str
    told: str


def cards(data: DataSet, scored: Scored) -> tuple[list[Card], list[Card]]:
    """The examples with the largest errors, and those with the smallest; none of data that is one structure."""
    if data.is_transductive or not len(scored.target):
        return [], []
    errors: dict[int, list[float]] = {}
    rows: dict[int, list[int]] = {}
    for row, ((example, _), bad) in enumerate(zip(scored.places, badness(data.task, scored).tolist(), strict=True)):
        if bad == bad:  # there is a target
            errors.setdefault(example, []).append(bad)
            rows.setdefault(example, []).append(row)
    order = sorted(errors, key=lambda example: sum(errors[example]) / len(errors[example]))
    count = min(_COUNT, len(order) // 2)
    drawn = {k: _card(data, scored, k, rows[k], sum(errors[k]) / len(errors[k])) for k in [*order[:count], *order[len(order) - count :]]}
    return [drawn[k] for k in reversed(order[len(order) - count :])], [drawn[k] for k in order[:count]]


def badness(task: Task, scored: Scored) -> Tensor:
    """How wrong every row is: the mean distance of numbers, on the scale of each; or the probability of other classes than the true one."""
    if task.kind == "classification":
        known = scored.target.clamp(min=0)[:, None]
        return torch.where(scored.target >= 0, 1 - scored.predicted.gather(1, known)[:, 0], torch.nan)
    target = scored.target.reshape(scored.predicted.shape)
    spread = (target - target.nanmean(0)).square().nanmean(0).sqrt().clamp(min=1e-12)
    return ((scored.predicted - target).abs() / spread).nanmean(1)


def _card(data: DataSet, scored: Scored, number: int, rows: list[int], bad: float) -> Card:
    names = data.names if len(data.names) == len(data.examples) else [f"example {k}" for k in range(len(data.examples))]
    told = _told(data.task, scored, rows[0]) if not data.task.at else f"{len(rows)} rows, mean error {bad:.3g}"
    return Card(_picture(data, number), str(names[number]), told)


def _told(task: Task, scored: Scored, row: int) -> str:
    y, target = scored.predicted[row], scored.target[row]
    if task.kind == "classification":
        best = int(y.argmax())
        return f"is {task.names[int(target)]}, predicted {task.names[best]} ({100 * float(y[best]):.0f} %)"
    pairs = zip(task.names, target.reshape(-1).tolist(), y.tolist(), strict=True)
    label = {name: f"{name}: " if len(task.names) > 1 else "" for name in task.names}
    return "; ".join(f"{label[name]}measured {true:.3g}, predicted {ours:.3g}" for name, true, ours in pairs if true == true)


def _picture(data: DataSet, number: int) -> str:
    """An SVG of an example; an empty one where it has too many entries, or cannot be drawn."""
    own = {key: texts[number] for key, texts in data.columns.items() if len(texts) == len(data.examples)}
    drawn = _by_rdkit(own) if data.reader == "molecule" else None
    return drawn or _by_plot(data.examples[number])


def _by_rdkit(columns: Mapping[str, str]) -> str | None:
    smiles = next((text for key, text in columns.items() if "smiles" in key.lower() and text), None)
    if smiles is None or find_spec("rdkit") is None:
        return None
    chem, draw = need("rdkit.Chem", "a picture", "molecules"), need("rdkit.Chem.Draw.rdMolDraw2D", "a picture", "molecules")
    with need("rdkit.rdBase", "a picture", "molecules").BlockLogs():
        mol = chem.MolFromSmiles(smiles)
    if mol is None:
        return None
    canvas = draw.MolDraw2DSVG(260, 200)
    canvas.drawOptions().clearBackground = False
    canvas.drawOptions().updateAtomPalette({-1: (0x1C / 255, 0x24 / 255, 0x30 / 255)})  # the ink of the page
    draw.PrepareAndDrawMolecule(canvas, mol)
    canvas.FinishDrawing()
    text: str = canvas.GetDrawingText()
    return text[text.index("<svg") :]


def _by_plot(example: Example) -> str:
    structure = example.structure
    count = structure.total_nodes + sum(structure.num_entries(p) for p in structure.patterns)
    if count > _MOST_ENTRIES:
        return ""
    faces = [p for p in structure.patterns if len(p.letters) == 3 and not p.is_open and p.order == 1]
    tensors = [p.name or str(p) for p in faces] if faces and structure.total_nodes > _MANY_NODES else None
    try:
        return plot.structure(example, tensors=tensors, labels=False if structure.total_nodes > _MANY_NODES else None).svg(transparent=True)
    except IncidenceError:
        return ""
