"""Every proxy: contract and text form, the properties it claims and those it does not, oracles, degenerate cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from outspan.geometry.proxies import PROPERTIES, PROXIES, FittedProxy, Proxy, make_proxy, parse_contract
from outspan.geometry.subspace import factor

D = 24
"""Dimension of the tests; no cap binds for the set sizes used, so that what holds without a cap is seen."""

NAMES = list(PROXIES)


def background(d: int = D) -> np.ndarray:
    return np.random.default_rng(99).normal(size=(60, d)) + 0.3


def ready(text: str, d: int = D) -> Proxy:
    """A proxy that can measure, fitted where it has to be."""
    proxy = make_proxy(text)
    return proxy.fit(background(d)) if isinstance(proxy, FittedProxy) else proxy


def outside(proxy: Proxy, claims: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Values turned so that larger means less contained."""
    values = proxy(claims, factor(evidence))
    return values if proxy.direction == "higher_means_less_contained" else -values


@dataclasses.dataclass(frozen=True)
class Case:
    E: np.ndarray
    C: np.ndarray
    seed: int


def make_case(seed: int, n: int) -> Case:
    rng = np.random.default_rng(seed)
    return Case(rng.normal(size=(n, D)) + 0.3, rng.normal(size=(4, D)) + 0.3, seed)


cases = st.builds(make_case, st.integers(0, 2**31), st.integers(2, 14))


def reorder(case: Case) -> Case:
    return dataclasses.replace(case, E=case.E[np.random.default_rng(case.seed).permutation(len(case.E))])


def rescale(case: Case) -> Case:
    rng = np.random.default_rng(case.seed)
    return dataclasses.replace(
        case, E=case.E * rng.uniform(0.01, 100, (len(case.E), 1)), C=case.C * rng.uniform(0.01, 100, (4, 1))
    )


def rotate(case: Case) -> Case:
    Q, _ = np.linalg.qr(np.random.default_rng(case.seed).normal(size=(D, D)))
    return dataclasses.replace(case, E=case.E @ Q, C=case.C @ Q)


def flip(case: Case) -> Case:
    signs = np.where(np.arange(len(case.E)) % 2 == 0, -1.0, 1.0)
    return dataclasses.replace(case, E=case.E * signs[:, None])


def repeat(case: Case) -> Case:
    return dataclasses.replace(case, E=np.vstack([case.E, np.repeat(case.E[:1], 5, axis=0)]))


CHANGES: dict[str, Callable[[Case], Case]] = {
    "order": reorder,
    "scale": rescale,
    "rotation": rotate,
    "sign": flip,
    "duplicates": repeat,
}


def grown(case: Case) -> np.ndarray:
    return np.vstack([case.E, np.random.default_rng(case.seed + 1).normal(size=(3, D)) - 0.3])


def moved_by(proxy: Proxy, change: str, case: Case) -> float:
    """How far a value moves under a change that is claimed to be none; for growth, how far it moves the wrong way."""
    before = outside(proxy, case.C, case.E)
    if change == "growth":
        return float(np.max(outside(proxy, case.C, grown(case)) - before))
    changed = CHANGES[change](case)
    return float(np.max(np.abs(outside(proxy, changed.C, changed.E) - before)))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_claimed_properties_hold(name: str, case: Case) -> None:
    proxy = ready(name)
    for change in proxy.properties:
        assert moved_by(proxy, change, case) <= 1e-7, change


@pytest.mark.parametrize("name", NAMES)
def test_properties_that_are_not_claimed_fail(name: str) -> None:
    proxy = ready(name)
    several = [make_case(seed, n) for seed in range(6) for n in (2, 5, 14)]
    for change in set(PROPERTIES) - set(proxy.properties):
        assert max(moved_by(proxy, change, case) for case in several) > 1e-6, change


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_values_lie_in_the_stated_range_and_do_not_depend_on_the_other_claims(name: str, case: Case) -> None:
    proxy = ready(name)
    values = proxy(case.C, factor(case.E))
    low, high = proxy.range
    assert values.shape == (4,)
    assert values.dtype == np.float64
    assert ((values >= low) & (values <= high)).all()
    alone = np.concatenate([proxy(c[None, :], factor(case.E)) for c in case.C])
    np.testing.assert_allclose(alone, values, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_single_row_that_is_the_claim_is_the_most_contained_value(name: str) -> None:
    c = make_case(1, 2).C[:1]
    expected = 0.0 if PROXIES[name].direction == "higher_means_less_contained" else 1.0
    assert ready(name)(c, factor(c))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("energy", 0.36),
        ("energy_variance", 0.36),
        ("centered_affine", 0.1),
        ("weighted_svd", 0.36),
        ("convex_hull", 0.1),
        ("cone", 0.36),
        ("kernel_rbf(gamma=0.5)", 1 - np.exp(-4 * 0.5 * 0.2)),
        ("local_span", 0.36),
        ("max_cosine", 0.8),
        ("mean_cosine", 0.8),
        ("centroid_cosine", 0.8),
    ],
)
@pytest.mark.parametrize("copies", [1, 2, 7])
def test_one_direction_of_evidence_in_closed_form(text: str, expected: float, copies: int) -> None:
    """n = 1, and all rows equal: two statements of the same evidence; n = 7 > d = 2 as well."""
    evidence = factor(np.repeat([[3.0, 0.0]], copies, axis=0))
    assert make_proxy(text)([[0.8, 0.6]], evidence)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("energy", 0.0),
        ("energy_variance", 0.0),
        ("weighted_svd", 0.0),
        ("local_span", 0.0),
        ("centered_affine", 1.0),
        ("convex_hull", 1.0),
        ("cone", 1.0),
        ("kernel_rbf", 1.0 - np.exp(-4.0)),
        ("max_cosine", -1.0),
        ("mean_cosine", -1.0),
        ("centroid_cosine", -1.0),
    ],
)
def test_claim_opposite_to_its_evidence(name: str, expected: float) -> None:
    e = np.array([[0.6, 0.8, 0.0]])
    assert make_proxy(name)(-e, factor(e))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["energy", "centered_affine", "weighted_svd(p=0)"])
def test_more_rows_than_dimensions_leave_nothing_outside(name: str) -> None:
    rng = np.random.default_rng(0)
    assert make_proxy(name)(rng.normal(size=(5, 6)), factor(rng.normal(size=(20, 6)))) == pytest.approx(
        0.0, abs=1e-12
    )


def test_energy_is_the_squared_sine_of_the_angle_to_the_span() -> None:
    case = make_case(5, 7)
    angles = [subspace_angles(case.E.T, c[:, None])[0] for c in case.C]
    np.testing.assert_allclose(ready("energy")(case.C, factor(case.E)), np.sin(angles) ** 2, atol=1e-12)


def test_centered_affine_against_least_squares() -> None:
    case = make_case(6, 7)
    E = case.E / np.linalg.norm(case.E, axis=1, keepdims=True)
    C = case.C / np.linalg.norm(case.C, axis=1, keepdims=True)
    for c, value in zip(C, ready("centered_affine")(case.C, factor(case.E)), strict=True):
        A = (E[1:] - E[0]).T
        w = np.linalg.lstsq(A, c - E[0], rcond=None)[0]
        assert value == pytest.approx(np.sum((c - E[0] - A @ w) ** 2) / 4, abs=1e-12)


def test_centered_affine_takes_rounding_for_no_direction() -> None:
    """Equal rows, centred, leave 1e-17 noise; a relative cut would call it a direction."""
    row = np.random.default_rng(0).normal(size=(1, D))
    noisy = np.repeat(row, 9, axis=0) * (1 + 1e-9 * np.random.default_rng(1).normal(size=(9, D)))
    claim = make_case(2, 2).C[:1]
    affine = ready("centered_affine")
    assert affine(claim, factor(noisy))[0] == pytest.approx(affine(claim, factor(row))[0], abs=1e-7)


def test_weighted_svd_against_the_plain_svd() -> None:
    case = make_case(7, 7)
    E = case.E / np.linalg.norm(case.E, axis=1, keepdims=True)
    C = case.C / np.linalg.norm(case.C, axis=1, keepdims=True)
    _, s, Vt = np.linalg.svd(E, full_matrices=False)
    expected = 1 - ((C @ Vt.T) ** 2 * (s / s[0]) ** 2.5).sum(axis=1)
    np.testing.assert_allclose(ready("weighted_svd(p=2.5)")(case.C, factor(case.E)), expected, atol=1e-12)
    np.testing.assert_allclose(
        ready("weighted_svd(p=0)")(case.C, factor(case.E)),
        ready("energy(cap=none)")(case.C, factor(case.E)),
        atol=1e-12,
    )


def test_kernel_residual_against_an_explicit_feature_space() -> None:
    """A truncated power series of exp on the circle gives the feature map; least squares there is the oracle."""
    angles, claims, gamma, degree = np.array([0.1, 0.9, 2.0]), np.array([0.5, 3.0]), 0.5, 40

    def feature(angle: float) -> np.ndarray:
        # exp(−2γ(1 − cos(a − b))) = Σ_k c_k cos(k(a − b)); the c_k by the fast Fourier transform
        grid = 2 * np.pi * np.arange(4 * degree) / (4 * degree)
        coefficients = np.fft.rfft(np.exp(-2 * gamma * (1 - np.cos(grid)))).real[:degree] / (4 * degree)
        coefficients[1:] *= 2
        root = np.sqrt(np.maximum(coefficients, 0.0))
        k = np.arange(degree)
        return np.concatenate([root * np.cos(k * angle), root * np.sin(k * angle)])

    def on_circle(angle: np.ndarray) -> np.ndarray:
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    A = np.stack([feature(a) for a in angles], axis=1)
    expected = []
    for claim in claims:
        f = feature(claim)
        expected.append(np.sum((f - A @ np.linalg.lstsq(A, f, rcond=None)[0]) ** 2))
    ours = make_proxy(f"kernel_rbf(gamma={gamma})")(on_circle(claims), factor(on_circle(angles)))
    np.testing.assert_allclose(ours, expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(case=cases, k=st.integers(1, 16))
def test_local_span_is_the_energy_against_the_nearest_rows(case: Case, k: int) -> None:
    E = case.E / np.linalg.norm(case.E, axis=1, keepdims=True)
    for c, value in zip(case.C, make_proxy(f"local_span(k={k})")(case.C, factor(case.E)), strict=True):
        nearest = E[np.argsort(-(E @ c))[:k]]
        assert value == pytest.approx(ready("energy(cap=none)")(c[None, :], factor(nearest))[0], abs=1e-9)


def test_many_claims_are_measured_in_blocks_with_the_same_values() -> None:
    case, many = make_case(9, 12), np.random.default_rng(0).normal(size=(300, D))
    subspace, local = factor(case.E), ready("local_span(k=4)")
    np.testing.assert_allclose(
        local(many, subspace)[[0, 127, 128, 299]], local(many[[0, 127, 128, 299]], subspace)
    )


def test_kernel_refuses_evidence_that_it_cannot_factor() -> None:
    with pytest.raises(ValueError, match="at most 5000 evidence rows, not 5001"):
        make_proxy("kernel_rbf")([[1.0, 0.0]], factor(np.ones((5001, 2))))


def test_evidence_less_similar_than_the_nearest_rows_leaves_local_span_alone() -> None:
    case = make_case(8, 12)
    far = -case.C.mean(axis=0) + 0.01 * np.random.default_rng(0).normal(size=(50, D))
    local = ready("local_span(k=3)")
    grown_set = factor(np.vstack([case.E, far]))
    np.testing.assert_allclose(local(case.C, grown_set), local(case.C, factor(case.E)), atol=1e-12)


def test_centroid_that_cancels_out_is_not_a_number() -> None:
    assert np.isnan(make_proxy("centroid_cosine")([[1.0, 0.0]], factor([[0.0, 1.0], [0.0, -1.0]]))).all()


# ── contracts and their text form ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_text_form_parses_back_to_an_equal_contract(name: str) -> None:
    for proxy in (make_proxy(name), ready(name)):
        contract = proxy.contract
        assert parse_contract(str(contract)) == contract
        assert contract.name == name
        assert contract.to_dict()["parameters"] == dict(contract.parameters)


@settings(deadline=None)
@given(
    p=st.floats(0, 64),
    k=st.integers(1, 10**6),
    gamma=st.floats(1e-6, 1e6),
    q=st.floats(1e-12, 1),
    cap=st.none() | st.integers(1, 9999),
)
def test_every_parameter_value_survives_the_text_form(
    p: float, k: int, gamma: float, q: float, cap: int | None
) -> None:
    for name, arguments in {
        "weighted_svd": {"p": p},
        "local_span": {"k": k},
        "kernel_rbf": {"gamma": gamma},
        "energy_variance": {"q": q},
        "energy": {"cap": cap},
    }.items():
        proxy = PROXIES[name](**arguments)
        assert make_proxy(str(proxy.contract)) == proxy


def test_contract_says_what_a_reader_needs() -> None:
    assert str(make_proxy("weighted_svd").contract) == "weighted_svd(p=1)"
    assert str(make_proxy("cone").contract) == "cone"
    assert str(make_proxy("energy( cap = none )").contract) == "energy(cap=none)"
    for name in NAMES:
        contract = make_proxy(name).contract
        assert contract.formula
        assert contract.source
        assert PROXIES[name].__doc__ is not None
        assert "Range\n" in PROXIES[name].__doc__
        assert "Source\n" in PROXIES[name].__doc__


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("energi", "did you mean energy"),
        ("nothing_like_it_at_all", "there are energy"),
        ("cone(p=1)", "has no parameter 'p': it has none"),
        ("local_span(p=1)", "it has k"),
        ("local_span(k=0)", "whole number ≥ 1"),
        ("local_span(k=2.5)", "whole number ≥ 1"),
        ("local_span(k=none)", "whole number ≥ 1"),
        ("energy(cap=many)", "whole number ≥ 1"),
        ("weighted_svd(p=-1)", "must lie in"),
        ("weighted_svd(p=nan)", "must lie in"),
        ("kernel_rbf(gamma=0)", "must lie in"),
        ("energy_variance(q=1.5)", "must lie in"),
        ("local_span(k=1, k=2)", "not one parameter=value"),
        ("local_span(8)", "not one parameter=value"),
        ("local_span(k=8", "not of the form"),
        ("", "not of the form"),
        ("whitened(fitted=sha256:00)", "fit it again"),
    ],
)
def test_bad_text_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_proxy(text)


def test_fitted_must_be_a_digest() -> None:
    with pytest.raises(ValueError, match="must be a digest"):
        parse_contract("whitened(fitted=3)")


# ── what is not a number ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_claim_without_direction_is_nan_and_leaves_the_others_alone(name: str) -> None:
    case = make_case(3, 5)
    proxy, subspace = ready(name), factor(case.E)
    values = proxy(np.vstack([case.C[:2], np.zeros((1, D)), case.C[2:]]), subspace)
    assert np.isnan(values[2])
    np.testing.assert_allclose(np.delete(values, 2), proxy(case.C, subspace), atol=1e-12)
    assert np.isnan(proxy(np.zeros((2, D)), subspace)).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_claims_give_no_values(name: str) -> None:
    assert ready(name)(np.zeros((0, D)), factor(make_case(3, 5).E)).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_refused(name: str) -> None:
    proxy, subspace = ready(name), factor(make_case(3, 5).E)
    with pytest.raises(ValueError, match="NO_EVIDENCE is not a number"):
        proxy(np.ones((1, D)), factor(np.zeros((2, D))))
    with pytest.raises(ValueError, match="dimensions d differ"):
        proxy(np.ones((1, D + 1)), subspace)
    with pytest.raises(ValueError, match="two-dimensional"):
        proxy(np.ones(D), subspace)
    with pytest.raises(ValueError, match="NaN or infinity"):
        proxy(np.full((1, D), np.nan), subspace)
