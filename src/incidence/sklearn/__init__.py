"""Estimators for scikit-learn: for molecules, for graphs, and for tables of pairs.

They work in `Pipeline`, `GridSearchCV`, `cross_val_score` and `clone`.
"""

from incidence.errors import optional

with optional("incidence.sklearn", "sklearn"):
    from incidence.sklearn.estimators import (
        GraphClassifier,
        GraphRegressor,
        MoleculeClassifier,
        MoleculeRegressor,
        TableRegressor,
    )

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "TableRegressor",
]
