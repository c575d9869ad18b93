"""The bank of background claims: what ships, and what is drawn from a corpus."""

from __future__ import annotations

import re

import pytest

from outspan.background import Bank, draw, shipped


def test_shipped_bank_is_some_three_hundred_distinct_declarative_sentences() -> None:
    bank = shipped()
    assert 290 <= len(bank) <= 400
    assert len(set(bank.texts)) == len(bank)
    for text in bank.texts:
        assert re.fullmatch(r"[A-Z].*[a-z0-9]\.", text), text
        assert 3 <= len(text.split()) <= 25, text
    lengths = sorted(len(text.split()) for text in bank.texts)
    assert lengths[len(lengths) // 10] <= 8
    assert lengths[-len(lengths) // 10] >= 13


def test_shipped_bank_is_the_one_that_numbers_were_measured_with() -> None:
    """Changing a sentence changes every background-adjusted value: then this digest, and the regime, must change."""
    assert shipped().digest == "sha256:019d9ae435bc304e3144bd8130a0ca78d261a5e2550526ed70978157759cb9ec"


def corpus() -> list[tuple[str, str]]:
    own = [(f"doc{i}", f"Sentence {j} of document {i}.") for i in range(10) for j in range(1 + 3 * i)]
    return [*own, ("doc1", "Read more here."), ("doc2", "Read more here."), ("doc3", "  ")]


def test_draw_takes_sources_in_turn_and_ignores_the_order_of_the_corpus() -> None:
    bank = draw(corpus(), size=20)
    assert len(bank) == 20
    assert set(bank.groups) == {f"doc{i}" for i in range(10)}
    assert max(bank.groups.count(group) for group in bank.groups) <= 3
    assert draw(reversed(corpus()), size=20) == bank
    assert draw(corpus(), size=20, seed=1) != bank
    for group, text in zip(bank.groups, bank.texts, strict=True):
        assert (group, text) in corpus()


def test_text_that_several_sources_share_cannot_leak_into_the_bank() -> None:
    assert "Read more here." not in draw(corpus(), size=10_000).texts


def test_empty_corpus_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentence"):
        draw([("a", "x"), ("b", "x"), ("c", " ")])


def test_digest_depends_on_texts_groups_and_their_borders() -> None:
    digests = {
        Bank.of(["ab", "c"], ["", ""]).digest,
        Bank.of(["a", "bc"], ["", ""]).digest,
        Bank.of(["ab", "c"], ["", "g"]).digest,
        Bank.of(["c", "ab"], ["", ""]).digest,
    }
    assert len(digests) == 4
    with pytest.raises(ValueError, match="one group for each text"):
        Bank.of(["a"], [])
