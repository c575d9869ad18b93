"""How long does a checked sentence take, end to end, and where does the time go?

    python benchmarks/checking.py ../shared/data/qags_cnndm.jsonl
    python benchmarks/checking.py                     # the example that ships with the project

Each row is checked as ``outspan check`` does it: split, embed, factor, measure with all diagnostics. No
vector is taken from a cache. The embedding's share is taken in the same run, by timing the embedder's calls.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path

from outspan import Embedder, EnergySensor, check, load_embedder
from outspan.embedders import EmbedderIdentity, Embeddings

EXAMPLES = Path(__file__).parent.parent / "examples"


class Timed:
    """An embedder that adds up the seconds it took."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.seconds = 0.0
        self.texts = 0

    @property
    def identity(self) -> EmbedderIdentity:
        return self.embedder.identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        begin = time.perf_counter()
        answer = self.embedder.embed(texts)
        self.seconds += time.perf_counter() - begin
        self.texts += len(texts)
        return answer


def pairs(path: Path | None, limit: int) -> list[tuple[str, list[str]]]:
    """(answer, evidence) pairs of a file in the row shape of ``outspan measure``."""
    if path is None:
        evidence = [(EXAMPLES / name).read_text(encoding="utf-8") for name in ("report.md", "minutes.txt")]
        return [((EXAMPLES / "answer.md").read_text(encoding="utf-8"), evidence)] * 20
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line][:limit]
    return [(row["claim"], row["evidence"] or [row["source"]]) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--limit", type=int, default=100, help="rows (default 100)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    timed = Timed(load_embedder())
    sensor = EnergySensor(timed)
    check("Warm.", ["Up."], sensor)
    timed.seconds, timed.texts = 0.0, 0
    work = pairs(options.data, options.limit)
    begin = time.perf_counter()
    measured = sum(check(answer, evidence, sensor).summary.measured for answer, evidence in work)
    seconds = time.perf_counter() - begin
    record = {
        "rows": len(work),
        "claims_measured": measured,
        "texts_embedded": timed.texts,
        "seconds": round(seconds, 3),
        "ms_per_claim": round(1e3 * seconds / measured, 2),
        "ms_per_text": round(1e3 * seconds / timed.texts, 3),
        "embedding_share": round(timed.seconds / seconds, 4),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    if options.json:
        print(json.dumps(record))
        return
    for name, value in record.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
