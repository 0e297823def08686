"""Figures are written without a display, and points of a text plot stand where they belong."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from incidence import plot
from incidence.errors import IncidenceError
from incidence.plot.theme import LIGHT
from incidence.structure import Structure

BASE = 0x2800


def figures() -> dict[str, object]:
    predicted, target = torch.randn(9, 2), torch.randn(9, 2)
    target[3] = torch.nan
    scores, classes = torch.rand(9, 3), torch.tensor([0, 1, 2, -1, 0, 1, 2, 0, 0])
    history = [
        {
            "epoch": k,
            "train_loss": 1 / k,
            "validation_rmse": 2 / k,
            "validation_mae": 1 / k,
            "lr": 0.1,
        }
        for k in (1, 2, 3)
    ]
    return {
        "parity": plot.parity(
            {"train": (predicted, target), "test": (predicted, target)}, ["energy", "gap"], "eV"
        ),
        "curves": plot.curves(history),
        "curves without validation": plot.curves([{"epoch": 1, "train_loss": 0.0, "lr": 0.1}]),
        "curves of nothing": plot.curves([]),
        "confusion": plot.confusion(scores, classes, ["a", "b", "c"]),
    }


@pytest.mark.parametrize("name", figures())
def test_every_figure_is_written_as_png_and_svg(name, tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    figure = figures()[name]
    png, svg = plot.save(figure, tmp_path / "a.png"), plot.save(figure, tmp_path / "a.svg")
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_the_same_figure_has_the_same_bytes(tmp_path):
    torch.manual_seed(0)
    one = plot.save(figures()["curves"], tmp_path / "a.png").read_bytes()
    assert plot.save(figures()["curves"], tmp_path / "b.png").read_bytes() == one


def test_parity_shows_every_part_on_one_scale():
    figure = plot.parity(
        {"train": (torch.tensor([[0.0], [4]]), torch.tensor([[1.0], [2]]))}, ["energy"], "eV"
    )
    [axis] = figure.axes
    assert axis.get_xlim() == axis.get_ylim()
    assert axis.collections[0].get_offsets().tolist() == [[1, 0], [2, 4]]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_title()) == (
        "measured (eV)",
        "predicted",
        "energy",
    )


@pytest.mark.parametrize("name", ["a$b", "$\\frac{$", "$x$", "{a}_b^c", "\\$"])
def test_names_are_drawn_as_they_are(name, tmp_path):
    """Dollars are no sign of a formula here."""
    for figure in (
        plot.parity({"test": (torch.ones(2, 1), torch.ones(2, 1))}, [name], name),
        plot.confusion(torch.eye(2), torch.tensor([0, 1]), [name, "b"]),
    ):
        plot.save(figure, tmp_path / "a.svg")
        plot.save(figure, tmp_path / "a.png")
        shown = [*figure.axes[0].get_xticklabels(), figure.axes[0].title]
        assert name in [text.get_text() for text in shown]


def test_confusion_counts_true_classes_in_rows():
    scores = torch.eye(3)[[0, 0, 1, 2, 2]]
    figure = plot.confusion(scores, torch.tensor([0, 1, 1, 2, -1]), ["a", "b", "c"])
    [axis] = figure.axes
    assert axis.images[0].get_array().tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]
    assert sorted((t.get_position(), t.get_text()) for t in axis.texts) == [
        ((0, 0), "1"),
        ((0, 1), "1"),
        ((1, 1), "1"),
        ((2, 2), "1"),
    ]
    # a dark page exchanges these
    assert {t.get_color() for t in axis.texts}.isdisjoint(
        {"white", "black", LIGHT.ink, LIGHT.paper}
    )


def test_a_figure_is_written_at_once_or_not_at_all(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"before")

    class Broken:
        def savefig(self, *_: object, **__: object) -> None:
            raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        plot.save(Broken(), tmp_path / "a.png")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.png", b"before")]
    with pytest.raises(IncidenceError, match="there is no folder"):
        plot.save(figures()["curves"], tmp_path / "no" / "a.png")


# ---- text


def dots(text: str, height: int) -> list[list[int]]:
    """The bits of every cell, row by row."""
    rows = [line.partition("┤")[2] for line in text.splitlines() if "┤" in line]
    assert len(rows) == height
    return [[ord(c) - BASE if c != " " else 0 for c in row] for row in rows]


def test_points_stand_in_their_corners():
    rows = dots(plot.scatter([0, 10, 0, 10], [0, 10, 10, 0], width=20, height=5), 5)
    assert rows[0][0] & 0x01  # above, left
    assert rows[0][19] & 0x08  # above, right
    assert rows[4][0] & 0x40  # below, left
    assert rows[4][19] & 0x80  # below, right


def test_a_point_off_the_diagonal_is_seen_where_it_is():
    text = plot.scatter([0, 100, 25], [0, 100, 75], width=20, height=10)
    plain = plot.scatter([0, 100], [0, 100], width=20, height=10)
    rows = zip(dots(text, 10), dots(plain, 10), strict=True)
    changed = [
        (r, c) for r, (a, b) in enumerate(rows) for c in range(len(a)) if a[c] != (b + [0] * 20)[c]
    ]
    assert changed == [(2, 5)]


def test_axes_tell_their_ends_and_names():
    text = plot.scatter(
        [-1.5, 2], [0, 2.25], width=30, height=4, x_name="measured", y_name="predicted"
    )
    lines = text.splitlines()
    assert lines[0].strip() == "predicted"
    assert lines[1].split()[0] == "2.25"
    assert lines[-3].split()[0] == "-1.5"
    assert lines[-1].split() == ["-1.5", "measured", "2.25"]


@pytest.mark.parametrize(
    "values", [([1.0], [1.0]), ([0.0, 0.0], [0.0, 0.0]), ([1e-30, 2e-30], [1e-30, 1e-30])]
)
def test_points_in_one_place_are_drawn(values):
    assert any(bits for row in dots(plot.scatter(*values), 14) for bits in row)


def test_a_plot_of_one_line_has_a_scale():
    assert "┤" in plot.scatter([0, 1], [0, 1], width=8, height=1)


def test_a_plain_plot_has_a_star_where_there_are_dots():
    text = plot.scatter([0, 100, 25], [0, 100, 75], width=20, height=10, x_name="measured")
    plain = plot.plain(text)
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in text.splitlines()]
    assert plain.count("*") == sum(bool(bits) for row in dots(text, 10) for bits in row)


def test_points_that_are_no_numbers_are_left_out():
    text = plot.scatter([0, float("nan"), 1, float("inf")], [0, 1, 1, 0], width=10, height=4)
    assert text == plot.scatter([0, 1], [0, 1], width=10, height=4)
    assert plot.scatter([], [], width=10, height=4) == ""


def test_one_epoch_is_a_dot_and_every_line_has_a_colour_of_its_own():
    axis = plot.curves([{"epoch": 1, "train_loss": 2.0}]).axes[0]
    assert [line.get_marker() for line in axis.lines] == ["o"]
    names = ["validation_accuracy", "validation_auc", "validation_hits"]
    axis = plot.curves([{"epoch": k, **dict.fromkeys(names, 0.5)} for k in (1, 2)]).axes[0]
    assert len({line.get_color() for line in axis.lines}) == 3
    assert {line.get_marker() for line in axis.lines} == {"None"}


def test_every_part_of_a_parity_has_a_colour_of_its_own():
    values = (torch.rand(3, 1), torch.rand(3, 1))
    for draw in (plot.parity, plot.residuals):
        axis = draw(dict.fromkeys(("train", "validation", "test"), values), ["y"]).axes[0]
        assert (
            len(
                {
                    tuple(dots.get_facecolor()[0][:3])
                    for dots in axis.collections
                    if dots.get_label() in ("train", "validation", "test")
                }
            )
            == 3
        )


def test_long_names_of_classes_leave_room_for_the_cells():
    name = "Neoplasms benign, malignant and unspecified (incl cysts and polyps)"
    axis = plot.confusion(torch.eye(2), torch.tensor([0, 1]), [name, "b"]).axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["Neoplasms benign, malig…", "b"]


def test_a_picture_and_its_scene_say_what_they_are_in_one_line():
    for what in (plot.operations("i j -> i j"), plot.structure(Structure(0, {}))):
        for text in (repr(what), repr(what.scene)):
            assert len(text.splitlines()) == 1
            assert len(text) < 120
    picture = plot.operations("i j -> i j")
    assert f"{picture.scene.width:.0f} x {picture.scene.height:.0f} points" in repr(picture)
