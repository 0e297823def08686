"""SHREC11 with and without the harmonic layer: the two networks, and what a line has."""

import pytest

from benchmarks import shrec
from incidence.models import make


class Trained:
    """Stands for `Bench`: remembers what is trained."""

    def __init__(self, task, folder, out):
        self.calls = []
        Trained.last = self

    def load(self, name, **options):
        return name, options

    def train(self, data, label, **options):
        self.calls.append((data, label, options))
        return options

    @staticmethod
    def test(run, metric):
        return 0.5 if run.get("harmonic") else 0.25


def test_both_networks_are_trained_alike_but_for_the_layer(monkeypatch, tmp_path):
    monkeypatch.setattr(shrec, "Bench", Trained)
    lines = shrec.main(["--seeds", "2", "--epochs", "3", "--out", str(tmp_path)])
    assert [line["accuracy"] for line in lines] == [25.0, 50.0, 25.0, 50.0]
    calls = Trained.last.calls
    assert [data[1]["seed"] for data, _, _ in calls] == [0, 0, 1, 1]
    for (_, _, plain), (_, _, harmonic) in (calls[:2], calls[2:]):
        assert harmonic == {**plain, "harmonic": 12}
        assert plain["epochs"] == 3
    assert len({label for _, label, _ in calls}) == 4


@pytest.mark.parametrize("name", shrec.NETWORKS)
def test_the_networks_differ_in_their_readouts(name):
    widths = {"i": 4, "{i j}": 8, "{i j k}": 7}
    net = make("mesh", widths, 30, **shrec.NETWORKS[name])
    kinds = {type(one).__name__ for one in net.modules()}
    assert ("HarmonicRanks" in kinds) == ("harmonic" in name)
