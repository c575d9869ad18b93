"""``outspan drift``: does a calibration still speak for the traffic?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outspan.cli.measured import OneRegime, iter_measured, require_same_regime
from outspan.cli.terminal import console
from outspan.drift import LEVEL, LIMIT, NUMBERS, Comparison, DriftReport, Observation, compare, observe
from outspan.errors import InputError, NotInstalled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLOT_ENDINGS = (".svg", ".png", ".pdf")
VERDICTS = {
    "no_drift_found": (
        "No drift found: nothing here speaks against the calibration. That is no proof that it holds: errors "
        "of a new kind with the same energies leave no trace in these numbers."
    ),
    "drift": (
        "DRIFT: the calibration does not speak for this traffic. Label some of it and calibrate anew. "
        "(Energy and similarity alone may also move because the share of unsupported claims did, which a "
        "bound on false acceptance survives and one on selective risk does not.)"
    ),
    "undecided": (
        "UNDECIDED: there are too few sources to tell drift as large as the limit from chance. Compare again "
        "with more traffic."
    ),
}
LEVEL_HELP = "Chance of any false finding, over all tests."
LIMIT_HELP = "Effect, in 0 to 1, from which a difference is drift."
FAIL_HELP = "Exit 1 then (undecided: or drift)."


@click.command(epilog="Example: outspan drift --reference calibration.jsonl live.jsonl --fail-on drift")
@click.argument("live", type=click.Path(path_type=Path), metavar="LIVE")
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    required=True,
    metavar="CALIBRATION",
    help="What the threshold was calibrated on, as outspan measure wrote it.",
)
@click.option("--level", type=float, default=LEVEL, show_default=True, help=LEVEL_HELP)
@click.option("--limit", type=float, default=LIMIT, show_default=True, help=LIMIT_HELP)
@click.option("--fail-on", type=click.Choice(["drift", "undecided"]), help=FAIL_HELP)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Figure: .svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def drift(
    live: Path,
    *,
    reference: Path,
    level: float,
    limit: float,
    fail_on: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare the measurements of LIVE with those of a calibration, without labels.

    Both are files that `outspan measure` wrote, in one regime. Compared are energy, similarity, evidence
    size, rank, cap binding, truncation, states, scripts and claim length, sentence by sentence, with
    permutation tests over sources ("group"), Holm's correction, and the size of every difference.
    """
    if plot is not None and plot.suffix.lower() not in PLOT_ENDINGS:
        raise click.UsageError(f"--plot {plot}: name a .svg, .png or .pdf file")
    ours, theirs = _Sentences.read(reference), _Sentences.read(live)
    require_same_regime(reference, live, "energy", ours.fingerprint, theirs.fingerprint)
    try:
        report = compare(ours.observations, theirs.observations, level=level, limit=limit)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if plot is not None:
        _draw(report, ours.observations, theirs.observations, plot)
    if as_json:
        about = {"reference": str(reference), "live": str(live), "fingerprint": ours.fingerprint}
        click.echo(json.dumps({**about, **report.to_dict()}, ensure_ascii=False, allow_nan=False))
    else:
        _show(report, console())
    if fail_on is not None and report.verdict in ("drift", fail_on):
        raise SystemExit(1)


class _Sentences:
    """The sentences of a measured file, as far as they are compared."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.fingerprint = ""

    @classmethod
    def read(cls, path: Path) -> _Sentences:
        made, regime = cls(), OneRegime(path, "energy")
        for line, row in iter_measured(path):
            regime.take(line, row)
            source = row.get("group") if row.get("group") is not None else f"line {line}"
            made.observations += [observe(sentence, str(source)) for sentence in row["sentences"]]
        made.fingerprint = regime.fingerprint()
        if not made.observations:
            raise InputError("its rows hold no sentence", path=path, remedy="Give rows with claims")
        return made


def _show(report: DriftReport, to: Console) -> None:
    to.print(
        f"reference: {report.reference_sentences} sentences of {report.reference_sources} sources; "
        f"live: {report.live_sentences} of {report.live_sources}"
    )
    to.print(_table(report))
    to.print(
        "Effect: largest difference of the distribution functions, or total variation, 0 to 1. p: after "
        "exchanges of sources and Holm's correction. Visible: smaller effects cannot be told from chance "
        f"here. Drift: p ≤ {report.level:g} and effect ≥ {report.limit:g}.",
        style="dim",
    )
    to.print(f"\n{VERDICTS[report.verdict]}")


def _table(report: DriftReport) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("feature", no_wrap=True)
    for name in ("n ref", "n live", "effect", "PSI", "p", "visible"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("finding", no_wrap=True)
    table.add_column("reference → live")
    for one in report.comparisons:
        numbers = (one.effect, one.psi, one.adjusted, one.visible)
        cells = ["–" if value is None else f"{value:.3f}" for value in numbers]
        finding = one.finding.upper() if one.finding == "drift" else one.finding
        counts = (str(one.reference_n), str(one.live_n))
        table.add_row(one.feature, *counts, *cells, finding, _change(one))
    return table


def _change(one: Comparison) -> str:
    """Medians of a number, or the shares of the category that moved most."""
    if one.finding == "not compared":
        return "not in both files"
    if one.feature in NUMBERS:
        return f"median {one.reference['0.5']:.3g} → {one.live['0.5']:.3g}"
    names = one.reference.keys() | one.live.keys()
    moved = max(sorted(names), key=lambda name: abs(one.reference.get(name, 0.0) - one.live.get(name, 0.0)))
    return f"{moved}: {one.reference.get(moved, 0.0):.1%} → {one.live.get(moved, 0.0):.1%}"


def _draw(
    report: DriftReport, reference: Sequence[Observation], live: Sequence[Observation], path: Path
) -> None:
    """One panel a feature: distribution functions, or bars."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise NotInstalled("matplotlib", "plots", "A plot") from error
    import numpy as np

    figure, axes = plt.subplots(3, 3, figsize=(11, 8), layout="constrained")
    colours = ("#4477aa", "#aa3377")
    for one, panel in zip(report.comparisons, axes.flat, strict=True):
        panel.set_title(f"{one.feature}: {one.finding}", fontsize="medium")
        if one.feature in NUMBERS:
            for part, colour, name in zip((reference, live), colours, ("reference", "live"), strict=True):
                found = [o.values[one.feature] for o in part if o.values[one.feature] is not None]
                values = np.sort(np.array(found, dtype=np.float64))
                panel.step(
                    values, np.arange(1, len(values) + 1) / max(1, len(values)), color=colour, label=name
                )
        else:
            names = sorted(one.reference.keys() | one.live.keys())
            for shift, shares, colour in zip((-0.2, 0.2), (one.reference, one.live), colours, strict=True):
                at = [i + shift for i in range(len(names))]
                panel.bar(at, [shares.get(name, 0.0) for name in names], width=0.4, color=colour)
            panel.set_xticks(range(len(names)), names, fontsize="small")
        panel.set_ylim(0, 1)
    axes.flat[0].legend(frameon=False, fontsize="small")
    try:
        figure.savefig(path)
    except OSError as error:
        remedy = "Name a file in a folder that exists"
        raise InputError(f"cannot be written: {error.strerror}", path=path, remedy=remedy) from error
    finally:
        plt.close(figure)
