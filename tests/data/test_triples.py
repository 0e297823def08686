"""Typed triples: which tables have them, what is counted, and ranks among all candidates."""

from __future__ import annotations

import itertools

import pytest
import torch

import incidence as inc
from incidence.data.completion import KNOWN, QUERY, ROWS
from incidence.data.tables import table_of
from incidence.data.triples import _PATTERN, _Counts, find_triples
from incidence.errors import IncidenceError
from incidence.structure.structure import Structure

NAMES = "abcdef"


def lines(count: int = 40, seed: int = 0, divider: str = "\t") -> list[str]:
    """Different triples of six entities by three relations."""
    generator = torch.Generator().manual_seed(seed)
    every = list(itertools.product(NAMES, ("likes", "knows", "is"), NAMES))
    order = torch.randperm(len(every), generator=generator)[:count].tolist()
    return [divider.join(every[k]) for k in order]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("t.tsv", None),
        ("t.txt", None),
        ("t.csv", None),
        ("t.tsv", "head relation tail"),
        ("t.csv", "subject predicate object"),
        ("t.txt", "from type to"),
    ],
)
def test_files_of_triples_are_read_as_triples_with_or_without_a_header(name, header, tmp_path):
    divider = "," if name.endswith("csv") else "\t"
    first = [divider.join(header.split())] if header else []
    path = tmp_path / name
    path.write_text("\n".join([*first, *lines(divider=divider)]) + "\n")
    data = inc.data.load(path, task="links")
    assert data.reader == "triples"
    assert int(data.completion.is_fact.sum()) == 40
    assert sorted(data.completion.names["relation"]) == ["is", "knows", "likes"]
    assert sorted(data.completion.names["entity"]) == list(NAMES)


def test_folders_of_parts_frames_and_named_columns_are_triples(tmp_path):
    pandas = pytest.importorskip("pandas")
    every = lines(40)
    for name, some in (("train", every[:30]), ("valid", every[30:35]), ("test", every[35:])):
        (tmp_path / f"{name}.txt").write_text("\n".join(some))
    data = inc.data.load(tmp_path, task="links")
    part = data.split(0)
    facts = [int(data.completion.is_fact[rows].sum()) for rows in part]
    assert facts == [30, 5, 5]
    rows = [line.split("\t") for line in every]
    frame = pandas.DataFrame(rows, columns=["x", "y", "z"])
    keys = ("x", "y", "z")
    assert inc.data.load(frame, task="links", keys=keys).completion.keys == keys


@pytest.mark.parametrize(
    "text",
    [
        "a b c\nb c d\na c d\nd e f\nf a b\n",  # sets
        "a b 0.5\nb c 1\nc d 2\nd e 2\n",  # weights
        "a 1 b\nb 2 c\nc 1 a\na 2 b\n",  # numbers between two nodes
    ],
)
def test_sets_and_weighted_edges_are_no_triples(text, tmp_path):
    (tmp_path / "t.txt").write_text(text)
    assert inc.data.load(tmp_path / "t.txt", task="links").reader == "links"


def test_tables_without_three_clear_columns_have_no_triples():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "weight": [1, 2]})
    assert find_triples(table_of(frame)) is None


def test_counts_are_those_of_the_definition():
    generator = torch.Generator().manual_seed(1)
    tables = torch.rand(3, 5, 5, generator=generator) < 0.4
    relations, heads, tails = tables.nonzero().T
    found = _Counts(torch.stack([heads, relations, tails]), 5, 3)
    cells = tables.double()
    for r, q in itertools.product(range(3), repeat=2):
        held = cells[r].sum() + 2.0
        same = 0.0 if r == q else float((cells[r] * cells[q]).sum() / held)
        assert float(found.rules[0][r, q]) == pytest.approx(same)
        turned = float((cells[r].T * cells[q]).sum() / held)
        assert float(found.rules[1][r, q]) == pytest.approx(turned)
    assert found.of_tail.tolist() == cells.sum(1).tolist()
    assert found.of_head.tolist() == cells.sum(2).tolist()


def test_counts_do_not_depend_on_the_numbers_of_entities_and_relations():
    generator = torch.Generator().manual_seed(2)
    tables = torch.rand(3, 6, 6, generator=generator) < 0.3
    relations, heads, tails = tables.nonzero().T
    triples = torch.stack([heads, relations, tails])
    every = torch.cartesian_prod(torch.arange(6), torch.arange(3), torch.arange(6)).T
    p, q = torch.randperm(6, generator=generator), torch.randperm(3, generator=generator)
    moved = [torch.stack([p[t[0]], q[t[1]], p[t[2]]]) for t in (triples, every)]
    before = _Counts(triples, 6, 3).features(every)
    torch.testing.assert_close(_Counts(moved[0], 6, 3).features(moved[1]), before)


def test_no_known_triple_is_queried_and_no_part_sees_its_targets(tmp_path):
    (tmp_path / "t.tsv").write_text("\n".join(lines(60)))
    data = inc.data.load(tmp_path / "t.tsv", task="links")
    for part in data.parts():
        for example in part:
            known, query = example.structure[KNOWN].T.tolist(), example.structure[QUERY].T.tolist()
            assert not set(map(tuple, known)) & set(map(tuple, query))


def test_ranks_equal_those_counted_one_by_one(tmp_path):
    (tmp_path / "t.tsv").write_text("\n".join(lines(60, seed=3)))
    completion = inc.data.load(tmp_path / "t.tsv", task="links").completion
    generator = torch.Generator().manual_seed(0)
    value = torch.randint(7, (6, 3, 6), generator=generator).float()  # with ties

    def score(example: inc.Example) -> torch.Tensor:
        heads, relations, tails = example.structure[QUERY]
        return value[heads, relations, tails]

    facts = completion.is_fact.nonzero()[:, 0]
    rows = facts[50:]
    true = set(map(tuple, completion.rows[ROWS][:, facts].T.tolist()))
    ranks = []
    for h, r, t in completion.rows[ROWS][:, rows].T.tolist():
        for triples in ([(h, r, e) for e in range(6)], [(e, r, t) for e in range(6)]):
            others = [float(value[one]) for one in triples if one not in true]
            ours = float(value[h, r, t])
            ranks.append(1 + sum(o > ours for o in others) + sum(o == ours for o in others) / 2)
    found = completion.rank(facts[:50], rows, score)
    assert found["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    assert found["hits@1"] == pytest.approx(sum(rank <= 1 for rank in ranks) / len(ranks))
    assert completion.rank(facts, completion.target.argmin()[None], score) == {}


def test_all_possible_triples_are_refused(tmp_path):
    every = ["\t".join(one) for one in itertools.product("ab", ("is", "has"), "ab")]
    (tmp_path / "t.tsv").write_text("\n".join(every))
    with pytest.raises(IncidenceError, match=r"all possible triples exist"):
        inc.data.load(tmp_path / "t.tsv", task="links")


def test_triples_are_entries_of_two_sorts():
    assert Structure({"entity": 2, "relation": 1}, {_PATTERN: [[0], [0], [1]]}).patterns


def test_triples_without_a_task_name_the_option(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("\n".join(["head\trelation\ttail", *lines()]))
    with pytest.raises(IncidenceError, match=r"has typed triples .*add `task='links'`\."):
        inc.data.load(path)
