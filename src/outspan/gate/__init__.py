"""From measurements, a threshold and a policy to decisions that wrote their own trace.

    claim record ─► rules in order ─► the first that matches decides ─► the answer's decision
                         │
                         └─ each leaves its inputs and its outcome in the trace, matched or not

Nothing is accepted but a MEASURED claim on the accepted side of a calibrated threshold: a policy can only
narrow that. What cannot be evaluated is a review.
"""

from outspan.gate.decide import AnswerDecision, Decision, decide_answer, decide_claim, score_of
from outspan.gate.policy import Policy, Scores, load_policy, parse_policy, parse_settings, ready_made
from outspan.gate.record import DecisionRecord, decision_record
from outspan.gate.rows import MeasuredRow, read_measured_row, require_regime
from outspan.gate.rules import Outcome

__all__ = [
    "AnswerDecision",
    "Decision",
    "DecisionRecord",
    "MeasuredRow",
    "Outcome",
    "Policy",
    "Scores",
    "decide_answer",
    "decide_claim",
    "decision_record",
    "load_policy",
    "parse_policy",
    "parse_settings",
    "read_measured_row",
    "ready_made",
    "require_regime",
    "score_of",
]
