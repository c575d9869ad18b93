"""whitened and background_adjusted: fitting, digests, leak guards, and what stays put when evidence grows."""

from __future__ import annotations

import numpy as np
import pytest

from outspan.geometry.energy import energies
from outspan.geometry.proxies import BackgroundAdjusted, FittedProxy, Whitened, make_proxy
from outspan.geometry.subspace import RankPolicy, factor

D = 96


def sentences(seed: int, count: int, d: int = D, topic: float = 0.0) -> np.ndarray:
    """Unit vectors that share a direction, as sentences of one embedder do, and a topic if asked."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, d))
    rows[:, 0] += 3.0
    rows[:, 1] += topic
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def uncapped(claims: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    return energies(claims, factor(evidence), RankPolicy("cap", evidence.shape[1])).energy


@pytest.mark.parametrize("name", ["whitened", "background_adjusted"])
def test_refuses_to_run_unfitted(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} was not fitted"):
        make_proxy(name)(np.ones((1, 3)), factor(np.eye(3)))
    assert make_proxy(name).contract.fitted_digest is None


@pytest.mark.parametrize("name", ["whitened", "background_adjusted"])
def test_refuses_another_dimension(name: str) -> None:
    proxy = make_proxy(name).fit(sentences(0, 40))
    with pytest.raises(ValueError, match="dimension"):
        proxy(np.ones((1, 3)), factor(np.eye(3)))


@pytest.mark.parametrize("name", ["whitened", "background_adjusted"])
def test_digest_is_that_of_the_set_of_vectors(name: str) -> None:
    X = sentences(0, 40)
    proxy = make_proxy(name)
    digest = proxy.fit(X).contract.fitted_digest
    assert digest is not None
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    assert proxy.fit(X[::-1]).fitted_digest == digest
    assert proxy.fit(X[1:]).fitted_digest != digest
    assert proxy.fit(X) == proxy.fit(X[::-1])
    assert proxy.fit(X) != proxy
    assert isinstance(proxy, FittedProxy)
    assert proxy.fit(X, digest="sha256:texts").contract.fitted_digest == "sha256:texts"


def test_fitting_leaves_the_original_unfitted() -> None:
    proxy = Whitened()
    proxy.fit(sentences(0, 40))
    assert proxy.fitted_digest is None


# ── whitened ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whitened_background_has_the_stated_covariance() -> None:
    X = sentences(0, 4000, d=6)
    fitted = Whitened(shrinkage=1e-6).fit(X)
    assert fitted._mean is not None
    assert fitted._transform is not None
    Z = (X - fitted._mean) @ fitted._transform
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(6), atol=1e-3)


def test_whitened_is_the_energy_of_the_moved_vectors() -> None:
    X, E, C = sentences(0, 300), sentences(1, 9), sentences(2, 5)
    mean, S = X.mean(axis=0), np.cov(X.T, bias=True)
    values, U = np.linalg.eigh(0.8 * S + 0.2 * np.trace(S) / D * np.eye(D))
    W = U @ np.diag(values**-0.5) @ U.T
    expected = uncapped((C - mean) @ W, (E - mean) @ W)
    np.testing.assert_allclose(Whitened(shrinkage=0.2).fit(X)(C, factor(E)), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [(np.ones((1, 4)), "at least two"), (np.ones((5, 4)), "all equal"), (np.ones(4), "two-dimensional")],
)
def test_whitened_refuses_what_it_cannot_be_fitted_on(vectors: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Whitened().fit(vectors)


# ── background_adjusted ──────────────────────────────────────────────────────────────────────────────────────────


def test_definition_against_plain_least_squares() -> None:
    E, C, bank = sentences(1, 12), sentences(2, 3), sentences(3, 50)
    for c, value in zip(C, BackgroundAdjusted(k=5).fit(bank)(C, factor(E)), strict=True):
        near = E[np.argsort(-(E @ c))[:5]]
        residuals = [
            np.sum((x - near.T @ np.linalg.lstsq(near.T, x, rcond=None)[0]) ** 2) for x in [c, *bank]
        ]
        typical = np.exp(np.mean(np.log(residuals[1:])))
        assert value == pytest.approx(residuals[0] / (residuals[0] + typical), abs=1e-9)


def test_an_unrelated_claim_is_at_one_half_whatever_the_size_of_the_evidence() -> None:
    proxy = BackgroundAdjusted(k=48).fit(sentences(3, 300))
    claims = sentences(4, 40)
    for n in (1, 5, 20, 48):
        values = proxy(claims, factor(sentences(5, n)))
        assert np.mean(values) == pytest.approx(0.5, abs=0.03)


def test_values_stay_put_while_unrelated_evidence_is_added_and_raw_energies_do_not() -> None:
    """The purpose of the proxy. The claims are two thirds inside five rows of evidence."""
    rng = np.random.default_rng(0)
    E = sentences(1, 5, topic=2.0)
    claims = rng.uniform(0.5, 1.5, size=(40, 5)) @ E
    claims = claims / np.linalg.norm(claims, axis=1, keepdims=True) + 0.07 * rng.normal(size=(40, D))
    proxy = BackgroundAdjusted(k=32).fit(sentences(3, 300))
    sizes = (0, 5, 20, 64, 384)
    grown = [np.vstack([E, sentences(6, size)]) for size in sizes]
    adjusted = np.array([proxy(claims, factor(rows)) for rows in grown])
    raw = np.array([uncapped(claims, rows) for rows in grown])
    assert np.abs(adjusted.mean(axis=1) - adjusted[0].mean()).max() < 0.05
    assert raw[0].mean() > 0.2
    assert raw[-1].mean() < 1e-9


def test_a_copied_sentence_stays_at_zero_and_an_unrelated_claim_away_from_it() -> None:
    proxy = BackgroundAdjusted(k=32).fit(sentences(3, 300))
    evidence = sentences(1, 5)
    unrelated = sentences(4, 20)
    for size in (0, 10, 100, 384):
        subspace = factor(np.vstack([evidence, sentences(6, size)]))
        assert proxy(evidence[:1], subspace)[0] == pytest.approx(0.0, abs=1e-9)
        assert proxy(unrelated, subspace).min() > 0.3


def test_evidence_that_spans_everything_gives_no_number() -> None:
    proxy = BackgroundAdjusted(k=64).fit(sentences(3, 40, d=8))
    assert np.isnan(proxy(sentences(4, 3, d=8), factor(sentences(1, 30, d=8)))).all()


def test_background_from_the_claims_own_source_is_left_out_by_group() -> None:
    E, C = sentences(1, 6), sentences(2, 3)
    clean, leak = sentences(3, 40), E + 0.3 * sentences(7, 6)
    groups = ["other"] * 40 + ["own"] * 6
    whole = BackgroundAdjusted(near=1.0).fit(np.vstack([clean, leak]), groups=groups)
    guarded = whole.excluding("own")
    np.testing.assert_allclose(
        guarded(C, factor(E)), BackgroundAdjusted(near=1.0).fit(clean)(C, factor(E)), atol=1e-12
    )
    assert (whole(C, factor(E)) > guarded(C, factor(E)) + 1e-3).all()
    assert guarded.contract == whole.contract
    with pytest.raises(ValueError, match="at least 20"):
        whole.excluding("other")
    with pytest.raises(ValueError, match="without groups"):
        BackgroundAdjusted().fit(clean).excluding("own")


def test_near_duplicates_of_claim_or_evidence_are_left_out_of_the_bank() -> None:
    E, C = sentences(1, 6), sentences(2, 1)
    clean = sentences(3, 40)
    copies = np.vstack([clean, E + 1e-3 * sentences(7, 6), C + 1e-3 * sentences(8, 1)])
    proxy = BackgroundAdjusted()
    np.testing.assert_allclose(proxy.fit(copies)(C, factor(E)), proxy.fit(clean)(C, factor(E)), atol=1e-12)


def test_too_few_background_claims_left_is_no_number() -> None:
    c = sentences(2, 1)
    bank = np.vstack([sentences(3, 10), np.repeat(c, 10, axis=0)])
    assert np.isnan(BackgroundAdjusted().fit(bank)(c, factor(sentences(1, 4)))).all()


def test_bank_is_checked() -> None:
    with pytest.raises(ValueError, match="at least 20 background claims, not 3"):
        BackgroundAdjusted().fit(np.eye(3))
    with pytest.raises(ValueError, match="2 groups for 30"):
        BackgroundAdjusted().fit(sentences(0, 30), groups=["a", "b"])
    rows = np.vstack([np.zeros((1, D)), sentences(0, 30)])
    with_zero = BackgroundAdjusted().fit(rows, groups=[str(i) for i in range(31)])
    assert with_zero.excluding("0") == with_zero
    assert BackgroundAdjusted().fit(sentences(0, 30), digest="sha256:texts").fitted_digest == "sha256:texts"
