"""``outspan check``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outspan.cli.options import build_sensor, sensor_options
from outspan.cli.terminal import check_table, console, evidence_line, summary_lines
from outspan.errors import InputError


@click.command(
    epilog="Example: outspan check answer.md --evidence report.md --evidence passages.jsonl",
)
@click.argument("answer", metavar="ANSWER")
@click.option(
    "--evidence",
    "evidence_paths",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Evidence: text, Markdown, or JSONL passages; repeatable. '-' reads standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@sensor_options
def check(answer: str, evidence_paths: tuple[str, ...], as_json: bool, **sensor: Any) -> None:
    """Split ANSWER into sentences and measure each against the evidence.

    ANSWER is a file, or '-' for standard input. Prints a table: the energy of each sentence (0: inside the
    span of the evidence, 1: wholly outside), the nearest evidence sentence, and flags. No threshold is
    applied: a number without a calibration is not a decision.
    """
    from outspan.checker import check as check_answer
    from outspan.evidence import EvidenceItem
    from outspan.files import read_evidence, read_text

    if [answer, *evidence_paths].count("-") > 1:
        raise InputError(
            "standard input can be read once", remedy="Give '-' for the answer or for one evidence file"
        )
    text = read_text(_path(answer))
    items: list[EvidenceItem] = []
    for path in evidence_paths:
        items += read_evidence(_path(path))
    record = check_answer(text, items, build_sensor(**sensor))
    if as_json:
        click.echo(record.to_json())
        return
    out = console()
    if record.claims:
        out.print(check_table(record))
        out.print()
    for line in summary_lines(record.summary):
        out.print(line)
    line = evidence_line(record)
    if line:
        out.print(line, style="dim")


def _path(argument: str) -> Path | str:
    return argument if argument == "-" else Path(argument)
