"""What structures refuse, each with its sentence: what must hold, what came, where, and
what to do.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.engine.plan import plan_of
from incidence.errors import IncidenceError, PatternError, TooLargeError
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows

T = torch.tensor
PATH = T([[0, 1, 2], [1, 2, 3]])
HYPER = T([[0, 1, 2, 3], [0, 0, 1, 1]])  # {0 1}, {2 3}
TWO = {"a": 2, "b": 3}


def edges(index: Any = PATH, text: str = "(i j)", num_nodes: Any = 4, **options: Any) -> Structure:
    return Structure(num_nodes, {text: index}, **options)


def batch() -> Structure:
    return inc.collate([edges()] * 3)


def refused(cases: list[tuple[str, Callable[[], Any], str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("call", "sentence"),
        [pytest.param(call, sentence, id=name) for name, call, sentence in cases],
    )


# ---- the index


@refused(
    [
        (
            "node out of range",
            lambda: edges([[0, 1], [1, 4]]),
            (
                r"index\['\(i j\)'\]\[1\]\[1\] is 4: nodes are numbered 0 to 3, as num_nodes is 4"
                r" \(the letter `j`\)\. Correct the index"
            ),
        ),
        (
            "negative node",
            lambda: edges([[0, -1, -2], [1, 2, 3]]),
            r"index\['\(i j\)'\]\[0\]\[1\] is -1: nodes are numbered 0 to 3",
        ),
        (
            "any node where there is none",
            lambda: edges([[0], [1]], num_nodes=0),
            r"\[0\]\[0\] is 0: nodes are numbered",
        ),
        (
            "node out of range of its sort",
            lambda: Structure(TWO, {"u:a m:b": [[0, 2], [2, 2]]}),
            (
                r"index\['u:a m:b'\]\[0\]\[1\] is 2: nodes of sort `a` are numbered 0 to 1, as"
                r" num_nodes is 2 \(the letter `u`\)"
            ),
        ),
        (
            "lone node out of range",
            lambda: Structure(2, {"i": [0, 5]}),
            r"index\['i'\]\[0\]\[1\] is 5",
        ),
        (
            "floats",
            lambda: edges(PATH.float()),
            r"index\['\(i j\)'\] must have integers; got float32\. Convert it with `\.long\(\)`",
        ),
        (
            "complex numbers",
            lambda: edges(PATH.to(torch.complex64)),
            r"must have integers; got complex64",
        ),
        (
            "truth values",
            lambda: edges(PATH > 0),
            r"index\['\(i j\)'\] must have integers; got bool",
        ),
        (
            "NaN",
            lambda: edges([[0.0, float("nan")], [1.0, 2.0]]),
            r"index\['\(i j\)'\] contains NaN: an index has integers\. Drop the missing",
        ),
        (
            "text",
            lambda: edges("0 1"),
            r"index\['\(i j\)'\] must be an integer tensor of shape \[2, entries\]; got str",
        ),
        (
            "nothing",
            lambda: edges(None),
            r"must be an integer tensor of shape \[2, entries\]; got NoneType",
        ),
        (
            "ragged lists",
            lambda: edges([[0, 1], [2]]),
            r"must be an integer tensor of shape \[2, entries\]; got list",
        ),
        (
            "transposed",
            lambda: edges(PATH.T),
            (
                r"index\['\(i j\)'\] must have shape \[2, entries\], one row for each of the"
                r" letters i, j; got \[3, 2\]\. Transpose it\."
            ),
        ),
        (
            "one row too many",
            lambda: edges(torch.zeros(3, 5, dtype=torch.long)),
            r"must have shape \[2, entries\].*got \[3, 5\]\.$",
        ),
        (
            "one axis",
            lambda: edges([0, 1, 2]),
            r"must have shape \[2, entries\], one row for each of the letters i, j; got \[3\]\.$",
        ),
        ("no axis", lambda: edges(T(3)), r"must have shape \[2, entries\].*got \[\]"),
        (
            "three axes",
            lambda: edges(PATH[None]),
            r"must have shape \[2, entries\].*got \[1, 2, 3\]",
        ),
        (
            "repeated node in a directed edge",
            lambda: edges([[0, 2], [1, 2]]),
            (
                r"index\['\(i j\)'\]\[:, 1\] is \(2, 2\): a .*has distinct nodes, and `i` and `j`"
                r" are both 2\. Remove the self-loop"
            ),
        ),
        (
            "repeated node in an undirected edge",
            lambda: edges([[0, 2], [1, 2]], "{i j}"),
            (
                r"index\['\{i j\}'\]\[:, 1\] is \(2, 2\): .*Remove the self-loop, or use `\[i j\]`,"
                r" where nodes may repeat"
            ),
        ),
        (
            "repeated node in an ordered triple",
            lambda: edges([[0], [1], [0]], "(i j k)"),
            r"`i` and `k` are both 0\. Remove the entry, or use `i j k`",
        ),
        (
            "repeated node in a triangle",
            lambda: edges([[0], [1], [1]], "{i j k}"),
            r"`j` and `k` are both 1\. Remove the entry, or use `\[i j k\]`",
        ),
        (
            "repeated node in the second face",
            lambda: edges([[0], [1], [1]], "i {j k}"),
            r"index\['i \{j k\}'\]\[:, 0\] is \(0, 1, 1\)",
        ),
        (
            "duplicate edges",
            lambda: edges([[0, 1, 0], [1, 2, 1]]),
            (
                r"index\['\(i j\)'\]: columns 0 and 2 denote one entry\. Keep one of them .*as in"
                r" `\(i j\) e:edge`"
            ),
        ),
        (
            "duplicates in two assignments",
            lambda: edges([[3, 0, 1], [2, 1, 0]], "{i j}"),
            r"columns 1 and 2 denote one entry",
        ),
        (
            "duplicates in coinciding edges",
            lambda: edges([[0, 1], [1, 0], [1, 0]], "{i j} {i k}"),
            r"columns 0 and 1 denote one entry",
        ),
        (
            "duplicate nodes",
            lambda: Structure(3, {"i": [1, 1]}),
            r"index\['i'\]: columns 0 and 1 denote one entry",
        ),
        (
            "index of the empty pattern",
            lambda: edges([], ""),
            r"the empty pattern has one entry for each structure and takes no index\. Leave it",
        ),
        (
            "index of the named scalar",
            lambda: edges([], "state="),
            r"the empty pattern .*takes no index",
        ),
        (
            "index that is no mapping",
            lambda: Structure(4, [PATH]),
            r"index must map patterns to integer tensors, as in .*got list",
        ),
        (
            "key that is no text",
            lambda: Structure(4, {2: PATH}),
            r"the keys of an index are patterns, written as text; got 2",
        ),
        (
            "two equal patterns",
            lambda: Structure(4, {"{i j}": PATH, "{a b}": PATH}),
            r"two patterns of the index mean the same: '\{i j\}', '\{a b\}'\. Name one of them",
        ),
        (
            "one name twice",
            lambda: Structure(4, {"bond={i j}": PATH, "bond=(i j)": PATH}),
            r"a name means one tensor; `bond` is given twice\. Use another name",
        ),
        (
            "two devices",
            lambda: Structure(
                4, {"(i j)": PATH, "i j": torch.zeros(2, 0, dtype=torch.long, device="meta")}
            ),
            (
                r"all index tensors must be on one device: `\(i j\)` on cpu; `i j` on meta\. Move"
                r" them, or give `device=`"
            ),
        ),
        (
            "two devices with entries on both",
            lambda: Structure(4, {"(i j)": PATH, "{i j}": PATH.to("meta")}),
            r"all index tensors must be on one device: `\(i j\)` on cpu; `\{i j\}` on meta",
        ),
    ]
)
def test_a_bad_index_is_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


def test_a_pattern_outside_the_grammar_is_refused_with_a_caret():
    with pytest.raises(PatternError, match=r"this `\(` is never closed"):
        edges(text="(i j")


# ---- open faces


def opened(index: Any, text: str = "{i ...}", num_nodes: int = 4) -> Structure:
    return Structure(num_nodes, {text: index})


@refused(
    [
        (
            "node out of range",
            lambda: opened([[0, 4], [0, 0]]),
            r"index\['\{i \.\.\.\}'\]\[1\]\[0\]\[1\] is 4: nodes are numbered 0 to 3",
        ),
        (
            "gap in the entry numbers",
            lambda: opened([[0, 1, 2], [0, 0, 2]]),
            (
                r"the face of entry 1 is in no incidence, but it needs at least 1\. Entry numbers"
                r" run from 0 without gaps: renumber them"
            ),
        ),
        (
            "entry numbers from 1",
            lambda: opened([[0, 1], [1, 1]]),
            r"the face of entry 0 is in no incidence",
        ),
        (
            "too few nodes",
            lambda: opened([[0, 1, 2], [0, 0, 1]], "{i j ...}"),
            r"the face of entry 1 has 1 node, but it needs at least 2",
        ),
        (
            "too few nodes for three letters",
            lambda: opened([[0, 1], [0, 0]], "{i j k ...}"),
            r"the face of entry 0 has 2 nodes, but it needs at least 3",
        ),
        (
            "node twice in a later face",
            lambda: opened([[0, 1, 2, 1], [0, 1, 1, 1]]),
            r"node 1 stands twice in the face of entry 1\.",
        ),
        (
            "node twice in a face",
            lambda: opened([[0, 1, 0], [0, 0, 0]]),
            r"node 0 stands twice in the face of entry 0\. Remove the repeated incidence",
        ),
        (
            "entry out of range",
            lambda: opened(([0], [[0, 1], [0, 1]]), "i {i ...}"),
            (
                r"index\['i \{i \.\.\.\}'\]\[1\]\[1, 1\] is 1: entries are numbered 0 to 0\."
                r" Correct the number"
            ),
        ),
        (
            "negative entry",
            lambda: opened([[0, 1], [0, -1]]),
            r"\[1, 1\] is -1: entries are numbered 0 to 0",
        ),
        (
            "letter that is not in its face",
            lambda: opened(([0, 1], HYPER), "i {i ...}"),
            (
                r"in entry 1 the letter `i` is 1, which is not in its open face \(face 1\)\. Add"
                r" the incidence, or drop the entry"
            ),
        ),
        (
            "entry without incidences",
            lambda: opened(([0, 2, 0], HYPER), "i {i ...}"),
            r"the face of entry 2 is in no incidence",
        ),
        (
            "letter out of range",
            lambda: opened(([0, 9], HYPER), "i {j ...}"),
            r"index\['i \{j \.\.\.\}'\]\[0\]\[0\]\[1\] is 9: nodes are numbered 0 to 3",
        ),
        (
            "faces that do not meet",
            lambda: opened(([], [[0, 1, 2], [0, 0, 1]], [[1, 3], [0, 1]]), "{i ...} {i ...}"),
            (
                r"in entry 1 the open faces 0 and 1 share fewer than 1 nodes\. .*say that they"
                r" meet: drop the entry"
            ),
        ),
        (
            "faces that meet in too few nodes",
            lambda: opened(([], [[0, 1, 2], [0, 0, 0]], [[1, 3], [0, 0]]), "{i j ...} {i j ...}"),
            r"in entry 0 the open faces 0 and 1 share fewer than 2 nodes",
        ),
        (
            "members alone",
            lambda: opened(HYPER, "i {i ...}"),
            r"must be a tuple \(letters, \*members\) of 2 tensors.*got 1",
        ),
        (
            "members of one of two faces",
            lambda: opened(([], HYPER), "{i ...} {i ...}"),
            (
                r"must be a tuple \(letters, \*members\) of 3 tensors, one \[2, incidences\] for"
                r" each of the 2 open faces; got 2"
            ),
        ),
        (
            "too many members",
            lambda: opened(([0, 2], HYPER, HYPER), "i {i ...}"),
            r"of 2 tensors.*got 3",
        ),
        (
            "members of another shape",
            lambda: opened(HYPER.T),
            (
                r"index\['\{i \.\.\.\}'\]\[1\] must have shape \[2, entries\], .*the rows \(node,"
                r" entry number\) of an open face; got \[4, 2\]\. Transpose it"
            ),
        ),
        (
            "floating members",
            lambda: opened(HYPER.float()),
            r"index\['\{i \.\.\.\}'\]\[1\] must have integers; got float32",
        ),
        (
            "letters where there are none",
            lambda: opened(([[0, 2]], HYPER)),
            (
                r"index\['\{i \.\.\.\}'\]\[0\] must have shape \[0, entries\], no rows, as no"
                r" letter is in a face of fixed size; got \[1, 2\]"
            ),
        ),
        (
            "duplicate sets",
            lambda: opened([[0, 1, 1, 0], [0, 0, 1, 1]]),
            r"columns 0 and 1 denote one entry",
        ),
        (
            "repeated node in the fixed face",
            lambda: opened(([[0], [0]], [[0], [0]]), "{i j} {i ...}"),
            r"index\['\{i j\} \{i \.\.\.\}'\]\[0\]\[:, 0\] is \(0, 0\).*Remove the self-loop",
        ),
    ]
)
def test_bad_open_faces_are_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


# ---- nodes and sorts


@pytest.mark.parametrize("count", [-1, 2.0, True, "3", None, T(2.0), T([1, 2])], ids=repr)
def test_a_number_of_nodes_that_is_none_is_refused(count):
    with pytest.raises(
        IncidenceError, match=r"num_nodes of sort `node` must be an integer of at least 0; got"
    ):
        Structure(count)
    with pytest.raises(
        IncidenceError, match=r"num_nodes of sort `user` must be an integer of at least 0; got"
    ):
        Structure({"movie": 1, "user": count})


@refused(
    [
        (
            "sort that is no name",
            lambda: Structure({1: 2}),
            r"num_nodes maps names of sorts to numbers; 1 is not a name",
        ),
        ("sort that is two words", lambda: Structure({"a user": 2}), r"'a user' is not a name"),
        ("sort in other letters", lambda: Structure({"née": 2}), r"'née' is not a name"),
        (
            "no sort at all",
            lambda: Structure({}),
            r"num_nodes is empty: give the number of nodes of at least one sort",
        ),
        (
            "sort without nodes",
            lambda: Structure({"user": 3}, {"u:user m:movie": [[0], [0]]}),
            (
                r"the letter `m` has the sort `movie`, which has no number of nodes .*Give it:"
                r" num_nodes=\{'movie': \.\.\.\}"
            ),
        ),
        (
            "sorts and one number",
            lambda: Structure(3, {"u:user": [0]}),
            r"the letter `u` has the sort `user`.*there are `node`",
        ),
        (
            "no sort and named numbers",
            lambda: Structure({"user": 3}, {"(i j)": PATH}),
            r"the letter `i` has the sort `node`",
        ),
        (
            "sort missing when asked",
            lambda: Structure({"user": 3})["m:movie"],
            r"`m:movie` needs nodes of sort `movie`; this structure has `user`",
        ),
        (
            "default sort when asked",
            lambda: Structure({"user": 3})["i"],
            r"`i` needs nodes of sort `node`; this structure has `user`",
        ),
        (
            "nodes of an unknown sort",
            lambda: Structure({"user": 3}).node_ptr(),
            r"no nodes of sort `node`; there are: user",
        ),
    ]
)
def test_sorts_that_do_not_fit_are_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


# ---- asking

NAMED = Structure(4, {"bond={i j}": PATH, "(i j)": PATH})


@refused(
    [
        (
            "missing pattern",
            lambda: edges()["{i j}"],
            r"no index for `\{i j\}` here; there are: `\(i j\)`\. Add it with `with_index`",
        ),
        (
            "any pattern where there is none",
            lambda: Structure(4)["(i j)"],
            r"no index for `\(i j\)` here; there are: none",
        ),
        (
            "misspelt name",
            lambda: NAMED["bnod"],
            (
                r"no tensor is called `bnod` here; there are: `bond=\{i j\}`, `\(i j\)`\. Check the"
                r" spelling"
            ),
        ),
        (
            "pattern without its name",
            lambda: NAMED["{i j}"],
            (
                r"no index for `\{i j\}` here\. There is `bond=\{i j\}`, but a name means one"
                r" tensor: write `bond=\{i j\}`"
            ),
        ),
        (
            "pattern with another name",
            lambda: NAMED["contact={i j}"],
            r"There is `bond=\{i j\}`, but a name means one tensor",
        ),
        (
            "name where there is none",
            lambda: NAMED["edge=(i j)"],
            r"There is `\(i j\)`, but .*write `\(i j\)` without the name",
        ),
        ("number of entries", lambda: edges().num_entries("{i j}"), r"no index for `\{i j\}` here"),
        ("batch", lambda: edges().batch("{i j}"), r"no index for `\{i j\}` here"),
        ("pointers", lambda: edges().entry_ptr("bond"), r"no tensor is called `bond` here"),
        ("orbits", lambda: orbit_rows(edges(), "i j"), r"no index for `i j` here"),
        (
            "plan",
            lambda: plan_of(edges(), inc.EquivariantMap("(i j) -> {i j}")),
            r"no index for `\{i j\}` here",
        ),
        ("ones", lambda: inc.ones(edges(), "{i j}"), r"no index for `\{i j\}` here"),
        ("open face", lambda: edges()["{i ...}"], r"no index for `\{i \.\.\.\}` here"),
        ("something that is no text", lambda: edges().num_entries(3), r"text"),
    ]
)
def test_asking_for_what_is_not_there_is_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


# ---- structures from structures


@refused(
    [
        (
            "locate nothing of that pattern",
            lambda: edges().locate("{i j}", PATH),
            r"no index for `\{i j\}`",
        ),
        (
            "locate a node out of range",
            lambda: edges().locate("(i j)", [[0], [9]]),
            r"\[1\]\[0\] is 9: nodes are numbered 0 to 3",
        ),
        (
            "locate a self-loop",
            lambda: edges().locate("(i j)", [[1], [1]]),
            r"`i` and `j` are both 1",
        ),
        (
            "locate a transposed query",
            lambda: edges().locate("(i j)", PATH.T),
            r"got \[3, 2\]\. Transpose it",
        ),
        (
            "locate floats",
            lambda: edges().locate("(i j)", PATH.float()),
            r"must have integers; got float32",
        ),
        (
            "locate a face with gaps",
            lambda: opened(HYPER).locate("{i ...}", [[0], [1]]),
            r"1 incidences cannot make 2 faces",
        ),
        (
            "with_index of a batch",
            lambda: batch().with_index({"{i j}": PATH}),
            r"with_index is for one structure: change the structures first",
        ),
        (
            "with_index of a bad index",
            lambda: edges().with_index({"{i j}": [[0], [4]]}),
            r"is 4: nodes are numbered 0 to 3",
        ),
        (
            "with_index of a name in use",
            lambda: NAMED.with_index({"bond=(i j)": PATH}),
            r"a name means one tensor; `bond` is another pattern here already",
        ),
        (
            "with_index of no mapping",
            lambda: edges().with_index(PATH),
            r"index must map patterns to integer tensors",
        ),
        (
            "relabel too few",
            lambda: edges().relabel([1, 0]),
            r"relabel: give a permutation of the 4 nodes of sort `node`, each of 0 to 3 once",
        ),
        (
            "relabel twice to one",
            lambda: edges().relabel([0, 1, 2, 2]),
            r"relabel: give a permutation",
        ),
        (
            "relabel out of range",
            lambda: edges().relabel([1, 2, 3, 4]),
            r"relabel: give a permutation",
        ),
        (
            "relabel by floats",
            lambda: edges().relabel([0.0, 1.0, 2.0, 3.0]),
            r"relabel: give a permutation",
        ),
        ("relabel by text", lambda: edges().relabel("3012"), r"relabel: give a permutation"),
        (
            "relabel another sort",
            lambda: edges().relabel({"user": [0]}),
            r"relabel: no nodes of sort `user` here; there are: node\. Give a mapping",
        ),
        (
            "relabel sorts at once",
            lambda: Structure(TWO).relabel([1, 0]),
            r"relabel: no nodes of sort `node` here; there are: a, b",
        ),
        (
            "relabel across structures",
            lambda: inc.collate([Structure(1), Structure(1)]).relabel([1, 0]),
            r"relabel must keep every node of a batch in its structure",
        ),
        (
            "induced of a batch",
            lambda: batch().induced([0]),
            (
                r"induced is for one structure: index the batch first, as in"
                r" batch\[0\]\.induced\(nodes\)"
            ),
        ),
        (
            "induced by floats",
            lambda: edges().induced([0.5]),
            r"induced needs different numbers of 0 to 3, or a mask, of .* sort `node`; got",
        ),
        (
            "induced by a short mask",
            lambda: edges().induced([True, False]),
            r"induced needs different numbers of 0 to 3, or a mask, of the 4 nodes",
        ),
        (
            "induced by a node twice",
            lambda: edges().induced([1, 1]),
            r"induced needs different numbers of 0 to 3.* got \[1, 1\]",
        ),
        (
            "induced out of range",
            lambda: edges().induced([1, 4]),
            r"induced needs different numbers of 0 to 3",
        ),
        (
            "induced by a negative node",
            lambda: edges().induced([-1]),
            r"induced needs different numbers of 0 to 3",
        ),
        ("induced by two axes", lambda: edges().induced([[0, 1], [2, 3]]), r"induced needs"),
        ("induced by one number", lambda: edges().induced(2), r"induced needs"),
        (
            "induced of another sort",
            lambda: edges().induced({"user": [0]}),
            r"induced: no nodes of sort `user` here; there are: node",
        ),
        (
            "select of nodes",
            lambda: edges().select("i", [0]),
            r"`i` has no index here: all its entries are present\. Use `induced` to drop nodes",
        ),
        (
            "select of a missing pattern",
            lambda: edges().select("{i j}", [0]),
            r"no index for `\{i j\}` here",
        ),
        (
            "select by a short mask",
            lambda: edges().select("(i j)", [True]),
            r"select needs a mask of the 3 entries of `\(i j\)`.* got \[True\]",
        ),
        (
            "select out of range",
            lambda: edges().select("(i j)", [3]),
            r"select needs a mask of the 3 entries of `\(i j\)`, or different rows of 0 to 2",
        ),
        (
            "select a negative row",
            lambda: edges().select("(i j)", [-1]),
            r"select needs a mask of the 3 entries of .*, or different rows of 0 to 2",
        ),
        (
            "select a row twice",
            lambda: edges().select("(i j)", [0, 0]),
            r"select needs a mask of the 3 entries of .*, or different rows",
        ),
        (
            "select by floats",
            lambda: edges().select("(i j)", [0.5]),
            r"select needs a mask of the 3 entries of .*, or different rows",
        ),
        (
            "select by two axes",
            lambda: edges().select("(i j)", [[0]]),
            r"select needs a mask of the 3 entries of .*, or different rows",
        ),
        (
            "select one number",
            lambda: edges().select("(i j)", 0),
            r"select needs a mask of the 3 entries of .*, or different rows",
        ),
        (
            "select by text",
            lambda: edges().select("(i j)", "first"),
            r"select needs a mask of the 3 entries of .*, or different rows",
        ),
        (
            "select across structures",
            lambda: batch().select("(i j)", [3, 0]),
            r"select must keep the entries of a batch in the order of its structures",
        ),
    ]
)
def test_a_bad_edit_is_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


# ---- batches


@refused(
    [
        (
            "nothing",
            lambda: inc.collate([]),
            r"collate needs at least one structure; got an empty list",
        ),
        (
            "no structure",
            lambda: inc.collate([edges(), PATH]),
            r"collate takes structures; number 1 is a Tensor",
        ),
        (
            "pairs",
            lambda: inc.collate([(edges(), PATH)]),
            r"collate takes structures; number 0 is a tuple",
        ),
        ("no list", lambda: inc.collate(3), r"collate"),
        (
            "other sorts",
            lambda: inc.collate([Structure(1), Structure({"a": 1})]),
            (
                r"structures of a batch have the same sorts; number 0 has \['node'\] and number 1"
                r" has \['a'\]"
            ),
        ),
        (
            "tensor missing in a later one",
            lambda: inc.collate([edges(), edges(), Structure(4)]),
            (
                r"structures of a batch have the same tensors; number 0 has `\(i j\)` and number 2"
                r" has not\. Give it an empty index there"
            ),
        ),
        (
            "tensor missing in the first",
            lambda: inc.collate([Structure(4), edges()]),
            r"number 1 has `\(i j\)` and number 0 has not",
        ),
        (
            "other names",
            lambda: inc.collate([edges(), edges(text="edge=(i j)")]),
            r"number 0 has `\(i j\)` and number 1 has not",
        ),
        (
            "two devices",
            lambda: inc.collate([edges(), edges().to("meta")]),
            r"structures of a batch are on one device; number 0 is on cpu, number 1 on meta",
        ),
        (
            "half an index",
            lambda: batch()[0.5],
            r"structures are indexed by numbers, or a mask of all 3; got 0\.5",
        ),
        (
            "truth value",
            lambda: batch()[True],
            r"a structure is indexed by pattern or number; got True",
        ),
        (
            "empty list",
            lambda: batch()[[]],
            r"a batch has at least one structure; the selection is empty",
        ),
        ("empty slice", lambda: batch()[2:1], r"a batch has at least one structure"),
        ("empty mask", lambda: batch()[T([False] * 3)], r"a batch has at least one structure"),
        ("short mask", lambda: batch()[T([True, False])], r"or a mask of all 3"),
        ("long mask", lambda: batch()[T([False] * 3 + [True])], r"or a mask of all 3"),
        ("halves", lambda: batch()[[0.5]], r"structures are indexed by numbers"),
        (
            "nothing as an index",
            lambda: batch()[None],
            r"a structure is indexed by pattern or number; got None",
        ),
        ("misspelt pattern", lambda: batch()["{i j}"], r"no index for `\{i j\}` here"),
    ]
)
def test_a_bad_batch_is_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


@pytest.mark.parametrize("item", [3, -4, T(3), [5], [0, -4]], ids=repr)
def test_a_structure_that_a_batch_does_not_have_is_an_index_error(item):
    number = item if isinstance(item, int) else 3 if isinstance(item, torch.Tensor) else item[-1]
    with pytest.raises(IndexError, match=f"structure {number} of a batch of 3"):
        batch()[item]


# ---- complete structures


@refused(
    [
        (
            "open faces",
            lambda: Structure.complete(4, ["{i ...}"]),
            (
                r"`\{i \.\.\.\}` has open faces: there is no complete structure for it\. List the"
                r" faces instead"
            ),
        ),
        (
            "sort without nodes",
            lambda: Structure.complete({"a": 2}, "i:a j:b"),
            r"the letter `j` has the sort `b`, which has no number of nodes",
        ),
        (
            "number of nodes that is none",
            lambda: Structure.complete(-1, "i j"),
            r"num_nodes of sort `node` must be an integer of at least 0",
        ),
        (
            "two equal patterns",
            lambda: Structure.complete(2, ["i j", "a b"]),
            r"two patterns of the index mean the same",
        ),
        ("no patterns", lambda: Structure.complete(2, 3), r"pattern"),
        (
            "pattern that is no text",
            lambda: Structure.complete(2, [3]),
            r"a pattern is written as text, not as int",
        ),
    ]
)
def test_what_cannot_be_completed_is_refused(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("text", "num_nodes"), [("i j", 10**5), ("{i j k}", 10**5), ("i j k l", 10**6)]
)
def test_too_many_entries_to_list_are_refused(text, num_nodes):
    with pytest.raises(TooLargeError, match=rf"`{text}` on .* nodes has too many entries to list"):
        Structure.complete(num_nodes, text)
