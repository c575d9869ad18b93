"""What do energy, cosine and the sensors see, by kind of error, and what do the rules cost in time?

    python benchmarks/selftest.py                 # the tables of docs/selftest.md, as Markdown
    python benchmarks/selftest.py --half build    # the half on which rules were tuned

Time: the same requests with energy alone and with literals and polarity beside it, no vector cached, taken in
turns; the median ratio is the figure.
"""

from __future__ import annotations

import argparse
import statistics
import time

from outspan import EnergySensor, load_embedder
from outspan.embedders import Embedder
from outspan.selftest import SelfTest, known_sensors, load_pairs, run
from outspan.sensors.literals import LiteralSensor
from outspan.sensors.polarity import PolaritySensor

ROUNDS = 5


def table(result: SelfTest) -> str:
    instruments = list(dict.fromkeys(line.instrument for line in result.lines))
    heads = ["kind", "n", "same words", *instruments]
    rows = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for kind, share in result.same_bag.items():
        lines = [result.of(name)[kind] for name in instruments]
        cells = [kind.replace("_", " "), str(lines[0].of), f"{100 * share:.0f} %"]
        for line in lines:
            cell = "–" if line.auc is None else f"{line.auc:.2f}"
            if line.edits_flagged is not None and line.paraphrases_flagged is not None:
                cell += f" ({100 * line.edits_flagged:.0f}/{100 * line.paraphrases_flagged:.0f})"
            cells.append(cell)
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def contained(result: SelfTest) -> str:
    shares = {kind: line.edit_more_contained for kind, line in result.of("energy").items()}
    return ", ".join(f"{kind.replace('_', ' ')} {100 * (share or 0):.0f} %" for kind, share in shares.items())


def cost(embedder: Embedder) -> float:
    """Median ratio of the time with both rules to the time of the energy alone."""
    requests = [([pair.claim, pair.edit, pair.paraphrase], list(pair.evidence)) for pair in load_pairs()]
    alone = EnergySensor(embedder)
    beside = EnergySensor(embedder, sensors=[LiteralSensor(), PolaritySensor()])
    ratios = []
    for _ in range(ROUNDS):
        seconds = []
        for sensor in (alone, beside):
            begin = time.perf_counter()
            for claims, evidence in requests:
                sensor.measure(claims, evidence)
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=["report", "build", "all"], default="report")
    parser.add_argument("--no-time", action="store_true", help="leave the timing out")
    options = parser.parse_args()
    embedder = load_embedder()
    sensors, missing = known_sensors()
    half = options.half
    result = run(
        load_pairs(None if half == "all" else half), embedder, sensors=sensors, not_run=missing, half=half
    )
    print(f"{result.pairs} pairs ({half}), digest {result.digest}, regime {result.fingerprint}\n")
    print(table(result))
    print(f"\nEdits that look more contained than their paraphrase, by energy: {contained(result)}")
    for line in result.of("rules").values():
        if line.auc is not None:
            print(f"rules, {line.kind}: AUC {line.auc:.3f} [{line.auc_low:.3f}, {line.auc_high:.3f}]")
    for name, reason in result.not_run.items():
        print(f"not run: {name}: {reason}")
    if not options.no_time:
        print(f"time with literals and polarity, over the energy alone: {cost(embedder):.3f}")


if __name__ == "__main__":
    main()
