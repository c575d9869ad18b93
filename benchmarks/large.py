"""Evidence of many rows: streamed exactly, compressed, and by randomized SVD, with time, memory and error.

    python benchmarks/large.py                      # 100,000 rows of 384 numbers
    python benchmarks/large.py --rows 1000000       # writes 1.5 GB into the temporary folder, and removes it

Rows are random with a spectrum that decays, on disk as float32. The error is the largest difference of an
energy from the exact one over 200 random claims and over 128 claims inside the evidence's span. Randomized
SVD is scikit-learn's; where that is not installed its rows say so. Anonymous memory is what the process has
grown by afterwards, without the pages of the mapped file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from outspan.geometry.diagnostics import describe_claims, describe_spectrum
from outspan.geometry.energy import energies
from outspan.geometry.large import factor_compressed, factor_stream
from outspan.geometry.subspace import RankPolicy, Subspace

POLICY = RankPolicy("cap", 32)
BLOCK = 8192


def write_rows(path: Path, n: int, d: int) -> None:
    """(n, d) float32 rows with decaying variance, block by block."""
    scale = (1.0 + np.arange(d)) ** -0.4
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    rng = np.random.default_rng(0)
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        rows[start : start + count] = rng.standard_normal((count, d)) * scale
    rows.flush()


def anonymous_mb() -> float:
    """Resident memory that is not a mapped file, in MB (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return float("nan")


def randomized(path: Path, iterations: int | str) -> NDArray[np.float64] | None:
    """(32, d) directions by randomized SVD, or None without scikit-learn."""
    try:
        from sklearn.utils.extmath import randomized_svd
    except ImportError:
        return None
    rows = np.load(path).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(randomized_svd(rows, 32, n_iter=iterations, random_state=0)[2])


def runs(path: Path) -> Iterator[tuple[str, Callable[[], Subspace | NDArray[np.float64] | None]]]:
    yield "streamed, exact", lambda: factor_stream(path)
    yield "compressed, k = 128", lambda: factor_compressed(path, POLICY, directions=128)
    for iterations in ("auto", 4, 20):
        yield f"randomized, {iterations} iterations", lambda k=iterations: randomized(path, k)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    threadpool_limits(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, options.rows, options.dimension)
        for row in measure(path, options.dimension):
            print(json.dumps(row) if options.json else "  ".join(f"{k} {v}" for k, v in row.items()))


def measure(path: Path, d: int) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(1)
    sample = np.load(path, mmap_mode="r")[:512].astype(np.float64)
    claims = np.vstack([rng.standard_normal((200, d)), rng.standard_normal((128, 512)) @ sample])
    claims /= np.linalg.norm(claims, axis=1, keepdims=True)
    exact: NDArray[np.float64] | None = None
    for name, factored in runs(path):
        before, begin = anonymous_mb(), time.perf_counter()
        result = factored()
        if result is None:
            yield {"path": name, "not_run": "scikit-learn is not installed"}
            continue
        if isinstance(result, Subspace):
            found = energies(claims, result, POLICY)
            describe_spectrum(result, POLICY)
            describe_claims(result, energies(claims[:1], result, POLICY))
            energy = found.energy
        else:
            energy = 1.0 - np.sum((claims @ result.T) ** 2, axis=1)
        seconds = time.perf_counter() - begin
        exact = energy if exact is None else exact
        yield {
            "path": name,
            "seconds": round(seconds, 2),
            "anonymous_mb": round(anonymous_mb() - before, 1),
            "largest_error_random": float(f"{np.abs(energy - exact)[:200].max():.2g}"),
            "largest_error_inside": float(f"{np.abs(energy - exact)[200:].max():.2g}"),
        }


if __name__ == "__main__":
    main()
