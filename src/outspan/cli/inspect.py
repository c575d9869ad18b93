"""``outspan inspect``: one sentence of an answer, taken apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outspan.cli.options import build_sensor, sensor_options
from outspan.cli.reading import read_answer_and_evidence
from outspan.cli.terminal import clean, console, energy_bar, reading_text, show_pairs
from outspan.errors import InputError, NotInstalled

if TYPE_CHECKING:
    from outspan.sensors.inspection import Inspection

SHOWN = 12


@click.command(epilog="Example: outspan inspect answer.md --evidence report.md --claim 3 --plot claim3.svg")
@click.argument("answer", metavar="ANSWER")
@click.option(
    "--evidence", "evidence_paths", multiple=True, required=True, metavar="FILE", help="As for check."
)
@click.option(
    "--claim",
    "number",
    type=click.IntRange(min=1),
    required=True,
    help="Number in the table of check, from 1.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a figure: .svg, .png or .pdf."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@sensor_options
def inspect(
    answer: str,
    evidence_paths: tuple[str, ...],
    number: int,
    plot: Path | None,
    as_json: bool,
    **sensor: Any,
) -> None:
    """Show what the energy of one sentence is made of.

    The spectrum of the evidence, what each evidence sentence contributes and how far the energy rises
    without it, the energy at every rank, and how far it can move when one evidence vector moves.
    """
    from outspan.claims import split_claims
    from outspan.sensors.inspection import inspect_claim

    text, items = read_answer_and_evidence(answer, evidence_paths)
    claims = split_claims(text)
    if number > len(claims):
        raise InputError(
            f"there is no sentence {number}: the answer has {len(claims)}",
            path=answer,
            remedy="Look up the number in the table of outspan check",
        )
    if plot is not None and plot.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise click.UsageError(f"--plot {plot}: name a .svg, .png or .pdf file")
    inspection = inspect_claim(claims[number - 1], items, build_sensor(**sensor))
    if plot is not None:
        _draw(inspection, plot)
    if as_json:
        click.echo(json.dumps(inspection.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    _show(inspection, console())


def _show(inspection: Inspection, out: Console) -> None:
    one = inspection.measurement
    out.print(Text(clean(inspection.claim.text), style="bold"))
    if one.energy is None:
        out.print(f"{one.state}: {one.reason}", markup=False)
        return
    diagnostics = one.diagnostics
    assert diagnostics is not None
    bound = " (the cap cuts some off)" if one.cap_bound else ""
    pairs = [
        ("energy", f"{one.energy:.4f} {energy_bar(one.energy)}"),
        ("directions", f"{one.rank} kept of {one.numeric_rank}{bound}"),
        ("participation ratio", f"{diagnostics.participation_ratio:.2f} of {len(inspection.contributions)}"),
        ("alignment", f"{diagnostics.alignment:.3f} with the evidence's main direction"),
        *(
            (f"energy if a row moves {epsilon}", f"stays within {low:.3f} … {high:.3f}")
            for epsilon, (low, high) in inspection.energy_when_a_row_moves.items()
        ),
    ]
    show_pairs(pairs, out)
    for reading in one.sensors.values():
        out.print(reading_text(reading))
    out.print("\nWhat each evidence sentence contributes", style="bold")
    out.print(_contribution_table(inspection))
    hidden = len(inspection.contributions) - SHOWN
    if hidden > 0:
        out.print(f"and {hidden} more with smaller shares (all of them: --json)", style="dim")
    out.print("\nEnergy against rank, with the singular value that each rank adds", style="bold")
    for rank in _ranks(len(inspection.energy_by_rank), one.rank):
        energy, sigma = inspection.energy_by_rank[rank - 1], inspection.singular_values[rank - 1]
        mark = "  ← kept" if rank == one.rank else ""
        out.print(f"{rank:4d}  {energy:.3f} {energy_bar(energy)}  σ {sigma:.3f}{mark}")


def _contribution_table(inspection: Inspection) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("share", "cosine", "rise without it"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("evidence sentence")
    for part in inspection.contributions[:SHOWN]:
        rise = "–" if part.energy_rise is None else f"{part.energy_rise:+.4f}"
        sentence = Text(clean(part.text))
        sentence.append(f"  ({clean(part.evidence_id)})", style="dim")
        table.add_row(f"{part.share:+.3f}", f"{part.similarity:.3f}", rise, sentence)
    return table


def _ranks(numeric_rank: int, kept: int) -> list[int]:
    """At most some twenty ranks: all of a short list, else powers of two, the last one and the one kept."""
    if numeric_rank <= 20:
        return list(range(1, numeric_rank + 1))
    powers = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}
    return sorted({rank for rank in powers if rank < numeric_rank} | {kept, numeric_rank})


def _draw(inspection: Inspection, path: Path) -> None:
    """Spectrum and energy against rank, side by side."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise NotInstalled("matplotlib", "plots", "A plot") from error
    if not inspection.energy_by_rank:
        raise InputError(
            "there is nothing to plot: the sentence was not measured", remedy="Run without --plot to see why"
        )
    ranks = range(1, len(inspection.energy_by_rank) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.bar(range(1, len(inspection.singular_values) + 1), inspection.singular_values, color="#4477aa")
    left.set(xlabel="direction", ylabel="singular value σ", title="spectrum of the evidence")
    right.step(ranks, inspection.energy_by_rank, where="mid", color="#aa3377")
    right.axvline(inspection.measurement.rank, color="0.5", linewidth=1, linestyle=":")
    right.set(xlabel="rank", ylabel="energy", ylim=(0, 1), title="energy against rank (dotted: rank kept)")
    left.xaxis.get_major_locator().set_params(integer=True)
    right.xaxis.get_major_locator().set_params(integer=True)
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", path=path, remedy="Name a file in a folder that exists"
        ) from error
    finally:
        plt.close(figure)
