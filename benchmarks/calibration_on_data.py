"""Calibrated on one half of the sources, applied to the other, over many random halves.

    python benchmarks/calibration_on_data.py DATA_DIR [-o ROWS.jsonl] [--cache VECTORS.sqlite3] [--splits 400]
    python benchmarks/calibration_on_data.py DATA_DIR --mined MINED.jsonl

The second writes PubMedQA with its mined mismatches as labelled rows for `outspan measure`, and stops.

The budget that was asked for beside the rate that was got, and the coverage of supported claims, on sources
that the calibration did not see.

* pubmedqa     each conclusion as a whole against its own abstract (supported) and against a foreign one
               (unsupported): of the 16 abstracts with the nearest centroid, the one with a sentence most
               similar to the claim. Mined within each half, so that the halves share no source.
* qags_cnndm   summary sentences against their article, labelled by people

Columns. *asked*: α; δ is 0.1 throughout. *given*: share of splits that gave a threshold; the means are over
them. *events*: mean of accepted and of all drawn sources in the calibration half. *got*: mean false
acceptance rate on the test half, a source counting once. *above*: share of splits in which it exceeds α; the
rate of a test half has an error of its own, so this may be larger than δ although the promise is kept.
*broken* is free of it: as many sources are drawn from the whole set with replacement, which makes the whole
set the population, and the rate in the population is known; the share of such calibrations that exceed α.
*coverage*: mean share of supported claims accepted in the test half, with its 5th and 95th percentile over
splits.

*plain quantile* takes the α-quantile of the unsupported calibration values in place of the test.
*no split* is the coverage at the empirical α-quantile of all values, on the same values.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import outspan
from labelled import Array, auc, evidence_of, file_digest, read_rows, say
from outspan.calibration import ErrorBudget, Infeasible, Labelled, Scale, calibrate
from outspan.embedders import VectorCache, embed_checked, load_embedder
from outspan.sensors.energy import EnergySensor

Row: TypeAlias = dict[str, object]

K = 16
DELTA = 0.1
ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2)
SCORES = ("energy", "max_cosine")
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Values of one score for units that are ready to be split."""

    supported: Array
    """(n,) outward values."""
    supported_source: NDArray[np.int64]
    """(n,) index of the source."""
    unsupported: Array
    unsupported_source: NDArray[np.int64]


class PubMed:
    """Conclusions against all abstracts that mining may choose."""

    name = "pubmedqa, hard-mined"

    def __init__(self, path: Path, sensor: EnergySensor, cache: VectorCache) -> None:
        rows = list(read_rows(path))
        self.digest = file_digest(path)
        self._claims = [row["claim"] for row in rows]
        self._evidence = [list(evidence_of(row)) for row in rows]
        self._sensor, self._cache = sensor, cache
        self._nearness, self._similarity = self._neighbours()
        self._measured: dict[tuple[int, int], dict[str, float]] = {}
        self.sources = len(rows)

    def _neighbours(self) -> tuple[Array, Array]:
        """(n, n) cosines of abstract centroids, and of claims with each abstract's most similar sentence."""
        texts = list(dict.fromkeys([*self._claims, *(text for one in self._evidence for text in one)]))
        found = embed_checked(self._sensor.embedder, texts, cache=self._cache)
        vectors = found.vectors.astype(np.float64)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        row = {text: i for i, text in enumerate(texts)}
        blocks = [vectors[[row[text] for text in one]] for one in self._evidence]
        centroids = np.array([block.mean(axis=0) for block in blocks])
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        claims = vectors[[row[text] for text in self._claims]]
        nearest = np.stack([(claims @ block.T).max(axis=1) for block in blocks], axis=1)
        return centroids @ centroids.T, nearest

    def mined(self, pool: NDArray[np.int64]) -> NDArray[np.int64]:
        """The foreign abstract for each claim of the pool, out of the pool."""
        near = self._nearness[np.ix_(pool, pool)].copy()
        np.fill_diagonal(near, -np.inf)
        candidates = np.argsort(-near, axis=1, kind="stable")[:, :K]
        best = np.take_along_axis(self._similarity[np.ix_(pool, pool)], candidates, axis=1).argmax(axis=1)
        return np.asarray(pool[candidates[np.arange(len(pool)), best]])

    def labelled(self) -> Iterator[Row]:
        """Every conclusion with its own and with its mined abstract, as rows of the package's input."""
        everything = np.arange(self.sources)
        for i, j in zip(everything.tolist(), self.mined(everything).tolist(), strict=True):
            for label, abstract in (("supported", i), ("unsupported", j)):
                yield {
                    "id": f"{i}-{label}",
                    "group": f"source {i}",
                    "claim": self._claims[i],
                    "evidence": self._evidence[abstract],
                    "label": label,
                }

    def measure(self, pairs: list[tuple[int, int]]) -> None:
        """Measure claims against abstracts that are not known yet, in one pass."""
        fresh = [pair for pair in dict.fromkeys(pairs) if pair not in self._measured]
        requests = [([self._claims[claim]], self._evidence[abstract]) for claim, abstract in fresh]
        for pair, (one,) in zip(fresh, self._sensor.measure_many(requests), strict=True):
            assert one.energy is not None
            self._measured[pair] = {"energy": one.energy, "max_cosine": -(one.proxies["max_cosine"] or 0.0)}

    def prepare(self, halves: list[NDArray[np.int64]]) -> None:
        """Measure every pair that these halves need."""
        pairs = [(i, i) for i in range(self.sources)]
        for pool in halves:
            pairs += zip(pool.tolist(), self.mined(pool).tolist(), strict=True)
        say(f"{self.name}: {len(set(pairs)):,} pairs of a claim and an abstract")
        self.measure(pairs)

    def table(self, pool: NDArray[np.int64], score: str) -> Table:
        own = np.array([self._measured[i, i][score] for i in pool.tolist()])
        pairs = zip(pool.tolist(), self.mined(pool).tolist(), strict=True)
        foreign = np.array([self._measured[pair][score] for pair in pairs])
        return Table(supported=own, supported_source=pool, unsupported=foreign, unsupported_source=pool)


class Qags:
    """Labelled sentences; nothing has to be mined."""

    name = "qags_cnndm"

    def __init__(self, path: Path, sensor: EnergySensor) -> None:
        rows = list(read_rows(path))
        self.digest = file_digest(path)
        names, self._source = np.unique([row["group"] for row in rows], return_inverse=True)
        self.sources = len(names)
        self._wrong = np.array([row["label"] == "unsupported" for row in rows])
        found = sensor.measure_many([([row["claim"]], list(evidence_of(row))) for row in rows])
        self._values = {
            "energy": np.array([one.energy for (one,) in found], dtype=np.float64),
            "max_cosine": -np.array([one.proxies["max_cosine"] for (one,) in found], dtype=np.float64),
        }
        assert all(np.isfinite(column).all() for column in self._values.values())

    def prepare(self, halves: list[NDArray[np.int64]]) -> None:
        """Everything is measured already."""

    def table(self, pool: NDArray[np.int64], score: str) -> Table:
        inside = np.isin(self._source, pool)
        up, down = inside & self._wrong, inside & ~self._wrong
        values = self._values[score]
        return Table(
            supported=values[down],
            supported_source=self._source[down],
            unsupported=values[up],
            unsupported_source=self._source[up],
        )


def units_of(table: Table) -> list[Labelled]:
    """The units of a table; values are outward already."""
    return [
        Labelled(key=f"{label}{i}", source=str(source), unsupported=label, value=float(value))
        for label, values, sources in (
            (True, table.unsupported, table.unsupported_source),
            (False, table.supported, table.supported_source),
        )
        for i, (value, source) in enumerate(zip(values, sources, strict=True))
    ]


def d_prime(table: Table) -> float:
    """Difference of the means in units of the pooled standard deviation: a measure of separation."""
    spread = np.sqrt((table.supported.var(ddof=1) + table.unsupported.var(ddof=1)) / 2.0)
    return float((table.unsupported.mean() - table.supported.mean()) / spread)


def by_source(hit: NDArray[np.bool_], source: NDArray[np.int64]) -> float:
    """Mean over sources of the share of their units."""
    _, index = np.unique(source, return_inverse=True)
    return float(np.mean(np.bincount(index, weights=hit) / np.bincount(index)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One split: what the calibration half gave, what the test half showed."""

    given: bool
    events: int = 0
    trials: int = 0
    got: float = 0.0
    coverage: float = 0.0


def one_split(calibration: Table, test: Table, alpha: float, method: str) -> Outcome:
    """Calibrate on one half and look at the other."""
    if method == "plain quantile":
        trials = len(np.unique(calibration.unsupported_source))
        cut = float(np.quantile(calibration.unsupported, alpha))
        events = int((calibration.unsupported < cut).sum())
    else:
        scale = Scale(
            score="outward",
            higher_is_outside=True,
            unit="row",
            fingerprint="",
            regime={},
            data_digest="",
        )
        found = calibrate(units_of(calibration), ErrorBudget(alpha=alpha, delta=DELTA), scale)
        if isinstance(found, Infeasible):
            return Outcome(given=False)
        assert found.accept is not None
        assert found.accept_bound is not None
        cut, trials = found.accept - found.tolerance, found.accept_bound.trials
        events = found.accept_bound.events
    return Outcome(
        given=True,
        events=events,
        trials=trials,
        got=by_source(test.unsupported < cut, test.unsupported_source),
        coverage=float((test.supported < cut).mean()),
    )


def resampled(table: Table, sources: int, rng: np.random.Generator) -> Table:
    """That many sources of the table, drawn with replacement; each draw is a source of its own."""
    drawn = rng.choice(np.union1d(table.supported_source, table.unsupported_source), sources)
    order = np.argsort(drawn, kind="stable")
    drawn = drawn[order]

    def taken(values: Array, source: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
        by = np.argsort(source, kind="stable")
        low, high = (np.searchsorted(source[by], drawn, side=side) for side in ("left", "right"))
        copies = np.repeat(np.arange(sources), high - low)
        rows = np.concatenate([by[one:other] for one, other in zip(low, high, strict=True)])
        return values[rows], copies

    supported, supported_source = taken(table.supported, table.supported_source)
    unsupported, unsupported_source = taken(table.unsupported, table.unsupported_source)
    return Table(
        supported=supported,
        supported_source=supported_source,
        unsupported=unsupported,
        unsupported_source=unsupported_source,
    )


def rows_of(data: PubMed | Qags, splits: int) -> Iterator[Row]:
    """The rows of one data set."""
    rng = np.random.default_rng(SEED)
    orders = [rng.permutation(data.sources) for _ in range(splits)]
    everything = np.arange(data.sources)
    halves = [(order[: data.sources // 2], order[data.sources // 2 :]) for order in orders]
    data.prepare([everything, *(half for pair in halves for half in pair)])
    for score in SCORES:
        whole = data.table(everything, score)
        values = np.concatenate([whole.unsupported, whole.supported])
        wrong = np.arange(len(values)) < len(whole.unsupported)
        common: Row = {"data": data.name, "digest": data.digest, "score": score, "splits": splits}
        yield {
            **common,
            "method": "no split",
            "auc": auc(values, wrong),
            "d_prime": d_prime(whole),
            "supported": len(whole.supported),
            "unsupported": len(whole.unsupported),
            "coverage_at": {
                str(alpha): float((whole.supported < np.quantile(whole.unsupported, alpha)).mean())
                for alpha in ALPHAS
            },
        }
        tables = [(data.table(one, score), data.table(other, score)) for one, other in halves]
        redrawn = [resampled(whole, data.sources // 2, rng) for _ in halves]
        for method in ("exact test", "plain quantile"):
            for alpha in ALPHAS:
                outcomes = [one_split(one, other, alpha, method) for one, other in tables]
                drawn = [one_split(one, whole, alpha, method) for one in redrawn]
                broken = sum(one.given and one.got > alpha for one in drawn) / len(drawn)
                asked: Row = {"method": method, "alpha": alpha, "delta": DELTA, "broken": broken}
                yield {**common, **asked, **summary(outcomes, alpha)}


def summary(outcomes: list[Outcome], alpha: float) -> Row:
    """Over the splits that gave a threshold; None where none did."""
    given = [one for one in outcomes if one.given]
    share = len(given) / len(outcomes)
    if not given:
        return {"given": share}
    got = np.array([one.got for one in given])
    coverage = np.array([one.coverage for one in given])
    return {
        "given": share,
        "events": float(np.mean([one.events for one in given])),
        "trials": float(np.mean([one.trials for one in given])),
        "got": float(got.mean()),
        "above": float((got > alpha).mean()),
        "coverage": float(coverage.mean()),
        "coverage_low": float(np.quantile(coverage, 0.05)),
        "coverage_high": float(np.quantile(coverage, 0.95)),
    }


def show(rows: list[Row]) -> None:
    """Markdown tables."""
    for row in (one for one in rows if one["method"] == "no split"):
        at = row["coverage_at"]
        assert isinstance(at, dict)
        listed = ", ".join(f"{value:.3f} at {alpha}" for alpha, value in at.items())
        apart = f"AUC {row['auc']:.3f}, d′ {row['d_prime']:.2f}"
        print(f"{row['data']}, {row['score']}: {apart}; no split, coverage {listed}")
    print("\n| data | score | method | asked | given | events | got | above | broken | coverage |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in (one for one in rows if one["method"] != "no split"):
        cells = [row["data"], row["score"], row["method"], f"{row['alpha']:g}", f"{row['given']:.2f}"]
        if "got" in row:
            cells += [
                f"{row['events']:.1f} of {row['trials']:.0f}",
                f"{row['got']:.4f}",
                f"{row['above']:.2f}",
                f"{row['broken']:.3f}",
                f"{row['coverage']:.3f} [{row['coverage_low']:.3f}, {row['coverage_high']:.3f}]",
            ]
        else:
            cells += ["infeasible", "", "", f"{row['broken']:.3f}", ""]
        print(f"| {' | '.join(map(str, cells))} |")


def write(path: Path, rows: Iterator[Row]) -> None:
    """JSON Lines."""
    path.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--mined", type=Path)
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--rank", default="cap:32")
    parser.add_argument("--select", default="all")
    given = parser.parse_args()
    cache = VectorCache(given.cache)
    sensor = EnergySensor(
        load_embedder(), rank=given.rank, evidence=given.select, proxies=["max_cosine"], cache=cache
    )
    say(f"regime {sensor.fingerprint}, outspan {outspan.__version__}")
    rows: list[Row] = []
    pubmed = PubMed(given.data / "pubmedqa.jsonl", sensor, cache)
    if given.mined is not None:
        write(given.mined, pubmed.labelled())
        return
    for data in (pubmed, Qags(given.data / "qags_cnndm.jsonl", sensor)):
        rows += rows_of(data, given.splits)
    show(rows)
    if given.out is not None:
        command = " ".join(["python", "benchmarks/calibration_on_data.py", *sys.argv[1:]])
        stamp = {"fingerprint": sensor.fingerprint, "version": outspan.__version__, "command": command}
        write(given.out, ({**row, **stamp} for row in rows))


if __name__ == "__main__":
    main()
