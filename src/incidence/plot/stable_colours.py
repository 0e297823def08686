"""`plot.colours`: structures with the colours of what networks can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from incidence.errors import IncidenceError
from incidence.nn.tensors import key_of
from incidence.plot.picture import Picture
from incidence.plot.structures import structure

if TYPE_CHECKING:
    from incidence.expressive import Expressivity

__all__ = ["colours"]


def colours(e: Expressivity, layer: int | None = None, **options: Any) -> Picture:
    """Draw structures with the colours of their entries: no network gives entries of one colour
    different values.

    Args:
        e: What `inc.expressivity` returned.
        layer: After how many layers. Default: the stable colours.
        options: Options of `plot.structure`, such as `layout` or `columns`.

    Raises:
        IncidenceError: There are not so many layers, or no tensor that can be drawn has colours.

    Example:
        >>> import incidence as inc
        >>> path = inc.Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
        >>> e = inc.expressivity("i, {i j} -> i, {i j}", path)
        >>> len({mark.style.fill for mark in colours(e).scene.of("node")})
        2
    """
    states = e.refinement.states
    number = len(states) - 1 if layer is None else layer
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(states):
        raise IncidenceError(f"colours are those after 0 to {len(states) - 1} layers; got {layer}.")
    state = states[number]
    # what has a place on paper
    values = {key_of(p): own.of_rows for p, own in state.items() if p.faces and p.order == 1}
    if not values:
        raise IncidenceError(
            f"nodes, edges and faces are drawn, and `{e.architecture.about}` has colours of"
            f" {', '.join(f'`{p}`' for p in state)}. e.colours has them as numbers."
        )
    title = options.pop("title", f"{e.architecture.about}: after {number} layers")
    options.setdefault("labels", False)  # numbers would hide the colours
    return structure(e.structure, values, title=title, **options)
