"""A predictor takes raw features and gives values in their units, with scales from the training
data alone.
"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load, save

import incidence as inc
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet, Predictor
from tests.models.small import WIDTHS, graph

NAN = float("nan")


def predictor(kind: str = "regression", out_channels: int = 2) -> Predictor:
    torch.manual_seed(0)
    return Predictor(
        IncidenceNet("i, {i j} -> ", WIDTHS, out_channels, hidden=4, depth=1, dropout=0.0), kind
    )


def features(count: int = 5) -> list[dict[str, torch.Tensor]]:
    return [graph(seed).features for seed in range(count)]


def test_features_have_mean_0_and_deviation_1_over_the_training_data():
    rows = [{"i": 50 + 7 * x["i"], "{i j}": x["{i j}"] - 3} for x in features()]
    made = predictor().fit_scales(rows)
    scaled = [made.standardise(x) for x in rows]
    for key in WIDTHS:
        columns = torch.cat([x[key] for x in scaled])
        torch.testing.assert_close(columns.mean(0), torch.zeros(WIDTHS[key]), atol=1e-5, rtol=0)
        torch.testing.assert_close(
            columns.std(0, correction=0), torch.ones(WIDTHS[key]), atol=1e-5, rtol=0
        )


def test_a_network_that_scales_rows_gets_its_features_as_they_are():
    example = graph()
    made = Predictor(IncidenceNet("i, {i j} -> ", WIDTHS, scale="rows")).fit_scales(
        [example.features]
    )
    assert torch.equal(made.standardise(example.features)["i"], example.features["i"])


def test_names_of_tensors_serve_as_keys():
    net = IncidenceNet("i, bond={i j} -> ", {"i": 3, "bond": 2}, hidden=4, depth=1)
    rows = [{"i": x["i"], "bond": x["{i j}"]} for x in features()]
    made = Predictor(net).fit_scales(rows)
    torch.testing.assert_close(made.shift_1, torch.cat([x["bond"] for x in rows]).mean(0))


def test_a_constant_column_stays_one_to_count_with():
    rows = [
        {**x, "i": torch.cat([x["i"][:, :2], torch.full_like(x["i"][:, :1], 1e4)], 1)}
        for x in features()
    ]
    made = predictor().fit_scales(rows)
    assert torch.equal(made.standardise(rows[0])["i"][:, 2], torch.ones(6))
    empty = predictor().fit_scales([{**x, "i": torch.zeros_like(x["i"])} for x in rows])
    assert torch.equal(
        empty.standardise({**rows[0], "i": torch.zeros(6, 3)})["i"], torch.zeros(6, 3)
    )


def test_a_value_far_off_is_clamped():
    rows = features()
    made = predictor().fit_scales(rows)
    scaled = made.standardise({**rows[0], "i": rows[0]["i"] + 1e9})["i"]
    assert torch.equal(scaled, torch.full((6, 3), 6.0))


def test_targets_that_are_missing_are_left_out_of_the_scales():
    targets = [torch.tensor([1.0, NAN]), torch.tensor([3.0, 10.0]), torch.tensor([NAN, 10.0])]
    made = predictor().fit_scales(features(3), targets)
    assert made.target_shift.tolist() == [2.0, 10.0]
    assert made.target_scale.tolist() == [1.0, 1.0]


def test_a_target_that_is_always_missing_leaves_the_scale_alone():
    made = predictor().fit_scales(features(2), [torch.tensor([1.0, NAN]), torch.tensor([3.0, NAN])])
    assert made.target_shift.tolist() == [2.0, 0.0]
    assert made.target_scale.tolist() == [1.0, 1.0]


def test_predictions_are_in_the_units_of_the_targets():
    example = graph()
    made = (
        predictor()
        .fit_scales(features(2), [torch.tensor([100.0, 0.0]), torch.tensor([300.0, 0.5])])
        .eval()
    )
    y, raw = (
        made.predict(example.features, example.structure),
        made(example.features, example.structure),
    )
    torch.testing.assert_close(y, raw * torch.tensor([100.0, 0.25]) + torch.tensor([200.0, 0.25]))
    torch.testing.assert_close(made.scaled(y), raw)


def test_classes_have_no_scale_and_probabilities_add_up_to_1():
    example = graph()
    made = (
        predictor("classification")
        .fit_scales(features(2), [torch.tensor(1), torch.tensor(0)])
        .eval()
    )
    assert made.target_shift.tolist() == [0.0, 0.0]
    torch.testing.assert_close(
        made.predict(example.features, example.structure).sum(1), torch.ones(1)
    )


def test_weights_and_scales_come_back_from_a_file():
    example, rows = graph(9), features()
    made = predictor().fit_scales(rows, [torch.tensor([k * 7.0, -k]) for k in range(5)])
    made(example.features, example.structure)  # running statistics move
    other = predictor()
    torch.nn.init.zeros_(next(other.parameters()))
    other.load_state_dict(load(save(made.state())))
    y = made.eval().predict(example.features, example.structure)
    assert torch.equal(other.eval().predict(example.features, example.structure), y)


def test_calibration_looks_at_standardised_features():
    batch = inc.collate([graph(seed) for seed in range(4)])
    one, two = predictor(), predictor()
    loud = {key: 1000 * x for key, x in batch.features.items()}
    one.fit_scales([batch.features]).calibrate(batch.features, batch.structure)
    two.fit_scales([loud]).calibrate(loud, batch.structure)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("width", [1, 5])
def test_features_of_another_width_are_refused(width):
    example, made = graph(), predictor()
    with pytest.raises(
        IncidenceError,
        match=(
            f"the features of `i` must have 3 channels, as the model was trained with; got {width}"
        ),
    ):
        made({**example.features, "i": torch.zeros(6, width)}, example.structure)


def test_features_that_are_missing_from_the_training_data_are_named():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the network reads `\{i j\}`, which has no features here; there are: 'i'\. Give it"
            r" features, add it by a lift, .*, as in inc\.models\.make\('i', \.\.\.\)"
        ),
    ):
        predictor().fit_scales([{"i": torch.zeros(2, 3)}])
