"""The default embedder: agreement with torch, bits that depend on nothing but the text, honest counts, threads, forks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from outspan.embedders import embed_checked, load_embedder
from outspan.embedders.onnx_runtime import OnnxEmbedder, _run
from outspan.errors import EmbedderFailed, ModelError, ModelNotFound
from tiny_models import FAMILIES, IDS, POSITIONS, write_tiny_model

REFERENCE = Path(__file__).parent / "reference"
MINILM = json.loads((REFERENCE / "all_minilm_l6_v2.json").read_text(encoding="utf-8"))


def varied_texts(count: int = 36) -> list[str]:
    """Texts of 1 to 300 words over a small vocabulary, many of equal token count."""
    rng = random.Random(3)
    words = [
        "harbour",
        "pump",
        "seven",
        "valve",
        "the",
        "of",
        "glass",
        "1931",
        "river",
        "Tamsel's",
        "4.2",
        "bar",
    ]
    lengths = [1, 1, 2, 3, 5, 8, 8, 13, 21, 34, 55, 300]
    return [" ".join(rng.choices(words, k=lengths[i % len(lengths)])) for i in range(count)]


def test_agrees_with_torch(embedder: OnnxEmbedder) -> None:
    answer = embedder.embed(MINILM["texts"])
    assert not answer.failures
    assert np.abs(answer.vectors - np.asarray(MINILM["vectors"])).max() < 1e-5
    assert answer.vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(answer.vectors, axis=1) - 1).max() < 1e-6


def test_identity_says_what_was_loaded(embedder: OnnxEmbedder) -> None:
    identity = embedder.identity
    assert (
        identity.weights_digest == "sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
    assert (identity.dimension, identity.max_tokens, identity.pooling) == (384, 256, "mean")
    assert set(identity.to_dict()) == {
        "name", "weights_digest", "dimension", "pooling", "normalisation", "max_tokens", "dtype", "runtime",
        "tokenizer_digest",
    }  # fmt: skip


def test_bits_do_not_depend_on_batch_order_or_neighbours(embedder: OnnxEmbedder) -> None:
    texts = varied_texts()
    alone = np.stack([embedder.embed([text]).vectors[0] for text in texts])
    for size in (7, 32, len(texts)):
        batches = [embedder.embed(texts[i : i + size]).vectors for i in range(0, len(texts), size)]
        assert np.array_equal(np.concatenate(batches), alone), f"batch size {size}"
    order = list(range(len(texts)))
    random.Random(5).shuffle(order)
    shuffled = embedder.embed([texts[i] for i in order]).vectors
    assert np.array_equal(shuffled, alone[order])
    neighbour = "x " * 3000
    assert np.array_equal(embedder.embed([texts[4], neighbour]).vectors[0], alone[4])


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_bits_do_not_depend_on_the_number_of_threads(embedder: OnnxEmbedder, threads: int) -> None:
    texts = varied_texts(30)
    other = load_embedder(threads=threads)
    assert np.array_equal(other.embed(texts).vectors, embedder.embed(texts).vectors)


def test_bits_are_the_same_in_another_process(embedder: OnnxEmbedder) -> None:
    script = (
        "import sys, json; from outspan.embedders import load_embedder\n"
        "print(load_embedder(offline=True).embed(json.loads(sys.stdin.read())).vectors.tobytes().hex())"
    )
    texts = varied_texts(10)
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    assert bytes.fromhex(done.stdout.strip()) == embedder.embed(texts).vectors.tobytes()


def test_eight_threads_share_one_embedder(embedder: OnnxEmbedder) -> None:
    texts = varied_texts(24)
    expected = embedder.embed(texts).vectors
    results: list[bool] = []

    def work(start: int) -> None:
        rotated = texts[start:] + texts[:start]
        got = embedder.embed(rotated).vectors
        results.append(np.array_equal(got, np.concatenate([expected[start:], expected[:start]])))

    threads = [threading.Thread(target=work, args=(i * 3,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_the_same_bits_and_does_not_hang(embedder: OnnxEmbedder) -> None:
    texts = varied_texts(5)
    expected = embedder.embed(texts).vectors
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(embedder.embed(texts).vectors, expected) else 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hung")


def test_truncation_is_reported_for_each_text(embedder: OnnxEmbedder) -> None:
    texts = ["short one", "word " * 254, "word " * 255, "word " * 1000]
    answer = embedder.embed(texts)
    assert answer.tokens.tolist() == [4, 256, 257, 1002]
    assert answer.truncated(256).tolist() == [False, False, True, True]
    assert np.array_equal(answer.vectors[1], answer.vectors[2]), "only the first 256 word pieces are read"


@pytest.mark.parametrize("text", ["word " * 600_000, "x" * 3_000_000, "a\u0301" * 600_000, "." * 1_200_000])
def test_a_text_of_megabytes_takes_bounded_time(embedder: OnnxEmbedder, text: str) -> None:
    start = time.perf_counter()
    answer = embedder.embed([text])
    assert time.perf_counter() - start < 5.0  # 0.1 s on a quiet machine; without the cut it is minutes
    assert answer.truncated(256).tolist() == [True]
    assert answer.vectors.any()


def test_a_repeated_text_is_embedded_once(embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = OnnxEmbedder._read
    monkeypatch.setattr(
        OnnxEmbedder, "_read", lambda self, text, **options: seen.append(text) or real(self, text)
    )
    answer = embedder.embed(["one pump", "two pumps", "one pump", "one pump"])
    assert sorted(seen) == ["one pump", "two pumps"]
    assert np.array_equal(answer.vectors[0], answer.vectors[2])
    assert answer.tokens.tolist() == [4, 4, 4, 4]


def test_what_cannot_be_read_is_a_failure_and_the_rest_goes_on(embedder: OnnxEmbedder) -> None:
    answer = embedder.embed(["fine", "\u200b\u200d", "lone \ud800 surrogate", "also fine", "\u200b\u200d"])
    assert set(answer.failures) == {1, 2, 4}
    assert "nothing to read" in answer.failures[1]
    assert "Unicode" in answer.failures[2]
    assert answer.failed().tolist() == [False, True, True, False, True]
    assert not answer.vectors[[1, 2, 4]].any()
    assert np.array_equal(answer.vectors[3], embedder.embed(["also fine"]).vectors[0])


def test_no_texts(embedder: OnnxEmbedder) -> None:
    answer = embedder.embed([])
    assert answer.vectors.shape == (0, 384)
    assert answer.tokens.shape == (0,)


def test_token_vectors_come_from_the_same_pass(embedder: OnnxEmbedder) -> None:
    texts = ["The ferry reached Vell.", "Pumps.", "word " * 400]
    found = embedder.embed_tokens(texts)
    assert np.array_equal(np.stack([each.sentence for each in found]), embedder.embed(texts).vectors)
    first = found[0]
    assert first.pieces[0] == "[CLS]"
    assert first.pieces[-1] == "[SEP]"
    assert first.vectors.shape == (len(first.pieces), 384) == (len(first.offsets), 384)
    words = [texts[0][start:end] for start, end in first.offsets[1:-1]]
    assert "".join(words) == texts[0].replace(" ", "")
    mean = first.vectors.astype(np.float64).mean(axis=0)
    assert np.abs(mean / np.linalg.norm(mean) - first.sentence).max() < 1e-6
    assert (len(found[2].pieces), found[2].tokens) == (256, 402)
    with pytest.raises(EmbedderFailed, match=r"text 1: .*nothing to read"):
        embedder.embed_tokens(["fine", "\u200b"])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees_with_transformers(family: str, tmp_path: Path) -> None:
    expected = np.asarray(json.loads((REFERENCE / "families.json").read_text())["vectors"][family])
    write_tiny_model(tmp_path / "model", family)
    loaded = load_embedder(tmp_path / "model", cache_dir=tmp_path / "cache", offline=True)
    assert isinstance(loaded, OnnxEmbedder)
    hidden = _run(loaded._session, np.asarray([IDS, IDS]))
    assert np.abs(hidden - expected).max() < 2e-5
    shifted = family not in ("bert", "distilbert")  # their positions start after the padding id
    assert loaded.identity.max_tokens == POSITIONS - (2 if shifted else 0)
    long = " ".join(f"w{4 + i % 50}" for i in range(60))
    answer = loaded.embed([long])
    assert answer.tokens.tolist() == [62]
    assert answer.truncated(loaded.identity.max_tokens).tolist() == [True]


def test_half_precision_weights_are_widened(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "half", "bert", dtype=np.float16)
    write_tiny_model(tmp_path / "single", "bert")
    half = load_embedder(tmp_path / "half", cache_dir=tmp_path / "cache")
    single = load_embedder(tmp_path / "single", cache_dir=tmp_path / "cache")
    text = ["w5 w6 w7 w8"]
    assert np.abs(half.embed(text).vectors - single.embed(text).vectors).max() < 5e-3
    assert half.identity.weights_digest != single.identity.weights_digest


def test_the_folders_own_pooling_and_length_are_used(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_tiny_model(folder, "bert")
    mean = load_embedder(folder, cache_dir=tmp_path / "cache")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 12, "do_lower_case": False})
    )
    first = load_embedder(folder, cache_dir=tmp_path / "cache")
    assert (mean.identity.pooling, first.identity.pooling) == ("mean", "cls")
    assert (mean.identity.max_tokens, first.identity.max_tokens) == (POSITIONS, 12)
    assert isinstance(first, OnnxEmbedder)
    tokens = first.embed_tokens(["w9 w8 w7"])[0]
    expected = tokens.vectors[0] / np.linalg.norm(tokens.vectors[0])
    assert np.abs(first.embed(["w9 w8 w7"]).vectors[0] - expected).max() < 1e-6


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"model_type": "gpt2"}, "model_type 'gpt2'"),
        ("config.json", {"position_embedding_type": "relative_key"}, "relative_key"),
        ("config.json", {"hidden_act": "swish"}, "swish"),
        ("config.json", {"num_hidden_layers": 3}, "weight .* is missing"),
        ("config.json", {"is_decoder": True}, "decoder"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max_tokens"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "pooling",
        ),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "prompt 'query'"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case"),
    ],
)
def test_what_the_runtime_does_not_compute_is_refused(
    tmp_path: Path, file: str, change: object, message: str
) -> None:
    folder = tmp_path / "model"
    write_tiny_model(folder, "bert")
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    if isinstance(change, dict) and path.is_file():
        change = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps(change))
    with pytest.raises(ModelError, match=message):
        load_embedder(folder, cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\xff" * 64, b"\x08" + b"\x00" * 7 + b"not json"])
def test_weights_that_are_no_safetensors_are_refused(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "model"
    write_tiny_model(folder, "bert")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="not a safetensors file"):
        load_embedder(folder, cache_dir=tmp_path / "cache")


def test_cut_off_weights_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_tiny_model(folder, "bert")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cut off"):
        load_embedder(folder, cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json", "config.json"])
def test_an_incomplete_folder_names_the_missing_file(tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "model"
    write_tiny_model(folder, "bert")
    (folder / missing).unlink()
    with pytest.raises(ModelNotFound, match=missing.replace(".", r"\.")):
        load_embedder(folder, cache_dir=tmp_path / "cache")


def test_the_guard_adds_nothing_to_the_bits(embedder: OnnxEmbedder) -> None:
    texts = varied_texts(20)
    assert np.array_equal(embed_checked(embedder, texts).vectors, embedder.embed(texts).vectors)
