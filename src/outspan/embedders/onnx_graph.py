"""Builds the graph of a BERT-family encoder in standard ONNX operators, straight from ``model.safetensors``.

The graph holds no weights: each initialiser points, as ONNX external data, at the bytes inside
``model.safetensors``. So there is one file of weights with one digest, the graph is a few dozen kilobytes
that can be hashed at every start, and the runtime maps the weights into memory.

The graph takes token ids of *equal length* and needs no attention mask: the embedder never pads, so the shape
of every sum is the text's own (see ``docs/decisions/0003-onnx-runtime.md``).

Sources: Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Sanh et al. 2019 (DistilBERT), Song et al. 2020
(MPNet); the relative position buckets are those of Raffel et al. 2020 (T5), section 2.1.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outspan.errors import ModelError

GRAPH_VERSION = "v1"
"""Changes whenever the graph could give other numbers; part of every identity."""

OPSET = 20  # the first with Gelu; LayerNormalization is there since 17
WEIGHTS = "model.safetensors"
_HEADER_LIMIT = 100_000_000  # the bound that the safetensors format itself sets


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Where one family of encoders keeps its weights, and how it counts positions."""

    layer: str
    """Prefix of layer i, with ``{i}``."""
    q: str
    k: str
    v: str
    out: str
    norm1: str
    up: str
    down: str
    norm2: str
    embed_norm: str = "embeddings.LayerNorm"
    position_from_padding: bool = False
    """Positions start at pad_token_id + 1 (the RoBERTa line) instead of 0."""
    relative_bias: str | None = None
    """Weight of the relative attention bias, shared by all layers (MPNet)."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Names in config.json that differ from BERT's."""


_BERT = Family(
    layer="encoder.layer.{i}.",
    q="attention.self.query",
    k="attention.self.key",
    v="attention.self.value",
    out="attention.output.dense",
    norm1="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm2="output.LayerNorm",
)
_ROBERTA = Family(
    layer=_BERT.layer,
    q=_BERT.q,
    k=_BERT.k,
    v=_BERT.v,
    out=_BERT.out,
    norm1=_BERT.norm1,
    up=_BERT.up,
    down=_BERT.down,
    norm2=_BERT.norm2,
    position_from_padding=True,
)
_MPNET = Family(
    layer="encoder.layer.{i}.",
    q="attention.attn.q",
    k="attention.attn.k",
    v="attention.attn.v",
    out="attention.attn.o",
    norm1="attention.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm2="output.LayerNorm",
    position_from_padding=True,
    relative_bias="encoder.relative_attention_bias.weight",
)
_DISTILBERT = Family(
    layer="transformer.layer.{i}.",
    q="attention.q_lin",
    k="attention.k_lin",
    v="attention.v_lin",
    out="attention.out_lin",
    norm1="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    norm2="output_layer_norm",
    keys={
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_size": "dim",
        "hidden_act": "activation",
    },
)
FAMILIES: Mapping[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "mpnet": _MPNET,
    "distilbert": _DISTILBERT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """The part of ``config.json`` that shapes the graph."""

    model_type: str
    layers: int
    heads: int
    hidden: int
    activation: str
    epsilon: float
    """Added to the variance in layer normalisation."""
    positions: int
    """Longest input in word pieces that the position table allows."""
    padding: int
    """Token id of padding; shifts the positions of the RoBERTa line."""
    relative_buckets: int
    """Buckets of the relative attention bias (MPNet); 0 elsewhere."""

    @property
    def family(self) -> Family:
        """Names and habits of this family."""
        return FAMILIES[self.model_type]


def read_config(config: Mapping[str, Any], *, where: str) -> EncoderConfig:
    """The encoder that ``config.json`` describes.

    Parameters
    ----------
    config : parsed ``config.json``.
    where : path for messages.

    Raises
    ------
    ModelError
        For a model family, an activation or a kind of position embedding that this graph does not compute.
    """
    model_type = str(config.get("model_type", ""))
    if model_type not in FAMILIES:
        raise ModelError(
            f"{where}: model_type {model_type!r} is not an encoder that outspan builds (it builds "
            f"{', '.join(FAMILIES)}). Use the sentence-transformers extra: load_embedder('st:FOLDER')"
        )
    family = FAMILIES[model_type]

    def value(key: str, default: Any = None) -> Any:
        found = config.get(family.keys.get(key, key), default)
        if found is None:
            raise ModelError(
                f"{where}: no '{family.keys.get(key, key)}'; it is not a complete {model_type} config"
            )
        return found

    _refuse_variants(config, where)
    padding = int(config.get("pad_token_id") or (1 if family.position_from_padding else 0))
    table = int(value("max_position_embeddings"))
    return EncoderConfig(
        model_type=model_type,
        layers=int(value("num_hidden_layers")),
        heads=int(value("num_attention_heads")),
        hidden=int(value("hidden_size")),
        activation=str(value("hidden_act")),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        positions=table - (padding + 1) if family.position_from_padding else table,
        padding=padding,
        relative_buckets=int(config.get("relative_attention_num_buckets", 32)) if family.relative_bias else 0,
    )


def _refuse_variants(config: Mapping[str, Any], where: str) -> None:
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise ModelError(f"{where}: position_embedding_type {kind!r} is not supported, only 'absolute'")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise ModelError(f"{where}: a decoder is not an encoder; choose an embedding model")


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a weight lies in the file."""

    dtype: str
    """``F32``, ``F16`` or ``BF16``."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the file."""
    length: int
    """Bytes."""


def read_tensor_table(path: Path) -> dict[str, Tensor]:
    """Names, shapes and places of the tensors in a safetensors file, without reading their data.

    Source: the safetensors format: 8 bytes little-endian header length, a JSON header, then the data.

    Raises
    ------
    ModelError
        If the header is not one, or points beyond the end of the file (a cut-off download).
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else _HEADER_LIMIT + 1
        if length > min(_HEADER_LIMIT, max(size - 8, 0)):
            raise ModelError(f"{path}: not a safetensors file (header length {length}, file of {size} bytes)")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise ModelError(f"{path}: not a safetensors file (its header is not JSON: {error})") from error
    table = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise ModelError(
                f"{path}: cut off: {name} ends at byte {8 + length + end}, the file at {size}. Fetch it again"
            )
        table[name] = Tensor(entry["dtype"], tuple(entry["shape"]), 8 + length + start, end - start)
    return table


class _Builder:
    """Collects nodes and initialisers; names are made here so that the same model always gives the same
    bytes.
    """

    def __init__(self, config: EncoderConfig, table: Mapping[str, Tensor], weights: str) -> None:
        import onnx

        self.onnx = onnx
        self.config = config
        self.table = table
        self.weights = weights
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._known: dict[str, str] = {}
        self._count = 0
        prefixes = ("", "bert.", "roberta.", "mpnet.", "distilbert.", "camembert.", "model.")
        self.prefix = next((p for p in prefixes if f"{p}embeddings.word_embeddings.weight" in table), None)
        if self.prefix is None:
            raise ModelError(
                f"{weights}: no 'embeddings.word_embeddings.weight'; it is not a {config.model_type} encoder"
            )

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self._count += 1
        output = f"{operator}_{self._count}"
        self.nodes.append(
            self.onnx.helper.make_node(operator, list(inputs), [output], name=output, **attributes)
        )
        return output

    def constant(self, value: NDArray[Any]) -> str:
        self._count += 1
        name = f"constant_{self._count}"
        self.initializers.append(self.onnx.numpy_helper.from_array(value, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.asarray(values, dtype=np.int64))

    def weight(self, name: str) -> str:
        """The named weight as a float32 value of the graph."""
        full = f"{self.prefix}{name}"
        if full in self._known:
            return self._known[full]
        if full not in self.table:
            # Older checkpoints name the two vectors of a layer norm after the paper.
            legacy = full.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            if legacy not in self.table:
                raise ModelError(f"{self.weights}: the weight '{full}' is missing")
            full = legacy
        self._known[full] = self._initializer(full, self.table[full])
        return self._known[full]

    def has(self, name: str) -> bool:
        return f"{self.prefix}{name}" in self.table

    def _initializer(self, name: str, place: Tensor) -> str:
        proto = self.onnx.TensorProto
        types = {"F32": proto.FLOAT, "F16": proto.FLOAT16, "BF16": proto.BFLOAT16}
        if place.dtype not in types:
            raise ModelError(
                f"{self.weights}: '{name}' is {place.dtype}; only F32, F16 and BF16 weights can be used"
            )
        tensor = proto(name=name, data_type=types[place.dtype], dims=place.shape)
        tensor.data_location = proto.EXTERNAL
        for key, value in (
            ("location", WEIGHTS),
            ("offset", str(place.offset)),
            ("length", str(place.length)),
        ):
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        # Halves are widened once, when the session folds constants: the computation is float32 throughout.
        return name if place.dtype == "F32" else self.node("Cast", name, to=proto.FLOAT)


def build_graph(config: EncoderConfig, weights: Path) -> bytes:
    """The encoder as a serialised ONNX model whose weights are external data in ``model.safetensors``.

    Input ``input_ids`` (b, t) int64, all rows of full length t. Output ``token_vectors`` (b, t, d) float32.

    Raises
    ------
    ModelError
        If a weight is missing, has an unusable type, or the activation is unknown.
    """
    import onnx

    graph = _Builder(config, read_tensor_table(weights), str(weights))
    bias = _relative_bias(graph)
    # Tokens of all texts form one matrix (b·t, d): a linear layer is then one Gemm that reads the stored
    # (out, in) weight as it lies, and no row's sum depends on the others.
    x = _embeddings(graph)
    for index in range(config.layers):
        x = _layer(graph, x, config.family.layer.format(i=index), bias)
    shape = graph.node("Concat", graph.node("Shape", "input_ids"), graph.integers(config.hidden), axis=0)
    graph.nodes.append(onnx.helper.make_node("Reshape", [x, shape], ["token_vectors"], name="token_vectors"))
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            f"outspan encoder {GRAPH_VERSION}",
            [onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["b", "t"])],
            [
                onnx.helper.make_tensor_value_info(
                    "token_vectors", onnx.TensorProto.FLOAT, ["b", "t", config.hidden]
                )
            ],
            graph.initializers,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        producer_name="outspan",
        ir_version=10,  # fixed, so that the bytes do not depend on the installed onnx
    )
    return bytes(model.SerializeToString(deterministic=True))


def _embeddings(g: _Builder) -> str:
    config = g.config
    ids = g.node("Reshape", "input_ids", g.integers(-1))
    words = g.node("Gather", g.weight("embeddings.word_embeddings.weight"), ids)
    shape = g.node("Shape", "input_ids")
    length = g.node("Gather", shape, g.constant(np.asarray(1, dtype=np.int64)))
    start = config.padding + 1 if config.family.position_from_padding else 0
    first = g.constant(np.asarray(start, dtype=np.int64))
    one = g.constant(np.asarray(1, dtype=np.int64))
    positions = g.node("Range", first, g.node("Add", first, length), one)
    places = g.node("Gather", g.weight("embeddings.position_embeddings.weight"), positions)
    three = g.node("Concat", shape, g.integers(config.hidden), axis=0)
    x = g.node("Reshape", words, three)
    x = g.node("Add", x, places)
    if g.has("embeddings.token_type_embeddings.weight"):
        # One text at a time has one segment: type 0 everywhere.
        kind = g.node("Gather", g.weight("embeddings.token_type_embeddings.weight"), g.integers(0))
        x = g.node("Add", x, kind)
    flat = g.node("Reshape", x, g.integers(-1, config.hidden))
    return _normalise(g, flat, config.family.embed_norm)


def _normalise(g: _Builder, x: str, name: str) -> str:
    scale, shift = g.weight(f"{name}.weight"), g.weight(f"{name}.bias")
    return g.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=g.config.epsilon)


def _linear(g: _Builder, x: str, name: str) -> str:
    return g.node("Gemm", x, g.weight(f"{name}.weight"), g.weight(f"{name}.bias"), transB=1)


def _layer(g: _Builder, x: str, prefix: str, bias: str | None) -> str:
    family = g.config.family
    attended = _linear(g, _attention(g, x, prefix, bias), prefix + family.out)
    x = _normalise(g, g.node("Add", attended, x), prefix + family.norm1)
    up = _activation(g, _linear(g, x, prefix + family.up))
    down = _linear(g, up, prefix + family.down)
    return _normalise(g, g.node("Add", down, x), prefix + family.norm2)


def _attention(g: _Builder, x: str, prefix: str, bias: str | None) -> str:
    """softmax(QKᵀ/√(d/h) + bias) V for each of h heads, as in Vaswani et al. 2017, section 3.2."""
    config, family = g.config, g.config.family
    width = config.hidden // config.heads
    shape = g.node("Concat", g.node("Shape", "input_ids"), g.integers(config.heads, width), axis=0)

    def heads(name: str, order: tuple[int, ...]) -> str:
        return g.node("Transpose", g.node("Reshape", _linear(g, x, prefix + name), shape), perm=order)

    query, key = heads(family.q, (0, 2, 1, 3)), heads(family.k, (0, 2, 3, 1))
    scale = g.constant(np.asarray(1.0 / math.sqrt(width), dtype=np.float32))
    scores = g.node("MatMul", g.node("Mul", query, scale), key)
    if bias is not None:
        scores = g.node("Add", scores, bias)
    mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), heads(family.v, (0, 2, 1, 3)))
    return g.node("Reshape", g.node("Transpose", mixed, perm=(0, 2, 1, 3)), g.integers(-1, config.hidden))


def _activation(g: _Builder, x: str) -> str:
    name = g.config.activation
    if name == "gelu":
        return g.node("Gelu", x)
    if name in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"):
        return g.node("Gelu", x, approximate="tanh")
    if name == "relu":
        return g.node("Relu", x)
    raise ModelError(f"{g.weights}: the activation {name!r} is not supported (gelu, its tanh form, relu)")


def _relative_bias(g: _Builder) -> str | None:
    """(1, h, t, t) bias by bucketed distance, or None for a family without one.

    The bucket of every distance between two positions is a constant table; at run time it is only sliced to
    t.
    """
    config = g.config
    if config.family.relative_bias is None:
        return None
    size = config.positions
    distance = np.arange(size)[None, :] - np.arange(size)[:, None]
    buckets = g.constant(_bucket(distance, config.relative_buckets))
    length = g.node("Slice", g.node("Shape", "input_ids"), g.integers(1), g.integers(2))
    both = g.node("Concat", length, length, axis=0)
    near = g.node("Slice", buckets, g.integers(0, 0), both, g.integers(0, 1))
    values = g.node("Gather", g.weight(config.family.relative_bias), near)
    return g.node("Unsqueeze", g.node("Transpose", values, perm=(2, 0, 1)), g.integers(0))


def _bucket(distance: NDArray[np.int64], count: int, furthest: int = 128) -> NDArray[np.int64]:
    """Half the buckets for each direction; in each, one per distance at first, then logarithmic up to
    ``furthest``.
    """
    half = count // 2
    exact = half // 2
    away = np.abs(distance)
    # float32, like the reference: the boundary of a bucket must not move by rounding.
    ratio = np.log(np.maximum(away, 1).astype(np.float32) / np.float32(exact)) / np.float32(
        math.log(furthest / exact)
    )
    coarse = np.minimum(exact + (ratio * np.float32(half - exact)).astype(np.int64), half - 1)
    return (np.where(distance > 0, half, 0) + np.where(away < exact, away, coarse)).astype(np.int64)
