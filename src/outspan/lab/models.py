"""Models over columns. Nothing is tuned: nothing was chosen on the data that it is reported on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from outspan.errors import NotInstalled
from outspan.lab.metrics import Array, Flags
from outspan.lab.splits import Split

LOGISTIC, TREES, XGBOOST = "logistic", "boosted trees", "xgboost"


def make_model(name: str, seed: int = 42) -> Any:
    """A fresh model with ``fit`` and ``predict_proba``; all that it learns, it learns inside a fold.

    Raises
    ------
    NotInstalled
        Without scikit-learn, or for ``xgboost`` without that package.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise NotInstalled("scikit-learn", "lab", "A model") from error
    if name == LOGISTIC:
        # The imputer marks what was missing, so that a gap never reads as the median and nothing more.
        impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        return make_pipeline(impute, StandardScaler(), LogisticRegression(max_iter=2000))
    if name == TREES:
        return HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.05, max_leaf_nodes=7, min_samples_leaf=15, random_state=seed
        )
    if name == XGBOOST:
        try:
            from xgboost import XGBClassifier
        except ImportError as error:
            raise NotInstalled("xgboost", "xgboost", "This model") from error
        return XGBClassifier(
            n_estimators=100,
            learning_rate=0.05,
            max_depth=3,
            random_state=seed,
            n_jobs=1,
            eval_metric="logloss",
        )
    raise ValueError(f"there is no model {name!r}")


def held_out(X: Array, positive: Flags, split: Split, model: str = LOGISTIC, seed: int = 42) -> Array:
    """(n,) probability of each row from the model that did not see it; NaN for rows that no fold tests."""
    out = np.full(len(positive), np.nan)
    for train, test in split.folds:
        fitted = make_model(model, seed).fit(X[train], positive[train])
        out[test] = fitted.predict_proba(X[test])[:, 1]
    return out


def permutation_drops(
    groups: Mapping[str, Sequence[int]],
    X: Array,
    positive: Flags,
    split: Split,
    measure: Callable[[Array, Flags], float],
    *,
    repeats: int = 10,
    seed: int = 0,
) -> dict[str, list[float]]:
    """By group of columns: how much the measure falls over held-out rows when they are shuffled together.

    Columns of a group are shuffled by one order, so that what they share among themselves is kept and no twin
    of a shuffled column stays behind.
    """
    rng = np.random.default_rng(seed)
    fitted = [(make_model(LOGISTIC).fit(X[train], positive[train]), test) for train, test in split.folds]
    rows = np.concatenate([test for _, test in split.folds])
    plain = np.concatenate([model.predict_proba(X[test])[:, 1] for model, test in fitted])
    base = measure(plain, positive[rows])
    drops: dict[str, list[float]] = {}
    for name, columns in groups.items():
        drops[name] = []
        for _ in range(repeats):
            shuffled = []
            for model, test in fitted:
                moved = X[test].copy()
                moved[:, list(columns)] = moved[rng.permutation(len(test))][:, list(columns)]
                shuffled.append(model.predict_proba(moved)[:, 1])
            drops[name].append(base - measure(np.concatenate(shuffled), positive[rows]))
    return drops
