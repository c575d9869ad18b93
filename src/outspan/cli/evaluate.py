"""``outspan evaluate``: is the sensor any good on labelled data?"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from outspan.cli.options import build_sensor
from outspan.embedders import DEFAULT_MODEL


@click.command(epilog="Example: outspan evaluate labelled.jsonl -o findings")
@click.argument("data", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DATA…")
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option(
    "--format", "form", metavar="NAME", help="Format of every file; by default told from its columns."
)
@click.option(
    "--column", "columns", multiple=True, metavar="OURS=THEIRS", help="Map a column, such as claim=text."
)
@click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME|FOLDER")
@click.option(
    "--draws", default=1000, show_default=True, type=click.IntRange(min=20), help="Resamples of sources."
)
@click.option("--no-cache", is_flag=True, help="Neither read nor keep vectors on disk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def evaluate(
    data: tuple[Path, ...],
    *,
    out: Path,
    form: str | None,
    columns: tuple[str, ...],
    model: str,
    draws: int,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Probe labelled claims, measure them, run every control, and append the numbers to DIR/findings.jsonl.

    A set that was finished before, from the same bytes by the same code, is not measured again.
    DIR/report.html and DIR/report.md are made from the rows. A shortcut that tells the labels apart stands
    at their top.
    """
    from outspan.embedders import VectorCache
    from outspan.lab import report
    from outspan.lab.datasets import read_dataset
    from outspan.lab.run import evaluate as run

    mapping = dict(_pair(column) for column in columns)
    sets = [read_dataset(path, form, columns=mapping or None) for path in data]
    sensor = build_sensor(model=model, rank="cap:64", select="nearest:64", proxies=(), no_cache=no_cache)
    # Names without their folders: a findings file is passed on, and a path says where its maker works.
    command = shlex.join(["outspan", "evaluate", *(path.name for path in data), "-o", out.name])
    run(
        sets,
        out,
        sensor.embedder,
        cache=None if no_cache else VectorCache(),
        draws=draws,
        command=command + (f" --draws {draws}" if draws != 1000 else ""),
        say=lambda message: print(message, file=sys.stderr, flush=True),
    )
    page, text = report.render(out)
    if as_json:
        about = {"findings": str(out / "findings.jsonl"), "html": str(page), "markdown": str(text)}
        click.echo(json.dumps({**about, "sets": {one.name: one.counts() for one in sets}}))
    else:
        click.echo(f"{page}\n{text}")


def _pair(text: str) -> tuple[str, str]:
    ours, found, theirs = text.partition("=")
    if not found:
        raise click.UsageError(f"--column {text}: write OURS=THEIRS, such as claim=hypothesis")
    return ours, theirs
