"""Streamed and compressed evidence against the same evidence in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.geometry.diagnostics import describe_claims, describe_spectrum, leave_one_out
from outspan.geometry.energy import energies
from outspan.geometry.large import factor_compressed, factor_stream, measured_error
from outspan.geometry.subspace import BLOCK_ROWS, RankPolicy, factor
from test_geometry_core import UNCAPPED, unit

CAP = RankPolicy("cap", 5)


def decaying(n, d, seed=0, fall=3.0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(-fall * np.arange(d) / d)).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(2, 16), st.lists(st.integers(1, 40), max_size=4), st.integers(0, 99))
def test_blocks_of_any_size_give_the_subspace_in_memory(n, d, cuts, seed):
    E = decaying(n, d, seed)
    C = np.random.default_rng(seed + 1).standard_normal((3, d))
    blocks = np.split(E, sorted({min(c, n) for c in cuts}))
    streamed = factor_stream(blocks)
    whole = factor(E)
    for policy in (UNCAPPED, CAP):
        one, other = energies(C, streamed, policy), energies(C, whole, policy)
        np.testing.assert_allclose(one.energy, other.energy, atol=1e-8)
        np.testing.assert_allclose(one.similarities, other.similarities, atol=1e-12)
        a, b = describe_claims(streamed, one), describe_claims(whole, other)
        np.testing.assert_allclose(a.sim_top1, b.sim_top1, atol=1e-12)
        np.testing.assert_array_equal(a.nearest, b.nearest)
        assert (a.sim_top2 is None) == (b.sim_top2 is None)
        if a.sim_top2 is not None:
            np.testing.assert_allclose(a.sim_top2, b.sim_top2, atol=1e-12)
        assert describe_spectrum(streamed, policy).entropy_rank == pytest.approx(
            describe_spectrum(whole, policy).entropy_rank, rel=1e-6
        )
    np.testing.assert_allclose(streamed.singular_values, whole.singular_values, atol=1e-6)
    assert streamed.approximation == "exact"
    assert (streamed.n, streamed.path) == (n, "streamed_covariance")


def test_a_file_is_mapped_and_agrees_with_memory(tmp_path):
    E = decaying(2 * BLOCK_ROWS + 17, 24)
    E[5] = 0.0
    np.save(tmp_path / "rows.npy", E)
    C = np.random.default_rng(1).standard_normal((4, 24))
    for source in (tmp_path / "rows.npy", str(tmp_path / "rows.npy"), np.load(tmp_path / "rows.npy", "r")):
        streamed = factor_stream(source, claims=C)
        got, expected = energies(C, streamed, CAP), energies(C, factor(E), CAP)
        np.testing.assert_allclose(got.energy, expected.energy, atol=1e-10)
        assert got.identity_error.max() < 1e-10
        assert streamed.kept.sum() == len(E) - 1
        np.testing.assert_array_equal(
            describe_claims(streamed, got).nearest, describe_claims(factor(E), expected).nearest
        )


def test_a_generator_is_read_once_with_the_claims_and_refused_a_second_time():
    E, C = decaying(50, 8), np.random.default_rng(1).standard_normal((2, 8))
    streamed = factor_stream((block for block in np.split(E, 5)), claims=C)
    nearest = describe_claims(streamed, energies(C, streamed, CAP)).nearest
    np.testing.assert_array_equal(nearest, (unit(C) @ unit(E).T).argmax(axis=1))
    with pytest.raises(ValueError, match="only once"):
        describe_claims(streamed, energies(-C, streamed, CAP))
    with pytest.raises(ValueError, match="not in memory"):
        _ = streamed.rows
    assert leave_one_out(streamed, energies(C, streamed, CAP), CAP) is None


@pytest.mark.parametrize("build", [factor_stream, lambda s, **k: factor_compressed(s, CAP, **k)])
def test_bad_streams_are_refused(build):
    with pytest.raises(ValueError, match="no block"):
        build(iter([]))
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        build([np.ones((2, 4)), np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"\(4,\)"):
        build([np.ones(4)])
    with pytest.raises(ValueError, match="NaN"):
        build([np.ones((2, 4)), np.full((2, 4), np.nan)])
    with pytest.raises(ValueError, match="claims"):
        build([np.ones((2, 4))], claims=np.ones((1, 3)))


@pytest.mark.parametrize("build", [factor_stream, lambda s: factor_compressed(s, CAP)])
def test_scale_and_zero_rows_in_a_stream(build):
    E = decaying(30, 6).astype(np.float64)
    wild = E.copy()
    wild[::2] *= 1e200
    wild = np.vstack([wild, np.zeros((2, 6)), 1e-200 * np.ones((1, 6))])
    subspace = build([wild[:10], wild[10:]])
    C = np.random.default_rng(2).standard_normal((3, 6))
    np.testing.assert_allclose(
        energies(C, subspace, CAP).energy, energies(C, factor(E), CAP).energy, atol=1e-8
    )
    assert (subspace.n, int((~subspace.kept).sum())) == (30, 3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.integers(5, 30), st.floats(0.5, 12.0))
def test_a_compressed_energy_is_within_its_stated_error(seed, k, fall):
    E = decaying(400, 32, seed, fall)
    exact = factor(E)
    compressed = factor_compressed(np.split(E, 8), CAP, directions=k)
    assert compressed.path == "compressed"
    assert measured_error(compressed, exact, CAP) <= compressed.approximation_error + 1e-8
    assert compressed.directions.shape[1] <= k


def test_compression_that_drops_nothing_says_exact():
    E = decaying(300, 16)
    compressed = factor_compressed(np.split(E, 3), CAP, directions=16)
    assert (compressed.approximation, compressed.approximation_error) == ("exact", 0.0)
    assert measured_error(compressed, factor(E), CAP) < 1e-9
    assert factor_compressed(np.split(E, 3), CAP, directions=8).approximation == "compressed"
    with pytest.raises(ValueError, match="at least 1"):
        factor_compressed([E], CAP, directions=0)


def test_an_uncapped_energy_of_compressed_evidence_is_not_vouched_for():
    compressed = factor_compressed(np.split(decaying(300, 16), 3), UNCAPPED, directions=8)
    assert compressed.approximation_error == 1.0
