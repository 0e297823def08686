"""Wide tables can be read as lists."""

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from docs.extensions.tables import label_cells


def table(columns: int) -> nodes.table:
    rows = [[f"head{k}" for k in range(columns)], [f"cell{k}" for k in range(columns)]]
    text = ".. csv-table::\n   :header-rows: 1\n\n" + "".join(
        f"   {','.join(row)}\n" for row in rows
    )
    [found] = publish_doctree(text).findall(nodes.table)
    return found


def test_every_cell_of_a_wide_table_begins_with_the_head_of_its_column():
    wide = table(4)
    label_cells(wide)
    [body] = wide.findall(nodes.tbody)
    assert wide["classes"] == ["wide"]
    assert [entry.children[0].astext() for entry in body.findall(nodes.entry)] == [
        f'<span class="cell-head">head{k}</span>' for k in range(4)
    ]
    assert [entry.children[1].astext() for entry in body.findall(nodes.entry)] == [
        f"cell{k}" for k in range(4)
    ]


@pytest.mark.parametrize("columns", [1, 3])
def test_a_narrow_table_stays_as_it_is(columns):
    narrow = table(columns)
    before = narrow.pformat()
    label_cells(narrow)
    assert narrow.pformat() == before
