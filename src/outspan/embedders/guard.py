"""Holds every embedder to the contract: what comes out is a unit vector for each text, or a failure with a
reason.

An embedder may be ours, a user's, or a service that answers with NaN, a zero vector or the wrong number of
rows. Nothing of that may become a number that looks measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from outspan.embedders.protocol import Embedder, Embeddings
from outspan.errors import EmbedderFailed
from outspan.geometry.subspace import ZERO_NORM
from outspan.texts import is_blank

if TYPE_CHECKING:
    from outspan.embedders.cache import VectorCache

BLANK = "blank"
"""Reason of a row whose text has no visible character; such a text is never sent to the embedder."""

NO_DIRECTION = "the vector has no direction"
"""Reason of a row whose vector is zero, or as good as zero; the norm follows it."""

_TEXTS_PER_CALL = 2048
"""Texts handed to the embedder at once: bounds memory, and what an interrupted run loses of its cache."""


def embed_checked(
    embedder: Embedder, texts: Sequence[str], *, cache: VectorCache | None = None
) -> Embeddings:
    """Unit vectors for ``texts``, each distinct text embedded once, with every gap named.

    - A blank text (empty, or only whitespace and zero-width characters) is a failure with the reason
      ``blank`` and is never sent.
    - A row that is not finite, or whose norm is below 1e-12, is asked for once more alone; then it is a
    failure.
    - An embedder that raises, or answers with the wrong shape, is asked for each text alone once; a text for
    which it
      raises again is a failure with the exception's text.
    - Vectors of any length are fine: they are divided by their 2-norm here.
    - With ``cache``, known vectors are taken from it and new ones are added; a failure is never stored.

    Shapes
    ------
    vectors (n, d) float32 with unit rows, tokens (n,) int64; the order is that of ``texts``.

    Raises
    ------
    TypeError
        If ``texts`` is a single string or holds something that is not a string.
    """
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of strings")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {i} is {type(text).__name__}, not str")
    distinct = list(dict.fromkeys(texts))
    vectors = np.zeros((len(distinct), embedder.identity.dimension), dtype=np.float32)
    tokens = np.zeros(len(distinct), dtype=np.int64)
    failures = {i: BLANK for i, text in enumerate(distinct) if is_blank(text)}
    todo = [i for i in range(len(distinct)) if i not in failures]
    if cache is not None and todo:
        found = cache.get_many(embedder.identity, [distinct[i] for i in todo])
        for place, (vector, count) in found.items():
            vectors[todo[place]], tokens[todo[place]] = vector, count
        todo = [i for place, i in enumerate(todo) if place not in found]
    for start in range(0, len(todo), _TEXTS_PER_CALL):
        part = todo[start : start + _TEXTS_PER_CALL]
        fresh = _embed_distinct(embedder, [distinct[i] for i in part])
        vectors[part], tokens[part] = fresh.vectors, fresh.tokens
        failures.update({part[place]: reason for place, reason in fresh.failures.items()})
        good = [place for place in range(len(part)) if place not in fresh.failures]
        if cache is not None and good:
            kept = [distinct[part[place]] for place in good]
            cache.put_many(embedder.identity, kept, fresh.vectors[good], fresh.tokens[good])
    if len(distinct) == len(texts):  # nothing occurs twice: no copy
        return Embeddings(vectors=vectors, tokens=tokens, failures=failures)
    place_of = {text: i for i, text in enumerate(distinct)}
    rows = [place_of[text] for text in texts]
    return Embeddings(
        vectors=vectors[rows],
        tokens=tokens[rows],
        failures={i: failures[row] for i, row in enumerate(rows) if row in failures},
    )


def _embed_distinct(embedder: Embedder, texts: list[str]) -> Embeddings:
    """The embedder's answer for distinct, non-blank texts, after the retries."""
    dimension = embedder.identity.dimension
    try:
        vectors, tokens, failures = _answer(embedder, texts)
        doubtful = [i for i, reason in enumerate(_defects(vectors)) if reason and i not in failures]
    except Exception:  # noqa: BLE001  any exception of a foreign embedder: each text is tried alone below
        vectors = np.zeros((len(texts), dimension), dtype=np.float32)
        tokens, failures = np.zeros(len(texts), dtype=np.int64), {}
        doubtful = list(range(len(texts)))
    for i in doubtful:
        vectors[i] = 0.0
        try:
            alone, count, failed = _answer(embedder, [texts[i]])
        except Exception as error:  # noqa: BLE001  the exception's text becomes the reason of this row
            failures[i] = f"{type(error).__name__}: {error}"
            continue
        reason = failed.get(0) or _defects(alone)[0]
        if reason:
            failures[i] = reason
        else:
            vectors[i], tokens[i] = alone[0], count[0]
    for i in failures:
        vectors[i] = 0.0
    return Embeddings(vectors=_unit_rows(vectors), tokens=tokens, failures=failures)


def _answer(
    embedder: Embedder, texts: list[str]
) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[int, str]]:
    """One call of the embedder, its shapes checked; float32 copies that may be written to."""
    answer = embedder.embed(texts)
    vectors, tokens = np.asarray(answer.vectors), np.asarray(answer.tokens)
    expected = (len(texts), embedder.identity.dimension)
    if vectors.shape != expected:
        raise EmbedderFailed(
            f"the embedder answered with vectors of shape {vectors.shape}, expected {expected}"
        )
    if vectors.dtype.kind not in "fiu":
        raise EmbedderFailed(f"the embedder answered with vectors of type {vectors.dtype}, expected floats")
    if tokens.shape != (len(texts),):
        raise EmbedderFailed(f"the embedder answered with {tokens.shape} token counts for {len(texts)} texts")
    strange = [row for row in answer.failures if not 0 <= row < len(texts)]
    if strange:
        raise EmbedderFailed(f"the embedder reports a failure of row {strange[0]}, of {len(texts)} rows")
    # A float64 vector may be longer than float32 can say: it is scaled before it is narrowed.
    wide = vectors.astype(np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    huge = np.isfinite(largest) & (largest > 1e18)
    return (
        np.where(huge, wide / np.where(huge, largest, 1.0), wide).astype(np.float32),
        tokens.astype(np.int64),
        dict(answer.failures),
    )


def _defects(vectors: NDArray[np.float32]) -> list[str]:
    """For each row: why it cannot be used, or an empty string."""
    finite: list[bool] = [bool(ok) for ok in np.asarray(np.isfinite(vectors).all(axis=1))]
    norms: list[float] = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)).tolist()
    return [
        "the vector is not finite"
        if not ok
        else f"{NO_DIRECTION}: its norm is {norm:.3g}"
        if norm < ZERO_NORM
        else ""
        for ok, norm in zip(finite, norms, strict=True)
    ]


def _unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows divided by their 2-norm; zero rows stay zero, and rows of unit length keep their bits."""
    wide = vectors.astype(np.float64)
    norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    scale = np.where((norms == 0) | (np.abs(norms - 1.0) < 1e-6), 1.0, norms)
    return np.asarray((wide / scale[:, None]).astype(np.float32))
