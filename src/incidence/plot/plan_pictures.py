"""`plot.plan`: how a layer computes on a structure, entry by entry and key by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from incidence.algebra.layers import Layer, is_layer
from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.pattern import Pattern
from incidence.engine.bags import Bags
from incidence.engine.layout import TensorLayout
from incidence.engine.plan import Plan, plan_of
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.networks import Box, boxed
from incidence.plot.picture import Picture
from incidence.plot.scene import Mark, Path, Scene, Style, Text, text_width
from incidence.plot.theme import Theme, theme_of
from incidence.structure import Structure
from incidence.structure.arguments import assert_structure
from incidence.structure.arrange import arranged

__all__ = ["plan"]

_ROW, _COLUMN = 25.0, 170.0
_MOST = 60


def plan(
    what: EquivariantMap | str | Any, structure: Structure, *, theme: str | Theme = "light"
) -> Picture:
    """How a layer computes on a structure: every input entry writes to keys, sets of its nodes, and
    every output entry reads from keys.

    The operations that match all nodes of an entry need no keys: entries on the same nodes read
    each other, which dashed lines show.

    Args:
        what: A map, its text, or a layer.
        structure: A small structure, on which one can follow the lines.
        theme: `light` or `dark`.

    Raises:
        TooLargeError: There are too many entries or keys to follow.

    Example:
        >>> path = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> scene = plan("{i j} -> {i j}", path).scene
        >>> [mark.text for mark in scene.of("key text")]  # the whole structure, and three nodes
        ['all', '0', '1', '2']
        >>> len(scene.of("write"))  # from two edges
        6
    """
    assert_structure(structure, "the second argument", "plot.plan(map, structure)")
    m = Layer(what).map if is_layer(what) else as_map(what)
    look = theme_of(theme)
    made = plan_of(structure, m)
    counts = [int(made.num_entries.sum()), int(made.num_keys.sum())]
    if max(counts) > _MOST or structure.num_structures != 1:
        raise TooLargeError(
            f"the plan of `{m}` has {counts[0]:,} entries and {counts[1]:,} keys in"
            f" {structure.num_structures} structures; at most {_MOST} of one structure are drawn."
            " Take a smaller structure, or print layer.plan(structure)."
        )
    return Picture(Scene.around(_drawn(m, made, structure, look), 12), look, f"the plan of {m}")


def _drawn(m: EquivariantMap, made: Plan, structure: Structure, theme: Theme) -> Iterator[Mark]:
    keys = [
        (level, key)
        for level, found in zip(made.layout.levels, _keys(made, structure), strict=True)
        for key in found
    ]
    sides = [_entry_texts(structure, patterns) for patterns in (m.inputs, m.outputs)]
    texts = [sides[0], [_key_text(structure, key) for _, key in keys], sides[1]]
    columns = [_column(own, number * _COLUMN) for number, own in enumerate(texts)]
    stacks = (
        (made.layout.inputs, made.inputs, 0, "write"),
        (
            made.layout.outputs,
            made.outputs,
            2,
            "read",
        ),
    )
    yield from _partner_lines(m, made, columns, theme)
    for layouts, stacked, column, part in stacks:
        for row, key in _reads(made, layouts, stacked):
            one = columns[column][row]
            other = columns[1][key]
            ends = (one.right, other.left) if part == "write" else (other.right, one.left)
            yield Path(
                ends,
                style=Style(stroke=theme.palette[0 if part == "write" else 2], width=0.9),
                part=part,
            )
    for own, boxes, part, colour, head in zip(
        texts, columns, ("input", "key", "output"), (0, 4, 2), ("x", "keys", "y"), strict=True
    ):
        top = min((box.y for box in boxes), default=0.0) - 22
        yield Text(
            boxes[0].x if boxes else 0.0,
            top,
            head,
            9,
            "middle",
            is_bold=True,
            style=Style(fill=theme.ink),
            part="head",
        )
        for k, (box, text) in enumerate(zip(boxes, own, strict=True)):
            yield from boxed(box, text, "", theme.palette[colour], part, theme, k)


def _column(texts: Sequence[str], x: float) -> list[Box]:
    wide = max([text_width(text, 8, is_code=True) for text in texts], default=0.0) + 12
    return [Box(x, (k - (len(texts) - 1) / 2) * _ROW, wide, 18) for k in range(len(texts))]


def _entry_texts(structure: Structure, patterns: Sequence[Pattern]) -> list[str]:
    """Return the entries of some tensors as texts, in the order of their rows."""
    found = []
    for pattern in patterns:
        if pattern.is_open:
            found += [
                f"{pattern.name or pattern} {row}" for row in range(structure.num_entries(pattern))
            ]
            continue
        [index] = structure.index(pattern)
        for column in index.T.tolist() if pattern.letters else [[]] * structure.num_structures:
            node = dict(zip(pattern.letters, map(str, column), strict=True))
            faces = (
                f.kind.opening + " ".join(node[x.name] for x in f.letters) + f.kind.closing
                for f in pattern.faces
            )
            found.append(" ".join(faces) or "one value")
    return found


def _keys(made: Plan, structure: Structure) -> list[list[tuple[int, ...]]]:
    """Return the nodes of the keys of every level, in the order of their numbers; nodes are
    numbered through all sorts.
    """
    counts = made.num_keys.sum(1).tolist()
    found: list[list[tuple[int, ...]]] = []
    for level, count in zip(made.layout.levels, counts, strict=True):
        if len(level) == 1 and count == structure.counts[level[0]]:
            start = structure._node_offsets[level[0]]
            found.append([(v,) for v in range(start, start + count)])
        else:
            found.append(sorted(_subsets(made, structure, level)) if level else [()])
        if len(found[-1]) != count:
            raise IncidenceError(
                f"the plan has {count} keys of {len(level)} nodes, and the structure"
                f" {len(found[-1])}."
            )
    return found


def _subsets(made: Plan, structure: Structure, level: tuple[str, ...]) -> set[tuple[int, ...]]:
    """Return the sets of nodes to which some entry writes, or from which some reads."""
    sets: set[tuple[int, ...]] = set()
    for tensor in made.layout.tensors:
        for bucket in (found.bucket for found in arranged(structure, tensor.pattern)):
            classes = tensor.pattern.orbits[bucket.orbit].classes
            if level not in tensor.orbit_levels[bucket.orbit]:
                continue
            places = combinations(range(len(bucket.labels)), len(level))
            fits = [
                p
                for p in places
                if tuple(sorted(classes[bucket.labels[k]].sort for k in p)) == level
            ]
            sets |= {
                tuple(sorted(nodes[k] for k in p)) for nodes in bucket.nodes.tolist() for p in fits
            }
    return sets


def _key_text(structure: Structure, key: tuple[int, ...]) -> str:
    if not key:
        return "all"
    names = []
    for node in key:
        sort = max(
            (s for s in structure.counts if structure._node_offsets[s] <= node),
            key=lambda s: structure._node_offsets[s],
        )
        names.append(
            f"{node - structure._node_offsets[sort]}" + f":{sort}" * (len(structure.counts) > 1)
        )
    return names[0] if len(names) == 1 else "{" + " ".join(names) + "}"


def _reads(
    made: Plan, layouts: Sequence[TensorLayout], tensors: Sequence[Bags]
) -> Iterator[tuple[int, int]]:
    """Return which rows of one side write to which keys, or read from them, each pair once; keys
    are numbered through all levels.
    """
    totals = made.num_keys.sum(1).tolist()
    starts = [sum(totals[:k]) for k in range(len(totals))]
    shift = 0
    for layout, own in zip(layouts, tensors, strict=True):
        pairs = set()
        ptr, bags = own.of_rows.ptr.tolist(), own.of_rows.members.tolist()
        for row in range(len(ptr) - 1):
            for bag in bags[ptr[row] : ptr[row + 1]]:
                at = max(k for k in range(len(layout.levels)) if own.level_ptr[k] <= bag)
                level = made.layout.levels.index(layout.levels[at])
                pairs.add(
                    (
                        row + shift,
                        starts[level] + (bag - own.level_ptr[at]) // own.num_slots[at],
                    )
                )
        yield from sorted(pairs)
        shift += len(ptr) - 1


def _partner_lines(
    m: EquivariantMap, made: Plan, columns: Sequence[Sequence[Box]], theme: Theme
) -> Iterator[Mark]:
    """Entries that read each other because they have the same nodes: a curve below the keys."""
    style = Style(stroke=theme.palette[1], width=0.9, dashes=(4.0, 3.0))
    low = max((box.y for box in columns[1]), default=0.0)
    seen = set()
    for (ref, _), partners in made.partners.items():
        pattern = made.layout.patterns[ref.tensor]
        if pattern not in m.inputs or pattern not in m.outputs:
            continue
        shifts = [
            sum(
                int(made.num_entries[made.layout.patterns.index(p)].sum())
                for p in side[: side.index(pattern)]
            )
            for side in (m.inputs, m.outputs)
        ]
        targets, sources = partners.targets, partners.sources
        ys = list(range(int(partners.counts.sum()))) if targets is None else targets.tolist()
        seen |= {
            (x + shifts[0], y + shifts[1])
            for y, x in zip(ys, ys if sources is None else sources.tolist(), strict=True)
        }
    for x, y in sorted(seen):
        (x1, y1), (x2, y2) = columns[0][x].right, columns[2][y].left
        deep = low + 34
        yield Path(
            ((x1, y1), (x1 + 70, deep), (x2 - 70, deep), (x2, y2)),
            is_curved=True,
            style=style,
            part="partner",
        )
