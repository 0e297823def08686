"""The estimators do what scikit-learn wants of them, in the real library."""

from __future__ import annotations

import pickle

import networkx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.multiclass import type_of_target

import incidence.sklearn
from incidence.errors import IncidenceError
from incidence.sklearn import (
    GraphClassifier,
    GraphRegressor,
    MoleculeClassifier,
    MoleculeRegressor,
    TableRegressor,
)
from incidence.structure import Example, Structure
from tests.train.small_runs import graphs

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

ALL = [getattr(incidence.sklearn, name) for name in incidence.sklearn.__all__]
SMALL = {"epochs": 1, "hidden": 4, "depth": 1}
SMILES = ["C" * k + end for k in range(1, 6) for end in ("", "O", "N")]
LENGTHS = np.array([len(text) / 3 for text in SMILES])


@pytest.fixture(scope="module")
def fitted():
    return MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS)


# those for which no numbers are needed as X
CHECKS = [
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_checks_of_scikit_learn_pass(kind):
    for name in CHECKS:
        assert getattr(estimator_checks, name)(kind.__name__, kind()) is None  # it raises nothing


@pytest.mark.parametrize(
    "X",
    [tuple(SMILES), np.array(SMILES), np.array(SMILES)[:, None], pd.Series(SMILES, index=LENGTHS)],
    ids=["tuple", "array", "column", "series"],
)
def test_smiles_come_in_any_sequence(fitted, X):
    np.testing.assert_allclose(fitted.predict(X), fitted.predict(SMILES))


def test_fit_learns_as_inc_train_does_and_leaves_no_files(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fitted.score(SMILES, LENGTHS) < 1
    again = clone(fitted).fit(SMILES, LENGTHS)
    np.testing.assert_array_equal(again.predict(SMILES), fitted.predict(SMILES))
    other = clone(fitted).set_params(seed=1).fit(SMILES, LENGTHS)
    assert not np.allclose(other.predict(SMILES), fitted.predict(SMILES))
    assert list(tmp_path.iterdir()) == []


def test_other_options_and_a_folder_go_to_the_run(tmp_path):
    out = tmp_path / "run"
    regressor = MoleculeRegressor(**SMALL, options={"clip": 0.5}, out=str(out), validation=0.2)
    regressor.fit(SMILES, LENGTHS)
    assert "clip: 0.5" in (out / "config.yaml").read_text()
    assert "validation_rmse" in regressor.history_[0]


def test_an_estimator_survives_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(SMILES), fitted.predict(SMILES))


def test_several_numbers_come_as_rows_and_may_be_missing():
    both = np.stack([LENGTHS, -LENGTHS], 1)
    both[0, 0] = np.nan
    regressor = MoleculeRegressor(**SMALL).fit(SMILES, both)
    assert regressor.predict(SMILES[:3]).shape == (3, 2)


def test_classes_keep_their_names_and_order():
    labels = np.where(LENGTHS > 1, "long", "alas")
    classifier = MoleculeClassifier(**SMALL).fit(SMILES, labels)
    shares = classifier.predict_proba(SMILES)
    assert classifier.classes_.tolist() == ["alas", "long"]
    np.testing.assert_allclose(shares.sum(1), 1)
    expected = np.array(["alas", "long"])[shares.argmax(1)]
    assert classifier.predict(SMILES).tolist() == expected.tolist()
    assert classifier.score(SMILES, labels) == (expected == labels).mean()


LABELS = np.stack([LENGTHS > 1, [text.endswith("O") for text in SMILES]], 1).astype(int)


def test_several_labels_have_a_probability_each_and_are_0_or_1():
    assert type_of_target(LABELS) == "multilabel-indicator"
    classifier = MoleculeClassifier(epochs=60, hidden=8, depth=1, lr=0.02).fit(SMILES, LABELS)
    shares = classifier.predict_proba(SMILES)
    assert shares.shape == LABELS.shape
    assert roc_auc_score(LABELS, shares) > 0.9
    np.testing.assert_array_equal(classifier.predict(SMILES), shares > 0.5)
    expected = (classifier.predict(SMILES) == LABELS).all(1).mean()
    assert classifier.score(SMILES, LABELS) == expected
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(SMILES), shares)


def test_missing_labels_are_not_learned():
    labels = LABELS.astype(float)
    labels[::2, 0] = np.nan
    frame = pd.DataFrame(labels, columns=["long", "alcohol"])
    classifier = MoleculeClassifier(**SMALL).fit(SMILES, frame)
    assert classifier.predict(SMILES).shape == LABELS.shape


def test_labels_work_in_grids_and_cross_validation():
    folds = KFold(2, shuffle=True, random_state=0)
    sizes = {"hidden": [2, 4]}
    grid = GridSearchCV(MoleculeClassifier(**SMALL), sizes, cv=folds, scoring="roc_auc")
    grid.fit(SMILES, LABELS)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    assert cross_val_score(grid.best_estimator_, SMILES, LABELS, cv=2).shape == (2,)


def test_pipelines_grids_and_cross_validation_take_estimators():
    pipeline = Pipeline(
        [
            ("strip", FunctionTransformer(lambda X: [text.strip() for text in X])),
            ("net", MoleculeRegressor(**SMALL)),
        ]
    )
    grid = GridSearchCV(pipeline, {"net__hidden": [2, 4]}, cv=2).fit(SMILES, LENGTHS)
    assert grid.best_params_["net__hidden"] in (2, 4)
    assert cross_val_score(MoleculeRegressor(**SMALL), SMILES, LENGTHS, cv=2).shape == (2,)


def test_graphs_of_other_libraries_are_learned():
    rings = [networkx.cycle_graph(k) for k in range(3, 7)]
    paths = [networkx.path_graph(k) for k in range(3, 7)]
    classifier = GraphClassifier(**SMALL).fit(rings + paths, [0] * 4 + [1] * 4)
    assert classifier.predict(rings).shape == (4,)
    structures = [Structure(k, {"{i j}": [[0], [1]]}) for k in range(2, 6)]
    assert GraphRegressor(**SMALL).fit(structures, range(4)).predict(structures).shape == (4,)


def test_the_target_of_an_example_is_not_read():
    examples = graphs(8)
    regressor = GraphRegressor(**SMALL).fit(examples, range(8))
    bare = [Example(one.structure, one.features) for one in examples]
    np.testing.assert_array_equal(regressor.predict(examples), regressor.predict(bare))


def test_tables_of_pairs_are_learned_and_new_ids_predicted():
    rows = [(f"u{k % 5}", f"m{k // 5}") for k in range(25)]
    frame = pd.DataFrame(rows, columns=["user", "movie"])
    table = TableRegressor(**SMALL).fit(frame, np.arange(25) % 5)
    values = table.predict(frame[:3])
    assert values.shape == (3,)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(table)).predict(frame[:3]), values)
    with pytest.warns(UserWarning, match="new"):
        assert np.isfinite(table.predict(np.array([["new", "m1"]]))).all()


def test_what_cannot_be_used_is_refused(fitted):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        MoleculeRegressor().predict(SMILES)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        TableRegressor().predict([["a", "b"]])
    with pytest.raises(IncidenceError, match=r"X\[1\]: .*cannot read"):
        fitted.predict(["C", "?"])
    with pytest.raises(IncidenceError, match="got one str: put it into a list"):
        fitted.predict("C")
    with pytest.raises(IncidenceError, match="X has no items"):
        fitted.predict([])
    with pytest.raises(IncidenceError, match=r"X has one column.*shape \(1, 2\)"):
        fitted.predict(np.array([["C", "CC"]]))
    with pytest.raises(IncidenceError, match="y has one class only, 'a'"):
        MoleculeClassifier().fit(["C", "CC"], ["a", "a"])
    with pytest.raises(IncidenceError, match=r"y has a class for each row.*\(2, 1, 2\)"):
        MoleculeClassifier().fit(["C", "CC"], [[[0, 1]], [[1, 0]]])
    with pytest.raises(IncidenceError, match=r"labels of 0 and 1; got '2'.*MultiLabelBinarizer"):
        MoleculeClassifier().fit(["C", "CC"], [[0, 2], [1, 0]])
    with pytest.raises(IncidenceError, match=r"X\[0\]: graphs are examples.*got int"):
        GraphRegressor().fit([3], [1])
    with pytest.raises(IncidenceError, match=r"its two IDs in columns.*shape \(2, 1\)"):
        TableRegressor().fit([["a"], ["b"]], [1, 2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GraphRegressor().fit(graphs(3), [1, 2])


def test_an_ensemble_says_how_sure_it_is():
    numbers = np.arange(len(SMILES) * 2) / 7
    regressor = MoleculeRegressor(**SMALL, ensemble=2, validation=0.5).fit(SMILES * 2, numbers)
    again = pickle.loads(pickle.dumps(regressor))
    mean, deviation = again.predict(SMILES[:3], return_std=True)
    assert deviation.shape == (3,)
    intervals = again.predict_interval(SMILES[:3], coverage=0.5)
    np.testing.assert_allclose(intervals.mean(1), mean, rtol=1e-5)
    with pytest.raises(IncidenceError, match=r"make the estimator with validation=0\.2"):
        MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS).predict_interval(SMILES)
