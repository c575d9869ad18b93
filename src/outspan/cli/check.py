"""``outspan check``: the main job."""

from __future__ import annotations

from typing import Any

import click

from outspan.cli.options import build_sensor, sensor_options
from outspan.cli.reading import read_answer_and_evidence
from outspan.cli.terminal import check_table, console, evidence_line, summary_lines


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

    text, items = read_answer_and_evidence(answer, evidence_paths)
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
    about_evidence = evidence_line(record)
    if about_evidence:
        out.print(about_evidence, style="dim")
