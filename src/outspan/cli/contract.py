"""``outspan contract``: what the number claims to be, what must hold, what it cannot see."""

from __future__ import annotations

import json

import click

from outspan.cli.terminal import console, show_pairs
from outspan.measurement import ASSUMPTIONS, ENERGY_CONTRACT


@click.command(epilog="Example: outspan contract --json | python -m json.tool")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def contract(as_json: bool) -> None:
    """Print the measurement contract, its assumptions and its blind spots."""
    record = ENERGY_CONTRACT.to_dict()
    if as_json:
        assumptions = [
            {"key": a.key, "name": a.name, "statement": a.statement, "breaks": a.breaks} for a in ASSUMPTIONS
        ]
        click.echo(json.dumps({"contract": record, "assumptions": assumptions}, ensure_ascii=False))
        return
    out = console()
    out.print("Measurement contract", style="bold underline")
    show_pairs([(k, _word(v)) for k, v in record.items() if k != "known_blind_spots"], out)
    out.print("\nAssumptions, and what breaks when one fails", style="bold underline")
    show_pairs([(f"{a.key} {a.name}", f"{a.statement} → {a.breaks}") for a in ASSUMPTIONS], out)
    out.print("\nBlind spots: what a low energy does not rule out", style="bold underline")
    for spot in ENERGY_CONTRACT.known_blind_spots:
        out.print(f"  · {spot.replace('_', ' ')}")
    out.print("\nIt is not a probability that a claim is false, nor that a model made something up.")


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
