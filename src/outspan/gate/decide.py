"""The decision, which writes its trace while it is being made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outspan.calibration import Threshold
from outspan.gate.policy import AnswerRule, Policy
from outspan.gate.rules import KNOWN_FLAGS, Claim, Outcome, distinct_evidence, flags_of, score_of
from outspan.measurement import State

__all__ = ["AnswerDecision", "Decision", "Step", "decide_answer", "decide_claim", "score_of"]

NO_CLAIM_STEP = "claims nothing"
LAST_LOOK = "last look before acceptance"
END = "end of the rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rule, at the moment when it was asked."""

    rule: str
    kind: str
    inputs: Mapping[str, object]
    matched: bool | None
    """None where it could not be evaluated."""
    outcome: Outcome | None
    """What it decided; None where it let the claim pass to the next rule."""
    reason: str

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {
            "rule": self.rule,
            "kind": self.kind,
            "inputs": dict(self.inputs),
            "matched": self.matched,
            "outcome": None if self.outcome is None else str(self.outcome),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided on one claim."""

    outcome: Outcome
    rule: str
    """The rule that decided."""
    reason: str
    trace: tuple[Step, ...]
    """Every rule that was asked, in order; the last one decided."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {
            "outcome": str(self.outcome),
            "rule": self.rule,
            "reason": self.reason,
            "trace": [step.to_dict() for step in self.trace],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDecision:
    """What was decided on an answer, and on each of its claims."""

    outcome: Outcome
    reason: str
    claims: tuple[Decision, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Claims by outcome, in the order accept, review, reject, no_claim; zeros included."""
        found = Counter(decision.outcome for decision in self.claims)
        return {str(outcome): found[outcome] for outcome in Outcome}

    def to_dict(self) -> dict[str, object]:
        """Outcome, reason and counts; the claims' decisions stand with the claims."""
        return {"outcome": str(self.outcome), "reason": self.reason, "counts": self.counts}


def decide_claim(claim: Claim, threshold: Threshold, policy: Policy) -> Decision:
    """Ask the rules in order; the first that matches decides, and one that cannot be evaluated is a review.

    Parameters
    ----------
    claim : a claim record, as a check or a measured row holds it.
    threshold : calibrated in the regime of the record; the caller has made sure of it.
    policy : what to ask.
    """
    if claim.get("state") == State.NO_CLAIM:
        step = Step(
            rule=NO_CLAIM_STEP,
            kind="state",
            inputs={"state": str(State.NO_CLAIM)},
            matched=True,
            outcome=policy.no_claim,
            reason="the sentence claims nothing",
        )
        return _decided((step,))
    steps: list[Step] = []
    for rule in policy.rules:
        found = rule.test.look(claim, threshold)
        outcome = None
        if found.matched is None:
            outcome = Outcome.REVIEW
        elif found.matched:
            outcome = rule.then
        reason = found.reason if found.matched is not None else f"cannot be evaluated: {found.reason}"
        steps.append(
            Step(
                rule=rule.name,
                kind=rule.kind,
                inputs=found.inputs,
                matched=found.matched,
                outcome=outcome,
                reason=reason,
            )
        )
        if outcome is Outcome.ACCEPT:
            withheld = _withheld(claim, threshold)
            if withheld:
                steps.append(withheld)
        if outcome is not None:
            return _decided(tuple(steps))
    steps.append(
        Step(
            rule=END, kind="always", inputs={}, matched=True, outcome=Outcome.REVIEW, reason="no rule matched"
        )
    )
    return _decided(tuple(steps))


def _decided(steps: tuple[Step, ...]) -> Decision:
    last = steps[-1]
    assert last.outcome is not None
    return Decision(outcome=last.outcome, rule=last.rule, reason=last.reason, trace=steps)


def _withheld(claim: Claim, threshold: Threshold) -> Step | None:
    """A review in place of an acceptance that no policy may give; None where there is nothing against it."""
    state, score, flags = claim.get("state"), score_of(claim, threshold), flags_of(claim)
    if state != State.MEASURED:
        why = "only what is MEASURED can be accepted"
    elif isinstance(score, str):
        why = score
    elif threshold.side(score) != "accept":
        why = f"{threshold.score} {score:.6g} is not on the accepted side of the threshold"
    elif isinstance(flags, str):
        why = flags
    elif grown := _beyond_calibration(claim, threshold):
        why = grown
    elif unheard := [flag for flag in flags if flag not in KNOWN_FLAGS]:
        why = f"the flag {unheard[0]!r} is a warning that this version does not know"
    else:
        return None
    return Step(
        rule=LAST_LOOK,
        kind="guard",
        inputs={
            "state": state if isinstance(state, str) else None,
            "value": None if isinstance(score, str) else score,
            "flags": None if isinstance(flags, str) else flags,
        },
        matched=True,
        outcome=Outcome.REVIEW,
        reason=why,
    )


def _beyond_calibration(claim: Claim, threshold: Threshold) -> str | None:
    """Why the evidence is larger than any that the threshold was calibrated on; None where it is not.

    An energy falls as evidence grows, so a claim must not become acceptable by text that was added to it.
    """
    most = threshold.counts.get("evidence_rows_max")
    if most is None:
        return None
    rows = distinct_evidence(claim)
    if rows is None:
        return "the record does not say how much evidence there was"
    if rows > most:
        return f"{rows} evidence sentences, and none of the calibration's rows had more than {most}"
    return None


def decide_answer(claims: Sequence[Claim], threshold: Threshold, policy: Policy) -> AnswerDecision:
    """Decide on every claim of an answer, and by the policy's answer rule on the answer."""
    decisions = tuple(decide_claim(claim, threshold, policy) for claim in claims)
    outcome, reason = _combine(decisions, claims, policy.answer)
    return AnswerDecision(outcome=outcome, reason=reason, claims=decisions)


def _combine(decisions: Sequence[Decision], claims: Sequence[Claim], rule: AnswerRule) -> tuple[Outcome, str]:
    counts = Counter(decision.outcome for decision in decisions)
    total = len(decisions) - counts[Outcome.NO_CLAIM]
    if not total:
        return Outcome.NO_CLAIM, "no sentence claims anything"
    rejected, accepted = counts[Outcome.REJECT], counts[Outcome.ACCEPT]
    shown = f"{rejected} of {total} claims rejected, {total - rejected - accepted} for review"
    if rule.rule == "worst":
        outcome = Outcome.REJECT if rejected else Outcome.ACCEPT if accepted == total else Outcome.REVIEW
        return outcome, f"worst: {shown}"
    limits = f"share (reject above {rule.reject_above:g}, review above {rule.review_above:g}): {shown}"
    if rejected / total > rule.reject_above:
        return Outcome.REJECT, limits
    if (total - accepted) / total > rule.review_above or not accepted:
        return Outcome.REVIEW, limits
    # A share forgives claims that were measured and found outside, never one of which nothing is known.
    unmeasured = sum(claim.get("state") not in (State.MEASURED, State.NO_CLAIM) for claim in claims)
    if unmeasured:
        return Outcome.REVIEW, f"{limits}; {unmeasured} not measured"
    return Outcome.ACCEPT, limits
