"""The sentence-transformers extra, through a small stand-in with the same interface (torch is not a test dependency)."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from outspan.embedders import Embedder, embed_checked, load_embedder
from outspan.errors import ModelError, ModelNotFound, NotInstalled
from outspan.testing import FakeEmbedder


class Pooling:
    """The newer of the two interfaces of that package's module."""

    pooling_mode = "cls"


class OlderPooling:
    def get_pooling_mode_str(self) -> str:
        return "mean"


class StandIn:
    """As much of ``sentence_transformers.SentenceTransformer`` as the adapter uses."""

    loaded: ClassVar[list[dict[str, object]]] = []
    pooling: object = Pooling()

    def __init__(self, name: str, *, device: str, local_files_only: bool) -> None:
        if not Path(name).is_dir():
            raise OSError(f"no such model: {name}")
        self.loaded.append({"name": name, "device": device, "local_files_only": local_files_only})
        self.max_seq_length = 6
        self.fake = FakeEmbedder(dimension=16)

    def __iter__(self) -> Iterator[object]:
        return iter([object(), self.pooling])

    def tokenizer(self, text: str, **options: Any) -> dict[str, list[int]]:
        assert options == {
            "truncation": False,
            "padding": False,
            "add_special_tokens": True,
            "verbose": False,
        }
        return {"input_ids": [0, *range(len(text.split())), 0]}

    def encode(self, texts: Sequence[str], **_: object) -> np.ndarray:
        return self.fake.embed(texts).vectors


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = StandIn  # type: ignore[attr-defined]
    module.__version__ = "9.9"
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(StandIn, "loaded", [])
    path = tmp_path / "some-model"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "tokenizer.json").write_bytes(b"{}")
    return path


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(NotInstalled, match=r"pip install 'outspan\[sentence-transformers\]'"):
        load_embedder("st:all-MiniLM-L6-v2")


def test_it_is_an_embedder_with_a_full_identity(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_embedder(f"st:{folder}", offline=True)
    assert isinstance(loaded, Embedder)
    assert StandIn.loaded == [{"name": str(folder), "device": "cpu", "local_files_only": True}]
    identity = loaded.identity
    assert identity.name == "some-model"
    assert identity.weights_digest == f"sha256:{hashlib.sha256(b'weights').hexdigest()}"
    assert identity.tokenizer_digest == f"sha256:{hashlib.sha256(b'{}').hexdigest()}"
    assert (identity.dimension, identity.max_tokens, identity.pooling) == (16, 6, "cls")
    assert identity.runtime == "sentence-transformers 9.9"
    monkeypatch.setattr(StandIn, "pooling", OlderPooling())
    assert load_embedder(f"st:{folder}").identity.pooling == "mean"
    monkeypatch.setattr(StandIn, "pooling", object())
    assert load_embedder(f"st:{folder}").identity.pooling == "none"


def test_every_weight_file_counts(folder: Path) -> None:
    before = load_embedder(f"st:{folder}").identity
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "model.safetensors").write_bytes(b"more weights")
    after = load_embedder(f"st:{folder}").identity
    assert before.weights_digest != after.weights_digest


def test_truncation_is_reported(folder: Path) -> None:
    loaded = load_embedder(f"st:{folder}")
    answer = embed_checked(loaded, ["one two", "", "one two three four five", "word " * 100_000])
    assert answer.tokens.tolist()[:3] == [4, 0, 7]
    assert answer.truncated(loaded.identity.max_tokens).tolist() == [False, False, True, True]
    assert dict(answer.failures) == {1: "blank"}
    assert loaded.embed([]).vectors.shape == (0, 16)


def test_what_cannot_be_loaded_or_told_apart_is_refused(folder: Path) -> None:
    with pytest.raises(ModelNotFound, match="no such model"):
        load_embedder("st:nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="identity cannot be told"):
        load_embedder(f"st:{folder}")
