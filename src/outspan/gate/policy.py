"""Policies: readable files of ordered rules, read strictly.

A policy is its text and the numbers that it was given; both are in its digest, so a decision that names the
digest names everything it was made by besides the threshold.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from outspan.canonical import digest_json
from outspan.errors import InputError
from outspan.files import read_text
from outspan.gate.rules import AlwaysRule, Outcome, PercentileRule, Rule, Table, read_rule

KIND = "outspan.policy"
_KEYS = frozenset({"name", "description", "no_claim", "requires", "parameters", "answer", "rule"})
_NO_CLAIM = {"apart": Outcome.NO_CLAIM, "review": Outcome.REVIEW, "reject": Outcome.REJECT}

Percentile: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores of a calibration, for policies that speak of their percentiles."""

    values: tuple[float, ...]
    """Finite."""
    digest: str
    """``sha256:`` of the file that they were read from, the one that the threshold was calibrated on."""

    def percentile(self, q: float) -> float:
        """An observed score: the smallest that at least q % of the scores do not exceed.

        Raises
        ------
        ValueError
            Without scores.
        """
        if not self.values:
            raise ValueError("there are no calibration scores to take a percentile of")
        return float(np.percentile(self.values, q, method="inverted_cdf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """How the decisions on its sentences make the decision on an answer."""

    rule: Literal["worst", "share"] = "worst"
    """``worst``: the gravest of its sentences; ``share``: by the shares of rejected and of not accepted."""
    reject_above: float = 0.0
    """``share``: more than this share of rejected sentences rejects the answer, in [0, 1]."""
    review_above: float = 0.0
    """``share``: more than this share of sentences that are not accepted makes a review, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Ordered rules; the first that matches decides."""

    name: str
    description: str
    rules: tuple[Rule, ...]
    answer: AnswerRule
    no_claim: Outcome
    """What becomes of a sentence that claims nothing; ``no_claim`` unless the policy says otherwise."""
    text: str
    """The file, as it was read."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the rules name: the file's own, and those that the caller gave."""
    percentiles: Mapping[str, float] = field(default_factory=dict)
    """Percentile to the score it stood for, where a rule speaks of one."""
    scores_digest: str | None = None
    """Of the file that the percentiles were taken from."""

    def to_dict(self) -> dict[str, object]:
        """Text and numbers; :meth:`from_dict` reads an equal policy back."""
        return {
            "kind": KIND,
            "name": self.name,
            "text": self.text,
            "parameters": dict(self.parameters),
            "percentiles": dict(self.percentiles),
            "scores_digest": self.scores_digest,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Policy:
        """The inverse of :meth:`to_dict`; the percentiles stay what they were.

        Raises
        ------
        InputError
            For a record that is no policy.
        """
        if record.get("kind") != KIND or not isinstance(record.get("text"), str):
            raise InputError("is not the record of a policy")
        found = {key: float(value) for key, value in record["percentiles"].items()}

        def percentile(q: float) -> float:
            if _key(q) not in found:
                raise ValueError(f"percentile {q:g} is not in the record")
            return found[_key(q)]

        return _parse(record["text"], record["parameters"], percentile, record["scores_digest"], None)

    @property
    def digest(self) -> str:
        """``sha256:`` over the canonical form of :meth:`to_dict`."""
        return digest_json(self.to_dict())


def ready_made() -> dict[str, str]:
    """Name to text of the policies that come with the package; none carries a threshold."""
    folder = files("outspan").joinpath("policies")
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda one: one.name)
        if entry.name.endswith(".toml")
    }


def load_policy(
    name: str | Path, *, parameters: Mapping[str, float] | None = None, scores: Scores | None = None
) -> Policy:
    """A ready-made policy by name, or a policy file.

    Raises
    ------
    InputError
        For a name that is neither, and as :func:`parse_policy`.
    """
    known = ready_made()
    if str(name) in known:
        return parse_policy(known[str(name)], parameters=parameters, scores=scores, path=str(name))
    if not str(name).endswith(".toml") and not Path(name).exists():
        raise InputError(
            f"there is no policy {str(name)!r}",
            remedy=f"Ready to use are {', '.join(known)}; or name a .toml file",
        )
    return parse_policy(read_text(Path(name)), parameters=parameters, scores=scores, path=name)


def parse_policy(
    text: str,
    *,
    parameters: Mapping[str, float] | None = None,
    scores: Scores | None = None,
    path: Path | str | None = None,
) -> Policy:
    """Read a policy.

    Parameters
    ----------
    text : TOML.
    parameters : numbers for the names that the rules use; they go before the file's own.
    scores : the calibration's, for rules that speak of a percentile.
    path : named in messages.

    Raises
    ------
    InputError
        For what is not TOML, has no rule, has a rule or key that is not known, or lacks a number.
    """

    def percentile(q: float) -> float:
        if scores is None:
            raise ValueError(
                "speaks of a percentile of the calibration scores. Name the measured file that the "
                "threshold was calibrated on: --scores MEASURED"
            )
        return scores.percentile(q)

    return _parse(text, parameters or {}, percentile, None if scores is None else scores.digest, path)


def _parse(
    text: str,
    given: Mapping[str, float],
    percentile: Percentile,
    scores_digest: str | None,
    path: Path | str | None,
) -> Policy:
    remedy = "docs/decisions/0013-gate-policies.md describes the format"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", remedy=remedy, path=path or "policy") from error
    try:
        return _policy(document, text, given, percentile, scores_digest)
    except ValueError as error:
        raise InputError(str(error), remedy=remedy, path=path or "policy") from error


def _policy(
    document: dict[str, Any],
    text: str,
    given: Mapping[str, float],
    percentile: Percentile,
    scores_digest: str | None,
) -> Policy:
    unknown = document.keys() - _KEYS
    if unknown:
        raise ValueError(f"does not know the key {', '.join(map(repr, sorted(unknown)))}")
    name, description = document.get("name"), document.get("description", "")
    if not isinstance(name, str) or not name or not isinstance(description, str):
        raise ValueError("needs a name, as a text")
    parameters = _parameters(document, given)
    no_claim = document.get("no_claim", "apart")
    if no_claim not in _NO_CLAIM:
        raise ValueError(f"no_claim is {no_claim!r}; known are {', '.join(_NO_CLAIM)}")
    rules = _rules(document.get("rule"), parameters, percentile)
    answer = _answer(Table(_mapping(document.get("answer", {}), "answer"), parameters, percentile))
    percentiles = {
        _key(rule.test.percentile): rule.test.limit for rule in rules if isinstance(rule.test, PercentileRule)
    }
    return Policy(
        name=name,
        description=description,
        rules=rules,
        answer=answer,
        no_claim=_NO_CLAIM[no_claim],
        text=text,
        parameters=parameters,
        percentiles=percentiles,
        scores_digest=scores_digest if percentiles else None,
    )


def _parameters(document: Mapping[str, Any], given: Mapping[str, float]) -> dict[str, float]:
    own = _mapping(document.get("parameters", {}), "parameters")
    required = document.get("requires", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ValueError("requires must be a list of parameter names")
    unknown = given.keys() - own.keys() - set(required)
    if unknown:
        raise ValueError(f"has no parameter {', '.join(map(repr, sorted(unknown)))}")
    merged: dict[str, Any] = {**own, **given}
    missing = [name for name in required if name not in merged]
    if missing:
        raise ValueError(
            f"needs a value for {', '.join(missing)}: --set {missing[0]}=NUMBER. The package ships no such "
            "number, since none holds for data that it has not seen"
        )
    for name, value in merged.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"parameter {name} must be a finite number, not {value!r}")
    return {name: float(value) for name, value in merged.items()}


def _rules(tables: object, parameters: Mapping[str, float], percentile: Percentile) -> tuple[Rule, ...]:
    if not isinstance(tables, list) or not tables:
        raise ValueError("has no rule: an empty policy would have nothing to say. Write [[rule]] tables")
    rules: list[Rule] = []
    for number, values in enumerate(tables, start=1):
        where = f"rule {number}"
        try:
            rule = read_rule(Table(_mapping(values, where), parameters, percentile))
        except ValueError as error:
            name = values.get("name") if isinstance(values, Mapping) else None
            raise ValueError(f"{where} ({name!r}): {error}" if name else f"{where}: {error}") from error
        if rule.name in {other.name for other in rules}:
            raise ValueError(f"{where}: the name {rule.name!r} is taken by an earlier rule")
        if rules and isinstance(rules[-1].test, AlwaysRule):
            raise ValueError(f"{where} ({rule.name!r}) comes after a rule that always matches")
        rules.append(rule)
    return tuple(rules)


def _answer(table: Table) -> AnswerRule:
    rule = table.text("rule", "worst")
    if rule == "worst":
        table.finish()
        return AnswerRule()
    if rule != "share":
        raise ValueError(f"answer: rule is {rule!r}; known are worst, share")
    reject, review = table.number("reject_above"), table.number("review_above")
    table.finish()
    if reject is None or review is None or not (0.0 <= reject <= 1.0 and 0.0 <= review <= 1.0):
        raise ValueError("answer: share needs reject_above and review_above, from 0 to 1")
    return AnswerRule(rule="share", reject_above=reject, review_above=review)


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be a table")
    return value


def _key(q: float) -> str:
    return f"{q:g}"


def parse_settings(settings: Iterable[str]) -> dict[str, float]:
    """``NAME=NUMBER`` as typed on a command line, to numbers.

    Raises
    ------
    InputError
        For anything else.
    """
    found: dict[str, float] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(f"--set {setting}: is not NAME=NUMBER") from error
        if not sign or not math.isfinite(found[name.strip()]):
            raise InputError(f"--set {setting}: is not NAME=NUMBER")
    return found
