"""A fake embedder for tests: deterministic, instant, and able to fail in every way that real ones do.

It is public so that code built on outspan can be tested without a model.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from outspan.embedders.protocol import EmbedderIdentity, Embeddings, TokenVectors
from outspan.errors import EmbedderFailed

_WORD = re.compile(r"\w+", re.UNICODE)


class FakeEmbedder:
    """Vectors from a hash of the words: texts that share words are closer, equal texts are equal.

    Each distinct word (case ignored) has a fixed random direction; a text is the sum over its words. The
    order of the words does not matter, as for the sensor itself to a first approximation.

    Parameters
    ----------
    dimension : length of a vector.
    seed : another seed is another embedder with the same name and dimension, and another weights digest.
    name : the identity's name.
    max_tokens : word pieces read; a token here is a word or two special tokens.
    scale : the vectors' norm.
    failing : texts that are reported as failures.
    raising : texts for which the whole call raises RuntimeError.
    nan : texts that get a vector of NaN.
    zero : texts that get a zero vector.
    nan_once : texts that get NaN at the first time and a vector afterwards.
    drop_rows : rows left out at the end of each answer of more than one text: a wrong count.
    """

    def __init__(
        self,
        *,
        dimension: int = 64,
        seed: int = 0,
        name: str = "fake",
        max_tokens: int = 256,
        scale: float = 1.0,
        failing: Collection[str] = (),
        raising: Collection[str] = (),
        nan: Collection[str] = (),
        zero: Collection[str] = (),
        nan_once: Collection[str] = (),
        drop_rows: int = 0,
    ) -> None:
        digest = hashlib.sha256(f"fake weights {seed} {dimension}".encode()).hexdigest()
        self._identity = EmbedderIdentity(
            name=name,
            weights_digest=f"sha256:{digest}",
            dimension=dimension,
            pooling="mean",
            normalisation="l2" if scale == 1.0 else "none",
            max_tokens=max_tokens,
            dtype="float32",
            runtime="fake v1",
            tokenizer_digest=f"sha256:{hashlib.sha256(b'fake tokenizer').hexdigest()}",
        )
        self._seed = seed
        self._scale = scale
        self._failing, self._raising = frozenset(failing), frozenset(raising)
        self._nan, self._zero = frozenset(nan), frozenset(zero)
        self._nan_once = set(nan_once)
        self._drop_rows = drop_rows
        self.calls: list[tuple[str, ...]] = []
        """The texts of each call of ``embed``, in order."""
        self.token_calls: list[tuple[str, ...]] = []
        """The texts of each call of ``embed_tokens``, in order."""

    @property
    def identity(self) -> EmbedderIdentity:
        """A full identity; the weights digest depends on seed and dimension."""
        return self._identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        """Vectors (n, d) float32 of norm ``scale``, and token counts (words plus two)."""
        self.calls.append(tuple(texts))
        for text in texts:
            if text in self._raising:
                raise RuntimeError(f"fake failure on {text!r}")
        vectors = np.zeros((len(texts), self._identity.dimension), dtype=np.float32)
        failures = {}
        for i, text in enumerate(texts):
            if text in self._failing:
                failures[i] = "fake failure"
            elif text in self._nan or text in self._nan_once:
                self._nan_once.discard(text)
                vectors[i] = np.nan
            elif text not in self._zero:
                vectors[i] = self._vector(text)
        tokens = np.asarray([len(_WORD.findall(text)) + 2 for text in texts], dtype=np.int64)
        if self._drop_rows and len(texts) > 1:
            vectors, tokens = vectors[: -self._drop_rows], tokens[: -self._drop_rows]
        return Embeddings(vectors=vectors, tokens=tokens, failures=failures)

    def embed_tokens(self, texts: Sequence[str], /) -> list[TokenVectors]:
        """A token for each word, with the word's own direction in whatever text it stands.

        Raises
        ------
        EmbedderFailed
            If a text is one of those that fail, or has no word.
        """
        self.token_calls.append(tuple(texts))
        return [self._tokens_of(text) for text in texts]

    def _tokens_of(self, text: str) -> TokenVectors:
        words = list(_WORD.finditer(text))
        read = words[: max(self._identity.max_tokens - 2, 0)]
        if not read or text in self._failing or text in self._raising:
            raise EmbedderFailed(f"fake failure on {text!r}")
        rows = np.stack([self._direction(word[0].lower()) for word in read]).astype(np.float32)
        if text in self._nan:
            rows[0] = np.nan
        return TokenVectors(
            pieces=("[CLS]", *(word[0].lower() for word in read), "[SEP]"),
            offsets=((0, 0), *(word.span() for word in read), (0, 0)),
            vectors=np.concatenate([rows[:1], rows, rows[-1:]]),
            sentence=self._vector(text),
            tokens=len(words) + 2,
        )

    def _vector(self, text: str) -> NDArray[np.float32]:
        words = _WORD.findall(text.lower())[: max(self._identity.max_tokens - 2, 0)] or [text]
        total = np.zeros(self._identity.dimension, dtype=np.float64)
        for word in words:
            total += self._direction(word)
        return np.asarray(self._scale * total / math.sqrt(float(total @ total)), dtype=np.float32)

    @lru_cache(maxsize=4096)  # noqa: B019  embedders of a test are few and short-lived
    def _direction(self, word: str) -> NDArray[np.float64]:
        digest = hashlib.sha256(f"{self._seed}:{word}".encode("utf-8", "surrogatepass")).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(
            self._identity.dimension
        )
