"""Every command that the docs show is one that the command line knows; those about files run.

A block without a language has commands, one on each line. Comments follow `#`.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from incidence.cli import _parse, main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_ANY_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
SHELL = ("", "bash", "sh", "console")
TINY = ["--epochs", "1", "--hidden", "4", "--depth", "1"]


def commands_of(text: str) -> list[list[str]]:
    """Return the words of every line that begins with `incidence`."""
    blocks = [block for language, block in _ANY_BLOCK.findall(text) if language in SHELL]
    lines = "\n".join(blocks).replace("\\\n", " ").split("\n")
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("incidence ")]
    return [words[1:] for words in found]


SHOWN = {
    page.name: commands_of(page.read_text(encoding="utf-8"))
    for page in PAGES
    if commands_of(page.read_text(encoding="utf-8"))
}


def test_the_pages_about_files_show_commands():
    assert {"databases.md", "hypergraphs.md", "links.md", "meshes.md", "ratings.md"} <= set(SHOWN)
    assert len(SHOWN["hypergraphs.md"]) == 7


@pytest.mark.parametrize("page", SHOWN)
def test_the_command_line_knows_every_command_that_a_page_shows(page, capsys):
    for words in SHOWN[page]:
        try:
            _parse(words)
        except SystemExit as end:
            assert end.code == 0, f"{' '.join(words)}: {capsys.readouterr().err}"


def test_a_flag_that_is_gone_is_noticed(capsys):
    [words] = commands_of("```\nincidence train --dat a.csv --nodez b.csv  # a comment\n```\n")
    assert words[-1] == "b.csv"
    with pytest.raises(SystemExit, match="2"):
        _parse(words)
    assert "--nodez" in capsys.readouterr().err


# ---- small data for the pages about files


def table(path: str, header: str, rows: Iterable[Iterable[object]], mark: str = ",") -> None:
    """Write a table; without a header if that is empty."""
    lines = [*([header] if header else []), *(mark.join(map(str, row)) for row in rows)]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines) + "\n")


def days(count: int) -> list[str]:
    return [f"2020-{1 + k // 28:02}-{1 + k % 28:02}" for k in range(count)]


def databases() -> None:
    when = days(80)
    table("shop/customers.csv", "id,city", [(k, "ab"[k % 2]) for k in range(6)])
    table("shop/products.csv", "product_id,price", [(k, 1.5 * k) for k in range(4)])
    orders = [(k % 6, (k + 1) % 6, k % 4, when[k]) for k in range(80)]
    table("shop/orders.csv", "customer_id,buyer,product_id,date", orders)
    churn = [(k % 6, when[k], k % 2) for k in range(20, 80)]
    table("churn.csv", "customer_id,date,churns", churn)
    table("tomorrow.csv", "customer_id,date", [(k, "2020-04-01") for k in range(6)])
    with closing(sqlite3.connect("shop.sqlite")) as base:
        for name in ("customers", "products", "orders"):
            header, *lines = Path(f"shop/{name}.csv").read_text().splitlines()
            base.execute(f"create table {name} ({header})")
            marks = ",".join("?" * len(header.split(",")))
            rows = [line.split(",") for line in lines]
            base.executemany(f"insert into {name} values ({marks})", rows)
        base.commit()
    table("f1/drivers.csv", "driverId,born", [(k, f"19{60 + k}-01-01") for k in range(6)])
    table("f1/races.csv", "raceId,date", enumerate(when))
    results = [(k, k, (k * k) % 6, k % 7) for k in range(80)]
    table("f1/results.csv", "resultId,raceId,driverId,points", results)
    for part, start, end in (("train", 10, 60), ("val", 60, 70), ("test", 70, 80)):
        rows = [(when[k], k % 6, k % 2) for k in range(start, end)]
        table(f"dnf.{part}.csv", "date,driverId,did_not_finish", rows)


def hypergraphs() -> None:
    sets = [[f"n{(k * m + m) % 20}" for m in range(1, 3 + k % 3)] for k in range(30)]
    pairs = [(node, f"e{k}") for k, one in enumerate(sets) for node in dict.fromkeys(one)]
    labels = [(f"n{k}", "ab"[k % 2]) for k in range(20)]
    table("incidences.csv", "node,hyperedge", pairs)
    table("nodes.csv", "node,label", labels)
    table("hyperedges.csv", "hyperedge,kind", [(f"e{k}", "cd"[k % 2]) for k in range(30)])
    table("sets.txt", "", sets, " ")
    rows = [(node, edge, f"g{k}") for k in range(20) for node, edge in pairs[k : 12 + k % 5]]
    table("many.csv", "node,hyperedge,hypergraph", rows)
    table("hypergraphs.csv", "hypergraph,label", [(f"g{k}", "ab"[k % 2]) for k in range(20)])
    for k in range(20):
        content = {
            "incidences": [{"node": node, "edge": edge} for node, edge in pairs[k : 12 + k]],
            "metadata": {"label": "ab"[k % 2]},
        }
        for path in (f"hif/{k}.hif.json", f"classes/{'ab'[k % 2]}/{k}.hif.json"):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(json.dumps(content))
    content = {
        "incidences": [{"node": node, "edge": edge} for node, edge in pairs],
        "nodes": [{"node": node, "attrs": {"label": label}} for node, label in labels],
    }
    Path("file.hif.json").write_text(json.dumps(content))


def meshes() -> None:
    Path("vases").mkdir()
    faces = ["f 1 2 3", "f 1 4 2", "f 1 3 4", "f 2 4 3"]
    for k in range(10):
        corners = [f"v 1 1 {1 + k / 10}", "v 1 -1 -1", "v -1 1 -1", "v -1 -1 1"]
        Path(f"vases/{k}.obj").write_text("\n".join(corners + faces))
        Path(f"vases/{k}.eseg").write_text("0\n0\n1\n1\n0\n1\n")
    Path("new.obj").write_text(Path("vases/0.obj").read_text())


def ratings() -> None:
    pairs = [(u, m) for u in range(12) for m in range(10) if (u * m) % 3 or u == m]
    when = days(84)
    rows = [(f"u{u}", f"m{m}", 1 + (u + m) % 5, when[k % 84]) for k, (u, m) in enumerate(pairs)]
    table("ratings.csv", "user,movie,rating,date", rows)
    table("users.csv", "user,age", [(f"u{k}", 20 + k) for k in range(12)])
    table("movies.csv", "movie,genre", [(f"m{k}", "ab"[k % 2]) for k in range(10)])
    table("friends.csv", "user1,user2", [(f"u{k}", f"u{k + 1}") for k in range(11)])
    table("u.data", "", [(u + 1, m + 1, 1 + (u + m) % 5) for u, m in pairs], "\t")
    table("pairs.csv", "user,movie", [("u0", "m0"), ("u1", "m3")])
    table("zoe.csv", "user,movie,rating", [("zoe", "m1", 5), ("zoe", "m2", 1)])


def links() -> None:
    edges = [(f"n{k}", f"n{(k + step) % 24}") for k in range(24) for step in (1, 2, 5)]
    table("edges.csv", "source,target", edges)
    table("nodes.csv", "node,size", [(f"n{k}", k) for k in range(24)])
    table(
        "sets.txt",
        "",
        [[f"n{(k * m + m) % 20}" for m in range(1, 3 + k % 3)] for k in range(40)],
        " ",
    )
    table("pairs.csv", "source,target", [("n0", "n3"), ("n1", "n9")])
    people = [f"p{k}" for k in range(12)]
    facts = [(a, "older", b) for k, a in enumerate(people) for b in people[k + 1 :: 2]]
    facts += [(b, "younger", a) for a, _, b in facts]
    table("triples.tsv", "", facts, "\t")
    table("facts.csv", "who,does,what", facts)
    for name, some in (("train", facts[:60]), ("valid", facts[60:66]), ("test", facts[66:])):
        table(f"nations/{name}.txt", "", some, "\t")
    table("queries.csv", "head,relation", [("p0", "older"), ("p3", "younger")])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [databases, hypergraphs, meshes, ratings, links])
def test_the_commands_of_a_page_run_on_small_data(
    make: Callable[[], None], tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    make()
    for words in SHOWN[f"{make.__name__}.md"]:
        more = TINY if words[0] == "train" else []
        code = main([*words, *more])
        shown = capsys.readouterr()
        assert code == 0, f"{' '.join(words)}: {shown.err}"
        # a file that is written is named beside the output
        assert shown.out or words[-1] in shown.err, f"{' '.join(words)} prints nothing"
