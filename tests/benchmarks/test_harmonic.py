"""The benchmark of harmonic parts: a torus, and times in units of a product."""

import incidence as inc
from benchmarks.harmonic import main, torus


def test_the_mesh_is_a_torus():
    s = torus(5)
    assert s.num_entries("<i j k>") == 50
    assert [inc.geometry.hodge(s, rank).betti for rank in range(3)] == [1, 2, 1]


def test_a_line_has_all_times():
    line = main(["--triangles", "200", "--channels", "2"])
    assert line["triangles"] == 200
    assert {"first_call", "later_calls", "solved_to_1e-8"} <= set(line)
