"""Computes the reference vectors of the tests with torch, in an environment that has sentence-transformers.

    python scripts/reference_vectors.py --model FOLDER

FOLDER holds sentence-transformers/all-MiniLM-L6-v2. Writes ``tests/reference/all_minilm_l6_v2.json`` (ten
sentences and their float32 vectors by sentence-transformers), the canary of the registry, and
``tests/reference/families.json``: vectors of tiny encoders of every family, whose weights are made from a
seed here and in the tests, by transformers.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

tiny: Any = importlib.import_module("tiny_models")

SENTENCES = (
    "Yes.",
    "The harbour of Vell was dredged twice before the first ferry could land.",
    "In 2019 the plant produced 1,284.5 tonnes of cement, 3.7 % less than the year before.",
    "Łucja's café in Besançon serves crème brûlée, jalapeño omelettes and Königsberger Klopse.",
    "東京の図書館は月曜日に休みです。",
    'Wait... what?! (No -- really: "it\'s over"; he said [twice] @home & left for £5/€6.)',
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "हिमालय की चोटियाँ बर्फ़ से ढकी हैं, और السماء صافية.",
    "The valve opens at 4.2 bar and closes at 3.9 bar; below that the pump stops and a lamp lights.",
    " ".join(
        f"Crate {number} left depot {number % 7} with {number * 3} sealed jars, "
        f"and its driver signed form {number}-B at gate {number % 5}."
        for number in range(1, 15)
    ),
)
CANARY = "The bridge over the river Tamsel was opened in 1931 and is 214 metres long."


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    folder = parser.parse_args().model
    vectors = _embed(folder, [*SENTENCES, CANARY])
    versions = {
        name: importlib.metadata.version(name) for name in ("torch", "transformers", "sentence-transformers")
    }
    reference = ROOT / "tests" / "reference"
    _write(
        reference / "all_minilm_l6_v2.json",
        {"versions": versions, "texts": SENTENCES, "vectors": [_numbers(row) for row in vectors[:-1]]},
    )
    canary = ROOT / "src" / "outspan" / "embedders" / "canary_all_minilm_l6_v2.json"
    _write(canary, {"text": CANARY, "vector": _numbers(vectors[-1])})
    _write(
        reference / "families.json",
        {"versions": versions, "vectors": {name: _tiny(name) for name in tiny.FAMILIES}},
    )


def _embed(folder: Path, texts: list[str]) -> Any:
    model = importlib.import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 256
    return model.encode(texts, batch_size=1, normalize_embeddings=True, convert_to_numpy=True)


def _tiny(family: str) -> list[list[float]]:
    """(t, d) token vectors of the tiny encoder of this family for the token ids ``IDS``."""
    torch: Any = importlib.import_module("torch")
    auto: Any = importlib.import_module("transformers").AutoModel

    with tempfile.TemporaryDirectory() as name:
        tiny.write_tiny_model(Path(name), family)
        model, report = (
            auto.from_pretrained(
                name, attn_implementation="eager", add_pooling_layer=False, output_loading_info=True
            )
            if family != "distilbert"
            else auto.from_pretrained(name, output_loading_info=True)
        )
        if report["missing_keys"]:
            raise SystemExit(f"{family}: transformers misses {sorted(report['missing_keys'])}")
        model.eval()
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor([tiny.IDS])).last_hidden_state[0]
    return [_numbers(row) for row in hidden.numpy()]


def _numbers(row: Any) -> list[float]:
    return [float(f"{float(x):.8g}") for x in row]


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
