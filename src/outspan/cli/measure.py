"""``outspan measure``: many rows, from file to file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from outspan.cli.options import build_sensor, sensor_options

if TYPE_CHECKING:
    from outspan.bulk import Progress, RunSummary

LINE_EVERY_SECONDS = 15.0
"""How often progress is reported where no terminal shows a bar."""


@click.command(
    epilog="Example: outspan measure answers.jsonl -o measured.jsonl",
)
@click.argument("source", metavar="IN.jsonl")
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="OUT",
    help="OUT.jsonl or OUT.parquet; '-' writes JSON Lines to standard output.",
)
@click.option(
    "--unit",
    type=click.Choice(["sentences", "whole"]),
    default="sentences",
    show_default=True,
    help="Split each claim into sentences, or measure it as one.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, and forget an interrupted run.")
@click.option(
    "--max-line-mb",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="A longer line is a bad row. Memory grows with the longest row.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
@sensor_options
def measure(
    source: str, *, out: str, unit: str, overwrite: bool, max_line_mb: int, as_json: bool, **sensor: Any
) -> None:
    """Measure every row of IN.jsonl, or of standard input for '-'.

    A row is {"id", "group", "claim", "evidence": [text or {"id", "text"}, ...]} or has one whole text under
    "source" in place of "evidence"; [] or null says that there is none. OUT keeps every column and adds
    "state", "reason", "energy" (the largest of the measured sentences), "energy_mean", "measured" of
    "sentences_total", "states", "sentences" and "fingerprint". A column of IN by one of these names becomes
    "input.NAME".

    The state of a row is MEASURED if a sentence of it is, else the first that occurs of FAILED, DEGENERATE,
    NO_EVIDENCE, NO_CLAIM.

    OUT appears when it is whole. A run that was stopped, in whatever way, goes on where it was when the same
    command is given again. A row that cannot be used goes to OUT.errors.jsonl with its line number, and the
    run goes on: exit code 0, unless no row at all can be used.
    """
    from outspan.bulk import check_request, measure_file

    check_request(source, out, overwrite=overwrite)
    made = build_sensor(**sensor)
    try:
        with _shown_progress() as show:
            summary = measure_file(
                source,
                out,
                made,
                unit="whole" if unit == "whole" else "sentences",
                overwrite=overwrite,
                max_line_bytes=max_line_mb * 1024 * 1024,
                on_progress=show,
            )
    except KeyboardInterrupt:
        if out != "-":
            again = "the same command" + (" without --overwrite" if overwrite else "")
            click.echo(f"outspan: stopped; the rows done are kept. Run {again} to go on.", err=True)
        raise
    if as_json and out != "-":
        click.echo(json.dumps(summary.to_dict(), ensure_ascii=False, allow_nan=False))
    for line in summary_lines(summary):
        click.echo(line, err=True)


def summary_lines(summary: RunSummary) -> Iterator[str]:
    """What a person needs to know about a complete run; denominators and bad rows in sight."""
    counts = summary.counts
    where = "" if summary.out == "-" else f" in {summary.out}"
    yield f"{counts.rows:,} rows{where} ({_listed(counts.row_states)})"
    yield (
        f"measured {counts.measured:,} of {counts.sentences:,} sentences "
        f"({_listed(counts.sentence_states) or 'nothing to measure'})"
    )
    rate = summary.texts_per_second if summary.seconds >= 1.0 else None
    speed = "" if rate is None else f", {summary.texts:,} distinct sentences, {rate:,.0f} a second"
    resumed = f"; {summary.resumed_rows:,} rows were done before" if summary.resumed_rows else ""
    yield f"{summary.seconds:.1f} s{speed}{resumed}"
    if summary.out != "-":
        yield f"the regime of these numbers: {summary.out}.regime.json"
    if counts.bad_rows:
        listed = f"listed in {summary.errors}" if summary.errors else "listed above"
        total = counts.rows + counts.bad_rows
        yield f"WARNING: {counts.bad_rows:,} of {total:,} rows could not be used: {listed}"


def _listed(states: Any) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in states.items())


@contextmanager
def _shown_progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere a line now and then, so that a log stays readable."""
    if sys.stderr.isatty():
        with _bar() as show:
            yield show
        return
    last = time.monotonic()

    def show_line(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY_SECONDS:
            last = time.monotonic()
            click.echo(progress_line(progress), err=True)

    yield show_line


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(elapsed_when_finished=True))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("reading", total=None)

        def show(progress: Progress) -> None:
            bar.update(
                task,
                total=progress.input_size,
                completed=progress.input_bytes,
                description=progress_line(progress),
            )

        yield show


def progress_line(progress: Progress) -> str:
    """Rows, share of the input, speed and the time that is left at this speed."""
    counts = progress.counts
    parts = [f"{counts.rows + counts.bad_rows:,} rows"]
    if progress.input_size:
        parts.append(f"{progress.input_bytes / progress.input_size:.0%}")
    if progress.seconds > 0:
        parts.append(f"{progress.texts / progress.seconds:,.0f} sentences/s")
    if counts.bad_rows:
        parts.append(f"{counts.bad_rows:,} bad")
    return ", ".join(parts)
