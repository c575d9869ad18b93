"""``outspan check``: the main job."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from outspan.cli.gate import FAILING, gate_options, open_gate
from outspan.cli.options import build_sensor, sensor_options
from outspan.cli.reading import read_answer_and_evidence
from outspan.cli.terminal import check_table, console, decision_lines, evidence_line, summary_lines

if TYPE_CHECKING:
    from outspan.checker import Check
    from outspan.cli.gate import Gate
    from outspan.evidence import EvidenceItem
    from outspan.gate import AnswerDecision


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
@click.option(
    "--threshold", metavar="FILE", help="Decide on each sentence: accept, review or reject. See calibrate."
)
@gate_options
@sensor_options
def check(
    answer: str,
    evidence_paths: tuple[str, ...],
    *,
    as_json: bool,
    threshold: str | None,
    fail_on: str | None,
    model: str,
    rank: str,
    select: str,
    proxies: tuple[str, ...],
    sensors: tuple[str, ...],
    no_cache: bool,
    **how: Any,
) -> None:
    """Split ANSWER into sentences and measure each against the evidence.

    ANSWER is a file, or '-' for standard input. Prints a table: the energy of each sentence (0: inside the
    span of the evidence, 1: wholly outside), the nearest evidence sentence, and flags. Without --threshold
    nothing is decided: a number without a calibration is not a decision.
    """
    from outspan.checker import check as check_answer

    opened = _gate(threshold, fail_on, how)
    text, items = read_answer_and_evidence(answer, evidence_paths)
    sensor = build_sensor(
        model=model, rank=rank, select=select, proxies=proxies, sensors=sensors, no_cache=no_cache
    )
    record = check_answer(text, items, sensor)
    decision, document = None, record.to_dict()
    if opened is not None:
        decision = _decide(record, document, text, items, opened)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
    else:
        _show(record, decision)
    if fail_on is not None and decision is not None and decision.outcome in FAILING[fail_on]:
        sys.exit(1)


def _gate(threshold: str | None, fail_on: str | None, how: dict[str, Any]) -> Gate | None:
    if threshold is not None:
        return open_gate(threshold=threshold, **how)
    if fail_on is not None or any(how.values()):
        raise click.UsageError(
            "--policy, --set, --scores, --ledger, --private and --fail-on need --threshold"
        )
    return None


def _decide(
    record: Check, document: dict[str, Any], text: str, items: list[EvidenceItem], opened: Gate
) -> AnswerDecision:
    """Decide, write the decisions into the document, and keep the record."""
    from outspan.gate import decide_answer, decision_record, require_regime

    require_regime(opened.threshold, record.fingerprint, record.proxy_fingerprints, record.regime)
    claims = document["claims"]
    decision = decide_answer(claims, opened.threshold, opened.policy)
    entry = opened.keep(
        decision_record(
            answer=text,
            evidence=items,
            claims=claims,
            decision=decision,
            threshold=opened.threshold,
            policy=opened.policy,
            fingerprint=record.fingerprint,
            proxy_fingerprints=record.proxy_fingerprints,
            sensor_fingerprints=record.sensor_fingerprints,
            regime=record.regime,
            contract=record.contract,
            private=opened.private,
        )
    )
    document["claims"] = [
        {**claim, "decision": made.to_dict()} for claim, made in zip(claims, decision.claims, strict=True)
    ]
    document["decision"] = {
        **decision.to_dict(),
        **opened.named,
    }
    if entry is not None:
        document["decision"]["ledger"] = {"seq": entry.seq, "digest": entry.digest}
    return decision


def _show(record: Check, decision: AnswerDecision | None) -> None:
    out = console()
    if record.claims:
        out.print(check_table(record, decision))
        out.print()
    for line in summary_lines(record.summary):
        out.print(line)
    if decision is not None:
        for said in decision_lines(decision):
            out.print(said)
    about_evidence = evidence_line(record)
    if about_evidence:
        out.print(about_evidence, style="dim")
