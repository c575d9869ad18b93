"""The convex solvers against SciPy, and the certificate on inputs that break active-set methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from outspan.geometry.proxies import make_proxy
from outspan.geometry.proxies.convex import CERTIFICATE, solve_cone, solve_hull
from outspan.geometry.subspace import factor


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def problem(seed: int, n: int, d: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    E = unit(rng.normal(size=(n, d)) + 0.7)
    c = unit(rng.normal(size=d) + 0.7)
    if kind == "duplicates":
        E = np.vstack([E, E, E[:1]])
    elif kind == "jitter":
        E = unit(np.vstack([E, E + 1e-7 * rng.normal(size=E.shape)]))
    elif kind == "in_cone":
        c = unit(rng.uniform(size=n) @ E)
    elif kind == "a_row":
        c = E[0]
    elif kind == "opposite":
        c = -E[0]
    elif kind == "opposed_rows":
        E = np.vstack([E, -E[: max(1, n // 2)]])
    elif kind == "equal_rows":
        E = np.repeat(E[:1], n, axis=0)
    return E, c


KINDS = ["plain", "duplicates", "jitter", "in_cone", "a_row", "opposite", "opposed_rows", "equal_rows"]
problems = st.builds(
    problem,
    st.integers(0, 2**31),
    st.integers(1, 24),
    st.integers(2, 24),
    st.sampled_from(KINDS),
)


@settings(max_examples=120, deadline=None)
@given(problems)
def test_cone_agrees_with_scipy_nnls(given_problem: tuple[np.ndarray, np.ndarray]) -> None:
    E, c = given_problem
    ours = solve_cone(E, c)
    _, distance = nnls(E.T, c)
    assert (ours.weights >= 0.0).all()
    assert ours.certificate <= CERTIFICATE
    assert ours.squared_distance == pytest.approx(distance**2, abs=1e-9)


@settings(max_examples=120, deadline=None)
@given(problems)
def test_hull_weights_are_a_convex_combination_with_certificate(
    given_problem: tuple[np.ndarray, np.ndarray],
) -> None:
    E, c = given_problem
    ours = solve_hull(E, c)
    assert (ours.weights >= 0.0).all()
    assert ours.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.sum((c - ours.weights @ E) ** 2) == pytest.approx(ours.squared_distance, abs=1e-12)
    assert ours.certificate <= CERTIFICATE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 3), (4, 3), (6, 12), (12, 6)])
def test_hull_agrees_with_a_quadratic_programme(kind: str, n: int, d: int) -> None:
    E, c = problem(7, n, d, kind)
    oracle = minimize(
        lambda w: float(np.sum((c - w @ E) ** 2)),
        np.full(len(E), 1.0 / len(E)),
        jac=lambda w: -2.0 * E @ (c - w @ E),
        bounds=[(0.0, 1.0)] * len(E),
        constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(len(E))}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert solve_hull(E, c).squared_distance == pytest.approx(oracle.fun, abs=1e-7)


@pytest.mark.parametrize("jitter", [1e-4, 1e-6, 1e-7, 1e-8, 1e-9, 1e-12])
def test_near_duplicates_are_certified_and_agree_with_scipy(jitter: float) -> None:
    """Float32 noise on repeated rows: normal equations alone miss their certificate here."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        E = unit(rng.normal(size=(30, 40)) + 0.3)
        E = unit(np.vstack([E, E + jitter * rng.normal(size=E.shape)]))
        c = unit(rng.normal(size=40) + 0.3)
        cone = solve_cone(E, c)
        assert cone.certificate <= CERTIFICATE
        assert cone.squared_distance == pytest.approx(nnls(E.T, c)[1] ** 2, abs=1e-9)
        assert solve_hull(E, c).certificate <= CERTIFICATE


def test_without_a_certificate_there_is_no_number() -> None:
    """Opposite rows but for 1e-8 of noise: weights of 1e7 would be needed."""
    rng = np.random.default_rng(3556)
    E = unit(rng.normal(size=(24, 46)))
    subspace = factor(np.vstack([E, unit(-E + 1e-8 * rng.normal(size=E.shape))]))
    C = unit(rng.normal(size=(20, 46)) + 0.3)
    found = np.array([solve_cone(subspace.rows, c).certificate for c in C])
    values = make_proxy("cone")(C, subspace)
    np.testing.assert_array_equal(np.isnan(values), found > CERTIFICATE)


@pytest.mark.parametrize(("n", "d"), [(5, 384), (80, 384), (200, 64), (600, 32)])
def test_real_sizes_are_certified(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    E, C = unit(rng.normal(size=(n, d)) + 0.5), unit(rng.normal(size=(6, d)) + 0.5)
    for c in C:
        assert solve_cone(E, c).certificate <= CERTIFICATE
        assert solve_hull(E, c).certificate <= CERTIFICATE
        assert solve_cone(E, c).squared_distance == pytest.approx(nnls(E.T, c)[1] ** 2, abs=1e-10)


def test_order_of_the_proxies() -> None:
    """A cone lies in the span and the hull in the affine hull, so fewer combinations leave more outside."""
    rng = np.random.default_rng(3)
    E, C = rng.normal(size=(9, 20)) + 0.5, rng.normal(size=(30, 20)) + 0.5
    subspace = factor(E)
    value = {
        name: make_proxy(name)(C, subspace) for name in ("energy", "cone", "centered_affine", "convex_hull")
    }
    assert (value["cone"] >= value["energy"] - 1e-12).all()
    assert (value["convex_hull"] >= value["centered_affine"] - 1e-12).all()


@pytest.mark.parametrize(("name", "expected"), [("convex_hull", 1.0), ("cone", 1.0)])
def test_claim_opposite_to_its_only_evidence_is_wholly_outside(name: str, expected: float) -> None:
    e = np.array([[0.6, 0.8, 0.0]])
    assert make_proxy(name)(-e, factor(e))[0] == pytest.approx(expected)


def test_claim_that_is_a_mixture_is_inside_the_cone_but_not_the_hull() -> None:
    E = np.eye(3)[:2]
    c = np.array([[1.0, 1.0, 0.0]])
    assert make_proxy("cone")(c, factor(E))[0] == pytest.approx(0.0, abs=1e-12)
    assert make_proxy("convex_hull")(c, factor(E))[0] == pytest.approx((1 - np.sqrt(0.5)) ** 2 / 4)
