"""Ratings from tables: which columns they are, damped means, and examples in which the answer is
never among what is seen.
"""

from __future__ import annotations

import math

import pytest
import torch

import incidence as inc
from incidence.data import Split, load
from incidence.data.completion import read_completion, write_completion
from incidence.data.ratings import Ratings, damped_means
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError

RATINGS = "user,movie,rating\nann,Jaws,5\nann,Alien,3\nbob,Jaws,1\ncem,Alien,\nbob,Psycho,2\n"


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return folder / "ratings.csv"


def many(folder):
    rows = [f"u{u},m{m},{(u * m) % 5 + 1}\n" for u in range(8) for m in range(6) if (u + m) % 4]
    return write(folder, ratings="user,movie,rating\n" + "".join(rows))


def test_a_table_of_ratings_is_found_by_its_columns(tmp_path):
    data = load(write(tmp_path, ratings=RATINGS))
    assert (data.task.kind, data.task.names, data.task.at, data.metric) == (
        "regression",
        ("rating",),
        "query=a:user b:movie",
        "rmse",
    )
    assert data.columns == {
        "user": ["ann", "ann", "bob", "bob", "cem"],
        "movie": ["Jaws", "Alien", "Jaws", "Psycho", "Alien"],
    }
    assert data.task.rows(data.examples[0])[:, 0].tolist()[:4] == [5, 3, 1, 2]
    assert data.completion.is_fact.tolist() == [True, True, True, True, False]
    assert data.completion.names == {
        "user": ["ann", "bob", "cem"],
        "movie": ["Jaws", "Alien", "Psycho"],
    }
    rest = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
    assert data.rest(rest)[0].structure["query"].T.tolist() == [[2, 1]]


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("userId,movieId,rating,timestamp", {}),
        ("reader,novel,day,stars", {"keys": ["reader", "novel"]}),
        ("who,what,when,liked", {"keys": ["who", "what"], "target": "liked"}),
    ],
)
def test_other_columns_are_left_beside_the_predictions(tmp_path, header, options):
    names = header.split(",")
    rating = names.index("rating") if "rating" in names else 3
    rows = []
    for k in range(6):
        row = [f"a{k % 3}", f"b{k // 2}", str(100 + k), str(100 + k)]
        row[rating] = str(k)
        rows.append(",".join(row))
    data = load(write(tmp_path, ratings="\n".join([header, *rows])), **options)
    assert list(data.columns) == [
        *names[:2],
        next(name for k, name in enumerate(names) if k > 1 and k != rating),
    ]
    assert data.task.names == (names[rating],)


def test_keys_of_a_table_without_names_are_numbers_of_columns(tmp_path):
    data = load(
        write(tmp_path, ratings="1\t7\t5\t99\n2\t7\t1\t98\n1\t9\t2\t97\n"), "3", keys=["1", "2"]
    )
    assert data.completion.names == {"column_1": ["1", "2"], "column_2": ["7", "9"]}


def test_the_same_from_frames_and_folders(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = write(tmp_path, ratings=RATINGS, users="user_id,age\nann,30\nbob,20\ncem,40\ndee,70\n")
    data = load(path, tables=tmp_path / "users.csv")
    frames = {name: pandas.read_csv(tmp_path / f"{name}.csv") for name in ("ratings", "users")}
    for other in (
        load(tmp_path),
        load(frames),
        load(frames["ratings"], tables={"users": frames["users"]}),
    ):
        assert other.examples[0] == data.examples[0]


def test_a_tenth_of_the_training_ratings_is_for_validation_where_the_table_tells_none(tmp_path):
    rows = [f"a{k % 7},b{k // 7},{k % 5},{'test' if k % 4 == 3 else 'train'}" for k in range(40)]
    path = write(tmp_path, ratings="\n".join(["user,movie,rating,split", *rows]))
    assert [len(part) for part in load(path).split()] == [27, 3, 10]
    assert [len(part) for part in load(path, validation=0).split()] == [30, 0, 10]
    told = [row.replace("train", "validation") if k % 4 == 2 else row for k, row in enumerate(rows)]
    path = write(tmp_path, ratings="\n".join(["user,movie,rating,split", *told]))
    assert [len(part) for part in load(path).split()] == [20, 10, 10]


def test_tables_beside_ratings_give_features_and_edges(tmp_path):
    users = "user,age,job\nann,30,x\nbob,20,y\ndee,70,x\neve,80,x\n"
    path = write(
        tmp_path,
        ratings=RATINGS,
        users=users,
        friends="user1,user2\nann,bob\nbob,ann\neve,ann\nbob,bob\n",
        films="id,year\nJaws,1975\nAlien,1979\n",
    )
    with pytest.warns(
        UserWarning,
        match=(
            r"1 of 3 of `(user|movie)` have no row, as .(cem|Psycho).; they get the mean of the"
            r" others"
        ),
    ) as seen:
        data = load(
            path, tables=[tmp_path / "users.csv", tmp_path / "friends.csv", tmp_path / "films.csv"]
        )
    assert len(seen) == 2
    structure, features = data.examples[0].structure, data.examples[0].features
    assert data.completion.names["user"] == ["ann", "bob", "cem", "dee", "eve"]
    assert features["a:user"][:, :3].tolist() == [
        [30, 1, 0],
        [20, 0, 1],
        [50, 0.75, 0.25],
        [70, 1, 0],
        [80, 1, 0],
    ]
    assert structure["{a:user c:user}"].T.tolist() == [[0, 1], [0, 4]]
    assert features["b:movie"][:, 0].tolist() == [1975, 1979, 1977]


def test_tables_of_pairs_beside_ratings_are_left_out(tmp_path):
    write(tmp_path, ratings=RATINGS, tags="user,movie,tag\nann,Jaws,shark\nann,Alien,ship\n")
    with pytest.warns(
        UserWarning,
        match=r"tags\.csv: it is about pairs, and neither about user nor movie alone",
    ):
        data = load(tmp_path)
    assert data.examples[0].features["a:user"].shape == (3, 2)


def test_a_row_that_comes_again_or_lacks_a_key_is_passed_over(tmp_path):
    with pytest.warns(
        UserWarning,
        match=(
            r"(?s)2 .*line 3: the row is there already, in line 2.*line 4: the row has no `movie`"
        ),
    ):
        data = load(
            write(tmp_path, ratings="user,movie,rating\na,x,1\na,x,2\na,,3\nb,x,4\nb,y,4\n")
        )
    assert data.num_rows == 3


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (
            "a,b,c\nx,y,z\nx,y,z\n",
            {},
            (
                r"cannot tell what kind of data .*ratings.csv contains \(columns: a, b, c\)\."
                r" Expected a SMILES column \(molecules\), or .* \(ratings\).*`task='links'"
            ),
        ),
        (
            "source,target,weight\nn1,n2,1\nn2,n3,2\n",
            {},
            r"nodes='nodes.csv'` \(labels of nodes\), or `task='links'`",
        ),
        (
            RATINGS,
            {"keys": ["user"]},
            (
                "which columns of user, movie, rating name what a number of `rating` belongs to is"
                " not clear"
            ),
        ),
        (RATINGS, {"keys": ["user", "film"]}, "has no column `film`"),
        (
            "p,q,rate\na,b,1\n",
            {"keys": ["p", "q"]},
            "which of p, q, rate has the number to predict is not clear: say `target`",
        ),
        (RATINGS, {"task": "classification"}, "ratings are numbers, so leave out `task`"),
        (
            RATINGS,
            {"colour": 1, "keys": ["user", "movie"]},
            "a table of ratings has no option `colour`: it takes keys, tables, folds",
        ),
        (
            RATINGS.replace("5", "many"),
            {"target": "rating"},
            "the target `rating` is a finite number for regression; got 'many'",
        ),
        (
            "user,movie,rating\na,x,1\na,x,1\na,x,2\n",
            {},
            "2 of 3 rows cannot be used, so columns are hardly what they seem",
        ),
    ],
)
def test_tables_that_are_no_ratings_are_refused(tmp_path, text, options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load(write(tmp_path, ratings=text), **options)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            "p,q\n1,2\n",
            "it is not clear which nodes the table is about: name a column as the ratings do",
        ),
        ("user,age\nann,1\nbob,3\ncem,4\nann,2\n", "line 5: `user` 'ann' has a row already"),
        (
            "user,age\nAnn,1\nBob,2\n",
            (
                r"none of its rows is about a `user` of the other table, which has 'ann', and this"
                r" one 'Ann'"
            ),
        ),
        ("user1,user2\nann,bob\n", "there is another table of edges between `user` already"),
    ],
)
def test_tables_beside_that_do_not_fit_are_refused(tmp_path, other, problem):
    path = write(tmp_path, ratings=RATINGS, other=other, friends="user1,user2\nann,bob\n")
    with pytest.raises(IncidenceError, match=problem):
        load(path, tables=[tmp_path / "friends.csv", tmp_path / "other.csv"])
    with pytest.raises(IncidenceError, match=r"there is no file .* of tables"):
        load(path, tables=[tmp_path / "nothing.csv"])


def test_damped_means_are_where_each_bias_is_the_damped_mean_of_what_is_left():
    generator = torch.Generator().manual_seed(0)
    index = torch.stack(
        [torch.randint(5, (40,), generator=generator), torch.randint(7, (40,), generator=generator)]
    )
    values = torch.rand(40, generator=generator, dtype=torch.float64)
    means = damped_means(index, values, (5, 7))
    left = values - means.mean - means.biases[1][index[1]]
    for node in range(5):
        own = left[index[0] == node]
        assert float(means.biases[0][node]) == pytest.approx(float(own.sum() / (len(own) + 5)))
    assert means.counts[1].tolist() == torch.bincount(index[1], minlength=7).tolist()
    nothing = damped_means(index[:, :0], values[:0], (5, 7))
    assert float(nothing.expected(index).abs().sum()) == 0


def test_what_is_asked_for_is_never_known(tmp_path):
    data = load(many(tmp_path), seed=0)
    split = data.split()
    parts, order = data.parts(split), data.order(split)
    asked = [
        tuple(pair) for example in parts.train for pair in example.structure["query"].T.tolist()
    ]
    every = data.examples[0].structure["query"].T.tolist()
    assert sorted(asked) == sorted(tuple(every[k]) for k in split.train.tolist())
    assert asked == [tuple(every[k]) for k in order.train.tolist()]
    train, validation, test = ({tuple(every[k]) for k in part.tolist()} for part in split)
    for example in parts.train:
        known, own = (
            {tuple(p) for p in example.structure[name].T.tolist()} for name in ("known", "query")
        )
        assert known == train - own
    seen = [{tuple(p) for p in part[0].structure["known"].T.tolist()} for part in parts[1:]]
    assert seen == [train, train | validation]
    assert [{tuple(p) for p in part[0].structure["query"].T.tolist()} for part in parts[1:]] == [
        validation,
        test,
    ]


def test_nothing_that_is_seen_depends_on_the_answers(tmp_path):
    """Other ratings for the test part change the targets of that part and no feature of any."""
    data = load(many(tmp_path), seed=0)
    rows = data.split().test
    target = data.completion.target.clone()
    target[rows] += 100
    other = inc.data.DataSet(
        **{
            **vars(data),
            "completion": type(data.completion)(**{**vars(data.completion), "target": target}),
        }
    )
    for ours, theirs in zip(data.parts(0), other.parts(0), strict=True):
        for one, two in zip(ours, theirs, strict=True):
            assert all(torch.equal(x, two.features[key]) for key, x in one.features.items())
    assert not torch.equal(
        data.task.rows(data.parts(0).test[0]), data.task.rows(other.parts(0).test[0])
    )


def test_pairs_are_asked_for_by_name_and_known_ones_without_their_own_rating(tmp_path):
    completion = load(many(tmp_path)).completion
    entries = [
        ("u0", "m0"),
        ("u1", "m1"),
        ("u2", "m1"),
        ("u1", "m1"),
        ("zoe", "m2"),
        ("u1", "Nope"),
    ]
    found = list(completion.ask(entries))
    places = sorted(place for at, _ in found for same in at for place in same)
    assert places == list(range(len(entries)))
    for at, example in found:
        structure = example.structure
        pairs, seen = (
            [tuple(p) for p in structure[name].T.tolist()] for name in ("query", "known")
        )
        assert not set(pairs) & set(seen)
        assert structure.counts == {"user": 9, "movie": 7}
        for same, (u, m) in zip(at, pairs, strict=True):
            names = [*completion.names["user"], "zoe"][u], [*completion.names["movie"], "Nope"][m]
            assert {entries[place] for place in same} == {names}
    whole = found[0][1]
    assert whole.structure.num_entries("known") == int(completion.is_fact.sum())
    assert whole.features["a:user"][8].tolist() == [0, 0]


def test_what_a_model_knows_is_written_and_read(tmp_path):
    path = write(
        tmp_path,
        ratings=RATINGS,
        friends="user1,user2\nann,bob\n",
        users="user,age\nann,3\nbob,4\ncem,5\n",
    )
    completion = load(path, tables=[tmp_path / "friends.csv", tmp_path / "users.csv"]).completion
    write_completion(completion, tmp_path / "known.npz")
    found = read_completion(tmp_path / "known.npz", {"ratings": Ratings})
    assert (found.names, found.keys, type(found)) == (
        {k: list(v) for k, v in completion.names.items()},
        ("user", "movie"),
        type(completion),
    )
    assert found.context == completion.context
    assert found.target[:, 0].tolist() == [5, 3, 1, 2]
    (tmp_path / "known.npz").write_bytes(b"PK nothing")
    with pytest.raises(
        IncidenceError, match="is not what a model of ratings or links knows, or it is damaged"
    ):
        read_completion(tmp_path / "known.npz", {"ratings": Ratings})


def test_the_best_items_of_users_are_counted_as_one_by_one(tmp_path):
    lines = [f"u{u},m{m},{1 + (u * m) % 5}" for u in range(9) for m in range(14) if (u + m) % 3]
    (tmp_path / "r.csv").write_text("\n".join(["user,movie,rating", *lines]))
    completion = load(tmp_path / "r.csv", "rating").completion
    generator = torch.Generator().manual_seed(0)
    known, rows = torch.randperm(len(completion.target), generator=generator).split([50, 34])
    value = torch.rand(9, 14, generator=generator)
    found = completion.rank(known, rows, lambda x: value[tuple(x.structure["query"])])
    index, target = completion.rows["rows"].T.tolist(), completion.target[:, 0]
    mean = target[known].mean()
    seen = {tuple(index[k]) for k in known.tolist()}
    gains, recalls = [], []
    for user in range(9):
        liked = [index[k][1] for k in rows.tolist() if index[k][0] == user and target[k] >= mean]
        if not liked:
            continue
        left = [item for item in range(14) if (user, item) not in seen]
        best = sorted(left, key=lambda item: -value[user, item])[:10]
        gain = sum((item in liked) / math.log2(k + 2) for k, item in enumerate(best))
        gains.append(gain / sum(1 / math.log2(k + 2) for k in range(min(10, len(liked)))))
        recalls.append(len(set(best) & set(liked)) / len(liked))
    assert found["ndcg@10"] == pytest.approx(sum(gains) / len(gains))
    assert found["recall@10"] == pytest.approx(sum(recalls) / len(recalls))
    disliked = rows[completion.target[rows, 0] < mean]
    nothing = completion.rank(known, disliked, lambda x: value[tuple(x.structure["query"])])
    assert all(map(math.isnan, nothing.values()))


def test_further_facts_are_known_and_change_what_is_predicted_for_a_new_user(tmp_path):
    lines = [f"u{u},m{m},{1 + (u * m) % 5}" for u in range(5) for m in range(6)]
    (tmp_path / "r.csv").write_text("\n".join(["user,movie,rating", *lines]))
    completion = load(tmp_path / "r.csv", "rating").completion
    entries = [["zoe", "m1"], ["u1", "m1"]]
    table = TextTable("t", {"user": ["zoe", "u1"], "stars": ["5", "2"]}, ["line 2", "line 3"])
    wider = completion.with_facts(table, entries)
    assert completion.are_known([*entries, ["zoe", "m2"]]) == [False, True, False]
    assert wider.are_known([*entries, ["zoe", "m2"]]) == [True, True, False]
    assert wider.target[wider.is_fact].sum() == completion.target.sum() + 5  # (1 * 1) % 5 + 1 is 2
