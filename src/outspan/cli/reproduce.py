"""``outspan reproduce``: a published recipe, run again beside its published numbers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from outspan.errors import InputError


@click.group(epilog="Example: outspan reproduce halueval --data summarization_data.json")
def reproduce() -> None:
    """Run a published recipe again and set the result beside the published numbers."""


@reproduce.command(epilog="Example: outspan reproduce halueval --data summarization_data.json")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="summarization_data.json of the HaluEval repository.",
)
@click.option("--no-cache", is_flag=True, help="Neither read nor keep vectors on disk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def halueval(data: Path, *, no_cache: bool, as_json: bool) -> None:
    """HaluEval summarization: cap 32, one summary of each document, 70/30 split of rows.

    The split is by row, as in the published run. Summaries of that set were written by a model that was
    asked for errors: `outspan evaluate` on the same file says what its form alone gives away.
    """
    from outspan.embedders import VectorCache, load_embedder
    from outspan.lab.datasets import read_dataset
    from outspan.lab.reproduce import reproduce_halueval

    dataset = read_dataset(data, "halueval_summarization")
    try:
        lines = reproduce_halueval(
            dataset,
            load_embedder(),
            cache=None if no_cache else VectorCache(),
            say=lambda message: print(message, file=sys.stderr, flush=True),
        )
    except ValueError as error:
        raise InputError(str(error), path=data, remedy="Give the whole file") from error
    if as_json:
        about = {"dataset_digest": dataset.digest, "split": "row-level 70/30"}
        click.echo(json.dumps({**about, "rows": [asdict(line) for line in lines]}, allow_nan=False))
        return
    click.echo(f"{'':40} published    ours [95 %]")
    for line in lines:
        published = "–" if line.published is None else f"{line.published:.4f}"
        ours = "not defined" if line.ours.value is None else f"{line.ours.value:.4f}"
        if line.ours.low is not None and line.ours.high is not None:
            ours += f" [{line.ours.low:.4f}, {line.ours.high:.4f}]"
        click.echo(f"{line.name:40} {published:>9}    {ours}  n = {line.n}  {line.note}")
