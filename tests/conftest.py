"""Shared fixtures: the real default embedder, loaded once as a user would load it, and the fake one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outspan.testing import FakeEmbedder

if TYPE_CHECKING:
    from outspan.embedders.onnx_runtime import OnnxEmbedder


@pytest.fixture(scope="session")
def embedder() -> OnnxEmbedder:
    """The default embedder; fetched through the normal path if it is not here. A failure is a failure, no skip."""
    from outspan.embedders import load_embedder
    from outspan.embedders.onnx_runtime import OnnxEmbedder

    loaded = load_embedder()
    assert isinstance(loaded, OnnxEmbedder)
    return loaded


@pytest.fixture
def fake_embedder() -> FakeEmbedder:
    """A deterministic embedder of 64 dimensions without a model."""
    return FakeEmbedder()
