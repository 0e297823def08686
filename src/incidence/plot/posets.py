"""`plot.poset`: the faces of a structure by rank, and which lie in which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from incidence.errors import TooLargeError
from incidence.geometry.ranks import Faces, faces
from incidence.plot.boxes import Box, boxed
from incidence.plot.faces import DrawnTensor, drawn_tensors
from incidence.plot.picture import Picture
from incidence.plot.scene import Path, Scene, Shape, Style, Text, text_width
from incidence.plot.theme import Theme, theme_of
from incidence.structure import Structure

__all__ = ["poset"]

_MOST = 400
_SWEEPS = 12


def poset(
    what: Structure, ranks: Mapping[int, str] | None = None, *, theme: str | Theme = "light"
) -> Picture:
    """The faces of a structure as a partially ordered set: nodes at the bottom, a line wherever a face has one of the next rank above it.

    Args:
        what: A structure.
        ranks: Which tensor has the faces of a rank, where it is not clear; see `geometry.faces`.
        theme: `light` or `dark`.

    Raises:
        TooLargeError: There are too many faces to draw.

    Example:
        >>> import incidence as inc
        >>> picture = poset(inc.geometry.named("cube"))
        >>> len(picture.scene.of("face")), len(picture.scene.of("cover"))  # 8 + 12 + 6 faces; 2 nodes of an edge, 4 edges of a square
        (26, 48)
    """
    found, look = faces(what, ranks), theme_of(theme)
    if sum(found.f_vector) > _MOST:
        raise TooLargeError(
            f"there are {sum(found.f_vector):,} faces; at most {_MOST} are drawn. Draw a part, as in s.induced(range(8))."
        )
    covers = [found.boundary(rank).tolist() for rank in range(1, found.top + 1)]
    texts = _texts(found, what)
    wide = (
        max([text_width(text, 8, is_code=True) for own in texts for text in own], default=0.0) + 10
    )
    rows = [_boxes(order, rank, wide) for rank, order in enumerate(_orders(found.f_vector, covers))]
    shapes: list[Shape] = []
    for rank, (below, above) in enumerate(covers):
        for low, high in zip(below, above, strict=True):
            ends = rows[rank][low].top, rows[rank + 1][high].bottom
            shapes.append(Path(ends, style=Style(stroke=look.line, width=0.8), part="cover"))
    for rank, boxes in enumerate(rows):
        for k, box in enumerate(boxes):
            shapes += boxed(box, texts[rank][k], "", look.category(rank), "face", look, k)
        left = min((box.left[0] for own in rows for box in own), default=0.0) - 14
        label = f"rank {rank}: {found.f_vector[rank]}"
        shapes.append(
            Text(
                left,
                boxes[0].y + 3 if boxes else 0.0,
                label,
                8,
                "end",
                style=Style(fill=look.ink),
                part="rank",
            )
        )
    return Picture(Scene.around(shapes, 12), look, f"the faces of {what}")


def _texts(found: Faces, structure: Structure) -> list[list[str]]:
    known: dict[str | None, DrawnTensor] = {t.key: t for t in drawn_tensors(structure)}
    texts = []
    for tensor, count in zip(found.tensors, found.f_vector, strict=True):
        own = known.get(tensor)
        texts.append(
            [str(k) for k in range(count)]
            if own is None
            else [" ".join(map(str, sorted(face))) for (face,) in own.entries]
        )
    return texts


def _orders(counts: Sequence[int], covers: Sequence[Any]) -> list[list[float]]:
    """For every rank the places of its faces, such that what is joined stands near: the ranks upwards and downwards by turns."""
    places = [[k - (count - 1) / 2 for k in range(count)] for count in counts]
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for rank in range(1, len(counts)) if step > 0 else range(len(counts) - 2, -1, -1):
            below, above = covers[min(rank, rank - step)]
            pairs = (above, below) if step > 0 else (below, above)
            places[rank] = _near(places[rank], places[rank - step], pairs)
    return places


def _near(
    places: Sequence[float], others: Sequence[float], pairs: tuple[Sequence[int], Sequence[int]]
) -> list[float]:
    """Places in the order of the mean place of what each is joined to."""
    joined: dict[int, list[float]] = {}
    for own, other in zip(*pairs, strict=True):
        joined.setdefault(own, []).append(others[other])
    means = [sum(joined.get(k, [0.0])) / len(joined.get(k, [0.0])) for k in range(len(places))]
    found = [0.0] * len(places)
    for place, k in enumerate(sorted(range(len(places)), key=lambda k: (means[k], places[k]))):
        found[k] = place - (len(places) - 1) / 2
    return found


def _boxes(order: Sequence[float], rank: int, wide: float) -> list[Box]:
    return [Box(place * (wide + 8), -62.0 * rank, wide, 17) for place in order]
