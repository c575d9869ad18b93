"""Texts to vectors, behind one method; importing this package loads no model and touches no file.

``load_embedder()`` gives an ``Embedder``, whose ``embed(texts)`` gives ``Embeddings``. ``embed_checked`` asks
the same and holds the answer to the contract: gaps are named, never filled.
"""

from outspan.embedders.cache import VectorCache
from outspan.embedders.guard import embed_checked
from outspan.embedders.loading import (
    FileCheck,
    ModelInfo,
    VerifyReport,
    fetch_model,
    list_models,
    load_embedder,
    verify_model,
)
from outspan.embedders.protocol import Embedder, EmbedderIdentity, Embeddings, TokenVectors
from outspan.embedders.registry import DEFAULT_MODEL

__all__ = [
    "DEFAULT_MODEL",
    "Embedder",
    "EmbedderIdentity",
    "Embeddings",
    "FileCheck",
    "ModelInfo",
    "TokenVectors",
    "VectorCache",
    "VerifyReport",
    "embed_checked",
    "fetch_model",
    "list_models",
    "load_embedder",
    "verify_model",
]
