"""``outspan gate``: from measured rows to decisions, and the options that ``check`` shares with it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from outspan.errors import InputError

if TYPE_CHECKING:
    from outspan.calibration import Threshold
    from outspan.gate import AnswerDecision, DecisionRecord, MeasuredRow, Policy
    from outspan.ledger import Entry, Ledger

F = TypeVar("F", bound=Callable[..., Any])

FAILING = {"reject": ("reject",), "review": ("reject", "review")}
"""``--fail-on`` to the outcomes that fail."""

_OPTIONS = (
    click.option(
        "--policy",
        "policy_name",
        metavar="POLICY.toml|NAME",
        help="A policy file, or one that is ready to use (see docs/audit.md); `energy` by default.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=NUMBER",
        help="A number that the policy asks for; repeatable. The package ships none.",
    ),
    click.option(
        "--scores",
        metavar="MEASURED",
        help="The measured file of the calibration, for policies that speak of percentiles.",
    ),
    click.option(
        "--ledger",
        "ledger_place",
        metavar="LEDGER",
        help="Append each decision to this ledger: a path, or postgresql://…",
    ),
    click.option("--private", is_flag=True, help="Keep digests in place of texts in the ledger."),
    click.option(
        "--fail-on",
        type=click.Choice(list(FAILING)),
        help="Exit with code 1 if an answer is rejected, or is not accepted.",
    ),
)


def gate_options(function: F) -> F:
    """Add the options that describe how is decided and where it is kept."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What decides, and where decisions are kept."""

    threshold: Threshold
    policy: Policy
    ledger: Ledger | None
    private: bool

    @cached_property
    def named(self) -> dict[str, object]:
        """The policy and the threshold, as every decision names them."""
        return {
            "policy": {"name": self.policy.name, "digest": self.policy.digest},
            "threshold": self.threshold.digest,
        }

    def keep(self, record: DecisionRecord) -> Entry | None:
        """Append a decision to the ledger, if there is one; it is on disk when this returns."""
        if self.ledger is None:
            return None
        from outspan.ledger import Artefact

        artefacts = [
            Artefact(name=name, value=value, digest=str(record.content[name]))
            for name, value in record.shared.items()
        ]
        name = record.content["id"]
        key = None if name is None else name if isinstance(name, str) else json.dumps(name)
        return self.ledger.append("decision", record.content, key=key, artefacts=artefacts)


def open_gate(
    *,
    threshold: str,
    policy_name: str | None,
    settings: tuple[str, ...],
    scores: str | None,
    ledger_place: str | None,
    private: bool,
) -> Gate:
    """What the options describe; everything is checked before anything is measured or decided.

    Raises
    ------
    InputError
        For a threshold, policy, setting or ledger that cannot be used.
    """
    from outspan.calibration import read_threshold
    from outspan.gate import load_policy, parse_settings

    if private and ledger_place is None:
        raise click.UsageError("--private is about the ledger: name one with --ledger")
    made = read_threshold(threshold)
    policy = load_policy(
        policy_name or "energy",
        parameters=parse_settings(settings),
        scores=None if scores is None else read_scores(Path(scores), made),
    )
    ledger = None
    if ledger_place is not None:
        from outspan.ledger import Ledger as Opened

        ledger = Opened(ledger_place)
    if policy.answer.rule == "share" and made.unit == "row":
        click.echo(
            "NOTE: the threshold was calibrated on whole rows, by the outermost of their sentences; an "
            "answer rule that forgives a share of them accepts more than the calibration speaks of.",
            err=True,
        )
    return Gate(threshold=made, policy=policy, ledger=ledger, private=private)


def read_scores(path: Path, threshold: Threshold) -> Any:
    """The scores that a threshold was calibrated on.

    Raises
    ------
    InputError
        If the file is not the one of the calibration, by its digest.
    """
    from outspan.cli.labelled import read_sample
    from outspan.cli.measured import digest_of
    from outspan.gate import Scores

    digest = digest_of(path)
    if digest != threshold.data_digest:
        raise InputError(
            "is not the file that the threshold was calibrated on: its digest is another",
            path=path,
            remedy="Name that file, or calibrate on this one",
        )
    sample = read_sample(path, threshold.unit, threshold.score, higher_is_outside=threshold.higher_is_outside)
    values = [one.value for one in sample.units if one.measured and one.value is not None]
    return Scores(values=tuple(values), digest=digest)


@click.command(
    epilog="Example: outspan gate measured.jsonl --threshold threshold.json -o decisions.jsonl",
)
@click.argument("source", metavar="IN")
@click.option("--threshold", required=True, metavar="FILE", help="What outspan calibrate wrote.")
@click.option("-o", "--out", required=True, metavar="OUT.jsonl", help="Decisions; '-' is standard output.")
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
@gate_options
def gate(
    source: str, *, threshold: str, out: str, overwrite: bool, as_json: bool, fail_on: str | None, **how: Any
) -> None:
    """Accept, review or reject each claim and each answer of IN, which `outspan measure` wrote.

    Only a MEASURED claim on the accepted side of the threshold can be accepted; a policy narrows that
    further. What cannot be evaluated is a review. A sentence that claims nothing stands apart and counts
    neither way. A threshold that was calibrated in another regime is refused, with what differs.

    OUT has one line a row: "outcome" and "reason" of the answer, and for each sentence its outcome, the rule
    that decided, and the trace of every rule that was asked. With --ledger, each decision is on disk before
    the next row is read.
    """
    opened = open_gate(threshold=threshold, **how)
    tally = GateTally()
    with _output(out, overwrite=overwrite) as stream:
        for line in decide_rows(Path(source), opened, tally):
            stream.write(line)
    _report(tally, opened, as_json=as_json and out != "-")
    if fail_on is not None and any(tally.answers[outcome] for outcome in FAILING[fail_on]):
        sys.exit(1)


class GateTally:
    """Answers and claims by what became of them."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.claims: Counter[str] = Counter()
        self.states: Counter[str] = Counter()

    def take(self, claims: Any, decision: AnswerDecision) -> None:
        """Count one answer."""
        self.answers[str(decision.outcome)] += 1
        self.claims.update(decision.counts)
        self.states.update(str(claim.get("state")) for claim in claims)

    def to_dict(self) -> dict[str, object]:
        """Every count, zeros included."""
        return {
            "answers": _counted(self.answers),
            "claims": {**_counted(self.claims), "measured": self.states["MEASURED"]},
            "states": dict(self.states),
        }

    def lines(self) -> Iterator[str]:
        """The counts in words, n of N, with what claims nothing apart."""
        yield _said("answers", self.answers)
        yield _said("claims", self.claims)
        states = ", ".join(f"{count} {state}" for state, count in self.states.items())
        yield f"measured {self.states['MEASURED']} of {self.states.total()} sentences ({states or 'none'})"


def _counted(counts: Counter[str]) -> dict[str, int]:
    outcomes = ("accept", "review", "reject", "no_claim")
    return {"total": sum(counts[name] for name in outcomes), **{name: counts[name] for name in outcomes}}


def _said(what: str, counts: Counter[str]) -> str:
    total = counts["accept"] + counts["review"] + counts["reject"]
    apart = f"; {counts['no_claim']} that claim nothing stand apart" if counts["no_claim"] else ""
    return (
        f"{what}: accepted {counts['accept']} of {total}, review {counts['review']}, "
        f"rejected {counts['reject']}{apart}"
    )


def decide_rows(source: Path, opened: Gate, tally: GateTally) -> Iterator[bytes]:
    """The lines of the output, each decided, and recorded, when it is asked for.

    Raises
    ------
    InputError
        For a line that is not a measured row; rows before it are decided and recorded.
    RegimeMismatch
        For a row of another regime than the threshold's.
    """
    from outspan.cli.measured import regime_beside
    from outspan.gate import decide_answer, decision_record, read_measured_row

    beside = regime_beside(source, "energy")
    empty = True
    for number, raw in _rows(source):
        try:
            row = read_measured_row(_ready(raw, beside, source))
        except InputError as error:
            raise InputError(error.problem, remedy=error.remedy, path=source, line=number) from error
        row.require(opened.threshold)
        empty = False
        decision = decide_answer(row.claims, opened.threshold, opened.policy)
        entry = None
        if opened.ledger is not None:
            entry = opened.keep(
                decision_record(
                    answer=row.answer,
                    evidence=row.evidence,
                    claims=row.claims,
                    decision=decision,
                    threshold=opened.threshold,
                    policy=opened.policy,
                    fingerprint=row.fingerprint,
                    proxy_fingerprints=row.proxy_fingerprints,
                    sensor_fingerprints=row.sensor_fingerprints,
                    regime=row.regime or None,
                    row_id=row.id,
                    group=row.group,
                    private=opened.private,
                )
            )
        tally.take(row.claims, decision)
        yield _line(row, decision, opened, entry)
    if empty:
        raise InputError("holds no rows", path=source, remedy="Give a file that outspan measure wrote")


def _rows(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line and row; a gate reads once, so that standard input will do."""
    from outspan.cli.measured import iter_measured
    from outspan.files import STANDARD_INPUT, iter_json_lines

    if str(source) != STANDARD_INPUT:
        yield from iter_measured(source)
        return
    for line in iter_json_lines(STANDARD_INPUT):
        if line.error is not None:
            raise line.error
        if not isinstance(line.value, dict):
            raise InputError("the line is not a JSON object", path="stdin", line=line.number)
        yield line.number, line.value


def _ready(raw: Mapping[str, Any], beside: Mapping[str, object], source: Path) -> dict[str, Any]:
    """The row with the regime that stands beside the file; Parquet keeps a list of evidence as JSON text."""
    row = {"regime": beside, **raw}
    if source.suffix.lower() == ".parquet":
        if isinstance(row.get("evidence"), str):
            row["evidence"] = json.loads(row["evidence"])
        row["sentences"] = [_without_pairs(one) for one in row["sentences"]]
    return row


def _without_pairs(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Parquet hands a mapping out as pairs."""
    evidence = dict(claim["evidence"])
    evidence["left_out"] = dict(evidence["left_out"])
    return {**claim, "evidence": evidence}


def _line(row: MeasuredRow, decision: AnswerDecision, opened: Gate, entry: Entry | None) -> bytes:
    kept = ("text", "start", "end", "state", "reason", "energy", "flags")
    claims = []
    for one, decided in zip(row.claims, decision.claims, strict=True):
        claim = {name: one.get(name) for name in kept}
        if opened.threshold.score != "energy":
            proxies = one.get("proxies")
            claim[opened.threshold.score] = (
                proxies.get(opened.threshold.score) if isinstance(proxies, Mapping) else None
            )
        claims.append({**claim, "decision": decided.to_dict()})
    record = {
        "id": row.id,
        "group": row.group,
        **decision.to_dict(),
        "claims": claims,
        **opened.named,
        "fingerprint": row.fingerprint,
    }
    if entry is not None:
        record["ledger"] = {"seq": entry.seq, "digest": entry.digest}
    return encoded(record)


def encoded(value: object) -> bytes:
    r"""A line of JSON, never NaN; a lone surrogate, which UTF-8 cannot hold, as its ``\u`` escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


@contextmanager
def _output(out: str, *, overwrite: bool) -> Iterator[BinaryIO]:
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(out)
    if path.exists() and not overwrite:
        raise InputError("is there already", path=path, remedy="Give another name, or --overwrite")
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from error
    finally:
        partial.unlink(missing_ok=True)


def _report(tally: GateTally, opened: Gate, *, as_json: bool) -> None:
    head = None if opened.ledger is None else opened.ledger.head()
    if as_json:
        summary = {
            **tally.to_dict(),
            **opened.named,
            "ledger": None if head is None else head.to_dict(),
        }
        click.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    for line in tally.lines():
        click.echo(line, err=True)
    if head is not None:
        click.echo(f"ledger: {head.count} entries, head {head.digest}", err=True)
