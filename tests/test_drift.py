"""Drift: the level is kept, real changes are found, and too little traffic is not taken for none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from outspan.drift import CATEGORIES, LIMIT, NUMBERS, Observation, compare, observe, script_of


def observations(
    energies: Any, sources: Any = None, *, state: str = "MEASURED", script: str = "latin"
) -> list[Observation]:
    sources = range(len(energies)) if sources is None else sources
    return [
        Observation(source=str(source), values={"energy": float(value), "state": state, "script": script})
        for value, source in zip(energies, sources, strict=True)
    ]


def found(report: Any, feature: str) -> Any:
    return next(one for one in report.comparisons if one.feature == feature)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("The pier was closed.", "latin"),
        ("Der Kai war geschloßen – ÄÖÜ.", "latin"),
        ("Причал был закрыт.", "cyrillic"),
        ("Η προβλήτα έκλεισε.", "greek"),
        ("أغلق الرصيف.", "arabic"),
        ("码头关闭了。", "cjk"),
        ("埠頭は閉鎖された。", "cjk"),
        ("부두가 폐쇄되었다.", "hangul"),
        ("पियर बंद था।", "devanagari"),
        ("ＦＵＬＬ width", "latin"),
        ("12 % – 34!", "none"),
        ("", "none"),
        ("abc где", "mixed"),
        ("\U00012345\ue000", "cuneiform"),
    ],
)
def test_scripts(text: str, script: str) -> None:
    assert script_of(text) == script


def test_effect_is_the_kolmogorov_smirnov_distance() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((40, 60), (5, 100)):  # few enough values for the grid to hold them all
        one, other = np.round(rng.random(n), 2), np.round(rng.random(m) ** 2, 2)
        report = compare(observations(one), observations(other), permutations=9)
        assert found(report, "energy").effect == pytest.approx(stats.ks_2samp(one, other).statistic, abs=1e-6)
    one, other = rng.random(2000), rng.random(1500) * 0.9
    report = compare(observations(one), observations(other), permutations=9)
    assert found(report, "energy").effect == pytest.approx(stats.ks_2samp(one, other).statistic, abs=0.02)


def test_p_value_is_that_of_a_permutation_test() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(0, 1, 40), rng.normal(0.6, 1, 40)
    report = compare(observations(one), observations(other), permutations=4999)
    assert found(report, "energy").p_value == pytest.approx(stats.ks_2samp(one, other).pvalue, abs=0.02)


def test_a_large_change_is_drift_and_a_small_one_only_moved() -> None:
    rng = np.random.default_rng(2)
    reference = observations(rng.beta(2, 5, 3000))
    shifted = compare(reference, observations(rng.beta(3, 5, 3000)))
    assert shifted.verdict == "drift"
    assert found(shifted, "energy").finding == "drift"
    assert found(shifted, "energy").effect > LIMIT
    small = compare(reference, observations(rng.beta(2.15, 5, 3000)))
    assert found(small, "energy").finding in ("moved", "none")
    assert small.verdict == "no_drift_found"


def test_categories() -> None:
    rng = np.random.default_rng(3)
    reference = observations(rng.random(500))
    live = observations(rng.random(400)) + observations(rng.random(100), range(400, 500), script="greek")
    report = compare(reference, live)
    script = found(report, "script")
    assert script.effect == pytest.approx(0.2)
    assert script.finding == "drift"
    assert script.live == {"greek": 0.2, "latin": 0.8}
    assert script.statistic == "total variation"
    assert found(report, "state").effect == 0.0


def test_little_traffic_is_undecided_not_clear() -> None:
    rng = np.random.default_rng(4)
    report = compare(observations(rng.random(500)), observations(rng.random(30)))
    assert found(report, "energy").visible > LIMIT
    assert report.verdict == "undecided"


def test_false_findings_keep_the_level_with_clustered_sentences() -> None:
    """No difference between the files: at a level of 0.1 over all tests, at most that many reports find one."""
    rng, wrong, runs = np.random.default_rng(5), 0, 200

    def file() -> list[Observation]:
        base = rng.random(30)
        sizes = rng.integers(1, 12, 30)
        energies = np.repeat(base, sizes) + rng.normal(0, 0.02, sizes.sum())
        return observations(energies, np.repeat(np.arange(30), sizes))

    for seed in range(runs):
        report = compare(file(), file(), level=0.1, permutations=199, seed=seed)
        wrong += any(one.finding in ("drift", "moved") for one in report.comparisons)
    assert wrong <= stats.binom.ppf(0.9999, runs, 0.1)


def test_sentences_taken_for_sources_would_not_keep_it() -> None:
    rng, wrong = np.random.default_rng(6), 0
    for seed in range(60):
        one, other = (np.repeat(rng.random(30), 8) for _ in range(2))
        wrong += (
            compare(observations(one), observations(other), level=0.1, permutations=199, seed=seed).verdict
            == "drift"
        )
    assert wrong > 30


def test_one_source_in_both_files_is_two() -> None:
    report = compare(
        observations([0.1, 0.2], ["a", "b"]), observations([0.1, 0.2], ["a", "b"]), permutations=9
    )
    assert (report.reference_sources, report.live_sources) == (2, 2)


def test_a_feature_that_one_file_lacks_is_said_and_not_compared() -> None:
    live = [Observation(source="s", values={"energy": None, "state": "NO_EVIDENCE", "script": "latin"})]
    report = compare(observations([0.1, 0.2, 0.3]), live, permutations=9)
    energy = found(report, "energy")
    assert (energy.finding, energy.effect, energy.live_n, dict(energy.live)) == ("not compared", None, 0, {})
    assert found(report, "state").effect == 1.0
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["verdict"] in ("undecided", "drift")


@pytest.mark.parametrize("options", [{"level": 0.0}, {"limit": 1.0}, {"permutations": 0}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must lie"):
        compare(observations([0.1]), observations([0.2]), **options)
    with pytest.raises(ValueError, match="holds no sentence"):
        compare(observations([0.1]), [])


def test_holm_and_psi() -> None:
    rng = np.random.default_rng(7)
    report = compare(observations(rng.random(300)), observations(rng.random(300) ** 3))
    energy, state = found(report, "energy"), found(report, "state")
    assert energy.p_value == 1 / 2000
    assert energy.adjusted == 3 / 2000  # three features have values here
    assert (state.p_value, state.psi) == (1.0, 0.0)
    assert energy.psi > 0.25


def test_an_observation_has_every_feature() -> None:
    sentence = {
        "text": "The pier was closed.",
        "state": "MEASURED",
        "energy": 0.25,
        "rank": 3,
        "cap_bound": True,
        "diagnostics": {"sim_top1": 0.8},
        "evidence": {"used": 5},
        "flags": ["evidence_truncated"],
    }
    values = observe(sentence, "s").values
    assert values.keys() == {*NUMBERS, *CATEGORIES}
    assert values["truncated"] == values["cap_bound"] == "yes"
    assert values["claim_length"] == 20
    unmeasured = observe({**sentence, "state": "FAILED", "energy": None, "diagnostics": None}, "s").values
    assert [unmeasured[name] for name in ("energy", "sim_top1", "rank", "cap_bound")] == [None] * 4
    assert unmeasured["state"] == "FAILED"
