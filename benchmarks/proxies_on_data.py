"""Every proxy and baseline on labelled data: AUC with intervals, the cap, and what size and length explain.

    python benchmarks/proxies_on_data.py DATA_DIR [-o ROWS.jsonl] [--cache VECTORS.sqlite3]

Unsupported is positive; a similarity counts with its sign turned. An example with several sentences is ranked
by the largest and by the mean of its sentences' values. PubMedQA has no unsupported rows: each conclusion is
also set against the foreign abstract whose centroid is nearest to that of its own. All evidence sentences are
used, exact repeats merged.

* auc [low, high]   95 % percentile interval of a bootstrap over sources (1,000 draws)
* diff [low, high]  AUC minus that of max_cosine, same draws
* cut               share of examples whose evidence the cap, k or q really cut; empty where nothing is cut
* residual          AUC after evidence size and claim length are taken out: residual of a regression of ranks
* R²                share of the variance of the value's ranks that this regression explains

*Background level alone* is how well the evidence explains sentences that have nothing to do with it: where
that tells the classes apart, the way in which the evidence was picked does.

A set is a row for each proxy and one for each confound alone; printed as Markdown, written as JSON Lines.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

import outspan
from labelled import (
    Array,
    Dataset,
    Example,
    Vectors,
    auc,
    bootstrap_auc,
    chooses,
    half,
    read_dataset,
    read_faithbench_sentences,
    say,
    source_resamples,
    with_foreign_abstracts,
)
from outspan.background import Bank, draw, shipped
from outspan.geometry.energy import energies
from outspan.geometry.proxies import BackgroundAdjusted, EnergyVariance, FittedProxy, Proxy, make_proxy
from outspan.geometry.subspace import RankPolicy, Subspace, factor

Row: TypeAlias = dict[str, object]

TEXT_FORMS = (
    "energy(cap=32)",
    "energy(cap=64)",
    "energy(cap=none)",
    "energy_variance",
    "centered_affine",
    "whitened",
    "weighted_svd",
    "convex_hull",
    "cone",
    "kernel_rbf",
    "local_span(k=8)",
    "local_span(k=64)",
    "background_adjusted",
    "max_cosine",
    "mean_cosine",
    "centroid_cosine",
)
BASELINE = "max_cosine"
CORPUS = "background_adjusted, corpus bank"
LEVEL, CORPUS_LEVEL = "background level alone", "background level alone, corpus bank"
DRAWS, SEED = 1000, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One set under every proxy."""

    values: dict[str, list[Array]]
    """By label: for each example the values of its sentences, larger meaning further outside."""
    cut: dict[str, list[bool | None]]
    """By label: whether something of the example's evidence was cut off; None where the proxy never cuts."""
    level: dict[str, list[float]]
    """By bank: minus its mean log energy against the example's evidence, which knows nothing of the claim."""


def part(dataset: Dataset, measured: Measured) -> tuple[Dataset, Measured]:
    """The reporting half of a set, from what was measured on the whole."""
    kept = [i for i, example in enumerate(dataset.examples) if not chooses(example.group)]
    return half(dataset, choosing=False), Measured(
        values={label: [found[i] for i in kept] for label, found in measured.values.items()},
        cut={label: [found[i] for i in kept] for label, found in measured.cut.items()},
        level={bank: [found[i] for i in kept] for bank, found in measured.level.items()},
    )


def prepare_proxies(vectors: Vectors) -> dict[str, Proxy]:
    """The proxies by label; those that are fitted, fitted on the shipped bank."""
    bank = vectors.of(shipped().texts)
    proxies: dict[str, Proxy] = {}
    for text in TEXT_FORMS:
        proxy = make_proxy(text)
        if isinstance(proxy, FittedProxy):
            proxy = proxy.fit(bank, digest=shipped().digest)
        proxies[text] = proxy
    return proxies


def corpus_bank(dataset: Dataset, vectors: Vectors) -> tuple[Bank, BackgroundAdjusted]:
    """A bank of evidence sentences of this very set; a claim's own source is left out when it is measured.

    For a foreign abstract that means the claim's source and the abstract's.
    """
    bank = draw((owner, text) for owner, text in owned_sentences(dataset.examples))
    proxy = BackgroundAdjusted().fit(vectors.of(bank.texts), groups=bank.groups, digest=bank.digest)
    return bank, proxy


def owned_sentences(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    """Source and text of every evidence sentence; the supported example of a source is the one that owns
    it."""
    owner: dict[tuple[str, ...], str] = {}
    for example in sorted(examples, key=lambda example: example.unsupported):
        owner.setdefault(example.evidence, example.group)
    for evidence, group in owner.items():
        for text in evidence:
            yield group, text


def measure(dataset: Dataset, vectors: Vectors, proxies: dict[str, Proxy]) -> Measured:
    """Every proxy on every example; each evidence set is factored once."""
    labels = [*proxies, CORPUS]
    values: dict[str, list[Array]] = {label: [] for label in labels}
    cut: dict[str, list[bool | None]] = {label: [] for label in labels}
    level: dict[str, list[float]] = {LEVEL: [], CORPUS_LEVEL: []}
    bank, corpus = corpus_bank(dataset, vectors)
    shipped_vectors, bank_vectors, bank_groups = (
        vectors.of(shipped().texts),
        vectors.of(bank.texts),
        np.array(bank.groups),
    )
    owner = {text: group for group, text in owned_sentences(dataset.examples)}
    factored: dict[tuple[str, ...], Subspace] = {}
    for example in dataset.examples:
        if example.evidence not in factored:
            factored = {
                example.evidence: factor(vectors.of(example.evidence))
            }  # examples of a set are neighbours
        subspace = factored[example.evidence]
        sources = {example.group} | {owner[text] for text in example.evidence}
        usable = proxies | {CORPUS: corpus.excluding(*sources)}
        for label, proxy in usable.items():
            found = proxy(vectors.of(example.claim), subspace)
            values[label].append(found if proxy.direction == "higher_means_less_contained" else -found)
            cut[label].append(cuts(proxy, subspace))
        level[LEVEL].append(-typical_log(shipped_vectors, subspace))
        level[CORPUS_LEVEL].append(-typical_log(bank_vectors[~np.isin(bank_groups, list(sources))], subspace))
    return Measured(values=values, cut=cut, level=level)


def typical_log(bank: Array, subspace: Subspace) -> float:
    """Mean log energy of background claims, cap 64."""
    return float(np.log(np.maximum(energies(bank, subspace, RankPolicy("cap", 64)).energy, 1e-12)).mean())


def cuts(proxy: Proxy, subspace: Subspace) -> bool | None:
    """Whether the proxy left out directions or rows that are there; None where it has no such parameter."""
    if isinstance(proxy, EnergyVariance):
        policy = RankPolicy("variance", proxy.q)
        return policy.retained(subspace.singular_values, subspace.numeric_rank) < subspace.numeric_rank
    cap, k = getattr(proxy, "cap", None), getattr(proxy, "k", None)
    if k is not None:
        return bool(subspace.n > k)
    return None if cap is None else bool(subspace.numeric_rank > cap)


def rank_residual(scores: Array, confounds: Array) -> tuple[Array, float]:
    """What of the ranks of the scores a linear regression on the ranks of the confounds (n, c) leaves, and
    its R²."""
    from scipy.stats import rankdata

    y = rankdata(scores)
    X = np.column_stack([np.ones(len(y)), *(rankdata(column) for column in confounds.T)])
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    return residual, float(1.0 - residual.var() / y.var())


def score(dataset: Dataset, measured: Measured, how: str, context: Row) -> Iterator[Row]:
    """A row for each proxy, then one for each confound alone."""
    examples = dataset.examples
    y = np.array([example.unsupported for example in examples])
    weights = source_resamples([example.group for example in examples], DRAWS, SEED)
    size = np.array([len(example.evidence) for example in examples], dtype=np.float64)
    combine = np.max if how == "max" else np.mean
    length = np.array([combine([len(text) for text in example.claim]) for example in examples])
    confounds = np.column_stack([size, length])
    scores = {label: np.array([combine(v) for v in found]) for label, found in measured.values.items()}
    common = context | {
        "set": dataset.name,
        "of_sentences": how,
        "n": len(examples),
        "sources": len({example.group for example in examples}),
        "unsupported": int(y.sum()),
        "left_out": dataset.left_out,
        "dataset_digest": dataset.digest,
    }
    for label, values in scores.items():
        there = np.isfinite(values)
        resampled = bootstrap_auc(values[there], y[there], weights[:, there])
        baseline = bootstrap_auc(scores[BASELINE][there], y[there], weights[:, there])
        residual, explained = rank_residual(values[there], confounds[there])
        point = auc(values[there], y[there])
        cut = [flag for flag in measured.cut[label] if flag is not None]
        yield common | {
            "proxy": label,
            "measured": int(there.sum()),
            "auc": point,
            "auc_interval": interval(resampled),
            "difference": point - auc(scores[BASELINE][there], y[there]),
            "difference_interval": interval(resampled - baseline),
            "cut": float(np.mean(cut)) if cut else None,
            "residual_auc": auc(residual, y[there]),
            "explained_by_confounds": explained,
        }
    levels = {name: np.array(found) for name, found in measured.level.items()}
    alone = {"evidence size alone": size, "claim length alone": length} | levels
    for name, values in alone.items():
        yield common | {
            "proxy": name,
            "measured": len(y),
            "auc": auc(values, y),
            "auc_interval": interval(bootstrap_auc(values, y, weights)),
        }


def interval(draws: Array) -> list[float]:
    """95 % percentile interval; draws without both classes do not count."""
    return [float(np.nanpercentile(draws, 2.5)), float(np.nanpercentile(draws, 97.5))]


def datasets(folder: Path, vectors: Vectors) -> Iterator[tuple[Dataset, tuple[str, ...]]]:
    """The sets with the ways in which the sentences of an example are combined."""
    for name in ("qags_cnndm", "qags_xsum", "wice_claims", "faithbench", "pubmedqa"):
        dataset = read_dataset(folder, name)
        say(f"{name}: {len(dataset.examples)} rows, {dataset.left_out} left out; embedding")
        vectors.learn([text for e in dataset.examples for text in (*e.claim, *e.evidence)])
        if name == "pubmedqa":
            dataset = with_foreign_abstracts(dataset, vectors)
        yield dataset, ("max", "mean") if name in ("faithbench", "pubmedqa") else ("max",)
        if name == "faithbench":
            sentences = read_faithbench_sentences(folder)
            vectors.learn([text for e in sentences.examples for text in (*e.claim, *e.evidence)])
            yield sentences, ("max",)


def markdown(rows: Sequence[Row]) -> str:
    """One set's rows as a table."""
    first = rows[0]
    lines = [
        f"\n### {first['set']}, {first['of_sentences']} of sentences: N {first['n']}, "
        f"{first['unsupported']} unsupported, {first['sources']} sources, {first['left_out']} left out\n",
        "| proxy | measured | AUC | minus max_cosine | cut | residual AUC | R² |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        cells = [str(row["proxy"]), str(row["measured"]), spread(row["auc"], row["auc_interval"])]
        if "difference" in row:
            cut = "" if row["cut"] is None else f"{row['cut']:.0%}"
            cells += [spread(row["difference"], row["difference_interval"], sign=True), cut]
            cells += [f"{row['residual_auc']:.3f}", f"{row['explained_by_confounds']:.2f}"]
        else:
            cells += ["", "", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(point: object, bounds: object, *, sign: bool = False) -> str:
    """``0.813 [0.760, 0.861]``."""
    assert isinstance(bounds, list)
    form = "+.3f" if sign else ".3f"
    return f"{point:{form}} [{bounds[0]:{form}}, {bounds[1]:{form}}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, help="vector cache (SQLite file); by default the user's")
    parser.add_argument("-o", "--output", type=Path, help="JSON Lines file for the rows")
    args = parser.parse_args()
    started = time.monotonic()
    vectors = Vectors(args.cache)
    vectors.learn(shipped().texts)
    proxies = prepare_proxies(vectors)
    context: Row = {
        "embedder": vectors.embedder.identity.to_dict(),
        "bank_digest": shipped().digest,
        "seed": SEED,
        "draws": DRAWS,
        "version": outspan.__version__,
        "command": " ".join(["proxies_on_data.py", *sys.argv[2:]]),
    }
    rows: list[Row] = []
    for dataset, ways in datasets(args.data, vectors):
        measured = measure(dataset, vectors, proxies)
        say(f"{dataset.name}: measured, {time.monotonic() - started:.0f} s")
        tables = [(dataset, measured, how) for how in ways]
        if dataset.name == "wice_claims":
            tables.append((*part(dataset, measured), "max"))
        for table in tables:
            found = list(score(*table, context))
            print(markdown(found), flush=True)
            rows += found
    print("\nNot run: wice_tokens (every row is unsupported, so there is no AUC).")
    for row in rows:
        label = str(row["proxy"])
        row["contract"] = str(proxies[label].contract) if label in proxies else None
    if args.output is not None:
        args.output.write_text(
            "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8"
        )
    say(f"{len(rows)} rows in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
