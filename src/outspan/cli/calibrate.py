"""``outspan calibrate``: from labelled measurements to a threshold with an error budget."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from outspan import __version__
from outspan.calibration import (
    Bound,
    CurvePoint,
    ErrorBudget,
    Infeasible,
    OperatingPoint,
    Scale,
    Share,
    Threshold,
    calibrate,
    curve,
    operating_point,
    write_threshold,
)
from outspan.calibration.artefact import TOLERANCE, RiskName, Unit
from outspan.cli.labelled import read_sample
from outspan.cli.measured import digest_of, known_regime
from outspan.cli.terminal import console, show_pairs
from outspan.errors import InputError, NotInstalled
from outspan.geometry.proxies import make_proxy

if TYPE_CHECKING:
    from rich.console import Console

SEED = 0
"""Of the draw of one unit a source. No option: whoever tries seeds and keeps the best has no promise left."""
CURVE_LINES = 12
PLOT_ENDINGS = (".svg", ".png", ".pdf")


@click.command(
    name="calibrate",
    epilog="Example: outspan calibrate measured.jsonl --alpha 0.05 --delta 0.05 -o threshold.json",
)
@click.argument("measured", type=click.Path(path_type=Path), metavar="MEASURED")
@click.option("--alpha", type=float, required=True, help="Largest rate of false acceptance (see --risk).")
@click.option("--delta", type=float, required=True, help="Chance that the promise fails, for each cut.")
@click.option("--beta", type=float, help="Largest rate of false rejection; without it nothing is rejected.")
@click.option(
    "--risk",
    type=click.Choice(["false_acceptance", "selective"]),
    default="false_acceptance",
    show_default=True,
    help="false_acceptance: accepted among unsupported. selective: unsupported among accepted.",
)
@click.option(
    "--unit",
    type=click.Choice(["row", "sentence"]),
    default="row",
    show_default=True,
    help="What is accepted as one: a row by its outermost sentence, or a sentence.",
)
@click.option("--score", default="energy", show_default=True, metavar="energy|PROXY", help="Which number.")
@click.option(
    "--min-measured",
    type=click.FloatRange(0.0, 1.0),
    default=0.8,
    show_default=True,
    help="Refuse if a smaller share of the labelled units was measured.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The threshold, as JSON.")
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Figure: .svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def calibrate_command(
    measured: Path,
    *,
    alpha: float,
    delta: float,
    beta: float | None,
    risk: str,
    unit: str,
    score: str,
    min_measured: float,
    out: Path,
    overwrite: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Find the cuts that keep an error budget on labelled rows of MEASURED.

    MEASURED is what `outspan measure` wrote from rows with "label" ("supported", "unsupported" or null) and
    "group" (the source document: rows that share one are not independent). The accept cut is the largest
    whose false acceptance rate is at most ALPHA with confidence 1 - DELTA, by an exact test over sources; the
    reject cut bounds false rejection by BETA in the same way; between the two lies review.

    Where the labels are too few, or the score cannot keep the budget, no threshold is written: exit code 2,
    with the number of labels that are needed.
    """
    budget = _budget(alpha, delta, beta, risk)
    higher_is_outside = _direction(score)
    _check_outputs(out, plot, overwrite)
    sample = read_sample(measured, cast("Unit", unit), score, higher_is_outside=higher_is_outside)
    sample.require_measured(min_measured)
    scale = Scale(
        score=score,
        higher_is_outside=higher_is_outside,
        unit=cast("Unit", unit),
        fingerprint=sample.fingerprint,
        regime=known_regime(measured, score, sample.fingerprint),
        data_digest=digest_of(measured),
    )
    notes = sample.notes() + ([] if scale.regime else [_UNKNOWN_PARTS])
    try:
        found = calibrate(sample.units, budget, scale, seed=SEED, package=__version__, notes=notes)
    except ValueError as error:
        raise InputError(str(error), path=measured, remedy="Give each row an id of its own") from error
    if isinstance(found, Infeasible):
        if as_json:
            click.echo(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
        raise _no_threshold(found, measured)
    points = curve(
        sample.units, higher_is_outside=higher_is_outside, delta=delta, tolerance=TOLERANCE, seed=SEED
    )
    at = operating_point(sample.units, found)
    if plot is not None:
        _draw(points, found, at, plot)
    write_threshold(found, out)
    if as_json:
        click.echo(json.dumps(_document(found, at, points, out), ensure_ascii=False, allow_nan=False))
    else:
        _show(found, at, points, out, console())


_UNKNOWN_PARTS = (
    "The parts of the regime are not known, since MEASURED.regime.json is not beside the measured file: a "
    "mismatch can be found, but not explained."
)


def _budget(alpha: float, delta: float, beta: float | None, risk: str) -> ErrorBudget:
    try:
        return ErrorBudget(alpha=alpha, delta=delta, beta=beta, risk=cast("RiskName", risk))
    except ValueError as error:
        raise click.UsageError(f"--{error}") from error


def _direction(score: str) -> bool:
    if score == "energy":
        return True
    try:
        return make_proxy(score).contract.direction == "higher_means_less_contained"
    except ValueError as error:
        raise click.UsageError(f"--score: {error}") from error


def _check_outputs(out: Path, plot: Path | None, overwrite: bool) -> None:
    if plot is not None and plot.suffix.lower() not in PLOT_ENDINGS:
        raise click.UsageError(f"--plot {plot}: name a .svg, .png or .pdf file")
    if out.is_dir() or not out.parent.is_dir():
        raise InputError("is a folder, or its folder does not exist", path=out, remedy="Name a file")
    if out.exists() and not overwrite:
        remedy = "Choose another name, or say --overwrite: decisions may name this one by its digest"
        raise InputError("exists already", path=out, remedy=remedy)


def _no_threshold(found: Infeasible, path: Path) -> InputError:
    risk = found.risk
    if found.needed is None:
        return InputError(
            f"no threshold keeps {risk.name} at {found.budget:g}: {found.reason}",
            path=path,
            remedy="Ask for a larger budget, or calibrate another score",
        )
    level = (
        f" at level {found.level:.2g}" if risk.name == "selective" else f" (confidence {1 - found.level:g})"
    )
    return InputError(
        f"no threshold can be promised to keep {risk.name} at {found.budget:g}{level}: it needs at least "
        f"{found.needed} sources with a claim that is {risk.condition}, even if at none of them the claim is "
        f"{risk.event}; there are {found.sources}",
        path=path,
        remedy="Label more sources, or ask for a larger budget",
    )


def _document(
    found: Threshold, at: OperatingPoint, points: Sequence[CurvePoint], out: Path
) -> dict[str, Any]:
    return {
        "out": str(out),
        "digest": found.digest,
        "threshold": found.to_dict(),
        "operating_point": at.to_dict(),
        "curve": [point.to_dict() for point in points],
    }


def _show(found: Threshold, at: OperatingPoint, points: Sequence[CurvePoint], out: Path, to: Console) -> None:
    to.print("Error budget", style="bold underline")
    pairs = [("accept", _cut_line(found, "accept", found.accept, found.accept_bound))]
    if found.reject_bound is not None:
        pairs.append(("reject", _cut_line(found, "reject", found.reject, found.reject_bound)))
        pairs.append(
            ("both", f"each promise by itself; the two together with confidence ≥ {1 - 2 * found.delta:g}")
        )
    pairs.append(("review", f"everything else, what was not measured, and ±{found.tolerance:g} around a cut"))
    show_pairs(pairs, to)
    to.print("\nOn these labels", style="bold underline")
    show_pairs(
        [
            ("coverage", f"accepted among supported, measured: {_share(at.coverage)}"),
            ("", f"among all supported, measured or not: {_share(at.coverage_of_all)}"),
            ("false acceptance", f"accepted among unsupported, measured: {_share(at.false_acceptance)}"),
            ("selective risk", f"unsupported among accepted: {_share(at.selective_risk)}"),
            ("false rejection", f"rejected among supported, measured: {_share(at.false_rejection)}"),
            ("caught", f"rejected among unsupported, measured: {_share(at.caught)}"),
            ("review", f"of all labelled, measured: {_share(at.reviewed)}"),
        ],
        to,
    )
    to.print("95 % intervals over sources, approximate; the promise is the bound above", style="dim")
    to.print(f"\n{_counts_line(found)}")
    _show_curve(points, to)
    for note in found.notes:
        to.print(f"NOTE: {note}", style="yellow")
    assert found.accept_bound is not None
    to.print(f"\n{found.accept_bound.risk.words}")
    to.print(f"\nwrote {out} ({found.digest})")


def _cut_line(found: Threshold, side: str, cut: float | None, bound: Bound | None) -> str:
    if cut is None or bound is None:
        return "nothing"
    sign = "<" if found.higher_is_outside == (side == "accept") else ">"
    return (
        f"{found.score} {sign} {cut:.4f}: {bound.risk.name} ≤ {bound.budget:g} with confidence "
        f"{1 - found.delta:g}; {bound.events} of {bound.trials} sources, Clopper–Pearson ≤ "
        f"{bound.upper:.4f}, p = {bound.p_value:.3g}"
    )


def _share(share: Share) -> str:
    if share.rate is None or share.low is None or share.high is None:
        return "none there"
    return (
        f"{share.rate:.3f} [{share.low:.3f}, {share.high:.3f}] "
        f"({share.hits} of {share.units}, {share.sources} sources)"
    )


def _counts_line(found: Threshold) -> str:
    counts = found.counts
    measured = counts["units"] - counts["unmeasured"]
    return (
        f"measured {measured} of {counts['units']} units ({counts['supported']} supported, "
        f"{counts['unsupported']} unsupported, {counts['unlabelled']} without a label, which take no part)"
    )


def _show_curve(points: Sequence[CurvePoint], to: Console) -> None:
    """A dozen of its points."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for name in ("cut", "false acceptance", "upper bound of it", "coverage"):
        table.add_column(name, justify="right")
    step = max(1, len(points) // CURVE_LINES)
    for point in points[::step]:
        numbers = (point.false_acceptance, point.upper, point.coverage)
        table.add_row(f"{point.cut:.4f}", *("–" if one is None else f"{one:.3f}" for one in numbers))
    to.print("\nThe curve: what other cuts would have done (upper bound: for that cut alone)", style="bold")
    to.print(table)


def _draw(points: Sequence[CurvePoint], found: Threshold, at: OperatingPoint, path: Path) -> None:
    """Rates against the cut, and coverage against false acceptance."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise NotInstalled("matplotlib", "plots", "A plot") from error
    none = math.nan  # a gap in a line; nothing of this is written as a number
    cuts = [point.cut for point in points]
    rate = [none if point.false_acceptance is None else point.false_acceptance for point in points]
    upper = [none if point.upper is None else point.upper for point in points]
    cover = [none if point.coverage is None else point.coverage for point in points]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(cuts, cover, color="#4477aa", label="coverage of supported")
    left.plot(cuts, rate, color="#aa3377", label="false acceptance")
    left.plot(cuts, upper, color="#aa3377", linestyle=":", label="its upper bound")
    for cut in (found.accept, found.reject):
        if cut is not None:
            left.axvline(cut, color="0.4", linewidth=1)
    left.set(xlabel=f"cut on {found.score}", ylim=(0, 1))
    left.legend(frameon=False, fontsize="small")
    right.step(rate, cover, where="post", color="#4477aa")
    if at.false_acceptance.rate is not None and at.coverage.rate is not None:
        right.plot([at.false_acceptance.rate], [at.coverage.rate], "o", color="#aa3377")
    bound = found.accept_bound
    if bound is not None and bound.risk.name == "false_acceptance":
        right.axvline(bound.budget, color="0.4", linewidth=1, linestyle=":")
    right.set(xlabel="false acceptance", ylabel="coverage of supported", xlim=(0, 1), ylim=(0, 1))
    try:
        figure.savefig(path)
    except OSError as error:
        remedy = "Name a file in a folder that exists"
        raise InputError(f"cannot be written: {error.strerror}", path=path, remedy=remedy) from error
    finally:
        plt.close(figure)
