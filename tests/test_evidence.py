"""Evidence: every sentence is accounted for, and a policy chooses the same rows on every run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outspan.evidence import (
    EvidenceItem,
    EvidencePolicy,
    EvidenceSet,
    claim_decides,
    count_reasons,
    select_rows,
    spread_rows,
)

BLANKS = [[], [""], ["  \n"], [None], ["\u200b"], None, "", ["", None, "\ufeff \u2060"]]


@pytest.mark.parametrize("evidence", BLANKS, ids=repr)
def test_every_spelling_of_nothing_has_no_sentence(evidence: object) -> None:
    found = EvidenceSet.of(evidence)  # type: ignore[arg-type]
    assert found.sentences == ()
    assert found.supplied == len(found.left_out)
    assert {entry.reason for entry in found.left_out} <= {"blank"}


def test_sentences_are_named_after_their_item_and_keep_its_offsets() -> None:
    text = "Tides turn twice a day. The pier is dry at noon."
    found = EvidenceSet.of([{"id": "almanac", "text": text}, "A third sentence."])
    assert [s.id for s in found.sentences] == ["almanac#0", "almanac#1", "1#0"]
    for sentence in found.sentences[:2]:
        assert text[sentence.start : sentence.end] == sentence.text


def test_a_repeated_sentence_is_one_row_with_its_multiplicity() -> None:
    found = EvidenceSet.of(["Fog closed the port.", "Fog closed  the port. [3]", "Trade resumed."])
    assert [(s.id, s.multiplicity) for s in found.sentences] == [("0#0", 2), ("2#0", 1)]
    assert count_reasons(found.left_out) == {"repeat": 1}
    assert found.found == 3


def test_items_that_share_an_id_stay_apart() -> None:
    found = EvidenceSet.of([{"id": "a", "text": "One fact."}, {"id": "a", "text": "Another fact."}])
    assert len({s.id for s in found.sentences}) == 2


@pytest.mark.parametrize("value", [3, 2.5, ["nested"], {"text": 4}, {"id": True, "text": "x"}, b"bytes"])
def test_evidence_of_another_type_is_refused_with_its_position(value: object) -> None:
    with pytest.raises(ValueError, match="evidence item 1"):
        EvidenceSet.of(["fine", value])  # type: ignore[list-item]


def test_a_heading_informs_though_it_claims_nothing_and_a_table_rule_does_neither() -> None:
    found = EvidenceSet.of(
        ["# Opening hours of the lock\n\n| day | hours |\n| --- | --- |\n| Monday | 6 |\n"]
    )
    cores = [s.core for s in found.sentences]
    assert cores == ["Opening hours of the lock", "day; hours", "day: Monday; hours: 6"] or len(cores) == 3
    assert all("---" not in core for core in cores)


@pytest.mark.parametrize(
    "policy",
    [EvidencePolicy(), EvidencePolicy(select="all"), EvidencePolicy(select="spread", limit=7, merge=1.0)],
)
def test_the_text_form_of_a_policy_parses_back(policy: EvidencePolicy) -> None:
    assert EvidencePolicy.parse(str(policy)) == policy


def test_short_forms_of_a_policy() -> None:
    assert EvidencePolicy.parse("nearest:16") == EvidencePolicy(limit=16)
    assert EvidencePolicy.parse("all").select == "all"


@pytest.mark.parametrize("text", ["closest:3", "nearest:0", "nearest:x", "", "all merge=2"])
def test_a_policy_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="evidence policy"):
        EvidencePolicy.parse(text)


def unit(rng: np.random.Generator, n: int, d: int = 24) -> np.ndarray:
    rows = rng.normal(size=(n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_the_row_that_equals_the_claim_is_always_selected(seed: int, n: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    E = unit(rng, n)
    copied = int(rng.integers(n))
    chosen = select_rows(EvidencePolicy(limit=limit), E, E[copied])
    assert copied in chosen.rows
    assert len(chosen.rows) + chosen.merged + chosen.beyond_limit == n


def test_near_repeats_are_merged_into_the_first() -> None:
    rng = np.random.default_rng(1)
    E = unit(rng, 5)
    E = np.vstack([E, E[2] + 1e-6, E[2]])
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    chosen = select_rows(EvidencePolicy(), E, None)
    assert chosen.rows.tolist() == [0, 1, 2, 3, 4]
    assert chosen.merged == 2


def test_without_a_limit_that_binds_no_claim_is_needed() -> None:
    assert not claim_decides(EvidencePolicy(limit=8), 8)
    assert claim_decides(EvidencePolicy(limit=8), 9)
    assert not claim_decides(EvidencePolicy(select="spread", limit=8), 9)
    with pytest.raises(ValueError, match="needs a claim"):
        select_rows(EvidencePolicy(limit=2), unit(np.random.default_rng(0), 3), None)


def test_representatives_span_what_a_low_rank_set_spans() -> None:
    rng = np.random.default_rng(2)
    E = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 24))
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    chosen = spread_rows(E, 4)
    assert np.linalg.matrix_rank(E[chosen], tol=1e-8) == 4
    assert len(set(spread_rows(E, 10).tolist())) == 10


def test_an_item_is_taken_as_it_is() -> None:
    item = EvidenceItem(id="x", text="Kept.")
    assert EvidenceItem.of(item, 5) is item


def test_weights_decide_who_finds_a_place() -> None:
    E = unit(np.random.default_rng(3), 6)
    claim = E[0]
    order = np.argsort(-(E @ claim))
    weights = np.ones(6)
    weights[order[-1]] = 100.0
    chosen = select_rows(EvidencePolicy(limit=2), E, claim, weights)
    assert set(chosen.rows) == {0, order[-1]}
    assert set(select_rows(EvidencePolicy(limit=2), E, claim).rows) == set(order[:2])
    spread = select_rows(EvidencePolicy(select="spread", limit=1), E, None, weights)
    assert spread.rows.tolist() == [order[-1]]


def test_weights_come_with_items_and_zero_leaves_out() -> None:
    found = EvidenceSet.of(
        [{"id": "a", "text": "Kept.", "weight": 2}, {"text": "Gone.", "weight": 0}, {"text": "Kept."}]
    )
    assert [(s.id, s.weight, s.multiplicity) for s in found.sentences] == [("a#0", 2.0, 2)]
    assert [(entry.id, entry.reason) for entry in found.left_out] == [
        ("1", "weight 0"),
        ("2#0", "repeats a#0"),
    ]


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "2", None])
def test_a_weight_that_is_none_is_refused(weight: object) -> None:
    with pytest.raises(ValueError, match="weight"):
        EvidenceSet.of([{"text": "x", "weight": weight}])


def test_one_object_is_one_item_and_not_its_keys() -> None:
    found = EvidenceSet.of({"id": "a", "text": "The tower is 31 metres high."})
    assert [s.id for s in found.sentences] == ["a#0"]


@pytest.mark.parametrize("key", ["text", "content", "passage", "page_content"])
def test_the_text_of_an_object_is_found_under_its_usual_names(key: str) -> None:
    assert EvidenceSet.of([{key: "Kept."}]).sentences[0].text == "Kept."


def test_an_object_without_a_text_is_refused_and_not_taken_for_nothing() -> None:
    with pytest.raises(ValueError, match="evidence item 0.*body"):
        EvidenceSet.of([{"body": "Lost?"}])


@pytest.mark.parametrize(
    "text", ["nearest:5 merge=0.9", "spread:10 merge=0.99", "all merge=0.9", "select=nearest:5", "all"]
)
def test_what_a_policy_is_told_is_what_it_does(text: str) -> None:
    policy = EvidencePolicy.parse(text)
    assert text.removeprefix("select=") in str(policy)


@pytest.mark.parametrize(
    "text", ["all:5", "bogus=3", "nearest:", "nearest:1_0", "nearest:٣", "nearest:5 x=1"]
)
def test_a_policy_with_more_than_it_says_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="evidence policy"):
        EvidencePolicy.parse(text)


def test_numbers_of_numpy_are_numbers() -> None:
    found = EvidenceSet.of([{"id": np.int64(7), "text": "Kept.", "weight": np.float32(2)}])
    assert [(s.id, s.weight) for s in found.sentences] == [("7#0", 2.0)]
