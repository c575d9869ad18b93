"""The facts that the design states about the energy, as properties, against an independent SVD and lstsq."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.geometry.energy import energies, hallucination_energy
from outspan.geometry.subspace import BLOCK_ROWS, RANK_TOLERANCE, RankPolicy, as_record, factor

UNCAPPED = RankPolicy("cap", 10**6)
KINDS = ("random", "deficient", "duplicated", "near_duplicate", "ill_conditioned", "cone", "orthonormal")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def make_evidence(kind, n, d, seed):
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n, d))
    if kind == "deficient":
        E = E @ np.linalg.qr(rng.standard_normal((d, d)))[0][:, : max(1, d // 3)] @ np.eye(max(1, d // 3), d)
    if kind == "duplicated":
        E = E[rng.integers(0, max(1, n // 2), n)]
    if kind == "near_duplicate":
        E = E[rng.integers(0, max(1, n // 3), n)] + 1e-7 * rng.standard_normal((n, d))
    if kind == "ill_conditioned":
        E = E * np.logspace(0, -3.5, d)
    if kind == "cone":
        E = E + 8.0 * rng.standard_normal(d)
    if kind == "orthonormal":
        E = np.linalg.qr(rng.standard_normal((max(n, d), max(n, d))))[0][:n, :d] + 1e-300
    return E * rng.uniform(0.01, 100.0, (n, 1))


@st.composite
def problems(draw, kinds=KINDS, max_n=20, max_d=24):
    n, d = draw(st.integers(1, max_n)), draw(st.integers(2, max_d))
    seed = draw(st.integers(0, 2**32 - 1))
    E = make_evidence(draw(st.sampled_from(kinds)), n, d, seed)
    C = np.random.default_rng(seed + 1).standard_normal((3, d))
    return E, C


def oracle(C, E, cap):
    """Energies by the definition, the numeric rank, and the relative distances of σ from both cutoffs."""
    _, sigma, Vt = np.linalg.svd(unit(E), full_matrices=False)
    rho = int((sigma > RANK_TOLERANCE * sigma[0]).sum())
    r = min(cap, rho)
    gap = 1.0 if r >= rho else (sigma[r - 1] - sigma[r]) / sigma[0]
    clear = np.abs(sigma / sigma[0] / RANK_TOLERANCE - 1.0).min() > 1e-6
    residual = unit(C) - unit(C) @ Vt[:r].T @ Vt[:r]
    return np.vecdot(residual, residual), rho, gap if clear else 0.0


def measure(C, E, policy=UNCAPPED):
    return energies(C, factor(E), policy)


@settings(deadline=None)
@given(problems(), st.integers(1, 24))
def test_energy_is_that_of_a_full_svd(problem, cap):
    E, C = problem
    expected, rho, gap = oracle(C, E, cap)
    got = measure(C, E, RankPolicy("cap", cap))
    if gap > 1e-6:  # at a tie the retained subspace is arbitrary, in the SVD as well
        assert got.subspace.numeric_rank == rho
        np.testing.assert_allclose(got.energy, expected, atol=1e-8)


@settings(deadline=None)
@given(problems(kinds=("random", "deficient", "duplicated", "cone", "ill_conditioned")))
def test_uncapped_energy_is_the_least_squares_residual(problem):
    E, C = problem
    _, _, clear = oracle(C, E, 10**6)
    X = np.linalg.lstsq(unit(E).T, unit(C).T, rcond=RANK_TOLERANCE)[0]
    residual = unit(C) - X.T @ unit(E)
    if clear:
        np.testing.assert_allclose(measure(C, E).energy, np.vecdot(residual, residual), atol=1e-8)


@settings(deadline=None)
@given(problems(), st.integers(1, 24))
def test_identity_from_the_explicit_residual(problem, cap):
    E, C = problem
    got = measure(C, E, RankPolicy("cap", cap))
    B = got.subspace.basis[:, : got.rank]
    residual = unit(C) - (unit(C) @ B) @ B.T
    error = np.abs(np.vecdot(residual, residual) + got.explained - 1.0)
    assert error.max() < 1e-10
    assert got.identity_error.max() < 1e-10
    np.testing.assert_allclose(B.T @ B, np.eye(got.rank), atol=1e-10)


@settings(deadline=None)
@given(st.floats(0.0, np.pi), st.integers(2, 50), st.integers(0, 1000))
def test_one_vector_gives_the_squared_sine(theta, d, seed):
    frame = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, 2)))[0]
    claim = frame @ [np.cos(theta), np.sin(theta)]
    assert measure(claim[None], 3.0 * frame[:, :1].T).energy[0] == pytest.approx(
        np.sin(theta) ** 2, abs=1e-12
    )


def test_horizontal_axis():
    assert measure([[0.8, 0.6]], [[1.0, 0.0]]).energy[0] == pytest.approx(0.36, abs=1e-15)
    assert hallucination_energy([0.8, 0.6], [1.0, 0.0])["energy"] == 0.36


@settings(deadline=None)
@given(problems())
def test_energy_never_rises_with_the_rank(problem):
    E, C = problem
    subspace = factor(E)
    by_rank = [
        energies(C, subspace, RankPolicy("cap", r)).energy for r in range(1, subspace.numeric_rank + 3)
    ]
    assert (np.diff(by_rank, axis=0) <= 1e-14).all()


@settings(deadline=None)
@given(
    problems(kinds=("random", "cone", "ill_conditioned", "deficient")), st.integers(1, 8), st.integers(0, 99)
)
def test_invariances(problem, cap, seed):
    E, C = problem
    _, _, gap = oracle(C, E, cap)
    policy = RankPolicy("cap", cap)
    rng = np.random.default_rng(seed)
    before = measure(C, E, policy).energy
    Q = np.linalg.qr(rng.standard_normal((E.shape[1],) * 2))[0]
    signs = rng.choice([-1.0, 1.0], (len(E), 1))
    scale = rng.uniform(0.1, 10.0, (len(E), 1))
    for other_c, other_e in (
        (C, rng.permutation(E)),
        (-C, E * signs),
        (7.0 * C, E * scale),
        (C @ Q, E @ Q),
    ):
        if gap > 1e-5:
            np.testing.assert_allclose(measure(other_c, other_e, policy).energy, before, atol=1e-8)


@settings(deadline=None)
@given(problems(kinds=("random", "cone")), st.integers(0, 99))
def test_a_duplicated_row_changes_nothing_without_cap(problem, seed):
    E, C = problem
    picked = np.random.default_rng(seed).integers(0, len(E), 3)
    _, _, clear = oracle(C, E, 10**6)
    if clear and factor(E).singular_values[-1] > 1e-2:
        np.testing.assert_allclose(
            measure(C, np.vstack([E, E[picked]])).energy, measure(C, E).energy, atol=1e-8
        )


@settings(deadline=None)
@given(problems(kinds=("random", "cone", "duplicated")), st.integers(0, 99))
def test_a_combination_of_rows_is_contained(problem, seed):
    E, _ = problem
    w = np.random.default_rng(seed).uniform(0.5, 1.0, (2, len(E)))
    if factor(E).singular_values[0] > 0:
        claims = w @ unit(E)
        assert measure(claims, E).energy.max() < 1e-8


@pytest.mark.parametrize("d", [3, 384])
def test_fifty_jittered_copies_have_rank_one(d):
    rng = np.random.default_rng(0)
    E = unit(rng.standard_normal(d)) + 1e-7 * rng.standard_normal((50, d))
    assert factor(E).numeric_rank == 1


def test_eight_copies_explain_no_more_than_one():
    rng = np.random.default_rng(0)
    row, claim = unit(rng.standard_normal(384)), unit(rng.standard_normal(384))
    got = measure(claim[None], np.tile(row, (8, 1)), RankPolicy("cap", 8))
    assert got.rank == 1
    assert got.explained[0] == pytest.approx((row @ claim) ** 2, abs=1e-12)


def test_a_random_claim_is_outside_by_one_minus_r_over_d():
    rng = np.random.default_rng(7)
    d, m = 96, 4000
    for n in (1, 24, 96):
        mean = measure(rng.standard_normal((m, d)), rng.standard_normal((n, d))).energy.mean()
        # The energy is Beta((d−r)/2, r/2): its deviation is at most 0.072 here, over √4000.
        assert mean == pytest.approx(1.0 - n / d, abs=5 * 0.072 / np.sqrt(m))


def test_float32_is_widened_before_it_is_multiplied():
    rng = np.random.default_rng(3)
    E = (rng.standard_normal((32, 4)) @ rng.standard_normal((4, 64))).astype(np.float32)
    C = rng.standard_normal((2, 64)).astype(np.float32)
    assert factor(E).numeric_rank == 4
    np.testing.assert_array_equal(measure(C, E).energy, measure(C.astype(float), E.astype(float)).energy)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("scale", [1e200, 1e150, 1e-9, 1.7e308 / 10])
def test_scale_does_not_matter(n, scale):
    rng = np.random.default_rng(5)
    E, C = rng.uniform(-1, 1, (n, 8)), rng.uniform(-1, 1, (2, 8))
    np.testing.assert_allclose(measure(C * scale, E * scale).energy, measure(C, E).energy, atol=1e-12)


@pytest.mark.parametrize("n", [5, 50])
def test_rows_without_direction_are_dropped_and_counted(n):
    E = np.random.default_rng(2).standard_normal((n, 6))
    E[1] = 0.0
    E[3] *= 1e-200
    subspace = factor(E)
    assert subspace.n == n - 2
    assert subspace.kept.sum() == n - 2
    assert not subspace.kept[[1, 3]].any()
    np.testing.assert_allclose(energies(E[:1], subspace, UNCAPPED).energy, 0.0, atol=1e-12)
    assert factor(np.zeros((n, 6))).numeric_rank == 0


@pytest.mark.parametrize("n", [3, 30, 3 * BLOCK_ROWS])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_row(n, bad):
    E = np.ones((n, 4))
    E[2, 1] = bad
    with pytest.raises(ValueError, match="row 2 holds NaN or infinity"):
        factor(E)
    with pytest.raises(ValueError, match="claims: row 0"):
        energies(np.full((1, 4), bad), factor(np.ones((2, 4))), UNCAPPED)


def test_wrong_shapes_are_named():
    subspace = factor(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        factor(np.ones(4))
    with pytest.raises(ValueError, match=r"\(2, 2, 2\)"):
        factor(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="complex"):
        factor(np.ones((2, 2)) * 1j)
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(2, 4\)"):
        energies(np.ones((1, 3)), subspace, UNCAPPED)
    with pytest.raises(ValueError, match=r"\(0,\)"):
        hallucination_energy([], [[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"\(1, 2\)"):
        hallucination_energy([[1.0, 0.0]], [[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"\(3,\).*\(1, 2\)"):
        hallucination_energy([1.0, 0.0, 0.0], [[1.0, 0.0]])


def test_a_claim_without_direction_is_marked():
    got = measure([[0.0, 0.0], [1e-13, 0.0], [0.0, 2.0]], [[1.0, 0.0]])
    assert got.degenerate.tolist() == [True, True, False]
    assert np.isfinite(got.energy).all()
    assert hallucination_energy([0.0, 0.0], [[1.0, 0.0]])["state"] == "DEGENERATE"


def test_without_evidence_nothing_is_measured():
    for nothing in ([], [[]], [[0.0, 0.0]]):
        got = hallucination_energy([1.0, 0.0], nothing)
        assert got["state"] == "NO_EVIDENCE"
        assert got["energy"] is None
        assert got["operational_energy"] == 1.0
        assert got["effective_rank"] == 0


@pytest.mark.parametrize("n", [3, 40])
def test_the_given_arrays_are_left_as_they_were(n):
    rng = np.random.default_rng(0)
    E, C = 1e150 * rng.standard_normal((n, 8)), rng.standard_normal((2, 8))
    before = E.copy(), C.copy()
    E.flags.writeable = C.flags.writeable = False
    measure(C, E, RankPolicy("cap", 2))
    np.testing.assert_array_equal(E, before[0])
    np.testing.assert_array_equal(C, before[1])


@settings(deadline=None)
@given(
    st.one_of(
        st.integers(1, 10**6).map(lambda r: RankPolicy("cap", r)),
        st.floats(0, 1, exclude_min=True).map(lambda q: RankPolicy("variance", q)),
    )
)
def test_a_rank_policy_parses_back(policy):
    assert RankPolicy.parse(str(policy)) == policy


@pytest.mark.parametrize(
    "text",
    ["cap", "cap:", "cap:0", "cap:1.5", "cap:nan", "variance:0", "variance:1.1", "variance:nan", "top:3", ""],
)
def test_a_bad_rank_policy_is_refused(text):
    with pytest.raises(ValueError, match="cap|variance"):
        RankPolicy.parse(text)


@settings(deadline=None)
@given(problems(), st.floats(0.05, 1.0))
def test_variance_keeps_the_fewest_directions_that_reach_the_share(problem, q):
    E, C = problem
    got = measure(C, E, RankPolicy("variance", q))
    power = got.subspace.singular_values**2
    share = np.cumsum(power) / power.sum()
    assert got.rank == got.subspace.numeric_rank or share[got.rank - 1] >= q * (1 - 1e-9)
    assert got.rank <= 1 or share[got.rank - 2] < q


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1, 2, 100]), st.sampled_from([4, 40]), st.integers(0, 99))
def test_claims_are_measured_alike_alone_and_together(m, n, seed):
    rng = np.random.default_rng(seed)
    subspace, C = factor(rng.standard_normal((n, 12))), rng.standard_normal((m, 12))
    together = energies(C, subspace, RankPolicy("cap", 3))
    alone = [energies(c[None], subspace, RankPolicy("cap", 3)).energy[0] for c in C]
    np.testing.assert_allclose(together.energy, alone, atol=1e-13)
    assert together.identity_error.max() < 1e-12


def test_records_hold_plain_numbers():
    assert as_record(np.float64(0.5)) == 0.5
    assert as_record(np.arange(2)) == [0, 1]
    with pytest.raises(ValueError, match="NaN"):
        as_record(float("nan"))
