"""Properties that hold for every case, as functions of a source of randomness; what breaks one is
an `AssertionError`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch

import incidence as inc

__all__ = ["PROPERTIES"]

_FACES = ("i", "(i j)", "{i j}", "[i j]", "i j", "i {i j}", "{i j k}", "{i ...}", "<i j>")


def _map(random: Random) -> inc.EquivariantMap:
    inputs, outputs = (", ".join(random.sample(_FACES, random.randint(1, 2))) for _ in range(2))
    return inc.EquivariantMap(f"{inputs} -> {outputs}")


def _structure(random: Random, m: inc.EquivariantMap) -> inc.Structure:
    n = random.randint(1, 6)
    whole = inc.Structure.complete(
        n, [str(p) for p in {*m.inputs, *m.outputs} if not p.is_open and str(p) != "i"]
    )
    index = {}
    for pattern in whole.patterns:
        columns = whole[str(pattern)]
        kept = [k for k in range(columns.shape[1]) if random.random() < 0.6]
        random.shuffle(kept)
        index[str(pattern)] = columns[:, kept]
    if any(p.is_open for p in (*m.inputs, *m.outputs)):
        faces = {tuple(sorted(random.sample(range(n), random.randint(1, n)))) for _ in range(4)}
        index["{i ...}"] = torch.tensor(
            [(v, e) for e, face in enumerate(sorted(faces)) for v in face]
        ).T
    return inc.Structure(n, index)


def _features(random: Random, m: inc.EquivariantMap, s: inc.Structure) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    return {
        str(p): torch.randn(s.num_entries(p), 2, generator=generator, dtype=torch.float64)
        for p in m.inputs
    }


def _layer(random: Random, m: inc.EquivariantMap) -> inc.nn.Linear:
    torch.manual_seed(random.randrange(2**31))
    return inc.nn.Linear(m, 2, 3, aggr=random.choice(("sum", "mean")), dtype=torch.float64)


def _outputs(y: object) -> list[torch.Tensor]:
    return list(y.values()) if isinstance(y, dict) else [y]  # type: ignore[list-item]


def _close(ones: list[torch.Tensor], others: list[torch.Tensor]) -> None:
    for one, other in zip(ones, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


def layers_are_equivariant(random: Random) -> None:
    """Relabelling the nodes before a layer is relabelling them after it."""
    m = _map(random)
    s, layer = _structure(random, m), _layer(random, m)
    x = _features(random, m, s)
    inc.testing.assert_equivariant(layer, x if len(x) > 1 else next(iter(x.values())), s)


def batches_are_their_parts(random: Random) -> None:
    """A layer on a batch gives what it gives on each structure."""
    m = _map(random)
    layer, parts = _layer(random, m), [_structure(random, m) for _ in range(3)]
    xs = [_features(random, m, s) for s in parts]
    whole = {key: torch.cat([x[key] for x in xs]) for key in xs[0]}
    apart = [_outputs(layer(x, s)) for x, s in zip(xs, parts, strict=True)]
    _close(
        _outputs(layer(whole, inc.collate(parts))),
        [torch.cat(rows) for rows in zip(*apart, strict=True)],
    )


def files_are_read_back(random: Random) -> None:
    """What is written is read."""
    m = _map(random)
    s = _structure(random, m)
    example = inc.Example(s, _features(random, m, s), random.random())
    with TemporaryDirectory() as name:
        example.save(Path(name, "a.npz"))
        assert inc.Example.load(Path(name, "a.npz")) == example


def single_precision_is_double_precision_rounded(random: Random) -> None:
    """The compiled engine for small structures gives what the engine in torch gives."""
    m = _map(random)
    s, layer = _structure(random, m), _layer(random, m)
    x = _features(random, m, s)
    expected = _outputs(layer(x, s))
    found = _outputs(layer.float()({key: v.float() for key, v in x.items()}, s))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


PROPERTIES: dict[str, Callable[[Random], None]] = {
    function.__name__: function
    for function in (
        layers_are_equivariant,
        batches_are_their_parts,
        files_are_read_back,
        single_precision_is_double_precision_rounded,
    )
}
