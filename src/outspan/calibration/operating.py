"""What a threshold does to labelled units: shares with intervals, and the curve that it was chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from outspan.calibration.artefact import Threshold
from outspan.calibration.binomial import clopper_pearson_upper
from outspan.calibration.sample import Labelled, Share, draw_one_a_source, share_of

MOST_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Shares of labelled units on each side. Descriptions of these units; the promise is the bound's.

    Under the false acceptance risk the accept cut was chosen from unsupported units alone, so that the
    coverage of supported ones is not flattered by the choice; every share of a class that chose a cut is.
    """

    coverage: Share
    """Accepted among supported, measured units."""
    coverage_of_all: Share
    """Accepted among all supported units; those without a value are not accepted."""
    false_acceptance: Share
    """Accepted among unsupported, measured units, pooled: a source counts as often as it has units."""
    false_rejection: Share
    """Rejected among supported, measured units, pooled."""
    caught: Share
    """Rejected among unsupported, measured units."""
    selective_risk: Share
    """Unsupported among accepted units."""
    reviewed: Share
    """Neither accepted nor rejected, among all labelled, measured units."""

    def to_dict(self) -> dict[str, object]:
        """Every share by name, as JSON."""
        return {f.name: getattr(self, f.name).to_dict() for f in fields(self)}


def operating_point(units: Sequence[Labelled], threshold: Threshold) -> OperatingPoint:
    """Where the threshold puts labelled units."""
    labelled = [one for one in units if one.unsupported is not None]
    measured = [one for one in labelled if one.measured]
    supported = [one for one in measured if not one.unsupported]
    unsupported = [one for one in measured if one.unsupported]

    def on(side: str) -> dict[int, bool]:
        return {id(one): threshold.side(one.value) == side for one in labelled}

    accepted, rejected, reviewed = on("accept"), on("reject"), on("review")
    return OperatingPoint(
        coverage=share_of(supported, lambda one: accepted[id(one)]),
        coverage_of_all=share_of(
            [one for one in labelled if not one.unsupported], lambda one: accepted[id(one)]
        ),
        false_acceptance=share_of(unsupported, lambda one: accepted[id(one)]),
        false_rejection=share_of(supported, lambda one: rejected[id(one)]),
        caught=share_of(unsupported, lambda one: rejected[id(one)]),
        selective_risk=share_of(
            [one for one in measured if accepted[id(one)]], lambda one: bool(one.unsupported)
        ),
        reviewed=share_of(measured, lambda one: reviewed[id(one)]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What a cut would do, at one of the values that occur."""

    cut: float
    false_acceptance: float | None
    """Share of drawn unsupported units inside it, in [0, 1]; None without any."""
    upper: float | None
    """Clopper–Pearson upper bound of that rate at confidence 1 − δ, for this cut alone."""
    coverage: float | None
    """Share of supported, measured units inside it, in [0, 1]; None without any."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def curve(
    units: Sequence[Labelled], *, higher_is_outside: bool, delta: float, tolerance: float, seed: int = 0
) -> list[CurvePoint]:
    """From the strictest cut outward, at no more than two hundred of the values that occur."""
    sign = 1.0 if higher_is_outside else -1.0
    usable = [one for one in units if one.measured and one.unsupported is not None]

    def outward(chosen: Sequence[Labelled]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.sort(sign * np.array([one.value for one in chosen], dtype=np.float64))

    drawn = outward(draw_one_a_source([one for one in usable if one.unsupported], seed))
    supported = outward([one for one in usable if not one.unsupported])
    cuts = np.unique(outward(usable))
    if len(cuts) > MOST_POINTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, MOST_POINTS).round().astype(int)]
    points = []
    for cut in cuts:
        events = int(np.searchsorted(drawn, cut - tolerance, side="left"))
        inside = int(np.searchsorted(supported, cut - tolerance, side="left"))
        points.append(
            CurvePoint(
                cut=float(sign * cut),
                false_acceptance=events / len(drawn) if len(drawn) else None,
                upper=clopper_pearson_upper(events, len(drawn), delta) if len(drawn) else None,
                coverage=inside / len(supported) if len(supported) else None,
            )
        )
    return points
