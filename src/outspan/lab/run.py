"""The programme: every control on every set, each number a row.

Nothing is tuned. Models are logistic regressions with default strength on source-grouped folds unless a row
says otherwise; their intervals resample sources and do not fit again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outspan.embedders import Embedder, VectorCache
from outspan.errors import NotInstalled
from outspan.lab import findings as store
from outspan.lab import metrics
from outspan.lab.datasets import Dataset, Record
from outspan.lab.features import (
    COSINE,
    ENERGY,
    ENTAILMENT,
    LENGTH,
    PROXIES,
    RANKS,
    SEGMENTATIONS,
    STRUCTURE,
    Measurer,
    Table,
    Vectors,
    at_rank,
    ready_proxies,
    tabulate,
)
from outspan.lab.findings import Context, Finding, from_estimate
from outspan.lab.metrics import Array, Flags
from outspan.lab.models import LOGISTIC, TREES, XGBOOST, held_out, permutation_drops
from outspan.lab.overlap import OVERLAP
from outspan.lab.probe import WARN, length_matched, probe
from outspan.lab.splits import Split, grouped_folds, leave_one_out, row_folds, row_holdout
from outspan.sensors.energy import EnergySensor

GEOMETRY = (*COSINE, *ENERGY)
PLAIN = (*GEOMETRY, *OVERLAP, *LENGTH, *STRUCTURE)
BUNDLES: dict[str, tuple[str, ...]] = {
    "length only": LENGTH,
    "overlap only": OVERLAP,
    "cosine features": COSINE,
    "energy features": ENERGY,
    "geometry bundle (13)": GEOMETRY,
    "overlap and length": (*OVERLAP, *LENGTH),
    "overlap, length and energy features": (*OVERLAP, *LENGTH, *ENERGY),
    "all plain features": PLAIN,
    "all without energy features": tuple(n for n in PLAIN if n not in ENERGY),
    "all without cosine features": tuple(n for n in PLAIN if n not in COSINE),
    "all without overlap": tuple(n for n in PLAIN if n not in OVERLAP),
    "all without energy_gap": tuple(n for n in PLAIN if n != "energy_gap"),
    "all without high_energy_count": tuple(n for n in PLAIN if n != "high_energy_count"),
    "all without both": tuple(n for n in PLAIN if n not in ("energy_gap", "high_energy_count")),
}
BUDGETS = (0.05, 0.1, 0.2)
SUMMARIES: dict[str, Callable[[Array], float]] = {
    "max": lambda e: float(e.max()),
    "mean": lambda e: float(e.mean()),
    "p90": lambda e: float(np.percentile(e, 90)),
    "median": lambda e: float(np.median(e)),
    "min": lambda e: float(e.min()),
    "second largest": lambda e: float(np.sort(e)[-min(2, len(e))]),
    "share above 0.5": lambda e: float((e > 0.5).mean()),
}
SEED = 42
MOST_LONG = 4000
"""Texts above which evidence by longer units is not tried: each costs ten times a sentence."""
SELECTED = "these rows were chosen because these detectors disagreed on them, which understates the detectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One set with labels, ready to be scored."""

    dataset: Dataset
    records: tuple[Record, ...]
    positive: Flags
    weights: Array
    table: Table
    split: Split

    @property
    def groups(self) -> list[str]:
        """Source of each record."""
        return [record.group for record in self.records]

    def score(self, name: str, values: Array, table: str, **about: object) -> Finding:
        """AUC of a score where it is there."""
        there = np.isfinite(values)
        one = metrics.estimate_auc(values[there], self.positive[there], self.weights[:, there])
        return self._found(one, there, table=table, name=name, metric="auc", **about)

    def difference(self, name: str, one: Array, other: Array, table: str, **about: object) -> Finding:
        """AUC of one minus that of another where both are there, paired."""
        there = np.isfinite(one) & np.isfinite(other)
        found = metrics.estimate_difference(
            one[there], other[there], self.positive[there], self.weights[:, there]
        )
        return self._found(found, there, table=table, name=name, metric="auc difference", **about)

    def other(
        self, name: str, measure: Callable[[Array, Flags], float], values: Array, **about: object
    ) -> Finding:
        """Any other measure, with an interval."""
        there = np.isfinite(values)
        one = metrics.estimate(measure, values[there], self.positive[there], self.weights[:, there])
        return self._found(one, there, name=name, **about)

    def _found(self, one: metrics.Estimate, there: Flags, **about: object) -> Finding:
        sources = len({g for g, here in zip(self.groups, there, strict=True) if here})
        return from_estimate(one, n=int(there.sum()), of=len(there), sources=sources, **about)


def summarise(trial: Trial, pick: Callable[[int], Array], how: Callable[[Array], float]) -> Array:
    """(n,) one number a record from its sentences' numbers; NaN where none was measured."""
    found = (pick(i) for i in range(len(trial.records)))
    return np.array([how(values) if len(values) else np.nan for values in found])


def evaluate(
    datasets: Sequence[Dataset],
    folder: Path,
    embedder: Embedder,
    *,
    cache: VectorCache | None = None,
    draws: int = metrics.DRAWS,
    command: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the programme on the sets and append its rows to ``folder/findings.jsonl``.

    A set that was finished before, from the same bytes and by the same code, is not measured again.
    """
    vectors = Vectors(embedder, cache)
    regime = EnergySensor(embedder, cache=cache).fingerprint
    done = _finished(folder)
    trials: list[Trial] = []
    about = {"regime": regime, "seed": SEED, "draws": draws, "code": store.code_version(), "command": command}
    for dataset in datasets:
        context = _context(dataset, about)
        if context.run in done:
            say(f"{dataset.name}: finished before, by this code on these bytes")
        reason = _unusable(dataset)
        if reason:
            found = [Finding(table="not_run", name="every measurement", metric="", value=None, note=reason)]
        else:
            trial = _prepare(dataset, vectors, draws, say)
            trials.append(trial)
            found = [] if context.run in done else list(_programme(trial, vectors, say))
        if context.run not in done:
            found.append(Finding(table="done", name=dataset.name, metric="", value=None))
            store.append(folder, [store.row_of(one, context) for one in (*_about(dataset), *found)])
    if len(trials) > 1:
        context = _across(trials, about)
        if context.run not in done:
            say("train on one set, test on another")
            end = Finding(table="done", name=context.set, metric="", value=None)
            store.append(folder, [store.row_of(one, context) for one in (*_transfer(trials), end)])


def _finished(folder: Path) -> set[str]:
    if not (folder / store.FILE).exists():
        return set()
    return {row["run"] for row in store.read(folder) if row["table"] == "done"}


def _context(dataset: Dataset, about: dict[str, object]) -> Context:
    return Context(
        set=dataset.name,
        dataset_digest=dataset.digest,
        format=dataset.format,
        licence=dataset.licence,
        **about,  # type: ignore[arg-type]  # the five fields that every set shares
    )


def _across(trials: Sequence[Trial], about: dict[str, object]) -> Context:
    digests = " ".join(trial.dataset.digest for trial in trials)
    return Context(set="across sets", dataset_digest=digests, format="", licence="", **about)  # type: ignore[arg-type]


def _unusable(dataset: Dataset) -> str:
    """Why nothing can be ranked on a set; empty where something can."""
    counts = dataset.counts()
    if not counts["supported"] or not counts["unsupported"]:
        have = "unsupported" if counts["unsupported"] else "supported"
        return f"every labelled row is {have}: there is no AUC with one class"
    if not any(record.evidence for record in dataset.decided):
        return "no row has evidence: containment is not defined"
    if len({record.group for record in dataset.decided}) < 4:
        return "fewer than 4 sources: nothing can be split or resampled"
    return ""


def _about(dataset: Dataset) -> Iterator[Finding]:
    for name, count in dataset.counts().items():
        yield Finding(table="counts", name=name, metric="count", value=float(count), note=dataset.caveat)


def _prepare(dataset: Dataset, vectors: Vectors, draws: int, say: Callable[[str], None]) -> Trial:
    records = dataset.decided
    positive = np.array([record.label == "unsupported" for record in records])
    measure = Measurer(vectors, ready_proxies(vectors))
    say(f"{dataset.name}: {len(records)} labelled rows; vectors")
    vectors.learn(measure.texts(records), say)
    say(f"{dataset.name}: measuring")
    groups = [record.group for record in records]
    return Trial(
        dataset=dataset,
        records=records,
        positive=positive,
        weights=metrics.source_weights(groups, draws, seed=0),
        table=tabulate(records, measure),
        split=grouped_folds(groups, positive, seed=SEED),
    )


def _programme(trial: Trial, vectors: Vectors, say: Callable[[str], None]) -> Iterator[Finding]:
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("probe", lambda: _probe(trial)),
        ("single scalars", lambda: _singles(trial)),
        ("bundles", lambda: _bundles(trial)),
        ("splits", lambda: _splits(trial)),
        ("importance", lambda: _importance(trial)),
        ("ranks", lambda: _ranks(trial)),
        ("summaries", lambda: _summaries(trial)),
        ("segmentation", lambda: _segmentation(trial, vectors, say)),
        ("recorded detectors", lambda: _detectors(trial)),
        ("not run", _not_run),
    )
    for name, part in parts:
        say(f"{trial.dataset.name}: {name}")
        yield from part()


def _probe(trial: Trial) -> Iterator[Finding]:
    shortcuts = probe(trial.records, trial.positive, trial.weights)
    for shortcut in shortcuts:
        note = "smaller is unsupported" if shortcut.turned else "larger is unsupported"
        yield from_estimate(
            shortcut.auc, table="probe", name=shortcut.name, metric="auc", form="text", note=note,
            n=len(trial.records), of=len(trial.records), sources=len(set(trial.groups)),
        )  # fmt: skip
    kept = length_matched(trial.records, trial.positive)
    for subset, rows, why in (
        ("length-matched", kept, "equal counts of both classes in every decile of length"),
        ("undisputed labels", np.flatnonzero([not r.flagged for r in trial.records]), "annotators agreed"),
    ):
        if len(rows) == len(trial.records) or not 0 < trial.positive[rows].sum() < len(rows):
            continue
        for name, values in _scalars(trial).items():
            one = metrics.estimate_auc(values[rows], trial.positive[rows], trial.weights[:, rows])
            yield from_estimate(
                one, table=f"subset: {subset}", name=name, metric="auc", note=why, n=len(rows),
                of=len(trial.records), sources=len({trial.records[i].group for i in rows}),
            )  # fmt: skip
    flagged = [record.id for record in trial.records if record.flagged]
    if flagged:
        shown = ", ".join(flagged[:20])
        yield Finding(
            table="disagreement", name="rows on which annotators disagreed", metric="count",
            value=float(len(flagged)), n=len(flagged), of=len(trial.records), note=f"first by id: {shown}",
        )  # fmt: skip


def _scalars(trial: Trial) -> dict[str, Array]:
    """One number a record, no training: by the largest of its sentences, the name says where not."""
    column = trial.table.columns
    found = {
        "energy (default regime, max)": column["max_energy"],
        "energy (default regime, mean)": column["mean_energy"],
    }
    for name in PROXIES:
        found[name] = _largest(trial, [one.proxies[name] for one in trial.table.sentences])
    found["1 − ROUGE-1 precision"] = 1 - column["rouge1"]
    found["1 − ROUGE-2 precision"] = 1 - column["rouge2"]
    found["1 − ROUGE-L precision"] = 1 - column["rougeL"]
    found["claim length"] = column["claim_words"]
    return found


def _largest(trial: Trial, values: Sequence[Array]) -> Array:
    return summarise(trial, lambda i: values[i], SUMMARIES["max"])


def _singles(trial: Trial) -> Iterator[Finding]:
    scalars = _scalars(trial)
    base = scalars["max_cosine"]
    for name, values in scalars.items():
        form = "text" if name.startswith(("1 − ROUGE", "claim length")) else "single"
        yield trial.score(name, values, "singles", form=form)
        if name != "max_cosine":
            yield trial.difference(name, values, base, "singles minus max_cosine", form=form)
        yield trial.other(
            name, metrics.average_precision, values, table="singles", metric="average precision", form=form
        )
        yield from _operating(trial, name, values, form, "none")
    for name in ("energy (default regime, max)", "max_cosine", "1 − ROUGE-L precision"):
        yield _curve(trial, "roc", name, metrics.roc_points, scalars[name])


def _operating(trial: Trial, name: str, values: Array, form: str, split: str) -> Iterator[Finding]:
    for budget in BUDGETS:
        yield trial.other(
            name, lambda s, y, budget=budget: metrics.acceptance_at(s, y, budget)[0], values,  # type: ignore[misc]
            table="operating", metric=f"supported accepted at false acceptance ≤ {budget:g}",
            form=form, split=split,
            note="cut chosen on these rows: an upper limit, no promise",
        )  # fmt: skip


def _curve(trial: Trial, kind: str, name: str, points: Callable[..., object], values: Array) -> Finding:
    there = np.isfinite(values)
    found = points(values[there], trial.positive[there])
    return Finding(
        table="curves", name=name, metric=kind, value=None, n=int(there.sum()), of=len(there),
        points=found,  # type: ignore[arg-type]
    )  # fmt: skip


def _bundles(trial: Trial) -> Iterator[Finding]:
    note, split = trial.split.note, trial.split.name
    held = {}
    for name, columns in BUNDLES.items():
        held[name] = held_out(trial.table.matrix(columns), trial.positive, trial.split)
        yield trial.score(name, held[name], "bundles", form="bundle", split=split, note=note)
        yield trial.other(
            name, metrics.brier, held[name], table="bundles", metric="brier", form="bundle", split=split
        )
    full = held["all plain features"]
    for name, values in held.items():
        if name.startswith("all without"):
            yield trial.difference(f"{name} minus all", values, full, "ablations", form="bundle", split=split)
    for one, other in (
        ("overlap, length and energy features", "overlap and length"),
        ("geometry bundle (13)", "cosine features"),
        ("all plain features", "overlap only"),
        ("energy features", "cosine features"),
    ):
        yield trial.difference(
            f"{one} minus {other}", held[one], held[other], "ablations", form="bundle", split=split
        )
    for name in ("overlap only", "geometry bundle (13)", "all plain features"):
        yield from _operating(trial, name, held[name], "bundle", split)
    yield _curve(trial, "roc", "all plain features", metrics.roc_points, full)
    yield _curve(trial, "precision and recall", "all plain features", metrics.pr_points, full)
    yield _curve(trial, "calibration", "all plain features", metrics.calibration_points, full)
    yield from _trees(trial)


def _trees(trial: Trial) -> Iterator[Finding]:
    for model in (TREES, XGBOOST):
        for name in ("geometry bundle (13)", "all plain features"):
            try:
                values = held_out(trial.table.matrix(BUNDLES[name]), trial.positive, trial.split, model)
            except NotInstalled as error:
                yield Finding(table="not_run", name=model, metric="", value=None, note=str(error))
                break
            yield trial.score(f"{name}, {model}", values, "bundles", form="bundle", split=trial.split.name)


def _splits(trial: Trial) -> Iterator[Finding]:
    y, groups = trial.positive, trial.groups
    for split in (row_folds(y, seed=SEED), row_holdout(y, seed=SEED)):
        for name in ("overlap only", "geometry bundle (13)", "all plain features"):
            values = held_out(trial.table.matrix(BUNDLES[name]), y, split)
            yield trial.score(
                name, values, "other splits", form="bundle", split=split.name,
                note="rows of one source may be on both sides",
            )  # fmt: skip
    for kind, given in (
        ("leave-one-domain-out", [record.domain for record in trial.records]),
        ("leave-one-generator-out", [record.generator for record in trial.records]),
    ):
        if len(set(given)) < 2:
            why = "the set has one value only, or names none"
            yield Finding(table="not_run", name=kind, metric="", value=None, note=why)
            continue
        for value, made, why in leave_one_out(given, y, groups, kind):
            if made is None:
                yield Finding(table="not_run", name=f"{kind}: {value}", metric="", value=None, note=why)
                continue
            for name in ("overlap only", "geometry bundle (13)"):
                found = held_out(trial.table.matrix(BUNDLES[name]), y, made)
                yield trial.score(
                    f"{name}, held out: {value}", found, "other splits", form="bundle", split=kind
                )


def _importance(trial: Trial) -> Iterator[Finding]:
    names = [n for n in PLAIN if np.isfinite(trial.table.columns[n]).any()]
    groups = {"energy features": ENERGY, "cosine features": COSINE, "overlap": OVERLAP, "length": LENGTH}
    wanted = {name: [names.index(n) for n in group if n in names] for name, group in groups.items()}
    wanted |= {name: [i] for i, name in enumerate(names)}
    X = trial.table.matrix(names)
    for name, drops in permutation_drops(wanted, X, trial.positive, trial.split, metrics.auc).items():
        low, high = metrics.interval(np.array(drops))
        yield Finding(
            table="importance", name=name, metric="auc lost when shuffled", value=float(np.mean(drops)),
            low=low, high=high, n=len(X), of=len(X), sources=len(set(trial.groups)), split=trial.split.name,
            form="bundle",
            note="interval over shuffles, not over sources",
        )  # fmt: skip


def _ranks(trial: Trial) -> Iterator[Finding]:
    rank_of = np.array([one.numeric_rank for one in trial.table.sentences])
    for place, rank in enumerate(RANKS):
        bound = float((rank_of > rank).mean())
        note = f"the cap bound on {bound:.0%} of the evidence sets"
        scalar = _largest(trial, [one.at_rank[:, place] for one in trial.table.sentences])
        yield trial.score(f"energy, cap {rank}", scalar, "ranks", note=note)
        bundle = held_out(at_rank(trial.table, place).matrix(GEOMETRY), trial.positive, trial.split)
        yield trial.score(
            f"geometry bundle (13), cap {rank}",
            bundle,
            "ranks",
            form="bundle",
            split=trial.split.name,
            note=note,
        )
        yield Finding(
            table="ranks", name=f"cap {rank}", metric="share in which the cap bound", value=bound,
            n=len(rank_of), of=len(rank_of),
        )  # fmt: skip


def _summaries(trial: Trial) -> Iterator[Finding]:
    if max(len(one.energy) for one in trial.table.sentences) < 2:
        yield Finding(
            table="not_run", name="summaries", metric="", value=None, note="every claim is one sentence"
        )
        return
    largest = summarise(trial, lambda i: trial.table.sentences[i].energy, SUMMARIES["max"])
    for name, how in SUMMARIES.items():
        values = summarise(trial, lambda i: trial.table.sentences[i].energy, how)
        yield trial.score(f"energy, {name} of sentences", values, "summaries")
        if name != "max":
            yield trial.difference(f"energy, {name} minus max", values, largest, "summaries")


def _segmentation(trial: Trial, vectors: Vectors, say: Callable[[str], None]) -> Iterator[Finding]:
    base = trial.table.columns["max_energy"]
    for segmentation in SEGMENTATIONS:
        if segmentation == "sentence":
            table = trial.table
        else:
            measure = Measurer(vectors, {}, segmentation)
            texts = measure.texts(trial.records)
            if len(set(texts)) > MOST_LONG:
                why = f"more than {MOST_LONG:,} long units: half an hour of embedding on two cores"
                yield Finding(
                    table="not_run", name="evidence by 5 sentences", metric="", value=None, note=why
                )
                continue
            vectors.learn(texts, say)
            table = tabulate(trial.records, measure)
        units = float(np.median([one.units for one in table.sentences]))
        note = f"median {units:g} units a set; long units are cut at the model's limit"
        values = table.columns["max_energy"]
        yield trial.score(f"energy, evidence by {segmentation}", values, "segmentation", note=note)
        if segmentation != "sentence":
            yield trial.difference(f"{segmentation} minus sentence", values, base, "segmentation")
        bundle = held_out(table.matrix(GEOMETRY), trial.positive, trial.split)
        yield trial.score(
            f"geometry bundle (13), evidence by {segmentation}", bundle, "segmentation", form="bundle",
            split=trial.split.name, note=note,
        )  # fmt: skip


def _detectors(trial: Trial) -> Iterator[Finding]:
    for name in dict.fromkeys(key for record in trial.records for key in record.detectors):
        values = np.array([-record.detectors.get(name, np.nan) for record in trial.records])
        yield trial.score(name, values, "singles", form="recorded", note=SELECTED)


def _not_run() -> Iterator[Finding]:
    for name, why in (
        (
            f"entailment features ({', '.join(ENTAILMENT)})",
            "no entailment model was given; their columns are missing",
        ),
        ("ablation of entailment features", "no entailment model was given"),
        ("entity-disjoint split", "not built"),
        ("embedder sweep", "one encoder was given; run again with another --model"),
    ):
        yield Finding(table="not_run", name=name, metric="", value=None, note=why)


def _transfer(trials: Sequence[Trial]) -> Iterator[Finding]:
    """Train on one set, test on another, for every pair."""
    for home, away in itertools.permutations(trials, 2):
        shared = set(home.groups) & set(away.groups)
        name = f"{home.dataset.name} → {away.dataset.name}"
        if shared:
            yield Finding(
                table="not_run", name=name, metric="", value=None, note=f"{len(shared)} shared sources"
            )
            continue
        fold = (np.arange(len(home.records)), len(home.records) + np.arange(len(away.records)))
        split = Split(name="leave-one-domain-out", folds=(fold,))
        y = np.concatenate([home.positive, away.positive])
        for bundle in ("overlap only", "geometry bundle (13)", "all plain features"):
            names = [n for n in BUNDLES[bundle] if _both(n, home, away)]
            X = np.vstack([home.table.matrix(names), away.table.matrix(names)])
            values = held_out(X, y, split)[len(home.records) :]
            yield away.score(f"{name}: {bundle}", values, "transfer", form="bundle", split=split.name)


def _both(name: str, *trials: Trial) -> bool:
    return all(np.isfinite(trial.table.columns[name]).any() for trial in trials)


__all__ = ["BUNDLES", "LOGISTIC", "WARN", "evaluate"]
