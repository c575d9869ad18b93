"""Scores against scikit-learn and closed forms; splits, planted leaks and nulls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as theirs

from outspan.lab import metrics
from outspan.lab.datasets.record import make_record
from outspan.lab.models import held_out, make_model, permutation_drops
from outspan.lab.overlap import common_subsequence, longest_copy, overlap
from outspan.lab.probe import length_matched, probe
from outspan.lab.splits import faults, grouped_folds, leave_one_out, row_folds, row_holdout


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=4, max_size=60))
def test_auc_and_average_precision_agree_with_scikit_learn(pairs):
    scores = np.array([s for s, _ in pairs], dtype=float)
    y = np.array([up for _, up in pairs])
    if y.all() or not y.any():
        assert np.isnan(metrics.auc(scores, y))
        return
    assert metrics.auc(scores, y) == pytest.approx(theirs.roc_auc_score(y, scores))
    assert metrics.average_precision(scores, y) == pytest.approx(theirs.average_precision_score(y, scores))
    assert metrics.brier(scores / 8, y) == pytest.approx(theirs.brier_score_loss(y, scores / 8))


def test_a_weighted_auc_is_that_of_the_repeated_rows():
    rng = np.random.default_rng(0)
    scores, y = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    weights = rng.integers(0, 4, (20, 40)).astype(float)
    found = metrics.aucs(scores, y, weights)
    for row, value in zip(weights, found, strict=True):
        chosen = np.repeat(np.arange(40), row.astype(int))
        assert value == pytest.approx(theirs.roc_auc_score(y[chosen], scores[chosen]))


def test_the_interval_is_as_wide_as_the_closed_form_for_independent_rows():
    # Variance of an AUC of two normals by Hanley & McNeil (1982), at 0.76 with 150 rows of each class.
    rng = np.random.default_rng(1)
    y = np.arange(300) < 150
    scores = rng.standard_normal(300) + y
    weights = metrics.source_weights([str(i) for i in range(300)], 2000)
    one = metrics.estimate_auc(scores, y, weights)
    a = one.value
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    sd = ((a * (1 - a) + 149 * (q1 - a * a) + 149 * (q2 - a * a)) / 150**2) ** 0.5
    assert (one.high - one.low) / (2 * 1.96 * sd) == pytest.approx(1.0, abs=0.12)


def test_a_source_that_is_drawn_is_drawn_whole():
    groups = ["a"] * 5 + ["b"] * 5 + ["c"]
    weights = metrics.source_weights(groups, 50)
    assert (weights[:, :5] == weights[:, :1]).all()
    assert (weights[:, 5:10] == weights[:, 5:6]).all()


def test_a_paired_difference_of_a_score_with_itself_is_nothing():
    rng = np.random.default_rng(0)
    s, y = rng.standard_normal(50), rng.random(50) < 0.5
    one = metrics.estimate_difference(s, s, y, metrics.source_weights([str(i) for i in range(50)], 50))
    assert (one.value, one.low, one.high) == (0.0, 0.0, 0.0)


def test_acceptance_keeps_the_budget():
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    y = np.array([False, True, False, False, True])
    assert metrics.acceptance_at(scores, y, 0.0) == (pytest.approx(1 / 3), 0.0)
    assert metrics.acceptance_at(scores, y, 0.5) == (1.0, 0.5)


def test_random_labels_give_a_half():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((300, 6)), rng.random(300) < 0.5
    groups = [str(i // 3) for i in range(300)]
    values = held_out(X, y, grouped_folds(groups, y))
    one = metrics.estimate_auc(values, y, metrics.source_weights(groups, 500))
    assert one.low < 0.5 < one.high


def test_a_split_by_row_beats_a_split_by_source_on_data_that_leaks():
    # A column that names the source, and labels that are the source's: rows of one source tell one another.
    rng = np.random.default_rng(4)
    source = np.repeat(np.arange(60), 6)
    y = rng.random(60)[source] < 0.5
    X = rng.standard_normal((60, 8))[source] + 0.05 * rng.standard_normal((360, 8))
    groups = [str(s) for s in source]
    by_row = held_out(X, y, row_folds(y), "boosted trees")
    by_source = held_out(X, y, grouped_folds(groups, y), "boosted trees")
    assert metrics.auc(by_row, y) > 0.95
    assert metrics.auc(by_source, y) < 0.65


def test_folds_hold_both_classes_and_no_source_twice_or_are_fewer():
    y = np.array([True, False] * 5)
    groups = [str(i // 2) for i in range(10)]
    split = grouped_folds(groups, y)
    assert len(split.folds) == 5
    assert not any(faults(*fold, y, groups) for fold in split.folds)
    # Two sources hold all positives: five folds cannot have both classes.
    y = np.array([True, True] + [False] * 8)
    groups = [*"ab", *"cdefghij"]
    split = grouped_folds(groups, y)
    assert len(split.folds) == 2
    assert "in place of 5" in split.note
    with pytest.raises(ValueError, match="two folds"):
        grouped_folds(["a"] * 4, np.array([True, True, False, False]))


def test_five_documents_in_five_folds_are_not_left_with_an_empty_one():
    y = np.array([True, False] * 10)
    groups = [str(i // 4) for i in range(20)]
    assert all(len(test) == 4 for _, test in grouped_folds(groups, y).folds)


def test_a_held_out_value_shares_no_source_with_what_is_trained_on():
    y = np.array([True, False] * 6)
    values = ["x"] * 6 + ["y"] * 6
    groups = [str(i // 2) for i in range(6)] + ["0", "0", "8", "8", "9", "9"]
    for _, split, why in leave_one_out(values, y, groups, "leave-one-generator-out"):
        assert split is not None, why
        ((train, test),) = split.folds
        assert not {groups[i] for i in train} & {groups[i] for i in test}
    assert all(split is None for _, split, _ in leave_one_out(["x"] * 12, y, groups, ""))


def test_the_holdout_keeps_the_share_of_the_classes():
    y = np.arange(100) < 40
    ((train, test),) = row_holdout(y).folds
    assert (len(test), y[test].sum()) == (30, 12)
    assert not set(train) & set(test)


def test_shuffling_a_column_that_tells_costs_and_noise_does_not():
    rng = np.random.default_rng(5)
    y = rng.random(200) < 0.5
    X = np.column_stack([y + 0.5 * rng.standard_normal(200), rng.standard_normal(200)])
    drops = permutation_drops({"tells": [0], "noise": [1]}, X, y, row_folds(y), metrics.auc)
    assert np.mean(drops["tells"]) > 0.3
    assert abs(np.mean(drops["noise"])) < 0.05


def test_a_column_that_is_missing_throughout_a_fold_is_no_error():
    X = np.column_stack([np.arange(20.0), np.full(20, np.nan)])
    X[15:, 1] = 1.0
    y = np.arange(20) % 2 == 0
    made = make_model("logistic").fit(X[:15], y[:15])
    assert np.isfinite(made.predict_proba(X[15:])).all()


def _records(claims, labels):
    return [
        make_record(id=str(i), group=f"g{i // 2}", claim=c, evidence=["It rained."], label=label)
        for i, (c, label) in enumerate(zip(claims, labels, strict=True))
    ]


def test_a_planted_newline_is_found_and_stripped():
    labels = ["supported", "unsupported"] * 20
    records = _records([f"It rained {i}." + "\n" * (i % 2 == 0) for i in range(40)], labels)
    y = np.array([label == "unsupported" for label in labels])
    found = {s.name: s for s in probe(records, y, metrics.source_weights([r.group for r in records], 100))}
    assert found["raw text ends in a newline"].auc.value == 1.0
    assert found["raw text ends in a newline"].warns
    assert not any(record.claim.endswith("\n") for record in records)
    assert "last character" not in found or not found["last character"].warns


def test_matching_removes_a_planted_length():
    rng = np.random.default_rng(0)
    labels = ["unsupported" if up else "supported" for up in rng.random(400) < 0.5]
    records = _records(
        ["w" * int(rng.integers(5, 60) + 20 * (label == "unsupported")) for label in labels], labels
    )
    y = np.array([label == "unsupported" for label in labels])
    length = np.array([len(r.claim) for r in records], dtype=float)
    kept = length_matched(records, y)
    assert metrics.auc(length, y) > 0.7
    assert abs(metrics.auc(length[kept], y[kept]) - 0.5) < 0.06


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_the_fast_subsequence_is_the_plain_one(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, z in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == z else max(table[i][j + 1], table[i + 1][j])
    assert common_subsequence(a, b) == table[-1][-1]
    runs = [
        n for n in range(len(a) + 1) for i in range(len(a) - n + 1) if "".join(a[i : i + n]) in "".join(b)
    ]
    assert longest_copy(a, b) == max(runs)


def test_what_a_claim_has_none_of_is_missing():
    found = overlap("the cat sat", "The cat sat on a mat.")
    assert (found["rouge1"], found["rouge2"], found["rougeL"]) == (1.0, 1.0, 1.0)
    assert found["numbers_in"] is None
    assert overlap("In 1936 Alba won.", "Alba lost in 1935.")["numbers_in"] == 0.0
