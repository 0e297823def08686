"""Layers of one operation, to compare with what is listed for it."""

from incidence.nn import Linear


def only(layer: Linear, number: int) -> Linear:
    """The layer with weight 1 for one operation, and 0 for all others."""
    operation = layer.map.operations[number]
    for parameter in layer.parameters():
        parameter.data.zero_()
    source, target = operation.source.tensor, operation.target.tensor
    row = layer.operations_of(source, target).index(operation)
    weight = (
        layer.weight if hasattr(layer, "weight") else getattr(layer, f"weight_{source}_{target}")
    )
    weight.data[row] = 1.0
    return layer
