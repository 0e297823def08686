"""Memory that a plan keeps: used again when nothing refers to it, and never before."""

import copy
import pickle
import threading

import pytest
import torch

from incidence.engine import memory
from incidence.engine.memory import Buffers
from incidence.nn import Linear
from incidence.structure import Structure

needs_counts = pytest.mark.skipif(
    memory._num_references is None, reason="this torch does not count references to memory"
)


@pytest.fixture(autouse=True)
def _every_size(monkeypatch):
    monkeypatch.setattr(memory, "_LEAST", 1)


@needs_counts
def test_a_block_is_used_again_once_it_is_free():
    pool, like = Buffers(), torch.zeros(1)
    one = pool.empty((3, 4), like)
    place = one.data_ptr()
    assert pool.empty((3, 4), like).data_ptr() != place
    del one
    assert pool.empty((3, 4), like).data_ptr() == place


@needs_counts
@pytest.mark.parametrize(
    "hold",
    [
        lambda t: t.view(-1)[2:],
        lambda t: t.detach(),
        lambda t: t.numpy(),
        lambda t: t.untyped_storage(),
        lambda t: t.unsafe_split(1)[2],
    ],
)
def test_whatever_refers_to_a_block_keeps_it(hold):
    pool, like = Buffers(), torch.zeros(1)
    one = pool.empty((3, 4), like)
    place, held = one.data_ptr(), hold(one)
    del one
    assert pool.empty((3, 4), like).data_ptr() != place
    del held
    assert pool.empty((3, 4), like).data_ptr() == place


@needs_counts
def test_blocks_of_other_sizes_are_not_used_and_few_are_kept():
    pool, like = Buffers(), torch.zeros(1)
    one = pool.empty((3, 4), like)
    place = one.data_ptr()
    del one
    assert pool.empty((3, 5), like).shape == (3, 5)
    assert pool.empty((3, 4), like.double()).dtype == torch.float64
    assert pool.empty((6, 2), like).data_ptr() == place  # as many bytes
    for k in range(20):
        pool.empty((k + 10, 1), like)
    assert len(pool._blocks) == memory._MOST


@needs_counts
def test_copies_are_empty():
    pool = Buffers()
    pool.empty((3, 4), torch.zeros(1))
    for other in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert not other._blocks


@needs_counts
def test_threads_never_get_the_same_block():
    pool, like, seen = Buffers(), torch.zeros(1), []

    def work() -> None:
        for _ in range(200):
            mine = pool.empty((50,) * 2, like).fill_(threading.get_ident() % 1000)
            seen.append(bool((mine == threading.get_ident() % 1000).all()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen)
    assert len(seen) == 800


def test_outputs_that_are_kept_do_not_change_when_the_layer_is_called_again(monkeypatch):
    monkeypatch.setattr("incidence.engine.gather._BLOCK", 8)  # as if it were large
    layer = Linear("i, (i j) -> i, (i j)", 3, 3, dtype=torch.float64)
    structure = Structure(4, {"(i j)": [[0, 1, 2, 1], [1, 0, 3, 3]]})

    def draw(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {
            "i": torch.randn(4, 3, generator=generator, dtype=torch.float64),
            "(i j)": torch.randn(4, 3, generator=generator, dtype=torch.float64),
        }

    kept = [layer(draw(seed), structure) for seed in range(6)]
    for seed, y in enumerate(kept):
        again = layer(draw(seed), structure)
        assert all(torch.equal(y[key], again[key]) for key in y)
        del again
