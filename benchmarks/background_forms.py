"""Which form of ``background_adjusted`` stays put while unrelated evidence is added, and at what price.

    python benchmarks/background_forms.py DATA_DIR --half choose   every scope and form, choosing half of WiCE
    python benchmarks/background_forms.py DATA_DIR --half report   the chosen one, other half, and of QAGS

To each claim's evidence (its five nearest sentences, or all of it) 0, 5, 20, 64, 200 and 384 sentences of
other sources of the same set are added, nested. A value should depend on the claim, not on the size:

* within: share of the variance of the pooled ranks that lies within claims, over sizes; 0 is perfect
* drift:  largest change of the mean over claims from size 0, in standard deviations between claims at size 0
* same:   AUC at each size, averaged; unsupported is positive
* pooled: AUC when every claim has a random size (50 assignments): what one threshold has to work with

Rule, fixed before the report half was looked at: of the forms with a number everywhere and a pooled AUC
within 0.01 of the best, that with the smallest share within claims, both averaged over the two kinds of
evidence.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from scipy.stats import beta as beta_distribution
from scipy.stats import norm, rankdata

from labelled import Array, Dataset, Vectors, auc, half, read_dataset, say
from outspan.background import shipped
from outspan.geometry.energy import energies
from outspan.geometry.proxies.fitted import beside
from outspan.geometry.subspace import RankPolicy, factor

ADDED = (0, 5, 20, 64, 200, 384)
CAPS = {"all rows, cap 32": 32, "all rows, cap 64": 64, "all rows, no cap": 10**6}
NEAREST = {f"nearest {k}": k for k in (8, 16, 32, 64, 128)}
CHOSEN = ("nearest 64", "ratio to geometric mean")
ASSIGNMENTS = 50


def logit(x: Array) -> Array:
    """log(x / (1 − x)), kept finite."""
    inside = np.clip(x, 1e-9, 1.0 - 1e-9)
    return np.log(inside) - np.log1p(-inside)


def smoothed(e: float, b: Array) -> float:
    """Log of the bank's distribution function on the logit scale, Gaussian kernel: its tails stay ordered."""
    x, at = logit(b), float(logit(np.array(e)))
    width = 1.06 * x.std() * len(b) ** -0.2
    return float(logsumexp(norm.logcdf((at - x) / width)) - np.log(len(b))) if width > 0 else float("nan")


def beta_fitted(e: float, b: Array) -> float:
    """Log of the distribution function of the beta distribution with the bank's mean and variance."""
    mean, variance = b.mean(), b.var()
    if variance < 1e-18:
        return float("nan")
    size = max(mean * (1 - mean) / variance - 1, 1e-3)
    return float(beta_distribution.logcdf(np.clip(e, 1e-12, 1), mean * size, (1 - mean) * size))


def scaled(e: float, b: Array) -> float:
    """``e`` in standard deviations of ``b`` from its mean."""
    return float((e - b.mean()) / b.std()) if b.std() > 1e-9 else float("nan")


RAW = "energy as it is"

FORMS: dict[str, Callable[[float, Array], float]] = {
    RAW: lambda e, _: e,
    "mid-rank": lambda e, b: float(((b < e).mean() + (b <= e).mean()) / 2),
    "ratio to geometric mean": beside,
    "ratio to mean": lambda e, b: float(e / (e + b.mean())) if b.mean() > 1e-9 else float("nan"),
    "difference from mean": lambda e, b: float(e - b.mean()),
    "z": scaled,
    "z of logs": lambda e, b: scaled(float(np.log(max(e, 1e-9))), np.log(np.maximum(b, 1e-9))),
    "logit difference": lambda e, b: float(logit(np.array(e)) - logit(b).mean()),
    "z of logits": lambda e, b: scaled(float(logit(np.array(e))), logit(b)),
    "smoothed distribution": smoothed,
    "beta distribution": beta_fitted,
}


def scoped(c: Array, rows: Array, bank: Array, wanted: set[str]) -> Iterator[tuple[str, float, Array]]:
    """Energy of the claim (1, d) and of the bank (J, d) against what each scope takes of the rows."""
    if wanted & set(CAPS):
        coordinates = energies(np.vstack([c, bank]), factor(rows), RankPolicy("cap", 1)).coordinates
        for name, cap in CAPS.items():
            mass = np.clip(1.0 - (coordinates[:, :cap] ** 2).sum(axis=1), 0.0, 1.0)
            if name in wanted:
                yield name, float(mass[0]), mass[1:]
    order = np.argsort(-(rows @ c[0]))
    for name, k in NEAREST.items():
        if name in wanted:
            found = energies(np.vstack([c, bank]), factor(rows[order[:k]]), RankPolicy("cap", k)).energy
            yield name, float(found[0]), found[1:]


def measure(
    dataset: Dataset,
    vectors: Vectors,
    *,
    nearest: int | None,
    wanted: dict[str, set[str]],
    claims: str = "own",
) -> dict[tuple[str, str], Array]:
    """Values (N, sizes) by scope and form.

    ``claims`` says what is measured: each example's own claim, the claim of another source (``foreign``), or
    the first evidence sentence (``copied``).
    """
    bank = vectors.of(shipped().texts)
    pool = [(example.group, text) for example in dataset.examples for text in example.evidence]
    pool_groups, pool_vectors = np.array([group for group, _ in pool]), vectors.of([text for _, text in pool])
    values: dict[tuple[str, str], Array] = {}
    for i, example in enumerate(dataset.examples):
        rng = np.random.default_rng(i)
        E, c = vectors.of(example.evidence), vectors.of(example.claim[:1])
        if nearest is not None:
            E = E[np.argsort(-(E @ c[0]))[:nearest]]
        known = {example.group}  # sources that are not unrelated to what is measured
        if claims == "copied":
            c = E[:1]
        elif claims == "foreign":
            others = [other for other in dataset.examples if other.group != example.group]
            other = others[int(rng.integers(len(others)))]
            c, known = vectors.of(other.claim[:1]), known | {other.group}
        unrelated = np.flatnonzero(~np.isin(pool_groups, list(known)))
        added = pool_vectors[rng.choice(unrelated, max(ADDED), replace=False)]
        for j, size in enumerate(ADDED):
            for scope, e, b in scoped(c, np.vstack([E, added[:size]]), bank, set(wanted)):
                for form in (name for name in FORMS if name in wanted[scope]):
                    table = values.setdefault(
                        (scope, form), np.full((len(dataset.examples), len(ADDED)), np.nan)
                    )
                    table[i, j] = FORMS[form](e, b)
    return values


def judge(X: Array, unsupported: Array) -> dict[str, float | int | list[float | None]]:
    """The measures named at the head of this file, over claims with a number at every size."""
    whole = np.isfinite(X).all(axis=1)
    by_size = [float(m) if np.isfinite(m) else None for m in np.where(np.isfinite(X), X, 0.0).mean(axis=0)]
    if not whole.all():
        return {"measured": int(whole.sum()), "mean": by_size}
    y = unsupported.astype(bool)
    rng = np.random.default_rng(0)
    n = np.arange(len(X))
    pooled = [auc(X[n, rng.integers(0, X.shape[1], len(X))], y) for _ in range(ASSIGNMENTS)]
    ranks = rankdata(X).reshape(X.shape)
    shift = (X - X[:, :1]).mean(axis=0)
    return {
        "measured": len(X),
        "mean": by_size,
        "same": float(np.mean([auc(X[:, j], y) for j in range(X.shape[1])])),
        "pooled": float(np.mean(pooled)),
        "within": float(ranks.var(axis=1).mean() / ranks.var()),
        "drift": float(shift[np.argmax(np.abs(shift))] / X[:, 0].std()),
    }


def choose(folder: Path, vectors: Vectors) -> Iterator[dict[str, object]]:
    """Every scope and form on the choosing half of WiCE, then the one that the rule takes."""
    dataset = prepare(half(read_dataset(folder, "wice_claims"), choosing=True), vectors)
    wanted = {scope: set(FORMS) for scope in (*CAPS, *NEAREST)}
    y = np.array([example.unsupported for example in dataset.examples])
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for base in (5, None):
        for (scope, form), X in measure(dataset, vectors, nearest=base, wanted=wanted).items():
            row: dict[str, object] = {
                "set": dataset.name,
                "claims": "own",
                "evidence": evidence_name(base),
                "scope": scope,
                "form": form,
                "n": len(X),
            } | judge(X, y)
            found.setdefault((scope, form), []).append(row)
            yield row
    usable = {
        key: [float(np.mean([float(str(row[m])) for row in rows])) for m in ("pooled", "within")]
        for key, rows in found.items()
        if key[1] != RAW and all("pooled" in row for row in rows)
    }
    best = max(pooled for pooled, _ in usable.values())
    chosen = min((within, key) for key, (pooled, within) in usable.items() if pooled >= best - 0.01)[1]
    yield {"chosen_scope": chosen[0], "chosen_form": chosen[1], "best_pooled": best}


def report(folder: Path, vectors: Vectors) -> Iterator[dict[str, object]]:
    """The chosen form beside energies as they are, on sources and sets that took no part in the choice."""
    scope, form = CHOSEN
    wanted = {name: {RAW} for name in CAPS} | {scope: {RAW, form}}
    for name in ("wice_claims", "qags_cnndm", "qags_xsum"):
        dataset = prepare(half(read_dataset(folder, name), choosing=False), vectors)
        y = np.array([example.unsupported for example in dataset.examples])
        for claims, base in (("own", 5), ("own", None), ("foreign", 5), ("copied", 5)):
            for (where, what), X in measure(
                dataset, vectors, nearest=base, wanted=wanted, claims=claims
            ).items():
                found = judge(X, y)
                if claims != "own":  # the label speaks of another claim
                    found = {key: found[key] for key in ("measured", "mean")}
                    found["least"] = [float(x) for x in np.nanmin(X, axis=0)]
                yield {
                    "set": dataset.name,
                    "claims": claims,
                    "evidence": evidence_name(base),
                    "scope": where,
                    "form": what,
                    "n": len(X),
                } | found


def prepare(dataset: Dataset, vectors: Vectors) -> Dataset:
    """Embed what a set needs."""
    vectors.learn([text for example in dataset.examples for text in (*example.claim, *example.evidence)])
    vectors.learn(shipped().texts)
    say(f"{dataset.name}: {len(dataset.examples)} claims")
    return dataset


def evidence_name(base: int | None) -> str:
    """How the evidence before anything is added is called."""
    return "all" if base is None else f"{base} nearest"


def show(row: dict[str, object]) -> str:
    """A line of the table."""
    if "chosen_scope" in row:
        best = f"best pooled AUC {row['best_pooled']:.3f}"
        return f"\nchosen: {row['chosen_form']}, {row['chosen_scope']} ({best})"
    names = [str(row[key]) for key in ("set", "claims", "evidence", "scope", "form")]
    head = " ".join(name.ljust(width) for name, width in zip(names, (20, 8, 9, 17, 24), strict=True))
    means = row["mean"]
    assert isinstance(means, list)
    tail = f"n {row['measured']}/{row['n']}  mean " + " ".join(
        "     -" if m is None else f"{m:6.3f}" for m in means
    )
    if "pooled" in row:
        tail += f"  same {row['same']:.3f} pooled {row['pooled']:.3f}"
        tail += f" within {row['within']:.3f} drift {row['drift']:+.2f}"
    if "least" in row:
        least = row["least"]
        assert isinstance(least, list)
        tail += "  least " + " ".join(f"{m:.3f}" for m in least)
    return f"{head} {tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--cache", type=Path, help="vector cache (SQLite file); by default the user's")
    parser.add_argument("-o", "--output", type=Path, help="JSON Lines file for the rows")
    args = parser.parse_args()
    vectors = Vectors(args.cache)
    rows = []
    for row in (choose if args.half == "choose" else report)(args.data, vectors):
        print(show(row), flush=True)
        rows.append(row | {"command": " ".join(["background_forms.py", *sys.argv[2:]])})
    if args.output is not None:
        args.output.write_text(
            "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
