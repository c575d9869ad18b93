"""What a person sees: tables and messages. Functions of records; nothing is measured here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outspan.checker import Check, CheckedClaim
from outspan.measurement import Finding, Reading, Tally

if TYPE_CHECKING:
    from outspan.gate import AnswerDecision

BAR_WIDTH = 10
WIDTH_WITHOUT_TERMINAL = 120
LEAST_WIDTH = 60


def console(*, stderr: bool = False) -> Console:
    """A console that keeps a readable width when its output goes to a file or a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    made = _Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)
    made.width = max(made.width, LEAST_WIDTH)  # a line that wraps says more than a column that vanished
    return made


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let ``main`` see that the reader went away, where the default would exit with 1."""
        raise BrokenPipeError


def energy_bar(energy: float) -> str:
    """A bar of ten cells, filled in eighths; a longer bar is a claim further outside its evidence."""
    eighths = round(energy * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    partial = " ▏▎▍▌▋▊▉"[rest] if rest else ""
    return ("█" * full + partial).ljust(BAR_WIDTH, "·")


FOUND = "bold underline red"
FOUND_NAMED = "red"
FINDINGS_SHOWN = 8

STYLES = {"accept": "green", "review": "yellow", "reject": "bold red", "no_claim": "dim"}


def decision_style(outcome: str) -> str:
    """How an outcome is coloured; the word itself always stands beside the colour."""
    return STYLES.get(outcome, "")


def check_table(check: Check, decision: AnswerDecision | None = None) -> Table:
    """One row a sentence: its number, energy, decision if there is one, text, nearest evidence and flags."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    table.add_column("#", justify="right", style="dim")
    table.add_column("energy", no_wrap=True, min_width=BAR_WIDTH + 6)
    if decision is not None:
        table.add_column("decision", no_wrap=True)
    table.add_column("sentence", ratio=5)
    table.add_column("nearest evidence", ratio=5)
    table.add_column("cos", justify="right", no_wrap=True, min_width=5)
    for number, checked in enumerate(check.claims, start=1):
        table.add_row(
            str(number),
            _energy_cell(checked),
            *_decision_cells(decision, number),
            _sentence_cell(checked),
            *_nearest_cells(checked),
            end_section=False,
        )
    return table


def _energy_cell(checked: CheckedClaim) -> Text:
    one = checked.measurement
    if one.energy is None:
        return Text(str(one.state), style="yellow" if one.state != "NO_CLAIM" else "dim")
    return Text(f"{one.energy:.3f} {energy_bar(one.energy)}")


def _decision_cells(decision: AnswerDecision | None, number: int) -> list[Text]:
    if decision is None:
        return []
    outcome = str(decision.claims[number - 1].outcome)
    return [Text(outcome, style=decision_style(outcome))]


def decision_lines(decision: AnswerDecision) -> Iterable[Text]:
    """The answer's decision, and why each sentence that is not accepted is not."""
    line = Text("decision: ")
    line.append(str(decision.outcome), style=decision_style(decision.outcome))
    yield line.append(f" ({decision.reason})")
    for number, one in enumerate(decision.claims, start=1):
        if one.outcome not in ("accept", "no_claim"):
            yield Text(f"  {number} {one.outcome}, by the rule '{one.rule}': {one.reason}")


def _sentence_cell(checked: CheckedClaim) -> Text:
    one = checked.measurement
    cell = Text(clean(checked.claim.text), style="" if one.energy is not None else "dim")
    for start, end in _shown_spans(checked):
        cell.stylize(FOUND, start, end)
    if one.reason:
        cell.append(f"  ({one.reason})", style="dim italic")
    if one.flags:
        cell.append("  " + " ".join(f"⚑{flag}" for flag in one.flags), style="yellow")
    for name, value in one.proxies.items():
        cell.append(f"  {name}={'none' if value is None else format(value, '.3f')}", style="cyan")
    for reading in one.sensors.values():
        cell.append_text(reading_text(reading))
    return cell


def reading_text(reading: Reading) -> Text:
    """A sensor's score, or its state and why, and what it points to; never by colour alone."""
    score = f"{reading.state} ({reading.reason})" if reading.score is None else f"{reading.score:.3f}"
    # What claims nothing says so already, once for the sentence.
    shown = Text("" if reading.state == "NO_CLAIM" else f"  {reading.sensor}={clean(score)}", style="cyan")
    if reading.flags:
        shown.append("  " + " ".join(f"⚑{flag}" for flag in reading.flags), style="yellow")
    listed = [_finding_text(finding) for finding in reading.findings[:FINDINGS_SHOWN]]
    if listed:
        more = len(reading.findings) - len(listed)
        shown.append(" outside: " if reading.sensor == "tokens" else " finds: ", style="cyan")
        shown.append(", ".join(listed) + (f" and {more} more" if more else ""), style=FOUND_NAMED)
    return shown


def _finding_text(finding: Finding) -> str:
    if finding.kind == "word":
        return clean(finding.text)
    held = finding.expected or finding.found
    against = "" if held is None else f" → {clean(held, limit=60)}"
    return f"{finding.kind.replace('_', ' ')} {clean(finding.text)}{against}"


def _shown_spans(checked: CheckedClaim) -> Iterable[tuple[int, int]]:
    """Where the findings stand in the sentence as it is shown: on one line, and cut where it is long."""
    text = checked.claim.text
    shown = len(clean(text))
    cut = int(shown < len(clean(text, limit=len(text) + 1)))  # the last character stands for the rest
    for reading in checked.measurement.sensors.values():
        for finding in reading.findings:
            lead = clean(text[: finding.start] + "x", limit=len(text) + 1)
            start = len(lead) - 1
            end = start + len(clean(finding.text))
            if end <= shown - cut:
                yield start, end


def _nearest_cells(checked: CheckedClaim) -> tuple[Text, str]:
    nearest = checked.measurement.nearest
    if nearest is None:
        return Text("–", style="dim"), ""
    cell = Text(clean(nearest.text))
    cell.append(f"  [{clean(nearest.evidence_id)}]", style="dim")
    return cell, f"{nearest.similarity:.3f}"


def clean(text: str, limit: int = 240) -> str:
    """One line of at most ``limit`` characters, without controls that could steer the terminal."""
    line = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def summary_lines(summary: Tally) -> Iterable[str]:
    """The summary with its denominators."""
    states = ", ".join(f"{count} {name}" for name, count in summary.states.items()) or "nothing to measure"
    yield f"measured {summary.measured} of {summary.total} sentences ({states})"
    if summary.energy_max is not None and summary.energy_mean is not None:
        yield (
            f"energy of the measured: highest {summary.energy_max:.3f}, mean {summary.energy_mean:.3f} "
            "(0: inside the span of the evidence, 1: wholly outside)"
        )


def evidence_line(check: Check) -> str | None:
    """What became of the evidence, in one line; None when no sentence was there to ask."""
    if not check.claims:
        return None
    use = check.claims[0].measurement.evidence
    parts = [f"{use.sentences} sentences in {use.supplied} item{'s' if use.supplied != 1 else ''}"]
    if use.merged:
        parts.append(f"{use.merged} repeats merged")
    parts += [f"{count} left out: {reason}" for reason, count in use.left_out.items()]
    return "evidence: " + "; ".join(parts)


def show_pairs(pairs: Sequence[tuple[str, str]], out: Console) -> None:
    """Names and values in two columns."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in pairs:
        table.add_row(escape(name), escape(value))
    out.print(table)
