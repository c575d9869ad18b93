"""``outspan report``: the report again, from the rows alone."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example: outspan report findings")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report(folder: Path, *, as_json: bool) -> None:
    """Render DIR/report.html and DIR/report.md from DIR/findings.jsonl, and from nothing else."""
    from outspan.lab.report import render

    page, text = render(folder)
    click.echo(json.dumps({"html": str(page), "markdown": str(text)}) if as_json else f"{page}\n{text}")
