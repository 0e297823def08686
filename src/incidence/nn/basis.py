"""`basis`: the operations of a map as dense matrices."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError
from incidence.limits import assert_size
from incidence.nn.linear import Linear
from incidence.structure import Structure

__all__ = ["basis"]


def basis(text: str | EquivariantMap, num_nodes: int | Mapping[str, int]) -> Tensor:
    r"""Return a basis of the equivariant maps on the complete structure, as dense matrices.

    Args:
        text: The map, from one tensor to one, such as `i j -> i j`.
        num_nodes: The number of nodes, or of those of each sort.

    Returns:
        A matrix for each operation, in the order of `EquivariantMap(text).operations`: shape
        (operations, output entries, input entries), in float64. Entries are in the order of
        `Structure.complete`. With fewer nodes than an operation needs, its matrix is 0.

    Raises:
        IncidenceError: The map has several inputs or outputs.

    Example:
        >>> matrices = basis("i j -> i j", num_nodes=4)
        >>> matrices.shape, int(torch.linalg.matrix_rank(matrices.flatten(1)))
        (torch.Size([15, 16, 16]), 15)
    """
    m = text if isinstance(text, EquivariantMap) else EquivariantMap(text)
    if len(m.inputs) != 1 or len(m.outputs) != 1:
        raise IncidenceError(
            f"a basis is that of a map from one tensor to one; got `{m}`: take its tensors in"
            " pairs."
        )
    patterns = [p for p in dict.fromkeys((*m.inputs, *m.outputs)) if p.letters]
    structure = Structure.complete(num_nodes, [str(p) for p in patterns])
    rows, columns = structure.num_entries(m.outputs[0]), structure.num_entries(m.inputs[0])
    # A short text may stand for more numbers than any memory holds.
    assert_size(8 * m.dimension * rows * columns, f"{m.dimension} matrices of {rows} x {columns}")
    layer = Linear(m, 1, 1, bias=False)
    matrices = [layer.operator(k, structure).to_dense() for k in range(m.dimension)]
    return torch.stack(matrices) if matrices else torch.zeros(0, rows, columns).double()
