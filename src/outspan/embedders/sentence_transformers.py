"""Any sentence-transformers model behind the same protocol; needs the extra of that name (torch).

Slower than outspan's own runtime and not bit-identical over batches; here for the models that runtime does
not build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from outspan.embedders.protocol import EmbedderIdentity, Embeddings
from outspan.errors import ModelError, ModelNotFound, NotInstalled

_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model")
_BATCH = 32


class SentenceTransformersEmbedder:
    """Embeds texts with a ``sentence_transformers.SentenceTransformer`` on the CPU.

    Parameters
    ----------
    name : a model folder, or a name that sentence-transformers knows; it is then fetched by that package.
    offline : True loads only what is already on this machine.
    device : where torch computes.

    Raises
    ------
    NotInstalled
        Without the extra.
    ModelNotFound
        If the model cannot be loaded.
    """

    def __init__(self, name: str, *, offline: bool = False, device: str = "cpu") -> None:
        try:
            import sentence_transformers
        except ImportError as error:
            raise NotInstalled(
                "sentence-transformers", "sentence-transformers", f"The embedder 'st:{name}'"
            ) from error
        try:
            self._model: Any = sentence_transformers.SentenceTransformer(
                name, device=device, local_files_only=offline
            )
        except Exception as error:
            raise ModelNotFound(
                f"sentence-transformers cannot load '{name}'{' offline' if offline else ''}: {error}"
            ) from error
        self._lock = Lock()  # its tokenizer is switched between truncating and not, so calls take turns
        version = str(getattr(sentence_transformers, "__version__", "unknown"))
        self._identity = self._describe(name, version)

    @property
    def identity(self) -> EmbedderIdentity:
        """What the vectors depend on; the weights digest covers every weight file of the model, modules
        included.
        """
        return self._identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        """Unit vectors (n, d) float32 and token counts (n,) before truncation, special tokens included."""
        if not texts:
            empty = np.zeros((0, self._identity.dimension), dtype=np.float32)
            return Embeddings(vectors=empty, tokens=np.zeros(0, dtype=np.int64))
        with self._lock:
            counts = [self._count(text) for text in texts]
            vectors = self._model.encode(
                list(texts),
                batch_size=_BATCH,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return Embeddings(
            vectors=np.asarray(vectors, dtype=np.float32), tokens=np.asarray(counts, dtype=np.int64)
        )

    def _count(self, text: str) -> int:
        """Word pieces of a text before truncation; of a very long one a lower bound, above the limit."""
        limit = 64 * self._identity.max_tokens
        cut = len(text) > limit
        found = self._model.tokenizer(
            text[:limit] if cut else text,
            truncation=False,
            padding=False,
            add_special_tokens=True,
            verbose=False,
        )
        count = len(found["input_ids"])
        return max(count, self._identity.max_tokens + 1) if cut else count

    def _describe(self, name: str, version: str) -> EmbedderIdentity:
        folder = _model_folder(name)
        dimension = self._model.encode(["a"], convert_to_numpy=True, show_progress_bar=False).shape[1]
        limit = self._model.max_seq_length
        return EmbedderIdentity(
            name=name if not Path(name).is_dir() else Path(name).resolve().name,
            weights_digest=f"sha256:{_digest_files(folder, _WEIGHT_FILES, name)}",
            dimension=int(dimension),
            pooling=_pooling(self._model),
            normalisation="l2",
            max_tokens=int(limit) if limit else 1 << 30,
            dtype="float32",
            runtime=f"sentence-transformers {version}",
            tokenizer_digest=f"sha256:{_digest_files(folder, _TOKENIZER_FILES, name)}",
        )


def _pooling(model: Any) -> str:
    """What the model's Pooling module does, by its own name; ``none`` where it has none."""
    for module in model:
        mode = getattr(module, "get_pooling_mode_str", None)
        if mode is not None:
            return str(mode())
        if (chosen := getattr(module, "pooling_mode", None)) is not None:
            return str(chosen)
    return "none"


def _model_folder(name: str) -> Path:
    """Where the files of a loaded model lie: its own folder, or the hub's snapshot on this machine."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    known = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return Path(snapshot_download(known, local_files_only=True))
    except Exception as error:
        raise ModelError(f"the files of '{name}' cannot be found to take their digest: {error}") from error


def _digest_files(folder: Path, patterns: Sequence[str], name: str) -> str:
    """SHA-256 over the relative names and digests of the matching files; of one file alone, that file's
    own.
    """
    paths = sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()})
    if not paths:
        raise ModelError(f"'{name}' has no {' or '.join(patterns)} in {folder}: its identity cannot be told")
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(
                (path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest())
            )
    if len(digests) == 1:
        return digests[0][1]
    whole = hashlib.sha256()
    for relative, digest in digests:
        whole.update(f"{len(relative)}:{relative}{digest}".encode())
    return whole.hexdigest()
