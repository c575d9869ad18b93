"""Before anything is measured: can the labels be told from the form of the texts?

A shortcut's AUC is turned to be at least 0.5, since a model would turn it too. Categories (last character,
generator) are scored by the share of unsupported rows that *other* sources have, so that rare values do not
flatter themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outspan.lab.datasets import Record
from outspan.lab.features import claim_sentences
from outspan.lab.metrics import Array, Estimate, Flags, estimate_auc
from outspan.lab.overlap import overlap, tokens
from outspan.lab.splits import Rows, grouped_folds

WARN = 0.6
"""A shortcut above this stands at the top of every report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortcut:
    """One shortcut and how well it alone ranks unsupported above supported, in either direction."""

    name: str
    auc: Estimate
    turned: bool
    """Smaller values, or rarer shares, are the unsupported ones."""

    @property
    def warns(self) -> bool:
        """Whether it has to stand at the top of a report."""
        return self.auc.value is not None and self.auc.value > WARN


def probe(records: Sequence[Record], positive: Flags, weights: Array) -> list[Shortcut]:
    """Every shortcut on records with labels."""
    found = []
    for name, values in {**_numbers(records), **_categories(records, positive)}.items():
        there = np.isfinite(values)
        if there.sum() < 2 or len(np.unique(values[there])) < 2:
            continue  # a constant tells nothing apart
        one = estimate_auc(values[there], positive[there], weights[:, there])
        if one.value is None:
            continue
        turned = one.value < 0.5
        if turned and one.low is not None and one.high is not None:
            one = Estimate(value=1 - one.value, low=1 - one.high, high=1 - one.low)
        found.append(Shortcut(name=name, auc=one, turned=turned))
    return sorted(found, key=lambda shortcut: -(shortcut.auc.value or 0.0))


def _numbers(records: Sequence[Record]) -> dict[str, Array]:
    rows = []
    for record in records:
        raw, text = record.raw_claim, record.claim
        letters = [c for c in text if c.isalpha()]
        rouge = overlap(text, "\n".join(record.evidence))
        rows.append(
            {
                "raw text ends in a newline": float(raw.endswith("\n")),
                "raw text has spaces at its edges": float(raw != raw.strip()),
                "raw text: share of white space": sum(c.isspace() for c in raw) / max(1, len(raw)),
                "length in characters": float(len(text)),
                "length in words": float(len(tokens(text))),
                "sentences": float(len(claim_sentences(text))),
                "ends in a full stop": float(text.endswith(".")),
                "share of capitals": sum(c.isupper() for c in letters) / max(1, len(letters)),
                "share of punctuation": sum(not c.isalnum() and not c.isspace() for c in text)
                / max(1, len(text)),
                "evidence length": float(sum(map(len, record.evidence))),
                **{
                    name: np.nan if rouge[name] is None else rouge[name]
                    for name in ("rouge1", "rouge2", "rougeL")
                },
            }
        )
    names = rows[0] if rows else ()
    places: dict[str, int] = defaultdict(int)
    position = []
    for record in records:
        position.append(float(places[record.group]))
        places[record.group] += 1
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in names}
    return columns | {"position within its source": np.array(position)}


def _categories(records: Sequence[Record], positive: Flags) -> dict[str, Array]:
    kinds = {
        "last character": [record.claim[-1:] for record in records],
        "first character": [record.claim[:1] for record in records],
        "raw last character": [record.raw_claim[-1:] for record in records],
        "generator": [record.generator for record in records],
    }
    try:
        split = grouped_folds([record.group for record in records], positive)
    except ValueError:
        return {}  # too few sources for shares of other sources; the numeric shortcuts still stand
    return {name: _shares(values, positive, split.folds) for name, values in kinds.items()}


def _shares(values: Sequence[str], positive: Flags, folds: Sequence[tuple[Rows, Rows]]) -> Array:
    """(n,) share of unsupported in rows of other sources with the same value, drawn to the overall share."""
    given, out = np.asarray(values), np.zeros(len(values))
    for train, test in folds:
        overall = positive[train].mean()
        for value in np.unique(given[test]):
            same = train[given[train] == value]
            out[test[given[test] == value]] = (positive[same].sum() + overall) / (len(same) + 1)
    return out


def length_matched(records: Sequence[Record], positive: Flags, *, bins: int = 10, seed: int = 0) -> Rows:
    """Rows in which both classes have like lengths: equal counts of each in every decile of length."""
    length = np.array([len(record.claim) for record in records])
    rng = np.random.default_rng(seed)
    kept: list[int] = []
    for part in np.array_split(np.argsort(length, kind="stable"), bins):
        up, down = part[positive[part]], part[~positive[part]]
        count = min(len(up), len(down))
        kept += rng.permutation(up)[:count].tolist() + rng.permutation(down)[:count].tolist()
    return np.sort(np.array(kept, dtype=np.intp))
