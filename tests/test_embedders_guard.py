"""The guard: whatever an embedder answers, a row is a unit vector or a failure with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.embedders import Embedder, EmbedderIdentity, Embeddings, VectorCache, embed_checked
from outspan.testing import FakeEmbedder
from outspan.texts import is_blank


class Answering:
    """An embedder that answers with whatever a function says."""

    def __init__(self, answer: Callable[[Sequence[str]], Embeddings], dimension: int = 4) -> None:
        self.identity: EmbedderIdentity = FakeEmbedder(dimension=dimension).identity
        self.answer = answer
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        self.calls.append(list(texts))
        return self.answer(texts)


def rows(vectors: object, texts: Sequence[str]) -> Embeddings:
    return Embeddings(vectors=np.asarray(vectors), tokens=np.full(len(texts), 3))


def test_the_fakes_are_embedders(fake_embedder: FakeEmbedder) -> None:
    assert isinstance(fake_embedder, Embedder)
    assert isinstance(Answering(lambda texts: rows([], texts)), Embedder)


def test_each_distinct_text_is_sent_once_and_order_is_kept(fake_embedder: FakeEmbedder) -> None:
    answer = embed_checked(fake_embedder, ["b", "a", "b", "c", "a"])
    assert fake_embedder.calls == [("b", "a", "c")]
    expected = [fake_embedder.embed([text]).vectors[0] for text in ["b", "a", "b", "c", "a"]]
    assert np.allclose(answer.vectors, expected, atol=1e-7)
    assert answer.tokens.tolist() == [3] * 5
    assert answer.failures == {}


@pytest.mark.parametrize("texts", [[], [""], ["", " \n\t", "\u200b\ufeff", "\u00a0"]])
def test_blanks_are_never_sent(fake_embedder: FakeEmbedder, texts: list[str]) -> None:
    answer = embed_checked(fake_embedder, texts)
    assert fake_embedder.calls == []
    assert answer.failures == dict.fromkeys(range(len(texts)), "blank")
    assert answer.vectors.shape == (len(texts), 64)


def test_a_blank_in_the_middle_keeps_its_place(fake_embedder: FakeEmbedder) -> None:
    answer = embed_checked(fake_embedder, ["a", "", "b"])
    assert fake_embedder.calls == [("a", "b")]
    assert dict(answer.failures) == {1: "blank"}
    assert np.allclose(answer.vectors[2], fake_embedder.embed(["b"]).vectors[0], atol=1e-7)


@pytest.mark.parametrize("text", ["👍", "。", "٣", "\U0001fae9", "a", "中", "\u0301"])
def test_what_can_be_seen_is_not_blank(text: str) -> None:
    assert not is_blank(text)


def test_nan_and_zero_rows_are_tried_once_more_alone_then_fail() -> None:
    fake = FakeEmbedder(nan=["bad"], zero=["null"], nan_once=["shaky"])
    answer = embed_checked(fake, ["good", "bad", "null", "shaky", "bad"])
    assert fake.calls == [("good", "bad", "null", "shaky"), ("bad",), ("null",), ("shaky",)]
    assert dict(answer.failures) == {
        1: "the vector is not finite",
        2: "the vector has no direction: its norm is 0",
        4: "the vector is not finite",
    }
    assert not answer.vectors[[1, 2, 4]].any()
    assert np.allclose(np.linalg.norm(answer.vectors[[0, 3]], axis=1), 1, atol=1e-6)


def test_a_text_that_raises_does_not_take_the_others_with_it() -> None:
    fake = FakeEmbedder(raising=["poison"])
    answer = embed_checked(fake, ["one", "poison", "two"])
    assert dict(answer.failures) == {1: "RuntimeError: fake failure on 'poison'"}
    assert np.allclose(np.linalg.norm(answer.vectors[[0, 2]], axis=1), 1, atol=1e-6)


def test_a_wrong_number_of_rows_is_asked_again_one_by_one() -> None:
    fake = FakeEmbedder(drop_rows=1)
    answer = embed_checked(fake, ["one", "two", "three"])
    assert answer.failures == {}
    whole = FakeEmbedder()
    assert np.allclose(answer.vectors, whole.embed(["one", "two", "three"]).vectors, atol=1e-7)


@pytest.mark.parametrize(
    "vectors",
    [
        lambda n: np.zeros((n + 1, 4)),
        lambda n: np.ones((n, 5)),
        lambda n: np.zeros((n,)),
        lambda n: np.ones((n, 4, 1)),
        lambda n: np.full((n, 4), "x"),
        lambda n: np.full((n, 4), None),
        lambda n: np.full((n, 4), 1 + 1j),
        lambda n: None,
    ],
)
def test_a_wrong_shape_or_type_fails_every_row_with_the_reason(vectors: Callable[[int], object]) -> None:
    answer = embed_checked(Answering(lambda texts: rows(vectors(len(texts)), texts)), ["a", "b"])
    assert set(answer.failures) == {0, 1}
    assert all(
        "EmbedderFailed: the embedder answered with vectors of" in why for why in answer.failures.values()
    )


def test_wrong_token_counts_and_strange_failures_are_refused() -> None:
    short = Answering(lambda texts: Embeddings(vectors=np.ones((len(texts), 4)), tokens=np.zeros(0)))
    assert set(embed_checked(short, ["a"]).failures) == {0}
    strange = Answering(
        lambda texts: Embeddings(
            vectors=np.ones((len(texts), 4), dtype=np.float32), tokens=np.ones(len(texts)), failures={9: "?"}
        )
    )
    assert "failure of row 9" in embed_checked(strange, ["a"]).failures[0]


def test_a_failure_the_embedder_names_is_kept_and_never_has_numbers() -> None:
    named = Answering(
        lambda texts: Embeddings(
            vectors=np.ones((len(texts), 4), dtype=np.float32),
            tokens=np.ones(len(texts)),
            failures={1: "too rude"},
        )
    )
    answer = embed_checked(named, ["a", "b"])
    assert dict(answer.failures) == {1: "too rude"}
    assert not answer.vectors[1].any()


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), min_size=4, max_size=4),
        min_size=1,
        max_size=6,
    )
)
def test_every_row_is_a_unit_vector_or_a_failure(values: list[list[float]]) -> None:
    texts = [f"t{i}" for i in range(len(values))]
    table = dict(zip(texts, values, strict=True))
    answer = embed_checked(Answering(lambda asked: rows([table[text] for text in asked], asked)), texts)
    assert answer.vectors.dtype == np.float32
    for i, vector in enumerate(answer.vectors):
        if i in answer.failures:
            assert answer.failures[i]
            assert not vector.any()
        else:
            assert abs(np.linalg.norm(vector.astype(np.float64)) - 1) < 1e-6
            assert np.isfinite(values[i]).all()


def test_what_the_embedder_returns_is_not_written_to() -> None:
    shared = np.asarray([[np.nan, 1, 1, 1], [0, 2, 0, 0]], dtype=np.float32)
    answer = embed_checked(Answering(lambda texts: rows(shared[-len(texts) :], texts)), ["a", "b"])
    assert np.isnan(shared[0, 0])
    assert shared[1, 1] == 2
    assert answer.vectors[1].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("texts", ["one string", ["a", None], ["a", b"b"]])
def test_what_is_not_a_list_of_strings_is_a_type_error(fake_embedder: FakeEmbedder, texts: list[str]) -> None:
    with pytest.raises(TypeError):
        embed_checked(fake_embedder, texts)


def test_a_cached_vector_is_the_same_and_a_failure_is_never_cached(tmp_path: Path) -> None:
    fake = FakeEmbedder(scale=3.0, nan=["bad"])
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        first = embed_checked(fake, ["one", "bad", "", "two two"], cache=cache)
        fake.calls.clear()
        second = embed_checked(fake, ["two two", "bad", "one", "new"], cache=cache)
    assert fake.calls[0] == ("bad", "new")
    assert np.array_equal(second.vectors[[2, 0]], first.vectors[[0, 3]])
    assert second.tokens.tolist()[0] == 4
    assert dict(second.failures) == {1: "the vector is not finite"}


def test_long_inputs_are_sent_in_parts(fake_embedder: FakeEmbedder) -> None:
    texts = [f"text {i}" for i in range(5000)]
    answer = embed_checked(fake_embedder, texts)
    assert max(map(len, fake_embedder.calls)) <= 2048
    assert np.allclose(answer.vectors[4321], fake_embedder.embed([texts[4321]]).vectors[0], atol=1e-7)
