"""Who trains and who is tested; every split is checked before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outspan.lab.metrics import Flags

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Folds by name, and what had to be changed for them to be usable."""

    name: str
    """``source-grouped``, ``row-level``, ``leave-one-generator-out``, …"""
    folds: tuple[tuple[Rows, Rows], ...]
    """(train, test) row numbers."""
    note: str = ""
    """Why there are fewer folds than asked for; empty otherwise."""


def faults(train: Rows, test: Rows, positive: Flags, groups: Sequence[str] | None) -> list[str]:
    """What makes a fold unusable: an empty side, a side with one class, a source on both sides."""
    found = []
    for name, side in (("train", train), ("test", test)):
        if not len(side):
            found.append(f"{name} is empty")
        elif positive[side].all() or not positive[side].any():
            found.append(f"{name} has one class")
    if groups is not None:
        shared = {groups[i] for i in train} & {groups[i] for i in test}
        found += [f"{len(shared)} sources on both sides"] if shared else []
    return found


def grouped_folds(groups: Sequence[str], positive: Flags, *, folds: int = 5, seed: int = 0) -> Split:
    """Folds of whole sources with like shares of the classes; fewer where so many cannot be had.

    Raises
    ------
    ValueError
        When not even two folds have both classes on both sides.
    """
    names = list(dict.fromkeys(groups))
    for count in range(min(folds, len(names)), 1, -1):
        fold_of = _deal(names, groups, positive, count, seed)
        owner = np.array([fold_of[group] for group in groups])
        made = tuple((np.flatnonzero(owner != k), np.flatnonzero(owner == k)) for k in range(count))
        if not any(faults(train, test, positive, groups) for train, test in made):
            note = "" if count == folds else f"{count} folds in place of {folds}: too few sources of a class"
            return Split(name="source-grouped", folds=made, note=note)
    raise ValueError(f"{len(names)} sources cannot be split into two folds with both classes")


def _deal(
    names: Sequence[str], groups: Sequence[str], positive: Flags, count: int, seed: int
) -> dict[str, int]:
    """Each source to the fold that its rows leave most even: largest first, ties by a seeded order."""
    size = {name: np.zeros(2) for name in names}
    for group, up in zip(groups, positive, strict=True):
        size[group][int(up)] += 1
    order = np.random.default_rng(seed).permutation(len(names))
    ranked = sorted((names[i] for i in order), key=lambda name: -size[name].sum())
    total = sum(size.values(), np.zeros(2))
    held = np.zeros((count, 2))
    fold_of = {}
    for name in ranked:
        after = (held + size[name]) / np.maximum(total, 1)
        cost = (after**2).sum(axis=1) - ((held / np.maximum(total, 1)) ** 2).sum(axis=1)
        best = int(np.argmin(cost))
        held[best] += size[name]
        fold_of[name] = best
    return fold_of


def row_folds(positive: Flags, *, folds: int = 5, seed: int = 42) -> Split:
    """Stratified folds of rows: sources may be on both sides, so that older results can be repeated."""
    pseudo = [str(i) for i in range(len(positive))]
    made = grouped_folds(pseudo, positive, folds=folds, seed=seed)
    return Split(name="row-level", folds=made.folds, note=made.note)


def row_holdout(positive: Flags, *, share: float = 0.3, seed: int = 42) -> Split:
    """One stratified 70/30 split of rows, as older results used it."""
    rng = np.random.default_rng(seed)
    test: list[int] = []
    for side in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        test += rng.permutation(side)[: round(share * len(side))].tolist()
    chosen = np.zeros(len(positive), dtype=bool)
    chosen[test] = True
    fold = (np.flatnonzero(~chosen), np.flatnonzero(chosen))
    wrong = faults(*fold, positive, None)
    if wrong:
        raise ValueError("; ".join(wrong))
    return Split(name="row-level 70/30", folds=(fold,))


def leave_one_out(
    values: Sequence[str], positive: Flags, groups: Sequence[str], name: str
) -> Iterator[tuple[str, Split | None, str]]:
    """Each value (a domain, a generator) held out in turn: its name, the split, or None and why not.

    Rows of other values that share a source with the held-out rows are left out of the training side.
    """
    given, source = np.asarray(values), np.asarray(groups)
    for value in dict.fromkeys(values):
        test = np.flatnonzero(given == value)
        train = np.flatnonzero((given != value) & ~np.isin(source, source[test]))
        wrong = faults(train, test, positive, groups)
        if wrong:
            yield value, None, "; ".join(wrong)
        else:
            yield value, Split(name=name, folds=((train, test),)), ""
