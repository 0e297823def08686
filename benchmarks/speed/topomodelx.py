"""TopoModelX beside our layers. It brings other versions of numpy and PyG, so it lives in an
environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.speed import structures
from benchmarks.speed.bench import Bench, Work, one_thread
from benchmarks.speed.stand_ins import hypergraph, molecules
from benchmarks.speed.timing import Figure, ratio
from incidence.data.lifts import lift_all
from incidence.errors import IncidenceError
from incidence.structure import Structure, collate

__all__ = ["environment", "hodge_laplacians", "topomodelx"]

_VERSION, _TORCH = "0.0.1", torch.__version__.split("+")[0]
_CHANNELS = 32
_BARS = {450: 1.0, 20_000: None}


def topomodelx(bench: Bench) -> list[Figure]:
    """Layers on meshes, hypergraphs and rings against TopoModelX's SCN2, UniGCN and CWN, in an
    environment of its own (--make-environment).
    """
    if find_spec("topomodelx"):
        meshes = [_against_scn2(bench, faces) for faces in _BARS]
        return [*meshes, _against_unigcn(bench), _against_cwn(bench)]
    try:
        folder = () if bench.folder is None else (f"--folder={bench.folder}",)
        return bench.in_fresh_process("topomodelx", *folder, python=str(_python(bench)))
    except IncidenceError as error:
        bench.notes.append(f"not measured: {error}")
        return []


def _against_scn2(bench: Bench, faces: int) -> Figure:
    """One layer each, with a ReLU as SCN2 has it, on one thread."""
    mesh = structures.shuffled(structures.triangle_mesh(faces))
    work = Work("i, {i j}, {i j k} -> i, {i j}, {i j k}", mesh, _CHANNELS)
    peer = import_module("topomodelx.nn.simplicial.scn2").SCN2(
        _CHANNELS, _CHANNELS, _CHANNELS, n_layers=1
    )
    laplacians = hodge_laplacians(mesh)

    def ours() -> None:
        work.backward([y.relu() for y in work.forward()])

    def theirs() -> None:
        work.backward(list(peer(*work.xs, *laplacians)))
        peer.zero_grad()

    with one_thread():
        times = bench.timer(f"{faces:,} faces", calls=10 if faces < 1000 else 1).run(
            {"ours": ours, "SCN2": theirs}
        )
    name = f"mesh layer (23 operations) over SCN2 (3), {faces:,} faces, K = {_CHANNELS}"
    return Figure(name, ratio(times, "ours", "SCN2"), bar=_BARS[faces])


def _against_unigcn(bench: Bench) -> Figure:
    """One layer each on Cora's co-authorship, on one thread; both give nodes and hyperedges."""
    work = Work("i, {i ...} -> i, {i ...}", structures.shuffled(hypergraph(bench)), 64)
    peer = import_module("topomodelx.nn.hypergraph.unigcn").UniGCN(64, 64, n_layers=1)
    members = work.structure["{i ...}"]
    sizes = tuple(len(x) for x in work.xs)
    incidence = torch.sparse_coo_tensor(members, torch.ones(members.shape[1]), sizes).coalesce()

    def theirs() -> None:
        work.backward(list(peer(work.xs[0], incidence)))
        peer.zero_grad()

    with one_thread():
        times = bench.timer("hypergraph, K = 64", calls=10).run(
            {"ours": work.ours, "UniGCN": theirs}
        )
    name = "`i, {i ...}` to itself (8 operations) over TopoModelX's UniGCN (2)"
    return Figure(name, ratio(times, "ours", "UniGCN"), bar=1.8)


def _against_cwn(bench: Bench) -> Figure:
    """One layer each on 128 molecules with their rings, with the activation of CWN, on one thread.

    CWN updates edges alone, from the nodes, edges and rings around them.
    """
    examples = lift_all(molecules(bench)[:128], "rings")
    structure = collate([example.structure for example in examples])
    work = Work(_RINGS, structure, _CHANNELS)
    peer = import_module("topomodelx.nn.cell.cwn").CWN(*[_CHANNELS] * 4, n_layers=1)
    nodes, edges, rings = (x.shape[0] for x in work.xs)
    ends = structure["{i j}"]
    numbers = torch.arange(edges).repeat(2)
    coboundary = torch.sparse_coo_tensor(
        torch.stack([numbers, ends.flatten()]), torch.ones(2 * edges), (edges, nodes)
    ).coalesce()
    members, ring_of = structure["ring={i ...}"]
    inside = torch.sparse_coo_tensor(
        torch.stack([members, ring_of]), torch.ones(len(members)), (nodes, rings)
    ).coalesce()
    shared = (coboundary @ inside).coalesce()  # 2 where an edge is a side of a ring
    is_side = shared.values() == 2
    index, ones = shared.indices()[:, is_side], torch.ones(int(is_side.sum()))
    sides = torch.sparse_coo_tensor(index, ones, (edges, rings)).coalesce()
    adjacency = (sides @ sides.t()).coalesce()

    def ours() -> None:
        work.backward([nn.functional.elu(y) for y in work.forward()])

    def theirs() -> None:
        work.backward(list(peer(*work.xs, adjacency, sides, coboundary)))
        peer.zero_grad()

    with one_thread():
        times = bench.timer("rings", calls=10).run({"ours": ours, "CWN": theirs})
    name = f"`{_RINGS}` over TopoModelX's CWN (3), K = {_CHANNELS}"
    return Figure(name, ratio(times, "ours", "CWN"), bar=1.8)


_RINGS = "i, {i j}, ring={i ...} -> i, {i j}, ring={i ...}"


def hodge_laplacians(mesh: Structure) -> list[Tensor]:
    """Those of nodes, edges and triangles, as sparse matrices, with the entries of each in the
    order of the mesh.
    """
    edges, faces = mesh["{i j}"].sort(0)[0], mesh["{i j k}"].sort(0)[0]
    sides = torch.stack(
        [mesh.locate("{i j}", faces[list(pair)]) for pair in ((1, 2), (0, 2), (0, 1))]
    )
    down = _boundary(edges, [-1.0, 1.0], mesh.total_nodes)
    up = _boundary(sides, [1.0, -1.0, 1.0], edges.shape[1])
    with warnings.catch_warnings():
        # products of sparse matrices say that they are in beta
        warnings.simplefilter("ignore", UserWarning)
        return [down @ down.t(), (down.t() @ down + up @ up.t()).coalesce(), up.t() @ up]


def _boundary(parts: Tensor, signs: list[float], rows: int) -> Tensor:
    """The matrix (rows, cells) with the sign of every part of a cell."""
    cells = torch.arange(parts.shape[1]).expand(len(signs), -1)
    values = torch.tensor(signs)[:, None].expand(-1, parts.shape[1])
    index = torch.stack([parts.flatten(), cells.flatten()])
    return torch.sparse_coo_tensor(
        index, values.flatten(), (rows, parts.shape[1]), check_invariants=True
    ).coalesce()


def environment() -> Path:
    """Where the environment is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "incidence" / f"topomodelx-{_VERSION}-torch-{_TORCH}"


def _python(bench: Bench) -> Path:
    """The interpreter of the environment, which is made if that was asked for.

    Raises:
        IncidenceError: It is not there, or could not be made.
    """
    folder = environment()
    python = folder / "bin" / "python"
    done = folder / "done"  # written last: an installation that was cut short is made anew
    if not done.exists():
        if not bench.may_install:
            raise IncidenceError(
                f"TopoModelX has no environment yet; --make-environment installs it in {folder},"
                " which takes minutes."
            )
        bench.report("installing TopoModelX")
        _install(folder, python)
        done.touch()
    return python


def _install(folder: Path, python: Path) -> None:
    """First the torch of this process, then TopoModelX, which must leave it."""
    constraints = folder / "constraints.txt"
    _run("the environment", sys.executable, "-m", "venv", "--clear", str(folder))
    constraints.write_text(f"torch=={_TORCH}\n")
    _run(f"torch {_TORCH}", str(python), "-m", "pip", "install", "-q", f"torch=={_TORCH}")
    _run(
        "TopoModelX",
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "-c",
        str(constraints),
        f"topomodelx=={_VERSION}",
    )


def _run(what: str, *words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise IncidenceError(
            f"{what} could not be installed: {told[-1] if told else 'it did not say why'}"
        )
