"""From a model's name or folder to an embedder that has proved itself on a sentence with a known vector."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outspan.embedders import fetch, onnx_graph, registry
from outspan.embedders.fetch import Progress
from outspan.embedders.onnx_runtime import OnnxEmbedder
from outspan.embedders.protocol import Embedder, EmbedderIdentity
from outspan.errors import ModelError, ModelNotFound

CANARY_TOLERANCE = 1e-4
"""Largest difference of a component from the stored vector; torch and this runtime differ by 3e-7."""

RUNTIME = f"onnxruntime graph {onnx_graph.GRAPH_VERSION}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A model of the registry and whether it is here."""

    name: str
    source: str
    license: str
    weights_digest: str
    dimension: int
    max_tokens: int
    size: int
    """Bytes of the files that are needed."""
    cached: bool
    """A copy is on this machine; ``verify_model`` says whether it is intact."""
    path: Path | None
    """Where it is."""

    def to_dict(self) -> dict[str, object]:
        """Fields as JSON values."""
        return {**asdict(self), "path": None if self.path is None else str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """One file of a model, as found."""

    name: str
    expected: str
    """SHA-256, hex, that the registry pins."""
    found: str | None
    """SHA-256, hex, of the file; None if it is missing."""

    @property
    def ok(self) -> bool:
        """The file is there and is the pinned one."""
        return self.found == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """Every file of a model, hashed anew."""

    name: str
    folder: Path
    files: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        """All files are there and are the pinned ones."""
        return all(file.ok for file in self.files)

    def to_dict(self) -> dict[str, object]:
        """Fields as JSON values."""
        files = [{**asdict(file), "ok": file.ok} for file in self.files]
        return {"name": self.name, "folder": str(self.folder), "ok": self.ok, "files": files}


def load_embedder(
    model: str | Path = registry.DEFAULT_MODEL,
    *,
    cache_dir: Path | None = None,
    threads: int | None = None,
    offline: bool | None = None,
    progress: Progress | None = None,
) -> Embedder:
    """An embedder, ready and checked.

    Parameters
    ----------
    model : a name of the registry (see :func:`list_models`); a folder with ``model.safetensors``,
        ``tokenizer.json`` and ``config.json`` of a BERT-family encoder; or ``st:NAME`` for any model of the
        sentence-transformers extra.
    cache_dir : where models, graphs and vectors are kept; by default ``OUTSPAN_CACHE_DIR`` or the user's
        cache folder.
    threads : threads of one call; by default the processors this process may use, at most 8. No vector
        depends on it.
    offline : True never tries the network; by default ``OUTSPAN_OFFLINE`` or ``HF_HUB_OFFLINE`` decides.
    progress : called with ``(what, bytes so far, bytes in all)`` during a fetch; by default a bar on a
        terminal.

    Raises
    ------
    ModelNotFound
        If the model is not here and cannot, or may not, be fetched; the message lists what was tried and what
        helps.
    WrongDigest
        If its files are not the pinned ones.
    ModelError
        If the folder holds an encoder that cannot be built, or the embedder does not reproduce its known
        vector.
    NotInstalled
        For ``st:`` without the extra.
    """
    cache = fetch.cache_folder(cache_dir)
    if isinstance(model, str) and model.startswith("st:"):
        from outspan.embedders.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(model.removeprefix("st:"), offline=fetch.is_offline(offline))
    known = None if isinstance(model, Path) else registry.lookup(model)
    if known is None and (isinstance(model, Path) or Path(model).is_dir()):
        return _load_folder(Path(model), cache, threads)
    known = known or registry.find_model(str(model))
    folder = fetch.obtain(known, cache, offline=fetch.is_offline(offline), progress=progress)
    identity = EmbedderIdentity(
        name=known.name,
        weights_digest=known.weights_digest,
        dimension=known.dimension,
        pooling=known.pooling,
        normalisation="l2",
        max_tokens=known.max_tokens,
        dtype="float32",
        runtime=RUNTIME,
        tokenizer_digest=f"sha256:{known.files['tokenizer.json']}",
    )
    embedder = _start(folder, identity, cache, threads)
    text, expected = registry.read_canary(known)
    check_canary(embedder, text, expected)
    return embedder


def list_models(*, cache_dir: Path | None = None) -> list[ModelInfo]:
    """The models of the registry, the default first. Nothing is hashed or fetched."""
    cache = fetch.cache_folder(cache_dir)
    found = []
    for model in registry.known_models():
        folder = fetch.likely_folder(model, cache)
        found.append(
            ModelInfo(
                name=model.name,
                source=model.source(),
                license=model.license,
                weights_digest=model.weights_digest,
                dimension=model.dimension,
                max_tokens=model.max_tokens,
                size=model.size,
                cached=folder is not None,
                path=folder,
            )
        )
    return found


def fetch_model(
    name: str = registry.DEFAULT_MODEL,
    progress: Progress | None = None,
    *,
    cache_dir: Path | None = None,
    offline: bool | None = None,
) -> Path:
    """The folder of the model's verified files, fetched if they are not here; a damaged copy in the cache is
    replaced.

    Raises
    ------
    ModelNotFound, WrongDigest, ModelError
        As :func:`load_embedder`.
    """
    model = registry.find_model(name)
    cache = fetch.cache_folder(cache_dir)
    return fetch.obtain(model, cache, offline=fetch.is_offline(offline), progress=progress, repair=True)


def verify_model(name: str = registry.DEFAULT_MODEL, *, cache_dir: Path | None = None) -> VerifyReport:
    """Hash every file of the model anew and compare it with the registry.

    Raises
    ------
    ModelNotFound
        If there is no copy on this machine.
    """
    model = registry.find_model(name)
    folder = fetch.likely_folder(model, fetch.cache_folder(cache_dir))
    if folder is None:
        raise ModelNotFound(f"{model.name} is not on this machine. Run: outspan models fetch")
    checks = []
    for file, expected in model.files.items():
        path = folder / file
        found = fetch.file_digest(path) if path.is_file() else None
        checks.append(FileCheck(name=file, expected=expected, found=found))
    return VerifyReport(name=model.name, folder=folder, files=tuple(checks))


def check_canary(embedder: Embedder, text: str, expected: NDArray[np.float32]) -> None:
    """Refuse an embedder that does not reproduce a known vector: another kernel, a damaged file, NaN.

    Raises
    ------
    ModelError
    """
    answer = embedder.embed([text])
    vector = answer.vectors[0]
    name = embedder.identity.name
    if answer.failures or not np.isfinite(vector).all():
        raise ModelError(
            f"{name}: the check sentence has no finite vector on this machine; the embedder is refused"
        )
    if vector.shape != expected.shape:
        raise ModelError(
            f"{name}: the check sentence's vector has shape {vector.shape}, expected {expected.shape}"
        )
    off = float(np.abs(vector - expected).max())
    if off > CANARY_TOLERANCE:
        raise ModelError(
            f"{name}: the check sentence's vector is off by {off:.2g} (allowed {CANARY_TOLERANCE:g}); the "
            "embedder is refused. Run 'outspan models verify', and try another version of onnxruntime"
        )


def _start(folder: Path, identity: EmbedderIdentity, cache: Path, threads: int | None) -> OnnxEmbedder:
    return OnnxEmbedder(
        graph=_graph(folder, identity.weights_digest, cache),
        weights=folder / onnx_graph.WEIGHTS,
        tokenizer=folder / "tokenizer.json",
        identity=identity,
        threads=threads,
    )


def _graph(folder: Path, weights_digest: str, cache: Path) -> bytes:
    """The serialised graph, from the cache if it is there and intact, else built.

    Its file is its own SHA-256, a newline, and the bytes, written whole; a damaged one is built anew.
    Building it needs the ``onnx`` package and half a second, reading it neither.
    """
    config_path = folder / "config.json"
    raw = config_path.read_bytes()
    key = hashlib.sha256(f"{onnx_graph.GRAPH_VERSION}\n{weights_digest}\n".encode() + raw).hexdigest()[:32]
    path = cache / "graphs" / f"{key}.graph"
    try:
        head, _, graph = path.read_bytes().partition(b"\n")
        if hashlib.sha256(graph).hexdigest().encode() == head:
            return graph
        _log.warning("%s is damaged; the graph is built anew", path)
    except FileNotFoundError:
        pass  # the first use
    except OSError as error:
        _log.warning("%s cannot be read (%s); the graph is built anew", path, error)
    config = onnx_graph.read_config(_parse(config_path), where=str(config_path))
    graph = onnx_graph.build_graph(config, folder / onnx_graph.WEIGHTS)
    try:
        fetch.write_whole(path, hashlib.sha256(graph).hexdigest().encode() + b"\n" + graph)
    except OSError as error:
        _log.warning("%s cannot be written (%s); the graph will be built at each start", path, error)
    return graph


def _load_folder(folder: Path, cache: Path, threads: int | None) -> Embedder:
    """An embedder from a user's own folder; its first vector of the check sentence is kept for later
    starts.
    """
    for name in (onnx_graph.WEIGHTS, "tokenizer.json", "config.json"):
        if not (folder / name).is_file():
            raise ModelNotFound(
                f"{folder / name}: there is no such file. A model folder needs model.safetensors, "
                "tokenizer.json and config.json; save the model with a fast tokenizer and safe serialisation"
            )
    digest = fetch.known_digest(folder / onnx_graph.WEIGHTS, cache)
    name = folder.resolve().name
    config = onnx_graph.read_config(_parse(folder / "config.json"), where=str(folder / "config.json"))
    identity = EmbedderIdentity(
        # The same weights are the same model, whatever the folder is called.
        name=next((m.name for m in registry.known_models() if m.weights_digest == f"sha256:{digest}"), name),
        weights_digest=f"sha256:{digest}",
        dimension=config.hidden,
        pooling=_pooling(folder),
        normalisation="l2",
        max_tokens=_max_tokens(folder, config.positions),
        dtype="float32",
        runtime=RUNTIME,
        tokenizer_digest=f"sha256:{fetch.known_digest(folder / 'tokenizer.json', cache)}",
    )
    embedder = _start(folder, identity, cache, threads)
    text, _ = registry.read_canary(registry.known_models()[0])
    key = hashlib.sha256(json.dumps(identity.to_dict(), sort_keys=True).encode()).hexdigest()[:32]
    path = cache / "canaries" / f"{key}.json"
    try:
        expected = np.asarray(json.loads(path.read_text(encoding="utf-8")), dtype=np.float32)
    except (OSError, ValueError):
        # The first use of this folder: the vector is checked for being one, and kept.
        expected = embedder.embed([text]).vectors[0]
    check_canary(embedder, text, expected)
    if not path.is_file():
        try:
            fetch.write_whole(path, json.dumps([float(x) for x in expected]).encode())
        except OSError as error:
            _log.warning("%s cannot be written (%s); later starts cannot compare their vector", path, error)
    return embedder


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds {type(value).__name__}, expected an object")
    return value


def _pooling(folder: Path) -> str:
    """``mean`` or ``cls``, as the folder's sentence-transformers files say; ``mean`` where they are absent.

    The vectors are made unit length whether or not the folder has a Normalize module: the measurement uses
    directions only.
    """
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = [
            str(entry["type"]).rpartition(".")[2] for entry in json.loads(modules.read_text(encoding="utf-8"))
        ]
        strange = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
        if strange:
            raise ModelError(
                f"{modules}: the module {strange[0]} is not computed by outspan's own runtime. Use the "
                f"sentence-transformers extra: load_embedder('st:{folder}')"
            )
    _refuse_prompts(folder)
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    config = _parse(path)
    if "pooling_mode" in config:
        chosen = {str(config["pooling_mode"])}
    else:
        chosen = {
            key.removeprefix("pooling_mode_") for key, on in config.items() if on is True and "_mode_" in key
        }
    names = {"mean_tokens": "mean", "cls_token": "cls", "mean": "mean", "cls": "cls"}
    if len(chosen) != 1 or not chosen <= set(names):
        raise ModelError(
            f"{path}: pooling {', '.join(sorted(chosen)) or 'of no kind'} is not supported (mean or cls). "
            f"Use the sentence-transformers extra: load_embedder('st:{folder}')"
        )
    return names[chosen.pop()]


def _refuse_prompts(folder: Path) -> None:
    """A model that wants words put before each text, or lower-cased text, would be fed something else
    here.
    """
    path = folder / "config_sentence_transformers.json"
    if path.is_file() and (prompt := _parse(path).get("default_prompt_name")):
        raise ModelError(
            f"{path}: the model puts the prompt {prompt!r} before each text, which outspan's own runtime "
            f"does not. Use the sentence-transformers extra: load_embedder('st:{folder}')"
        )
    path = folder / "sentence_bert_config.json"
    if path.is_file() and _parse(path).get("do_lower_case"):
        raise ModelError(f"{path}: do_lower_case is not supported. Use load_embedder('st:{folder}')")


def _max_tokens(folder: Path, positions: int) -> int:
    """Word pieces read: what the folder says, never more than the model has positions for."""
    wanted = positions
    path = folder / "sentence_bert_config.json"
    if path.is_file():
        wanted = int(_parse(path).get("max_seq_length") or positions)
    return min(wanted, positions)
