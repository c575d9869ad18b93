"""Tiny encoders of every family with weights from a seed, written as a user's model folder would be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HIDDEN, HEADS, LAYERS, UP, VOCAB, POSITIONS = 32, 4, 2, 48, 60, 40
FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert")
IDS = [
    2,
    7,
    11,
    13,
    17,
    19,
    23,
    29,
    31,
    37,
    41,
    43,
    47,
    53,
    59,
    8,
    9,
    12,
    14,
    15,
    16,
    18,
    20,
    21,
    22,
    24,
    25,
    3,
]
"""Token ids of the reference; longer than the exact buckets of a relative attention bias."""

_NAMES = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
             "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"),
    "mpnet": ("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
              "attention.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"),
    "distilbert": ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
                   "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
}  # fmt: skip


def write_tiny_model(folder: Path, family: str, *, seed: int = 7, dtype: type = np.float32) -> None:
    """``model.safetensors``, ``config.json`` and a word-level ``tokenizer.json``."""
    random = np.random.default_rng(seed)

    def draw(*shape: int, around: float = 0.0) -> np.ndarray:
        return (around + 0.3 * random.standard_normal(shape)).astype(dtype)

    weights = {
        "embeddings.word_embeddings.weight": draw(VOCAB, HIDDEN),
        "embeddings.position_embeddings.weight": draw(POSITIONS, HIDDEN),
        "embeddings.LayerNorm.weight": draw(HIDDEN, around=1.0),
        "embeddings.LayerNorm.bias": draw(HIDDEN),
    }
    if family not in ("mpnet", "distilbert"):
        weights["embeddings.token_type_embeddings.weight"] = draw(2 if family == "bert" else 1, HIDDEN)
    if family == "mpnet":
        weights["encoder.relative_attention_bias.weight"] = draw(32, HEADS)
    q, k, v, out, norm1, up, down, norm2 = _NAMES.get(family, _NAMES["bert"])
    stem = "transformer" if family == "distilbert" else "encoder"
    for layer in range(LAYERS):
        prefix = f"{stem}.layer.{layer}."
        for name, rows, columns in (
            (q, HIDDEN, HIDDEN), (k, HIDDEN, HIDDEN), (v, HIDDEN, HIDDEN), (out, HIDDEN, HIDDEN),
            (up, UP, HIDDEN), (down, HIDDEN, UP),
        ):  # fmt: skip
            weights[f"{prefix}{name}.weight"] = draw(rows, columns)
            weights[f"{prefix}{name}.bias"] = draw(rows)
        for name in (norm1, norm2):
            weights[f"{prefix}{name}.weight"] = draw(HIDDEN, around=1.0)
            weights[f"{prefix}{name}.bias"] = draw(HIDDEN)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(family)))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()))


def _config(family: str) -> dict[str, object]:
    if family == "distilbert":
        return {
            "model_type": family, "dim": HIDDEN, "n_heads": HEADS, "n_layers": LAYERS, "hidden_dim": UP,
            "vocab_size": VOCAB, "max_position_embeddings": POSITIONS, "activation": "gelu", "pad_token_id": 0,
        }  # fmt: skip
    return {
        "model_type": family, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "intermediate_size": UP, "vocab_size": VOCAB, "max_position_embeddings": POSITIONS, "hidden_act": "gelu",
        "type_vocab_size": 2 if family == "bert" else 1, "layer_norm_eps": 1e-5,
        "pad_token_id": 0 if family == "bert" else 1,
        **({"relative_attention_num_buckets": 32} if family == "mpnet" else {}),
    }  # fmt: skip


def _tokenizer() -> dict[str, object]:
    """Words w4 … w59 as ids 4 … 59, [CLS] 2 and [SEP] 3; it asks for padding and truncation, as real ones do."""
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, **{f"w{i}": i for i in range(4, VOCAB)}}
    special = {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
        },
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special,
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }  # fmt: skip
