"""The pairs: evidence, a claim that it supports, a wrong edit of it, and a paraphrase that keeps it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

from outspan.canonical import digest_json

Half: TypeAlias = Literal["build", "report"]

KINDS = (
    "relation_inversion",
    "role_substitution",
    "polarity",
    "prefix_negation",
    "causal_direction",
    "temporal_order",
    "scope_condition",
    "comparative_direction",
    "legal_relation",
    "quantity",
    "unit",
    "date",
    "name_substitution",
    "recombination",
)
"""Every kind of edit, in the order in which a report lists them."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A wrong edit and a paraphrase of one supported claim."""

    id: str
    kind: str
    evidence: tuple[str, ...]
    """One to three items; a table is one item."""
    claim: str
    edit: str
    """The claim with one error of this kind; the evidence does not support it."""
    paraphrase: str
    """The claim in other words; the evidence supports it."""

    @property
    def half(self) -> Half:
        """``build``, on which rules and lexicons may be tuned, or ``report``, on which figures are given.

        The id's hash decides, so that a pair stays in its half whatever is added.
        """
        return "build" if hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0 else "report"

    @property
    def same_bag(self) -> bool:
        """Whether claim and edit are the same words in another order."""
        return _bag(self.claim) == _bag(self.edit)


def _bag(text: str) -> list[str]:
    return sorted(_WORD.findall(text.lower()))


@cache
def _all_pairs() -> tuple[Pair, ...]:
    text = files("outspan.selftest").joinpath("pairs.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return tuple(Pair(**{**row, "evidence": tuple(row["evidence"])}) for row in rows)


def load_pairs(half: Half | None = None) -> tuple[Pair, ...]:
    """The pairs that come with the package; all of them, or one half."""
    return tuple(pair for pair in _all_pairs() if half is None or pair.half == half)


def pairs_digest(pairs: tuple[Pair, ...]) -> str:
    """``sha256:`` over the pairs, for the record of a run."""
    return digest_json([[p.id, p.kind, list(p.evidence), p.claim, p.edit, p.paraphrase] for p in pairs])
