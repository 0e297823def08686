"""All triangulations of closed surfaces with a few vertices, up to isomorphism.

A closed surface is grown around its first vertex, triangle by triangle: the first edge that has one
triangle gets another, in every way that leaves each vertex a disc around it. Surfaces that differ
by a numbering alone have the same canonical form, of which one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from incidence.geometry.node_lists import as_integer

__all__ = ["canonical_form", "closed_surfaces"]

Triangle = tuple[int, int, int]

_MOST_VERTICES = 8  # in three seconds; 9 would take minutes


def closed_surfaces(num_vertices: int) -> list[list[Triangle]]:
    """Return every triangulated connected closed surface with so many vertices, up to isomorphism.

    Args:
        num_vertices: At most 8.

    Returns:
        For every surface its triangles, in ascending order.

    Example:
        >>> [len(closed_surfaces(n)) for n in (4, 5, 6, 7)]
        [1, 1, 3, 9]
        >>> closed_surfaces(4)
        [[(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]]
    """
    count = as_integer("closed_surfaces", "num_vertices", num_vertices, 0, _MOST_VERTICES)
    found = {
        canonical_form(triangles)
        # Every surface has a vertex of least degree: one growth for each degree finds all.
        for degree in range(3, count)
        for triangles in _Growth(count, degree).finished()
    }
    return [list(form) for form in sorted(found, key=lambda form: (len(form), form))]


def canonical_form(triangles: Sequence[Triangle]) -> tuple[Triangle, ...]:
    """Return the triangles of a closed surface in the numbering that gives the smallest list.

    A numbering starts with the corners of a triangle. Then it goes around the vertices in the order
    of their numbers.

    Example:
        >>> canonical_form([(7, 5, 9), (5, 9, 4), (9, 7, 4), (4, 7, 5)])
        ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    """
    across: dict[tuple[int, int], list[int]] = {}
    for a, b, c in triangles:
        for one, other, far in ((a, b, c), (a, c, b), (b, c, a)):
            across.setdefault((one, other), []).append(far)
            across.setdefault((other, one), []).append(far)
    forms = []
    for first, second in across:
        for third in across[first, second]:
            number = _numbering(across, first, second, third)
            forms.append(sorted(_ascending(*(number[v] for v in one)) for one in triangles))
    return tuple(min(forms))


def _ascending(a: int, b: int, c: int) -> Triangle:
    low, middle, high = sorted((a, b, c))
    return low, middle, high


def _numbering(
    across: dict[tuple[int, int], list[int]], first: int, second: int, third: int
) -> dict[int, int]:
    """The numbers of all vertices, from three of one triangle.

    Around every vertex the walk starts at a neighbour with a number, and turns to another one with
    a number, so it is fixed by the three.
    """
    number = {first: 0, second: 1, third: 2}
    order = [first, second, third]
    # of every numbered vertex two neighbours that follow each other around it
    turns = {first: (second, third), second: (third, first), third: (first, second)}
    for centre in order:  # which grows
        start, current = turns[centre]
        previous = start
        while current != start:  # once around the vertex
            last, previous = previous, current
            current = next(v for v in across[centre, current] if v != last)
            if current not in number:
                number[current] = len(order)
                order.append(current)
                turns[current] = (centre, previous)
    return number


class _Growth:
    """Grows all surfaces in which the first vertex has a degree that no other vertex goes below.

    Args:
        num_vertices: The number of vertices.
        degree: The number of triangles at vertex 0.
    """

    def __init__(self, num_vertices: int, degree: int) -> None:
        self.num_vertices, self.degree = num_vertices, degree
        self.triangles: list[Triangle] = []
        # of every vertex the sides across from it, as neighbours by vertex
        self.links: list[dict[int, list[int]]] = [{} for _ in range(num_vertices)]
        self.num_used = degree + 1
        circle = [*range(1, degree + 1), 1]
        for one, other in pairwise(circle):  # the disc around vertex 0
            self._add(_ascending(0, one, other))

    def finished(self) -> Iterator[list[Triangle]]:
        """Yield the triangles of every closed surface that has all vertices."""
        edge = self._open_edge()
        if edge is None:
            if self.num_used == self.num_vertices:
                yield list(self.triangles)
            return
        # Of the vertices that are not used yet, only the next one is tried: others would differ by
        # a numbering.
        for third in range(1, min(self.num_used + 1, self.num_vertices)):
            if third in edge:
                continue
            is_new = third == self.num_used
            triangle = _ascending(*edge, third)
            if not self._add(triangle):
                continue
            self.num_used += is_new
            yield from self.finished()
            self.num_used -= is_new
            self._remove(triangle)

    def _open_edge(self) -> tuple[int, int] | None:
        """The first edge that lies in one triangle."""
        for vertex in range(1, self.num_used):
            for other, beside in self.links[vertex].items():
                if len(beside) == 1:
                    return vertex, other
        return None

    def _add(self, triangle: Triangle) -> bool:
        """Add a triangle, unless a vertex then cannot have a disc around it."""
        a, b, c = triangle
        sides = ((a, b, c), (b, a, c), (c, a, b))
        if any(not self._fits(*side) for side in sides):
            return False
        for vertex, one, other in sides:
            self.links[vertex].setdefault(one, []).append(other)
            self.links[vertex].setdefault(other, []).append(one)
        self.triangles.append(triangle)
        return True

    def _remove(self, triangle: Triangle) -> None:
        self.triangles.pop()
        a, b, c = triangle
        for vertex, one, other in ((c, a, b), (b, a, c), (a, b, c)):
            for end in (other, one):
                self.links[vertex][end].pop()
                if not self.links[vertex][end]:
                    del self.links[vertex][end]

    def _fits(self, vertex: int, one: int, other: int) -> bool:
        """Whether a further side leaves the link of a vertex in paths, or closes all of it."""
        link = self.links[vertex]
        beside = link.get(one, [])
        if len(beside) > 1 or len(link.get(other, ())) > 1 or other in beside:
            return False
        if not beside or other not in link:
            return True
        length, previous, current = 1, one, beside[0]
        while current != other:
            following = [v for v in link[current] if v != previous]
            if not following:
                return True  # the ends of two paths
            length, previous, current = length + 1, current, following[0]
        # A circle must have all sides of the link, and vertex 0 has the least degree.
        return length + 1 == len(link) and len(link) >= self.degree
