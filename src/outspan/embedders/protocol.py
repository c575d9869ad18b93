"""What an embedder is: one method, an identity that says everything a vector depends on, and a result with
its gaps.

An embedder turns texts into vectors. It may fail for single texts; it says which and why in
``Embeddings.failures`` and never fills the gap with a number. Callers go through
:func:`outspan.embedders.embed_checked`, which holds every embedder, ours or a user's, to this contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """Everything that a vector depends on besides its text.

    All of it enters the regime fingerprint and the key of every cached vector: two embedders of equal name
    and dimension but other weights are two embedders.
    """

    name: str
    """Name of the model, for people; for example ``sentence-transformers/all-MiniLM-L6-v2``."""
    weights_digest: str
    """``sha256:`` and 64 hex digits over the bytes of the weights file."""
    dimension: int
    """Length d of a vector, at least 1."""
    pooling: str
    """How token vectors become one vector: ``mean`` or ``cls``; ``none`` where the model gives one vector."""
    normalisation: str
    """``l2`` (unit vectors) or ``none``."""
    max_tokens: int
    """Word pieces that are read, special tokens included; what follows is cut off and reported."""
    dtype: str
    """Number type of the computation, ``float32``."""
    runtime: str
    """What computes, and the version of its definition; for example ``onnxruntime graph v1``."""
    tokenizer_digest: str
    """``sha256:`` and 64 hex digits over the bytes that define the tokenizer."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, in the order of definition; all values are JSON scalars."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """Vectors for texts, in the order of the texts, with what went wrong.

    A failed row is all zero and must never be used: look at ``failures`` first.
    """

    vectors: NDArray[np.float32]
    """(n, d) float32; row i belongs to text i."""
    tokens: NDArray[np.int64]
    """(n,) word pieces of each text, special tokens included, *before* truncation; 0 where the count is
    unknown. For a text so long that it was cut before it was tokenised it is a lower bound, always above the
    limit."""
    failures: Mapping[int, str] = field(default_factory=dict)
    """Row to reason; empty if every text has its vector."""

    def truncated(self, max_tokens: int) -> NDArray[np.bool_]:
        """(n,) bool: the embedder read only the beginning of this text.

        Parameters
        ----------
        max_tokens : the embedder's ``identity.max_tokens``.
        """
        return np.asarray(self.tokens > max_tokens)

    def failed(self) -> NDArray[np.bool_]:
        """(n,) bool: this row has no vector."""
        mask = np.zeros(len(self.tokens), dtype=np.bool_)
        mask[list(self.failures)] = True
        return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenVectors:
    """The word pieces of one text with their vectors, from the same forward pass as the sentence vector."""

    pieces: tuple[str, ...]
    """(t,) word pieces as the tokenizer writes them, special tokens included, after truncation."""
    offsets: tuple[tuple[int, int], ...]
    """(t,) character offsets ``(start, end)`` into the text, end exclusive; ``(0, 0)`` for special tokens."""
    vectors: NDArray[np.float32]
    """(t, d) float32, the last layer's output for each piece, not normalised."""
    sentence: NDArray[np.float32]
    """(d,) float32, unit norm: the same bits that ``embed`` gives for this text."""
    tokens: int
    """Word pieces before truncation, special tokens included; a lower bound for a text cut beforehand."""


@runtime_checkable
class Embedder(Protocol):
    """The one seam between texts and vectors.

    A class needs ``identity`` and ``embed``, nothing else. ``embed`` gets texts that are not blank, may be
    called from several threads, and answers in the order of the texts. It may raise for a whole batch; the
    guard then asks again for each text alone.
    """

    @property
    def identity(self) -> EmbedderIdentity:
        """What the vectors depend on; constant over the life of the object."""
        ...

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        """Vectors for ``texts``, row i for text i."""
        ...
