import time

import pytest
import torch

from incidence.data.meshes import COLUMNS, augment, features_of, stretch
from incidence.errors import IncidenceError
from incidence.structure.collate import pack
from incidence.structure.example import Example
from tests.data.mesh_examples import bumpy, cube, grid, moebius, torus


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_stretched_mesh_has_the_features_of_its_new_coordinates() -> None:
    for mesh in (bumpy(), cube(), moebius(), grid(), torus()):
        found = stretch(features_of(mesh), generator(), 0.3)
        anew = features_of(Example(mesh.structure, {"pos=i": found.features["pos=i"]}))
        for key in COLUMNS:
            torch.testing.assert_close(
                found.features[key], anew.features[key], atol=1e-5, rtol=1e-5
            )


def test_every_axis_has_a_factor_of_its_own() -> None:
    before = features_of(bumpy())
    ratios = stretch(before, generator()).features["pos=i"] / before.features["pos=i"]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios))
    assert len(ratios[0].unique()) == 3
    assert (ratios > 0).all()


def test_an_amount_of_zero_changes_nothing() -> None:
    before = features_of(bumpy())
    after = stretch(before, generator(), 0.0)
    for key in before.features:
        torch.testing.assert_close(after.features[key], before.features[key])


def test_meshes_of_a_batch_are_stretched_differently_and_repeatably() -> None:
    meshes = [features_of(bumpy()).replace(target=k) for k in range(3)]
    one, again = (augment(meshes, generator(5)) for _ in range(2))
    assert one == again
    assert not torch.equal(one[0].features["pos=i"], one[1].features["pos=i"])
    assert [int(e.target) for e in one] == [0, 1, 2]
    assert all(a.structure is b.structure for a, b in zip(one, meshes, strict=True))


def test_a_mesh_without_features_cannot_be_stretched() -> None:
    with pytest.raises(
        IncidenceError, match="example 1 of those to stretch has no features of a mesh"
    ):
        augment([features_of(cube()), cube()], generator())


@pytest.mark.slow
def test_a_batch_of_sixteen_meshes_is_stretched_in_little_time() -> None:
    meshes = pack([features_of(torus(12, 21)) for _ in range(16)])  # 504 faces each
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    spent = []
    for _ in range(10):
        start = time.thread_time()
        augment(meshes, generator())
        spent.append(time.thread_time() - start)
    torch.set_num_threads(threads)
    assert min(spent) < 0.045  # 12 ms on a machine that does nothing else
