"""``outspan models``: which embedding models are known, fetching one, checking its bytes."""

from __future__ import annotations

import json

import click
from rich.table import Table

from outspan.cli.terminal import console
from outspan.embedders import DEFAULT_MODEL, fetch_model, list_models, verify_model
from outspan.errors import WrongDigest


@click.group(epilog="Example: outspan models fetch && outspan models verify")
def models() -> None:
    """Embedding models: which are known, where they come from, their digests and licences."""


@models.command("list", epilog="Example: outspan models list --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_command(as_json: bool) -> None:
    """List the models that outspan knows by name."""
    known = list_models()
    if as_json:
        click.echo(json.dumps({"models": [info.to_dict() for info in known]}, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "dimensions", "word pieces", "licence", "size", "here", "from"):
        table.add_column(name, overflow="fold")  # a cut-off name cannot be copied
    for info in known:
        table.add_row(
            info.name,
            str(info.dimension),
            str(info.max_tokens),
            info.license,
            f"{info.size / 1e6:.0f} MB",
            "yes" if info.cached else "no",
            info.source,
        )
    out = console()
    out.print(table)
    for info in known:
        out.print(f"{info.name}: weights {info.weights_digest}", style="dim")


@models.command(epilog="Example: outspan models fetch sentence-transformers/all-MiniLM-L6-v2")
@click.argument("name", default=DEFAULT_MODEL, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def fetch(name: str, as_json: bool) -> None:
    """Fetch a model, verify its digests and build its graph; does nothing if it is here already."""
    folder = fetch_model(name)
    if as_json:
        click.echo(json.dumps({"model": name, "path": str(folder)}, ensure_ascii=False))
    else:
        click.echo(f"{name} is ready in {folder}", err=True)


@models.command(epilog="Example: outspan models verify --json")
@click.argument("name", default=DEFAULT_MODEL, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(name: str, as_json: bool) -> None:
    """Hash every file of a model and compare with the registry; exit code 2 if one differs."""
    report = verify_model(name)
    if as_json:
        click.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        for file in report.files:
            click.echo(f"{'ok     ' if file.ok else 'DIFFERS'} {file.name}  {file.found or 'missing'}")
    if not report.ok:
        raise WrongDigest(
            f"{name}: files differ from the registry. Fetch them anew: outspan models fetch {name}"
        )
