"""What people say about decisions afterwards: further entries, which change nothing that stands there."""

from __future__ import annotations

from typing import Literal, TypeAlias

from outspan.errors import InputError
from outspan.ledger.chain import Entry
from outspan.ledger.store import Ledger

Verdict: TypeAlias = Literal["accepted", "rejected", "note"]
VERDICTS: tuple[Verdict, ...] = ("accepted", "rejected", "note")


def amend(
    ledger: Ledger, seq: int, verdict: Verdict, *, by: str, note: str = "", claim: int | None = None
) -> Entry:
    """Append a person's verdict on a decision.

    Parameters
    ----------
    seq : place of the decision.
    verdict : ``accepted``: the person finds it supported; ``rejected``: not; ``note``: neither.
    by : who says so; not empty, since a verdict that nobody gave cannot be asked about.
    note : why; not empty for a ``note``.
    claim : number of the sentence, from 0; None for the whole answer.

    Raises
    ------
    InputError
        If there is no such decision or sentence, or something is missing. Nothing is written then.
    """
    entry = ledger.get(seq)
    if entry is None or entry.kind != "decision":
        what = "there is no such entry" if entry is None else f"it is of the kind {entry.kind!r}"
        raise InputError(f"entry {seq} cannot be amended: {what}", remedy="Name the number of a decision")
    if verdict not in VERDICTS:
        raise InputError(f"verdict is {verdict!r}", remedy=f"Known are {', '.join(VERDICTS)}")
    if not by.strip():
        raise InputError("an amendment needs a name", remedy="Say who amends")
    if verdict == "note" and not note.strip():
        raise InputError("a note needs a text")
    total = len(entry.content["claims"])
    if claim is not None and not 0 <= claim < total:
        raise InputError(
            f"decision {seq} has no sentence {claim}", remedy=f"Its sentences are 0 to {total - 1}"
        )
    content = {
        "of": seq,
        "of_digest": entry.digest,
        "claim": claim,
        "verdict": verdict,
        "note": note,
        "by": by,
    }
    return ledger.append("amendment", content, key=str(seq))


def amendments(ledger: Ledger, seq: int) -> list[Entry]:
    """Every amendment of a decision, in order."""
    return ledger.find(str(seq), kind="amendment")
