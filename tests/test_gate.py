"""The gate: first matching rule decides, the trace is written on the way, and nothing slips through."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gate_helpers import claim, threshold
from outspan.errors import InputError, RegimeMismatch
from outspan.gate import (
    Outcome,
    Policy,
    Scores,
    decide_answer,
    decide_claim,
    load_policy,
    parse_policy,
    read_measured_row,
    ready_made,
    require_regime,
)
from outspan.gate.policy import parse_settings
from outspan.gate.rules import KINDS, KNOWN_FLAGS, scripts_of
from outspan.measurement import State

NUMBERS = {
    "energy": {},
    "energy-and-participation-ratio": {"participation_ratio_max": 8.0},
    "sensitivity": {"sensitivity_max": 0.5},
    "alignment": {"alignment_min": 0.2},
    "margin-band": {"band": 0.05},
    "adaptive-percentile": {"percentile": 50.0},
}
SCORES = Scores(values=(0.05, 0.1, 0.15, 0.2, 0.7), digest="sha256:d")
ACCEPT = '[[rule]]\nname = "in"\nkind = "threshold"\nside = "accept"\nthen = "accept"\n'


def ready(name: str) -> Policy:
    return load_policy(name, parameters=NUMBERS[name], scores=SCORES)


POLICIES = [ready(name) for name in NUMBERS]


def rules(*tables: str, top: str = "") -> Policy:
    return parse_policy(f'name = "test"\n{top}\n' + "\n".join(tables))


def rule(then: str = "review", name: str = "r", **keys: Any) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[[rule]]", f'name = "{name}"', f'then = "{then}"', *lines]) + "\n"


def outcome(record: dict[str, Any], policy: Policy | None = None, **cuts: Any) -> str:
    return decide_claim(record, threshold(**cuts), policy or ready("energy")).outcome


def test_energy_alone_says_what_the_threshold_says() -> None:
    assert [outcome(claim(energy)) for energy in (0.0, 0.29, 0.31, 0.59, 0.61, 1.0)] == [
        "accept", "accept", "review", "review", "reject", "reject",
    ]  # fmt: skip


def test_the_policies_of_the_literature_are_there_and_carry_no_numbers_of_their_own() -> None:
    assert set(ready_made()) == set(NUMBERS)
    for name, numbers in NUMBERS.items():
        assert "[parameters]" not in ready_made()[name]
        if numbers:
            with pytest.raises(InputError, match=f"needs a value for {next(iter(numbers))}"):
                load_policy(name, scores=SCORES)
    with pytest.raises(InputError, match="--scores MEASURED"):
        load_policy("adaptive-percentile", parameters={"percentile": 50})


@pytest.mark.parametrize(
    ("name", "changed", "rule_name"),
    [
        ("energy-and-participation-ratio", {"participation_ratio": 8.5}, "diffuse evidence"),
        ("sensitivity", {"sensitivity": 0.6}, "leans on one sentence"),
        ("alignment", {"alignment": 0.1}, "off the main direction"),
    ],
)
def test_a_diagnostic_turns_an_acceptance_into_a_review_and_never_back(
    name: str, changed: dict[str, float], rule_name: str
) -> None:
    policy = ready(name)
    assert outcome(claim(0.1), policy) == "accept"
    decision = decide_claim(
        claim(0.1, diagnostics={**claim()["diagnostics"], **changed}), threshold(), policy
    )
    assert (decision.outcome, decision.rule) == ("review", rule_name)
    assert outcome(claim(0.9, diagnostics={**claim()["diagnostics"], **changed}), policy) == "reject"
    missing = decide_claim(claim(0.1, diagnostics=None), threshold(), policy)
    assert missing.outcome == "review"
    assert "missing" in missing.reason
    absent = dict.fromkeys(changed)
    assert outcome(claim(0.1, diagnostics={**claim()["diagnostics"], **absent}), policy) == "review"


def test_margin_band_reviews_both_sides_of_both_thresholds() -> None:
    policy = ready("margin-band")
    seen = [outcome(claim(e), policy) for e in (0.24, 0.26, 0.34, 0.45, 0.56, 0.64, 0.66)]
    assert seen == ["accept", "review", "review", "review", "review", "review", "reject"]
    assert outcome(claim(0.1), policy, accept=None, reject=None) == "review"


def test_adaptive_percentile_is_an_observed_score_and_only_narrows() -> None:
    policy = ready("adaptive-percentile")
    assert policy.percentiles == {"50": 0.15}
    assert policy.scores_digest == "sha256:d"
    assert [outcome(claim(e), policy) for e in (0.15, 0.16, 0.9)] == ["accept", "review", "reject"]
    wide = load_policy("adaptive-percentile", parameters={"percentile": 99}, scores=SCORES)
    assert outcome(claim(0.5), wide) == "review"
    with pytest.raises(InputError, match="no calibration scores"):
        load_policy(
            "adaptive-percentile", parameters={"percentile": 50}, scores=Scores(values=(), digest="sha256:d")
        )


def test_the_trace_holds_every_rule_that_was_asked_its_inputs_and_its_outcome() -> None:
    decision = decide_claim(claim(0.45), threshold(), ready("energy"))
    assert [(step.rule, step.matched, step.outcome) for step in decision.trace] == [
        ("not measured", False, None),
        ("doubtful measurement", False, None),
        ("outside", False, None),
        ("between", True, "review"),
    ]
    assert decision.trace[-1].inputs == {
        "score": "energy", "value": 0.45, "accept": 0.3, "reject": 0.6, "tolerance": 1e-5,
    }  # fmt: skip
    assert decision.reason == "energy 0.45 is neither inside accept 0.3 nor outside reject 0.6"
    json.dumps(decision.to_dict(), allow_nan=False)


# Fails closed


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("state", [*map(str, State), "SCORER_FAILED", None, 3])
def test_nothing_but_measured_is_accepted_whatever_the_number_says(policy: Policy, state: Any) -> None:
    found = outcome(claim(0.0, state=state), policy)
    assert found == ("accept" if state == "MEASURED" else "no_claim" if state == "NO_CLAIM" else "review")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("energy", [None, math.nan, math.inf, -math.inf, -0.1, 1.1, "0.1", True, [0.1]])
def test_a_number_that_is_no_energy_is_a_review(policy: Policy, energy: Any) -> None:
    decision = decide_claim(claim(0.1) | {"energy": energy}, threshold(), policy)
    assert decision.outcome == "review"
    json.dumps(decision.to_dict(), allow_nan=False)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("name", ["state", "energy", "flags", "text"])
def test_a_missing_field_is_a_review(policy: Policy, name: str) -> None:
    record = claim(0.1)
    del record[name]
    assert outcome(record, policy) == "review"


@pytest.mark.parametrize("energy", [0.3, 0.3 - 1e-6, 0.3 + 1e-6, 0.6, 0.6 - 1e-6, 0.6 + 1e-6])
def test_within_the_tolerance_of_a_threshold_is_a_review(energy: float) -> None:
    decision = decide_claim(claim(energy), threshold(), ready("energy"))
    assert decision.outcome == "review"
    assert "rounding" in decision.reason


def test_a_threshold_without_a_side_accepts_or_rejects_nothing() -> None:
    assert outcome(claim(0.0), accept=None) == "review"
    assert outcome(claim(1.0), reject=None) == "review"


@pytest.mark.parametrize("flag", sorted(KNOWN_FLAGS - {"cap_bound"}))
def test_a_doubtful_measurement_is_a_review(flag: str) -> None:
    assert outcome(claim(0.1, flags=[flag])) == "review"


def test_a_flag_that_this_version_does_not_know_is_never_accepted() -> None:
    decision = decide_claim(claim(0.1, flags=["half_baked"]), threshold(), ready("energy"))
    assert (decision.outcome, decision.rule) == ("review", "last look before acceptance")
    assert outcome(claim(0.9, flags=["half_baked"])) == "reject"


def test_the_known_flags_are_those_of_the_sensor() -> None:
    source = Path(__file__).parent.parent / "src" / "outspan" / "sensors" / "energy.py"
    raised = set(re.findall(r'yield "(\w+)"', source.read_text(encoding="utf-8")))
    assert raised
    assert raised <= KNOWN_FLAGS


def test_no_rule_that_matches_is_a_review() -> None:
    decision = decide_claim(claim(0.5), threshold(), rules(ACCEPT))
    assert (decision.outcome, decision.reason) == ("review", "no rule matched")


def test_a_missing_sensor_is_a_review() -> None:
    policy = rules(rule(kind="flag", any=["number_not_found"], sensor="literals", name="n"), ACCEPT)
    assert outcome(claim(0.1), policy) == "review"
    assert outcome(claim(0.1, sensors={"literals": {"flags": []}}), policy) == "accept"
    assert outcome(claim(0.1, sensors={"literals": {}}), policy) == "review"
    assert outcome(claim(0.1, sensors={"literals": {"state": "FAILED", "flags": []}}), policy) == "review"
    assert outcome(claim(0.1, sensors={"literals": {"state": "MEASURED", "flags": []}}), policy) == "accept"
    assert outcome(claim(0.1, sensors={"literals": {"flags": ["number_not_found"]}}), policy) == "review"


SHORT = st.text("aE0.é", max_size=4)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | SHORT
TREES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT, inner, max_size=3)
)
FIELDS = ["text", "state", "energy", "flags", "diagnostics", "evidence", "proxies", "sensors", "rank"]
WILD = st.dictionaries(st.sampled_from(FIELDS), TREES, max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changed=WILD, policy=st.sampled_from(POLICIES))
def test_whatever_a_record_holds_acceptance_implies_measured_and_the_accepted_side(
    changed: dict[str, Any], policy: Policy
) -> None:
    record = claim(0.1) | changed
    decision = decide_claim(record, threshold(), policy)
    json.dumps(decision.to_dict(), allow_nan=False)
    if decision.outcome is Outcome.ACCEPT:
        assert record["state"] == "MEASURED"
        assert 0.0 <= record["energy"] < 0.3
        assert all(flag in KNOWN_FLAGS for flag in record["flags"])


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 64), st.floats(-1, 1), st.floats(0, 1))
def test_no_policy_accepts_what_energy_alone_does_not(
    energy: float, ratio: float, sensitivity: float, alignment: float
) -> None:
    about = {"participation_ratio": ratio, "sensitivity": sensitivity, "alignment": alignment}
    record = claim(energy, diagnostics=about)
    alone = outcome(record)
    for policy in POLICIES:
        assert alone == "accept" or outcome(record, policy) != "accept"


# Loading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"', "has no rule"),
        ('name = "x"\nrule = []', "has no rule"),
        (ACCEPT, "needs a name"),
        ('name = "x"\n' + rule(kind="vibes"), "kind is 'vibes'"),
        ('name = "x"\n' + rule(kind="threshold", side="inside"), "side is 'inside'"),
        ('name = "x"\n' + rule("accept", kind="state", **{"in": ["MEASURED"]}), "nothing was calibrated"),
        ('name = "x"\n' + rule("accept", kind="threshold", side="review"), "nothing was calibrated"),
        ('name = "x"\n' + rule("accept", kind="value", field="energy", below=0.3), "nothing was calibrated"),
        ('name = "x"\n' + rule("accept", kind="always"), "nothing was calibrated"),
        ('name = "x"\n' + rule("no_claim", kind="always"), "then is 'no_claim'"),
        ('name = "x"\n' + rule(kind="state", **{"in": ["MEASRED"]}), "names 'MEASRED'"),
        ('name = "x"\n' + rule(kind="state", **{"in": []}), "at least one"),
        ('name = "x"\n' + rule(kind="state"), "either in or not_in"),
        ('name = "x"\n' + rule(kind="flag", any=["truncted"]), "names 'truncted'"),
        ('name = "x"\n' + rule(kind="value", field="diagnostics.particpation_ratio", below=1), "no measurement has"),
        ('name = "x"\n' + rule(kind="value", field="energy"), "needs below or above"),
        ('name = "x"\n' + rule(kind="value", field="energy", below="limit"), "no value"),
        ('name = "x"\n' + rule(kind="value", field="energy", below=True), "finite number"),
        ('name = "x"\n[[rule]]\nname="r"\nkind="value"\nfield="energy"\nbelow=nan\nthen="review"', "finite number"),
        ('name = "x"\n' + rule(kind="value", field="energy", below=1, abve=2), "does not know the key 'abve'"),
        ('name = "x"\n' + rule(kind="near", band=0), "above 0"),
        ('name = "x"\n' + rule(kind="words", fewer_than=0), "from 1"),
        ('name = "x"\n' + rule(kind="script", calibrated=["LATIN"], share=1), "below 1"),
        ('name = "x"\n' + rule(kind="field", field="nearest.text", **{"in": ["a"]}), "must not repeat the text"),
        ('name = "x"\n' + rule(kind="percentile", outside=100), "between 0 and 100"),
        ('name = "x"\n' + rule(kind="always") + rule(kind="always", name="b"), "after a rule that always"),
        ('name = "x"\n' + ACCEPT + ACCEPT, "is taken"),
        ('name = "x"\nanswr = 1\n' + ACCEPT, "does not know the key 'answr'"),
        ('name = "x"\nno_claim = "accept"\n' + ACCEPT, "no_claim is 'accept'"),
        ('name = "x"\n[answer]\nrule = "best"\n' + ACCEPT, "rule is 'best'"),
        ('name = "x"\n[answer]\nrule = "share"\n' + ACCEPT, "needs reject_above"),
        ('name = "x"\n[parameters]\na = "b"\n' + ACCEPT, "finite number"),
        ("name = ", "is not TOML"),
    ],
)  # fmt: skip
def test_a_policy_that_could_not_do_what_it_says_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_policy(text, path="p.toml")


def test_a_parameter_that_the_policy_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="has no parameter 'bnd'"):
        load_policy("margin-band", parameters={"bnd": 0.1})
    assert parse_settings(["a=1", "b = 2.5"]) == {"a": 1.0, "b": 2.5}
    for wrong in ("a", "a=x", "a=nan", "a=inf"):
        with pytest.raises(InputError, match="NAME=NUMBER"):
            parse_settings([wrong])
    with pytest.raises(InputError, match="Ready to use are adaptive-percentile"):
        load_policy("energie")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_policy_is_its_text_and_numbers_and_reads_back_equal(policy: Policy) -> None:
    again = Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert again == policy
    assert again.digest == policy.digest


def test_another_number_is_another_digest() -> None:
    assert load_policy("margin-band", parameters={"band": 0.1}).digest != ready("margin-band").digest


def test_every_kind_of_rule_is_documented() -> None:
    page = Path(__file__).parent.parent / "docs" / "decisions" / "0013-gate-policies.md"
    text = page.read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []


def test_the_example_policy_loads() -> None:
    example = Path(__file__).parent.parent / "examples" / "policy.toml"
    policy = load_policy(example)
    assert {rule.kind for rule in policy.rules} >= {"script", "field", "value", "threshold"}


# Kinds


def test_scripts_outside_the_calibrated_ones() -> None:
    policy = rules(rule(kind="script", calibrated=["latin"], share=0.2), ACCEPT)
    texts = ["The ferry.", "Паром вмещает 90 машин.", "Die Fähre №9", "The α ferry", "渡轮", "", "90"]
    assert [outcome(claim(0.1, text=text), policy) for text in texts] == [
        "accept", "review", "accept", "accept", "review", "accept", "accept",
    ]  # fmt: skip
    assert scripts_of("aя漢") == {"LATIN": 1, "CYRILLIC": 1, "CJK": 1}


def test_a_text_of_the_record_such_as_its_language() -> None:
    policy = rules(rule(kind="field", field="language", not_in=["en"]), ACCEPT)
    assert outcome(claim(0.1, language="en"), policy) == "accept"
    assert outcome(claim(0.1, language="fi"), policy) == "review"
    assert outcome(claim(0.1), policy) == "review"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ada Brook", "review"),
        ("Ada Brook sails.", "accept"),
        ("水在零度结冰。", "accept"),
        ("水冰", "review"),
    ],
)
def test_a_bare_name_is_at_most_a_review(text: str, found: str) -> None:
    assert outcome(claim(0.0, text=text)) == found
    assert outcome(claim(0.9, text=text)) == "reject"


def test_a_proxy_and_a_dotted_name() -> None:
    policy = rules(rule(kind="value", field="proxies.local_span(k=0.5)", above=0.5), ACCEPT)
    assert outcome(claim(0.1, proxies={"local_span(k=0.5)": 0.4}), policy) == "accept"
    assert outcome(claim(0.1, proxies={"local_span(k=0.5)": 0.6}), policy) == "review"
    assert outcome(claim(0.1, proxies={"local_span(k=0.5)": None}), policy) == "review"


def test_a_threshold_on_a_similarity_accepts_above() -> None:
    cuts = {"score": "max_cosine", "higher_is_outside": False, "accept": 0.8, "reject": 0.4}
    seen = [outcome(claim(0.1, proxies={"max_cosine": v}), **cuts) for v in (0.9, 0.8, 0.6, 0.3, None)]
    assert seen == ["accept", "review", "review", "reject", "review"]
    assert outcome(claim(0.1), **cuts) == "review"


def test_what_claims_nothing_stands_apart_unless_the_policy_says_otherwise() -> None:
    nothing = claim(None, state="NO_CLAIM")
    assert outcome(nothing) == "no_claim"
    assert outcome(nothing, rules(ACCEPT, top='no_claim = "review"')) == "review"


# Answers


def answer(
    *energies: float | dict[str, Any] | None, policy: Policy | None = None
) -> tuple[str, dict[str, int]]:
    claims = [one if isinstance(one, dict) else claim(one) for one in energies]
    decision = decide_answer(claims, threshold(), policy or ready("energy"))
    return decision.outcome, decision.counts


NOTHING = claim(None, state="NO_CLAIM")
FAILED = claim(None, state="FAILED")


def test_the_worst_sentence_makes_the_answer() -> None:
    assert answer(0.1, 0.2)[0] == "accept"
    assert answer(0.1, 0.4)[0] == "review"
    assert answer(0.1, 0.4, 0.9)[0] == "reject"
    assert answer(0.1, FAILED)[0] == "review"
    assert answer(0.1, NOTHING) == ("accept", {"accept": 1, "review": 0, "reject": 0, "no_claim": 1})
    assert answer(NOTHING)[0] == "no_claim"
    assert answer()[0] == "no_claim"


def test_a_share_forgives_what_was_measured_and_nothing_else() -> None:
    policy = rules(
        rule("reject", name="out", kind="threshold", side="reject"), ACCEPT,
        top='[answer]\nrule = "share"\nreject_above = 0.25\nreview_above = 0.25',
    )  # fmt: skip
    assert answer(0.1, 0.1, 0.1, 0.9, policy=policy)[0] == "accept"
    assert answer(0.1, 0.1, 0.9, 0.9, policy=policy)[0] == "reject"
    assert answer(0.1, 0.4, 0.4, policy=policy)[0] == "review"
    assert answer(0.1, 0.1, 0.1, FAILED, policy=policy)[0] == "review"
    assert answer(NOTHING, 0.1, 0.1, 0.1, 0.9, policy=policy)[0] == "accept"
    all_forgiven = rules(ACCEPT, top='[answer]\nrule = "share"\nreject_above = 1.0\nreview_above = 1.0')
    assert answer(0.5, policy=all_forgiven)[0] == "review"


# Regimes and rows


def test_a_threshold_of_another_regime_is_refused_with_what_differs() -> None:
    at = threshold(regime={"proxy": "energy", "rank_policy": "cap:32", "embedder": {"name": "a"}})
    theirs = {"proxy": "energy", "rank_policy": "cap:64", "embedder": {"name": "b"}}
    require_regime(at, "sha256:f", {}, None)
    with pytest.raises(
        RegimeMismatch, match=r"embedder.name was 'a', is 'b'; rank_policy was 'cap:32', is 'cap:64'"
    ):
        require_regime(at, "sha256:g", {}, theirs)
    with pytest.raises(RegimeMismatch, match="sha256:f, not sha256:g"):
        require_regime(at, "sha256:g", {}, None)
    similar = threshold(score="max_cosine", higher_is_outside=False, accept=0.8, reject=0.4)
    require_regime(similar, "sha256:g", {"max_cosine": "sha256:f"}, None)
    with pytest.raises(InputError, match="--proxy max_cosine"):
        require_regime(similar, "sha256:f", {}, None)
    with pytest.raises(RegimeMismatch):
        require_regime(similar, "sha256:f", {"max_cosine": "sha256:g"}, None)


def row(**changed: Any) -> dict[str, Any]:
    one = claim(0.1)
    base = {
        "id": 1,
        "claim": one["text"],
        "evidence": ["x", {"id": "y", "text": "z"}, None],
        "fingerprint": "sha256:f",
    }
    return {**base, "sentences": [one], "sentences_total": 1, **changed}


def test_a_measured_row_is_read_with_its_texts() -> None:
    read = read_measured_row(row())
    assert [(item.id, item.text) for item in read.evidence] == [("0", "x"), ("y", "z"), ("2", "")]
    assert read_measured_row(row(evidence=None, source="all of it")).evidence[0].text == "all of it"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"claim": None}, "no 'claim'"),
        ({"fingerprint": None}, "no 'fingerprint'"),
        ({"sentences": None}, "no list"),
        ({"sentences_total": 10}, "says 10 sentences and holds 1"),
        ({"claim": "Another text, put in later."}, "changed after it was measured"),
        ({"evidence": 3}, "'evidence' that is a number"),
        ({"evidence": [3]}, "evidence item 0"),
        ({"regime": 3}, "not an object"),
    ],
)
def test_what_is_no_measured_row_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_measured_row(row(**changed))
    with pytest.raises(InputError, match="not a JSON object"):
        read_measured_row([])
