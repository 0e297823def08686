"""Examples: a structure, features and a target as one unit, in batches, in loaders and in files."""

import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import incidence as inc
from incidence.errors import IncidenceError
from incidence.structure import Example, Structure, collate, uncollate
from tests.structure.random_structures import random_structure

T = torch.tensor
TEXTS = ["{i j}", "bond=(i j)", "i {i ...}", "{i ...}", "i u:user"]
TARGETS = ["none", "number", "vector", "entries"]


def make(num_nodes: int, seed: int = 0, target: str = "vector") -> Example:
    """A random example with features of everything, and a target of one of the kinds."""
    generator = torch.Generator().manual_seed(seed)
    structure = random_structure({"node": num_nodes, "user": 2}, TEXTS, seed, draws=4)
    keys = ["i", "pos=i", "v:user", "", "{i j}", "bond", "i {i ...}", "{i ...}"]
    features = {
        key: torch.randn(structure.num_entries(key), 2, generator=generator) for key in keys
    }
    targets: dict[str, Any] = {
        "none": None,
        "number": 0.5 * seed,
        "vector": torch.arange(3.0) + seed,
        "entries": {
            "i": torch.arange(num_nodes) + seed,
            "bond": torch.rand(structure.num_entries("bond"), 2, generator=generator),
        },
    }
    return Example(structure, features, targets[target])


sizes = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(TARGETS))
def test_a_batch_falls_back_into_its_examples(ns, target):
    examples = [make(n, seed, target) for seed, n in enumerate(ns)]
    batch = collate(examples)
    assert batch.is_batch
    assert len(batch) == len(ns)
    assert uncollate(batch) == list(batch) == [batch[k] for k in range(len(ns))] == examples


@settings(max_examples=20, deadline=None)
@given(sizes, sizes, st.sampled_from(TARGETS))
def test_batches_collate_again(ns, ms, target):
    examples = [make(n, seed, target) for seed, n in enumerate([*ns, *ms])]
    assert collate([collate(examples[: len(ns)]), collate(examples[len(ns) :])]) == collate(
        examples
    )


def test_a_batch_stands_beside_single_examples():
    one, two, three = (make(3, seed) for seed in range(3))
    assert collate([collate([one, two]), three]) == collate([one, two, three])


@pytest.mark.parametrize("target", TARGETS)
def test_part_of_a_batch_is_a_batch(target):
    examples = [make(n, n, target) for n in (3, 0, 4)]
    batch = collate(examples)
    assert batch[1:] == collate(examples[1:])
    assert batch[[2, 0]] == collate([examples[2], examples[0]])
    assert batch[T([True, False, False])] == collate(examples[:1])
    assert batch[-1] == examples[-1]
    with pytest.raises(IndexError, match="structure 3 of a batch of 3"):
        batch[3]


def test_targets_of_whole_structures_are_stacked_and_those_of_entries_joined():
    assert collate([make(2, s, "number") for s in (1, 2)]).target.tolist() == [0.5, 1.0]
    assert collate([make(2, s, "vector") for s in (1, 2)]).target.shape == (2, 3)
    assert collate([make(n, 5, "entries") for n in (2, 3)]).target["i"].tolist() == [5, 6, 5, 6, 7]
    assert collate([make(2, 0, "number")]).target.shape == (1,)


def test_features_are_matched_by_meaning_in_a_batch():
    s = Structure(2, {"{i j}": [[0], [1]]})
    one, two = Example(s, {"{i j}": T([[1.0]])}), Example(s, {"{b a}": T([[2.0]])})
    assert collate([one, two]).features["{i j}"].tolist() == [[1.0], [2.0]]
    assert one != two
    assert one == Example(s, {"{a b}": T([[1.0]])})


@pytest.mark.parametrize("workers", [0, 2], ids=["here", "workers"])
def test_a_list_of_examples_is_a_data_set_for_a_loader(workers):
    examples = [make(n % 5, n) for n in range(10)]
    loader = DataLoader(examples, batch_size=4, collate_fn=inc.collate, num_workers=workers)
    assert [len(batch) for batch in loader] == [4, 4, 2]
    assert [e for batch in loader for e in batch] == examples


def test_an_example_survives_pickling():
    batch = collate([make(3), make(4)])
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_an_example_trains_a_layer():
    batch = collate([make(3, s, "number") for s in range(4)])
    layer = inc.nn.Linear("i, {i j} -> ", 2, 1)
    out = layer({key: batch.features[key] for key in ("i", "{i j}")}, batch.structure)
    assert out.shape == (len(batch), 1)
    assert (out[:, 0] - batch.target).square().mean().isfinite()


def test_features_follow_the_preferred_order():
    example = make(6, 3, "entries")
    ordered = example.canonical()
    assert ordered.structure == example.structure.canonical()[0]
    rows = example.structure.canonical()[1]["bond"]
    assert torch.equal(ordered.features["bond"], example.features["bond"][rows])
    assert torch.equal(ordered.target["bond"], example.target["bond"][rows])
    assert torch.equal(ordered.features["i"], example.features["i"])


def test_an_example_moves_as_a_whole():
    moved = make(3, 0, "entries").to("meta")
    tensors = [*moved.features.values(), *moved.target.values()]
    assert {t.device.type for t in tensors} == {moved.structure.device.type} == {"meta"}
    assert make(3).to("cpu") == make(3)
    assert make(3, 0, "none").to("meta").target is None


@pytest.mark.parametrize("target", TARGETS)
def test_floats_take_another_type_and_integers_stay(target):
    example = make(3, 0, target)
    example = example.replace(features={**example.features, "kind=i": torch.arange(3)[:, None]})
    for double in (
        example.to(torch.float64),
        example.to("cpu", torch.float64),
        example.to(dtype=torch.float64),
        example.double(),
    ):
        assert double.structure is example.structure
        assert {key: x.dtype for key, x in double.features.items()} == {
            key: torch.float64 if x.is_floating_point() else x.dtype
            for key, x in example.features.items()
        }
        assert double.features["kind=i"].dtype == torch.long
        assert double.float() == example
    classes = example.replace(target={"i": torch.arange(3)}).double()
    assert classes.target["i"].dtype == torch.long
    assert example.replace(target=T(0.5)).double().target.dtype == torch.float64
    meta = example.to("meta", torch.float16)
    assert (meta.structure.device.type, meta.features["i"].dtype) == ("meta", torch.float16)


def test_a_sample_takes_another_type_with_its_seeds():
    sample = make(4).sample([2, 0], hops=1)
    double = sample.double()
    assert double.features["i"].dtype == torch.float64
    assert torch.equal(double.seeds, sample.seeds)
    assert double.nodes["node"].tolist() == sample.nodes["node"].tolist()


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, True])
def test_features_become_no_integers(dtype):
    with pytest.raises(
        IncidenceError, match=rf"is one of floats, as in example.to\(torch.float64\); got {dtype}"
    ):
        make(2).to("cpu", dtype)


def test_an_example_can_be_pinned(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: t.clone())
    assert make(3).pin_memory() == make(3)


def test_an_example_does_not_change():
    example = make(3)
    example.features["i"] = T([[1.0]])
    assert example == make(3)
    with pytest.raises(
        AttributeError, match=r"cannot be changed; use example.replace\(target=...\)"
    ):
        example.target = None
    changed = example.replace(target=1.0)
    assert changed.target == 1
    assert changed.features.keys() == example.features.keys()
    with pytest.raises(
        IncidenceError, match="an example has structure, features and target, and no `label`"
    ):
        example.replace(label=1)


def test_an_example_says_what_it_has():
    s = Structure(2, {"{i j}": [[0], [1]]})
    assert (
        repr(Example(s, {}, {"i": torch.zeros(2)}))
        == "Example(Structure(num_nodes=2, '{i j}': 1 entry), features={}, target={'i': [2]})"
    )


def test_an_example_is_not_saved_to_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(
        IncidenceError, match=r"there is no folder .*nowhere to save to: make it first"
    ):
        make(3).save(tmp_path / "nowhere" / "example")


def test_missing_values_agree_with_each_other():
    s = Structure(1)
    assert Example(s, target=T([float("nan"), 1.0])) == Example(s, target=T([float("nan"), 1.0]))
    assert Example(s, target=T([float("nan"), 1.0])) != Example(s, target=T([1.0, 1.0]))
    assert Example(s, target=T([1.0])) != Example(s, target=T([1]))
    assert Example(s, target=T([1.0])) != Example(s)
    assert Example(s) != s


# ---- files


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [0, 1, 3], ids=["one", "batch of one", "batch"])
def test_what_is_saved_is_loaded(count, target, tmp_path):
    example = (
        collate([make(n + 2, n, target) for n in range(count)]) if count else make(3, 1, target)
    )
    example.save(tmp_path / "example")
    assert Example.load(tmp_path / "example") == example


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.int8, torch.complex64],
    ids=str,
)
def test_features_of_every_type_are_kept(dtype, tmp_path):
    example = Example(Structure(3), {"i": T([[0], [1], [1]]).to(dtype)})
    example.save(tmp_path / "example")
    assert Example.load(tmp_path / "example") == example


def test_the_file_holds_plain_arrays_only(tmp_path):
    make(3).save(tmp_path / "example")
    assert zipfile.is_zipfile(tmp_path / "example")
    with np.load(tmp_path / "example", allow_pickle=False) as file:
        assert {file[key].dtype.kind for key in file.files} <= set("iuUb")


def damage(arrays: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**arrays, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": None}, "is damaged: 'target' is missing"),
        ({"target": np.array("other")}, "is damaged: 'other' is missing or of the wrong kind"),
        (
            {
                "target/0/key": None,
                "target/0/type": None,
                "target/0/bytes": None,
                "target/0/shape": None,
            },
            "its target is missing",
        ),
        ({"feature/0/type": np.array("nn")}, "feature/0 is no tensor"),
        ({"feature/0/shape": np.array([7, 2])}, "is damaged"),
        ({"feature/0/key": np.array("{i j k}")}, "no index for `{i j k}`"),
        ({"format": None}, r"is not an example written by `Example.save`"),
        ({"format": np.array(9)}, "has format 9; this version reads format 1"),
    ],
)
def test_a_damaged_file_is_refused(changes, message, tmp_path):
    make(3).save(tmp_path / "example")
    with np.load(tmp_path / "example") as file:
        arrays = damage(dict(file), **changes)
    with (tmp_path / "example").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(IncidenceError, match=message):
        Example.load(tmp_path / "example")


def test_a_structure_is_no_example(tmp_path):
    Structure(3).save(tmp_path / "structure")
    with pytest.raises(IncidenceError, match="'target' is missing"):
        Example.load(tmp_path / "structure")


# ---- refusals

EDGE = Structure(3, {"{i j}": [[0], [1]], "bond={i j}": [[1], [2]]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (3,),
            (
                r"the first argument is a Structure; got int. Call Example\(structure, features,"
                r" target\)"
            ),
        ),
        ((EDGE, torch.zeros(3, 1)), "features map patterns to tensors.*got Tensor"),
        ((EDGE, {"i": [[0.0]]}), r"features\['i'\] must be a tensor; got list"),
        (
            (EDGE, {"i": torch.zeros(2, 1)}),
            r"features\['i'\] must have 3 rows, one for each entry of `i`; got shape \[2, 1\]",
        ),
        (
            (EDGE, {"": torch.zeros(2, 1)}),
            r"must have 1 rows, one for each entry of the whole structure",
        ),
        (
            (EDGE, {"i": torch.zeros(3)}),
            r"must have shape \[entries, channels\]; got \[3\]. For one channel use x\[:, None\]",
        ),
        ((EDGE, {"{i j k}": torch.zeros(3, 1)}), "no index for `{i j k}` here"),
        ((EDGE, {"bonds": torch.zeros(3, 1)}), "no tensor is called `bonds` here"),
        (
            (EDGE, {"{i j}": torch.zeros(1, 1), "{a b}": torch.zeros(1, 1)}),
            "features have `{a b}` twice, in two spellings",
        ),
        (
            (EDGE, {"i": torch.zeros(3, 1, device="meta")}),
            r"features\['i'\] is on meta and the structure is on cpu",
        ),
        ((EDGE, {}, {"i": torch.zeros(2)}), r"target\['i'\] must have 3 rows"),
        ((EDGE, {}, {"i": T(1.0)}), r"target\['i'\] must have 3 rows"),
        (
            (EDGE, {}, "yes"),
            "the target is a tensor, a number, or maps patterns to tensors; got str",
        ),
        ((EDGE, {}, torch.zeros(2, device="meta")), "the target is on meta"),
        (
            (collate([EDGE, EDGE]), {}, torch.zeros(3)),
            r"the target of a batch has a row for each of its 2 structures; got shape \[3\]",
        ),
        (
            (collate([EDGE, EDGE]), {}, 1.0),
            r"the target of a batch has a row for each of its 2 structures; got shape \[\]",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(IncidenceError, match=message):
        Example(*arguments)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (EDGE, "a batch is of examples or of structures; number 1 is a Structure among examples"),
        (
            Example(EDGE, {}),
            (
                r"examples of a batch have the same features; number 0 has \['i'\] and number 1 has"
                r" \[\]"
            ),
        ),
        (
            Example(EDGE, {"i": torch.zeros(3, 2)}),
            r"\['i'\] has one shape and type.*rows \[1\] of float32 and number 1 \[2\] of float32",
        ),
        (Example(EDGE, {"i": torch.zeros(3, 1).long()}), r"number 1 \[1\] of int64"),
        (
            Example(EDGE, {"i": torch.zeros(3, 1)}, target=1.0),
            "targets of one kind; number 0 has none and number 1 has one for the whole structure",
        ),
    ],
)
def test_examples_that_differ_make_no_batch(other, message):
    with pytest.raises(IncidenceError, match=message):
        collate([Example(EDGE, {"i": torch.zeros(3, 1)}), other])


def test_targets_that_differ_in_shape_make_no_batch():
    with pytest.raises(
        IncidenceError,
        match=r"the target has one shape and type.*rows \[2\] of float32 and number 1 \[3\]",
    ):
        collate([Example(EDGE, target=torch.zeros(2)), Example(EDGE, target=torch.zeros(3))])


@pytest.mark.parametrize("items", [3, []], ids=["number", "nothing"])
def test_collate_takes_a_list_that_is_not_empty(items):
    with pytest.raises(IncidenceError, match=r"collate takes a list|collate needs at least one"):
        collate(items)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 5), st.integers(0, 99), st.sampled_from(TARGETS))
def test_an_induced_example_keeps_the_rows_of_the_entries_that_are_left(n, seed, target):
    example = make(n, seed, target)
    marked = example.replace(
        features={k: torch.arange(len(x))[:, None].float() for k, x in example.features.items()}
    )
    kept = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[: (n + 1) // 2]
    left = marked.induced({"node": kept, "user": [1]})
    assert left.structure == marked.structure.induced({"node": kept, "user": [1]})
    assert (
        left.features["i"][:, 0].tolist() == left.features["pos=i"][:, 0].tolist() == kept.tolist()
    )
    assert left.features["v:user"].tolist() == [[1.0]]
    assert left.features[""].shape == (1, 1)
    old, new = marked.structure["bond"], left.structure["bond"]
    rows = left.features["bond"][:, 0].long()
    assert torch.equal(old[:, rows], kept[new])  # the same entry, by its nodes
    if target == "entries":
        assert torch.equal(left.target["i"], example.target["i"][kept])
        assert torch.equal(left.target["bond"], example.target["bond"][rows])
    elif target != "none":
        assert torch.equal(left.target, example.target)


def test_a_selection_of_entries_takes_their_features_and_targets_along():
    example = make(5, 3, "entries")
    count = example.structure.num_entries("bond")
    left = example.select("bond", [count - 1, 0])
    assert left.structure == example.structure.select("bond", [count - 1, 0])
    assert torch.equal(left.features["bond"], example.features["bond"][[count - 1, 0]])
    assert torch.equal(left.target["bond"], example.target["bond"][[count - 1, 0]])
    assert torch.equal(left.features["i"], example.features["i"])
    assert torch.equal(left.features["{i j}"], example.features["{i j}"])


def test_a_selection_of_masked_nodes_leaves_other_features_of_nodes_alone():
    example = Example(
        Structure(3, {"some=i": [[0, 2]]}), {"i": torch.rand(3, 1), "some": T([[1.0], [2.0]])}
    )
    left = example.select("some", [1])
    assert left.features["i"].shape == (3, 1)
    assert left.features["some"].tolist() == [[2.0]]
    assert example.induced([2, 1]).features["some"].tolist() == [[2.0]]


def test_an_example_goes_to_the_host_and_to_a_gpu(monkeypatch):
    example = make(2)
    assert example.cpu() == example
    asked = []
    monkeypatch.setattr(
        Example, "to", lambda self, device, non_blocking=False: asked.append((device, non_blocking))
    )
    example.cuda()
    example.cuda(1, non_blocking=True)
    example.cuda("cuda:2")
    assert asked == [
        (torch.device("cuda"), False),
        (torch.device("cuda", 1), True),
        (torch.device("cuda:2"), False),
    ]
