"""`plot.poset`: the faces of a structure by rank, and which lie in which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from incidence.errors import TooLargeError
from incidence.geometry.ranks import Faces, faces
from incidence.plot.drawing import drawn_tensors
from incidence.plot.networks import Box, boxed
from incidence.plot.picture import Picture
from incidence.plot.scene import Mark, Scene, label, line, text_width
from incidence.plot.theme import Theme, theme_of
from incidence.structure import Structure

__all__ = ["poset"]

_MOST = 400
_SWEEPS = 12


def poset(
    what: Structure, ranks: Mapping[int, str] | None = None, *, theme: str | Theme = "light"
) -> Picture:
    """Draw the faces of a structure as a partially ordered set.

    Nodes are at the bottom. A line joins a face to each face of the next rank that it lies in.

    Args:
        what: A structure.
        ranks: Which tensor has the faces of a rank, where it is not clear; see `geometry.faces`.
        theme: `light` or `dark`.

    Raises:
        TooLargeError: There are too many faces to draw.

    Example:
        >>> import incidence as inc
        >>> scene = poset(inc.geometry.named("cube")).scene
        >>> len(scene.of("face")), len(scene.of("cover"))  # 8 + 12 + 6 and 12 * 2 + 6 * 4
        (26, 48)
    """
    ranked = faces(what, ranks)
    look = theme_of(theme)
    total = sum(ranked.f_vector)
    if total > _MOST:
        raise TooLargeError(
            f"there are {total:,} faces; at most {_MOST} are drawn. Draw a part, as in"
            " s.induced(range(8))."
        )
    covers = [ranked.boundary(rank).tolist() for rank in range(1, ranked.top + 1)]
    texts = _texts(ranked, what)
    widths = [text_width(text, 8, is_code=True) for row in texts for text in row]
    wide = max(widths, default=0.0) + 10
    rows = [
        # higher ranks stand higher
        [Box(place * (wide + 8), -62.0 * rank, wide, 17) for place in places]
        for rank, places in enumerate(_places(ranked.f_vector, covers))
    ]
    marks: list[Mark] = []
    for rank, (below, above) in enumerate(covers):
        for low, high in zip(below, above, strict=True):
            ends = rows[rank][low].top, rows[rank + 1][high].bottom
            marks.append(line(ends, look.line, 0.8, "cover"))
    left = min((box.left[0] for row in rows for box in row), default=0.0) - 14
    for rank, boxes in enumerate(rows):
        for k, box in enumerate(boxes):
            marks += boxed(
                box,
                texts[rank][k],
                "",
                look.category(rank),
                "face",
                look,
                k,
            )
        y = boxes[0].y + 3 if boxes else 0.0
        text = f"rank {rank}: {ranked.f_vector[rank]}"
        marks.append(label(left, y, text, 8, look.ink, "rank", "end"))
    return Picture(Scene.around(marks, 12), look, f"the faces of {what}")


def _texts(ranked: Faces, structure: Structure) -> list[list[str]]:
    """The nodes of every face; its number where faces are no tensor of the structure."""
    tensors = {t.key: t for t in drawn_tensors(structure)}
    texts = []
    for key, count in zip(ranked.tensors, ranked.f_vector, strict=True):
        if key in tensors:
            texts.append([" ".join(map(str, sorted(face))) for (face,) in tensors[key].entries])
        else:
            texts.append([str(k) for k in range(count)])
    return texts


def _places(counts: Sequence[int], covers: Sequence[Any]) -> list[list[float]]:
    """For every rank the places of its faces, such that faces that are joined stand near.

    Sweeps go through the ranks upwards and downwards in turns.
    """
    places = [[k - (count - 1) / 2 for k in range(count)] for count in counts]  # about 0
    for sweep in range(_SWEEPS):
        goes_up = sweep % 2 == 0
        for rank in range(1, len(counts)) if goes_up else range(len(counts) - 2, -1, -1):
            if goes_up:
                below, above = covers[rank - 1]
                places[rank] = _near(places[rank], places[rank - 1], (above, below))
            else:
                places[rank] = _near(places[rank], places[rank + 1], covers[rank])
    return places


def _near(
    places: Sequence[float], others: Sequence[float], pairs: tuple[Sequence[int], Sequence[int]]
) -> list[float]:
    """Places in the order of the mean place of the others that each is joined to."""
    joined: list[list[float]] = [[] for _ in places]
    for face, other in zip(*pairs, strict=True):
        joined[face].append(others[other])
    means = [sum(near) / len(near) if near else 0.0 for near in joined]
    order = sorted(range(len(places)), key=lambda k: (means[k], places[k]))  # ties keep their order
    moved = [0.0] * len(places)
    for place, k in enumerate(order):
        moved[k] = place - (len(places) - 1) / 2
    return moved
