"""The default embedder: a BERT-family encoder in ONNX Runtime, float32, without torch.

A text's vector is the same to the last bit whatever else is in the call, in whatever batch and with however
many threads, because a batch holds only texts of equal token count: there is no padding and no attention
mask, and each row's sums run in an order that depends on its own length alone. A replay can therefore be
exact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outspan.embedders.protocol import EmbedderIdentity, Embeddings, TokenVectors
from outspan.errors import EmbedderFailed, ModelError

_TOKENS_PER_BATCH = 1024
"""Bounds memory: the widest array of MiniLM is then 1024 × 1536 float32, 6 MB. Larger batches are not
faster."""

_TEXTS_PER_WINDOW = 4096
"""Texts that are tokenised, sorted by token count and embedded together: bounds memory for long inputs."""

_CHARACTERS_PER_TOKEN = 64
"""A text is cut at this many characters per allowed word piece before it is tokenised, so that a text of
megabytes costs no more than a long one; English has about five characters per piece."""


@dataclass(frozen=True, slots=True)
class _Pieces:
    """One text, tokenised."""

    ids: NDArray[np.int32]
    """(t,) token ids after truncation."""
    tokens: int
    """Word pieces before truncation."""
    encoding: Any
    """The tokenizer's own record, kept only where pieces and offsets are asked for."""


class OnnxEmbedder:
    """Embeds texts with an encoder graph built by :mod:`outspan.embedders.onnx_graph`.

    Made by :func:`outspan.embedders.load_embedder`. May be shared by threads; in a forked child the session
    is made anew, because the threads of the parent's do not exist there.

    Parameters
    ----------
    graph : the serialised graph.
    weights : path of the ``model.safetensors`` that the graph points into.
    tokenizer : path of ``tokenizer.json``.
    identity : what this embedder is.
    threads : threads of one call; None takes the processors this process may use, at most 8. No vector
        depends on it.
    """

    def __init__(
        self,
        *,
        graph: bytes,
        weights: Path,
        tokenizer: Path,
        identity: EmbedderIdentity,
        threads: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self._identity = identity
        self._graph = graph
        self._folder = weights.parent
        self._threads = threads or min(8, _usable_processors())
        self._tokenizer = _read_tokenizer(tokenizer, identity.max_tokens)
        self._specials = int(self._tokenizer.num_special_tokens_to_add(False))
        self._lock = Lock()
        self._abandoned: list[Any] = []
        self._pid = os.getpid()
        self._session = self._start()

    @property
    def identity(self) -> EmbedderIdentity:
        """What the vectors depend on."""
        return self._identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        """Unit vectors for ``texts``.

        A text that occurs twice is embedded once. A text in which the tokenizer finds nothing to read (only
        zero-width characters, say) or that is not valid Unicode is a failure with its reason, never a number.

        Shapes
        ------
        vectors (n, d) float32, tokens (n,) int64.

        Raises
        ------
        EmbedderFailed
            If the runtime itself fails.
        """
        distinct = list(dict.fromkeys(texts))
        vectors = np.zeros((len(distinct), self._identity.dimension), dtype=np.float32)
        tokens = np.zeros(len(distinct), dtype=np.int64)
        failures: dict[int, str] = {}
        for start in range(0, len(distinct), _TEXTS_PER_WINDOW):
            window = distinct[start : start + _TEXTS_PER_WINDOW]
            pieces = [self._read(text) for text in window]
            for i, piece in enumerate(pieces):
                if isinstance(piece, str):
                    failures[start + i] = piece
                else:
                    tokens[start + i] = piece.tokens
            for rows, _, sentence in self._forward(pieces):
                vectors[[start + i for i in rows]] = sentence
        if len(distinct) == len(texts):
            return Embeddings(vectors=vectors, tokens=tokens, failures=failures)
        place = {text: i for i, text in enumerate(distinct)}
        rows = [place[text] for text in texts]
        spread = {i: failures[row] for i, row in enumerate(rows) if row in failures}
        return Embeddings(vectors=vectors[rows], tokens=tokens[rows], failures=spread)

    def embed_tokens(self, texts: Sequence[str], /) -> list[TokenVectors]:
        """The word pieces of each text with character offsets and vectors, and the sentence vector of the
        same pass.

        Raises
        ------
        EmbedderFailed
            If a text has nothing to read or is not valid Unicode; the message has its number.
        """
        found: list[TokenVectors | None] = [None] * len(texts)
        for start in range(0, len(texts), _TEXTS_PER_WINDOW):
            pieces = [self._read(text, keep=True) for text in texts[start : start + _TEXTS_PER_WINDOW]]
            for rows, hidden, sentence in self._forward(pieces):
                for place, i in enumerate(rows):
                    piece = pieces[i]
                    assert isinstance(piece, _Pieces)
                    found[start + i] = TokenVectors(
                        pieces=tuple(piece.encoding.tokens),
                        offsets=tuple(piece.encoding.offsets),
                        vectors=hidden[place].copy(),
                        sentence=sentence[place],
                        tokens=piece.tokens,
                    )
            failed = [(start + i, piece) for i, piece in enumerate(pieces) if isinstance(piece, str)]
            if failed:
                raise EmbedderFailed(f"text {failed[0][0]}: {failed[0][1]}")
        return [vectors for vectors in found if vectors is not None]

    def _read(self, text: str, *, keep: bool = False) -> _Pieces | str:
        """The text as token ids, or the reason why it has none."""
        limit = _CHARACTERS_PER_TOKEN * self._identity.max_tokens
        cut = len(text) > limit
        try:
            encoding = self._tokenizer.encode(text[:limit] if cut else text)
        except (UnicodeEncodeError, TypeError) as error:
            # A lone surrogate cannot be handed to the tokenizer; anything that is not a str is the caller's
            # mistake.
            if not isinstance(text, str):
                raise
            return f"not valid Unicode text: {error}"
        beyond = sum(len(rest.ids) - self._specials for rest in encoding.overflowing)
        tokens = len(encoding.ids) + beyond
        if tokens <= self._specials:
            return "the tokenizer finds nothing to read in it"
        if cut:
            tokens = max(tokens, self._identity.max_tokens + 1)
        ids = np.asarray(encoding.ids, dtype=np.int32)
        return _Pieces(ids, tokens, encoding if keep else None)

    def _forward(
        self, pieces: Sequence[_Pieces | str]
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.float32]]]:
        """Batches of equal token count: rows, token vectors (b, t, d), unit sentence vectors (b, d)."""
        by_length: dict[int, list[int]] = {}
        for i, piece in enumerate(pieces):
            if isinstance(piece, _Pieces):
                by_length.setdefault(len(piece.ids), []).append(i)
        session = self._current_session()
        for length in sorted(by_length):
            rows, size = by_length[length], max(1, _TOKENS_PER_BATCH // length)
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                ids = np.stack([piece.ids for i in batch if isinstance(piece := pieces[i], _Pieces)])
                hidden = _run(session, ids.astype(np.int64))
                yield batch, hidden, self._pool(hidden)

    def _pool(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        """(b, t, d) → (b, d): mean over the word pieces, or the first one's vector; then unit norm.

        Summed in float64, row by row in token order, so that the result does not depend on the batch.
        """
        if self._identity.pooling == "cls":
            pooled = hidden[:, 0, :].astype(np.float64)
        else:
            pooled = hidden.mean(axis=1, dtype=np.float64)
        norms = np.sqrt(np.einsum("bd,bd->b", pooled, pooled))[:, None]
        # A zero vector stays zero: the guard turns it into a failure with a reason.
        return (pooled / np.where(norms > 0, norms, 1.0)).astype(np.float32)

    def _current_session(self) -> Any:
        if os.getpid() != self._pid:
            with self._lock:
                if os.getpid() != self._pid:
                    # Destroying the parent's session here would wait for threads that were not forked.
                    self._abandoned.append(self._session)
                    self._session = self._start()
                    self._pid = os.getpid()
        return self._session

    def _start(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # fatal only; errors arrive as exceptions
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # Shapes change with every batch: a plan of memory per shape would only grow.
        options.enable_mem_pattern = False
        # Waiting threads sleep: on a machine with other work, spinning halves the throughput.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(self._folder)
        )
        try:
            return onnxruntime.InferenceSession(self._graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelError(
                f"ONNX Runtime {onnxruntime.__version__} cannot load the model in {self._folder}: {error}"
            ) from error


def _run(session: Any, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    try:
        hidden: NDArray[np.float32] = session.run(None, {"input_ids": ids})[0]
    except Exception as error:
        raise EmbedderFailed(
            f"ONNX Runtime failed on a batch of {ids.shape[0]} × {ids.shape[1]} tokens: {error}"
        ) from error
    return hidden


def _read_tokenizer(path: Path, max_tokens: int) -> Any:
    """The tokenizer with our truncation and no padding, whatever its file asks for."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(f"{path}: not a usable tokenizer.json: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=max_tokens)
    return tokenizer


def _usable_processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
