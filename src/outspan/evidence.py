"""From evidence as it was handed in to the rows that span the subspace, with an account of every sentence.

    items ─► sentences ─► exact repeats merged ─► (vectors) ─► selection for a claim ─► near repeats merged

A policy says how. It changes the measurement, so it is part of the regime.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.geometry.subspace import Array
from outspan.texts import is_blank, segment

EvidenceLike: TypeAlias = "str | Mapping[str, object] | EvidenceItem | None"

Vectors: TypeAlias = "NDArray[np.float32] | NDArray[np.float64]"

TEXT_KEYS = ("text", "content", "passage", "page_content")
"""Where the text of an evidence object is looked for, in this order."""

BLOCK = 8192
"""Rows that are widened to float64 at a time."""

NEAR_LIMIT = 8192
"""Above this many chosen rows, only exact repeats are merged."""

_POLICY = re.compile(
    r"(?:sentences )?(?:select=)?(?:all|(?P<select>nearest|spread)(?::(?P<limit>[0-9]{1,9}))?)"
    r"(?: merge=(?P<merge>[0-9.]+))?"
)

DEFAULT_LIMIT = 64
"""Evidence sentences that span the subspace of one claim, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceItem:
    """One piece of evidence as it was handed in: a sentence, a passage, a whole document."""

    id: str
    text: str
    weight: float = 1.0
    """How much this source counts where not all evidence fits, ≥ 0; 0 leaves it out."""

    def __post_init__(self) -> None:
        if not (isinstance(self.id, str) and isinstance(self.text, str)):
            raise ValueError(f"evidence item {self.id!r}: id and text must be strings, not {self.text!r:.40}")
        if not (math.isfinite(self.weight) and self.weight >= 0.0):
            raise ValueError(f"evidence item {self.id!r}: weight must be a number ≥ 0, not {self.weight}")

    @classmethod
    def of(cls, value: EvidenceLike, position: int) -> EvidenceItem:
        """Accept a string, a mapping with ``text`` and perhaps ``id`` and ``weight``, an item, or None.

        Where a mapping has no ``text``, its ``content``, ``passage`` or ``page_content`` is taken.

        Raises
        ------
        ValueError
            For anything else; the message names the position.
        """
        if isinstance(value, EvidenceItem):
            return value
        if value is None:
            return cls(id=str(position), text="")
        if isinstance(value, str):
            return cls(id=str(position), text=value)
        if isinstance(value, Mapping):
            key = next((key for key in TEXT_KEYS if key in value), None)
            text = None if key is None else value[key]
            name, weight = value.get("id"), value.get("weight", 1.0)
            name = position if name is None else name
            if (
                key is not None
                and (text is None or isinstance(text, str))
                and isinstance(name, str | Integral)
                and isinstance(weight, Real)
                and not isinstance(name, bool)
                and not isinstance(weight, bool)
            ):
                return cls(id=str(name), text=text or "", weight=_float(weight))
        raise ValueError(
            f"evidence item {position} must be a string or an object with 'text' and perhaps 'id' (a string "
            f"or a whole number) and 'weight' (a number), not {_shown(value)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSentence:
    """A sentence of evidence."""

    id: str
    """``item#k``: the k-th sentence, from 0, of the item with that id."""
    item_id: str
    start: int
    end: int
    """Character offsets in the item's text."""
    text: str
    core: str
    """What is embedded."""
    multiplicity: int
    """How many sentences were handed in with this very core, itself included."""
    weight: float = 1.0
    """The largest weight of the items that hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A sentence, or a whole item, that takes no part, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePolicy:
    """How evidence becomes rows; its text form parses back to an equal policy.

    Examples
    --------
    >>> str(EvidencePolicy())
    'sentences select=nearest:64 merge=0.9999'
    """

    select: Literal["nearest", "spread", "all"] = "nearest"
    """``nearest``: the ``limit`` sentences closest to the claim, so that a copied sentence is always among
    them; ``spread``: ``limit`` representatives chosen without looking at the claim; ``all``: no limit."""
    limit: int = DEFAULT_LIMIT
    """Largest number of sentences that span a subspace; not used by ``all``."""
    merge: float = 0.9999
    """Selected rows, if at most 8,192, whose cosine reaches this are one row; 1.0 merges only equal ones."""

    def __post_init__(self) -> None:
        if self.select not in ("nearest", "spread", "all"):
            raise ValueError(f"select must be nearest, spread or all, not {self.select!r}")
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")
        if not 0.0 < self.merge <= 1.0:
            raise ValueError(f"merge is a cosine in (0, 1], not {self.merge}")

    def __str__(self) -> str:
        limit = "" if self.select == "all" else f":{self.limit}"
        return f"sentences select={self.select}{limit} merge={self.merge:g}"

    @classmethod
    def parse(cls, text: str) -> EvidencePolicy:
        """Read ``all``, ``nearest:64``, ``spread:64`` or the full text form."""
        match = _POLICY.fullmatch(text.strip())
        remedy = "Write all, nearest:64 or spread:64"
        if match is None:
            raise ValueError(f"evidence policy {text!r} cannot be read. {remedy}")
        try:
            return cls(
                select=match["select"] or "all",  # type: ignore[arg-type]  # the pattern knows no other
                limit=int(match["limit"] or DEFAULT_LIMIT),
                merge=float(match["merge"] or 0.9999),
            )
        except ValueError as error:
            raise ValueError(f"evidence policy {text!r}: {error}. {remedy}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSet:
    """Evidence as sentences, exact repeats merged, nothing lost from sight."""

    sentences: tuple[EvidenceSentence, ...]
    supplied: int
    """Items handed in, blank ones included."""
    found: int
    """Sentences before repeats were merged."""
    left_out: tuple[LeftOut, ...] = field(default=())
    items: tuple[str, ...] = ()
    """Ids of the items in the order in which they were handed in, blank ones included: what ``[2]`` means."""

    def to_dict(self) -> dict[str, object]:
        """What was handed in and what of it takes no part, by id; the texts are the caller's own."""
        return {
            "supplied": self.supplied,
            "sentences": self.found,
            "distinct": len(self.sentences),
            "left_out": [{"id": entry.id, "reason": entry.reason} for entry in self.left_out],
        }

    @classmethod
    def of(cls, evidence: Iterable[EvidenceLike] | EvidenceSet | EvidenceLike) -> EvidenceSet:
        """Split, clean and merge evidence.

        Blank items (empty, white space, zero-width characters, None) are left out and counted; headings of
        an evidence document count as evidence, table rules and bare marks do not.
        """
        if isinstance(evidence, EvidenceSet):
            return evidence
        items = _items(evidence)
        kept: dict[str, EvidenceSentence] = {}
        left_out: list[LeftOut] = []
        found = 0
        for item in items:
            if item.weight == 0.0:
                left_out.append(LeftOut(id=item.id, reason="weight 0"))
                continue
            if is_blank(item.text):
                left_out.append(LeftOut(id=item.id, reason="blank"))
                continue
            spans = segment(item.text)
            for number, span in enumerate(spans):
                name = f"{item.id}#{number}"
                if not span.core or (span.unmeasured and span.unmeasured not in EVIDENCE_THOUGH_NO_CLAIM):
                    left_out.append(LeftOut(id=name, reason=span.unmeasured or "no words"))
                    continue
                core = span.core
                found += 1
                if core in kept:
                    first = kept[core]
                    kept[core] = replace(
                        first,
                        multiplicity=first.multiplicity + 1,
                        weight=max(first.weight, item.weight),
                    )
                    left_out.append(LeftOut(id=name, reason=f"repeats {first.id}"))
                    continue
                kept[core] = EvidenceSentence(
                    id=name,
                    item_id=item.id,
                    start=span.start,
                    end=span.end,
                    text=span.text,
                    core=core,
                    multiplicity=1,
                    weight=item.weight,
                )
        return cls(
            sentences=tuple(kept.values()),
            supplied=len(items),
            found=found,
            left_out=tuple(left_out),
            items=tuple(item.id for item in items),
        )


EVIDENCE_THOUGH_NO_CLAIM = frozenset({"heading", "code", "table header"})
"""Spans that claim nothing in an answer but do inform a reader of the evidence."""


def _float(weight: Real) -> float:
    try:
        return float(weight)
    except OverflowError:
        return math.inf  # refused by EvidenceItem, with the others that are no weight


def _shown(value: object) -> str:
    return (
        type(value).__name__
        if not isinstance(value, Mapping)
        else f"an object with {sorted(map(str, value))}"
    )


def _items(evidence: Iterable[EvidenceLike] | EvidenceLike) -> list[EvidenceItem]:
    if evidence is None:
        return []
    if isinstance(evidence, str | Mapping | EvidenceItem):
        evidence = [evidence]  # one item: iterating would take its characters, or its keys, for evidence
    if not isinstance(evidence, Iterable) or isinstance(evidence, bytes):
        raise ValueError(f"evidence must be strings or objects with 'text', not {type(evidence).__name__}")
    items = [EvidenceItem.of(value, position) for position, value in enumerate(evidence)]
    if len({item.id for item in items}) == len(items):
        return items
    seen: set[str] = set()
    unique = []
    for position, item in enumerate(items):
        # Two items may share an id in the wild; the position keeps every sentence nameable.
        name = item.id if item.id not in seen else f"{item.id}@{position}"
        seen.add(name)
        unique.append(replace(item, id=name))
    return unique


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of an evidence matrix span the subspace."""

    rows: NDArray[np.intp]
    """Indices, ascending."""
    merged: int
    """Rows left out because they nearly repeat a selected one."""
    beyond_limit: int
    """Rows left out because the limit was reached."""


def select_rows(
    policy: EvidencePolicy, rows: Vectors, claim: Array | None, weights: Array | None = None
) -> Selection:
    """Choose rows of ``rows`` (n, d), of unit length; ``nearest`` beyond the limit needs ``claim`` (d,).

    ``weights`` (n,), all 1 by default, decide only who finds a place: ``nearest`` ranks by
    weight · (1 + cosine), ``spread`` by weight · mass not yet explained. Once inside, every row counts the
    same: a subspace knows no more and less of a direction. Ties are broken by position, so that the choice is
    the same on every run.
    """
    n = rows.shape[0]
    if policy.select == "all" or n <= policy.limit:
        chosen = np.arange(n)
    elif policy.select == "nearest":
        if claim is None:
            raise ValueError("selecting the nearest evidence needs a claim")
        closeness = 1.0 + _cosines(rows, claim)
        if weights is not None:
            closeness *= weights
        chosen = np.sort(np.argsort(-closeness, kind="stable")[: policy.limit])
    else:
        chosen = spread_rows(rows, policy.limit, weights)
    kept = merge_near(rows, chosen, policy.merge)
    return Selection(rows=kept, merged=len(chosen) - len(kept), beyond_limit=n - len(chosen))


def _cosines(rows: Vectors, claim: Array) -> Array:
    """(n,) products in float64, a block at a time: evidence of 200,000 sentences is not copied whole."""
    blocks = [rows[i : i + BLOCK].astype(np.float64) @ claim for i in range(0, len(rows), BLOCK)]
    return np.concatenate(blocks)


def claim_decides(policy: EvidencePolicy, n: int) -> bool:
    """Whether the rows chosen from n depend on the claim, so that a subspace cannot be shared by claims."""
    return policy.select == "nearest" and n > policy.limit


def merge_near(rows: Vectors, chosen: NDArray[np.intp], cosine: float) -> NDArray[np.intp]:
    """Drop each chosen row whose cosine with an earlier one that stays reaches ``cosine``.

    Above ``NEAR_LIMIT`` rows, which only ``select=all`` reaches, near repeats stay: looking for them costs
    n² products, and one direction in thousands moves nothing.
    """
    if len(chosen) > NEAR_LIMIT:
        return chosen
    near = rows[chosen].astype(np.float64)
    # Rounding keeps the cosine of a row with its own copy a little off one.
    close = np.triu(near @ near.T >= min(cosine, 1.0 - 1e-6), k=1)
    if not close.any():
        return chosen
    stays = np.ones(len(chosen), dtype=bool)
    for first in np.flatnonzero(close.any(axis=1)):
        if stays[first]:
            stays[close[first]] = False
    return chosen[stays]


def spread_rows(rows: Vectors, limit: int, weights: Array | None = None) -> NDArray[np.intp]:
    """Representatives: the row that the chosen ones explain least, again and again.

    Greedy column-pivoted Gram–Schmidt (Golub & Van Loan, Matrix Computations, 4th ed., §5.4.2), which looks
    at no claim and is the same on every run.
    """
    residual = rows.astype(np.float64)
    chosen: list[int] = []
    for _ in range(min(limit, rows.shape[0])):
        mass = np.einsum("ij,ij->i", residual, residual)
        if weights is not None:
            mass *= weights
        mass[chosen] = -1.0
        best = int(mass.argmax())
        chosen.append(best)
        if mass[best] < 1e-12:
            continue
        direction = residual[best] / np.linalg.norm(residual[best])
        residual -= np.outer(residual @ direction, direction)
    return np.sort(np.asarray(chosen, dtype=np.intp))


def count_reasons(left_out: Sequence[LeftOut]) -> dict[str, int]:
    """Reason to count, with repeats of different sentences counted together."""
    counts: dict[str, int] = {}
    for entry in left_out:
        reason = "repeat" if entry.reason.startswith("repeats ") else entry.reason
        counts[reason] = counts.get(reason, 0) + 1
    return counts
