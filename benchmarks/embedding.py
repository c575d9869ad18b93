"""Sentences per second of the default embedder, paired in the same run with sentence-transformers.

    python benchmarks/embedding.py [--data FILE.jsonl] [--sentences 500] [--rounds 5] [--model FOLDER]

FILE has a JSON object a line; the sentences are cut from its longest string or list of strings. Without it
they are the 305 background sentences of the package. Rounds
alternate between the two, and the ratio is taken round by round: other work touches both alike.
FOLDER is the model for sentence-transformers; without it, or without the package, that side is "not run".
Prints one JSON document.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from outspan.background import shipped
from outspan.embedders import VectorCache, embed_checked, load_embedder


def read_sentences(path: Path, count: int) -> list[str]:
    """The first ``count`` distinct sentences of at least 20 characters."""
    found: dict[str, None] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            values = [
                " ".join(value)
                if isinstance(value, list) and all(isinstance(x, str) for x in value)
                else value
                for value in json.loads(line).values()
            ]
            longest = max((value for value in values if isinstance(value, str)), key=len, default="")
            found.update(dict.fromkeys(s for s in re.split(r"(?<=[.?!])\s+", longest) if len(s) >= 20))
            if len(found) >= count:
                break
    return list(found)[:count]


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def load_peer(folder: Path | None, threads: int) -> Any | None:
    """The same model in sentence-transformers, or None where the package is missing."""
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    importlib.import_module("torch").set_num_threads(threads)
    peer = importlib.import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    peer.max_seq_length = 256
    return peer


def measure_cache(identity: Any, texts: list[str], vectors: Any, tokens: Any) -> dict[str, float]:
    """Milliseconds to put and to get these vectors."""
    with TemporaryDirectory() as name, VectorCache(Path(name) / "vectors.sqlite3") as cache:
        put = seconds(lambda: cache.put_many(identity, texts, vectors, tokens))
        get = min(seconds(lambda: cache.get_many(identity, texts)) for _ in range(3))
    return {"put_ms": round(put * 1000, 2), "get_ms": round(get * 1000, 2)}


def main() -> None:
    """Run the benchmark and print its document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    texts = read_sentences(arguments.data, arguments.sentences) if arguments.data else list(shipped().texts)
    start = time.perf_counter()
    embedder = load_embedder(threads=arguments.threads)
    loaded = time.perf_counter() - start
    ours = embed_checked(embedder, texts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 1024**2
    )
    peer = load_peer(arguments.model, arguments.threads) if arguments.model else None
    rates: dict[str, list[float]] = {"outspan": [], "sentence_transformers": []}
    for _ in range(arguments.rounds):
        rates["outspan"].append(len(texts) / seconds(lambda: embed_checked(embedder, texts)))
        if peer is not None:
            work = partial(peer.encode, texts, batch_size=32, normalize_embeddings=True)
            rates["sentence_transformers"].append(len(texts) / seconds(work))
    report: dict[str, object] = {
        "sentences": len(texts),
        "mean_tokens": round(float(ours.tokens.mean()), 2),
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "machine": platform.machine(),
        "load_s": round(loaded, 3),
        "peak_mb_before_peer": round(peak, 1),
        "outspan_per_s": [round(rate, 1) for rate in rates["outspan"]],
        "cache": measure_cache(embedder.identity, texts, ours.vectors, ours.tokens),
    }
    if peer is None:
        report["sentence_transformers"] = "not run: it is not installed, or no --model was given"
    else:
        paired = zip(rates["outspan"], rates["sentence_transformers"], strict=True)
        theirs = peer.encode(texts, batch_size=32, normalize_embeddings=True)
        report["sentence_transformers_per_s"] = [round(rate, 1) for rate in rates["sentence_transformers"]]
        report["ratio_median"] = round(statistics.median(a / b for a, b in paired), 2)
        report["largest_difference"] = float(np.abs(theirs - ours.vectors).max())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
