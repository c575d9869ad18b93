"""Token vectors of recent texts, taken from the pass that makes the sentence vectors.

The store stands before an embedder and answers like it. So the one embedding pass of a measurement fills it,
and a sensor that reads token vectors costs no second pass. Nothing of it goes to disk: the tokens of a
sentence are some thirty times the size of its vector.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from outspan.embedders import Embedder
from outspan.embedders.protocol import EmbedderIdentity, Embeddings, TokenVectors
from outspan.errors import EmbedderFailed

MAX_BYTES = 256 * 1024 * 1024
"""Of vectors that are kept; some 6,000 sentences of 30 word pieces in 384 dimensions."""

_TEXTS_PER_CALL = 512
"""Texts whose token vectors are held unpacked at once."""

UNKNOWN = frozenset({"[UNK]", "<unk>"})
"""Pieces that stand for any unreadable character: two of them say nothing about each other."""

_TINY = 1e-12
"""A token vector with a smaller norm has no direction."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that also gives the vectors of the word pieces."""

    def embed_tokens(self, texts: Sequence[str], /) -> list[TokenVectors]:
        """Pieces of each text with offsets and vectors, and the sentence vector of the same pass."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The word pieces of one text that was read, special tokens left out."""

    pieces: tuple[str, ...]
    """(t,) as the tokenizer writes them."""
    offsets: tuple[tuple[int, int], ...]
    """(t,) character offsets into the text, end exclusive."""
    vectors: NDArray[np.float32]
    """(t, d) float32, unit rows; a piece without direction is all zero."""
    starts: NDArray[np.intp]
    """(t,) the first of each piece's offsets."""
    known: NDArray[np.bool_]
    """(t,) whether the piece stands for something."""
    truncated: bool
    """Whether the embedder read only the beginning of the text."""


class TokenStore:
    """An embedder that keeps the token vectors of what it embeds, least recently used first out.

    May be shared by threads.

    Parameters
    ----------
    embedder : must be a :class:`TokenEmbedder` besides.
    max_bytes : of vectors that are kept. A text that is no longer here is embedded again when asked for.
    """

    def __init__(self, embedder: Embedder, *, max_bytes: int = MAX_BYTES) -> None:
        if not isinstance(embedder, TokenEmbedder):
            raise TypeError(f"{embedder.identity.name} gives no token vectors")
        self._embedder = embedder
        self._tokens: TokenEmbedder = embedder
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, Pieces] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def identity(self) -> EmbedderIdentity:
        """That of the embedder behind it."""
        return self._embedder.identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        """The embedder's answer; token vectors of the same pass are kept."""
        try:
            found = [
                self._keep(text, one)
                for start in range(0, len(texts), _TEXTS_PER_CALL)
                for text, one in self._pass(texts[start : start + _TEXTS_PER_CALL])
            ]
        except EmbedderFailed:
            # One text that cannot be read fails the whole call there; the plain path names it, and goes on.
            return self._embedder.embed(texts)
        return Embeddings(
            vectors=np.stack([one.sentence for one in found]),
            tokens=np.asarray([one.tokens for one in found], dtype=np.int64),
        )

    def get(self, texts: Sequence[str]) -> list[Pieces | str]:
        """The pieces of each text, embedded now where they are not here; or the reason why there are none."""
        with self._lock:
            here = {text: self._kept[text] for text in texts if text in self._kept}
            for text in here:
                self._kept.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in here]
        found: dict[str, Pieces | str] = dict(here)
        for start in range(0, len(missing), _TEXTS_PER_CALL):
            found.update(self._embed_missing(missing[start : start + _TEXTS_PER_CALL]))
        return [found[text] for text in texts]

    def _embed_missing(self, texts: Sequence[str]) -> dict[str, Pieces | str]:
        try:
            answers = self._pass(texts)
        except EmbedderFailed as error:
            if len(texts) == 1:
                return {texts[0]: str(error)}
            alone = [self._embed_missing([text]) for text in texts]
            return {text: one for found in alone for text, one in found.items()}
        return {text: self._keep_pieces(text, one) for text, one in answers}

    def _pass(self, texts: Sequence[str]) -> list[tuple[str, TokenVectors]]:
        answers = self._tokens.embed_tokens(texts)
        if len(answers) != len(texts):
            raise EmbedderFailed(f"the embedder gave token vectors of {len(answers)} texts for {len(texts)}")
        return list(zip(texts, answers, strict=True))

    def _keep(self, text: str, vectors: TokenVectors) -> TokenVectors:
        self._keep_pieces(text, vectors)
        return vectors

    def _keep_pieces(self, text: str, vectors: TokenVectors) -> Pieces | str:
        pieces = _pieces(vectors, self.identity)
        if isinstance(pieces, str):
            return pieces
        with self._lock:
            replaced = self._kept.pop(text, None)
            self._bytes += pieces.vectors.nbytes - (0 if replaced is None else replaced.vectors.nbytes)
            self._kept[text] = pieces
            while self._bytes > self._max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.vectors.nbytes
        return pieces


def _pieces(found: TokenVectors, identity: EmbedderIdentity) -> Pieces | str:
    """The pieces with unit vectors, or why they cannot be used."""
    vectors = np.asarray(found.vectors, dtype=np.float32)
    if vectors.shape != (len(found.pieces), identity.dimension) or len(found.offsets) != len(found.pieces):
        return f"the embedder gave token vectors of shape {vectors.shape} for {len(found.pieces)} word pieces"
    if not np.isfinite(vectors).all():
        return "a token vector is not finite"
    inside = [i for i, (start, end) in enumerate(found.offsets) if end > start]
    rows = vectors[inside]
    norms = np.sqrt(np.einsum("td,td->t", rows, rows))[:, None]
    return Pieces(
        pieces=tuple(found.pieces[i] for i in inside),
        offsets=tuple(found.offsets[i] for i in inside),
        starts=np.asarray([found.offsets[i][0] for i in inside], dtype=np.intp),
        known=np.asarray([found.pieces[i] not in UNKNOWN for i in inside], dtype=np.bool_),
        vectors=np.where(norms < _TINY, np.float32(0.0), rows / np.maximum(norms, np.float32(_TINY))),
        truncated=found.tokens > identity.max_tokens,
    )
