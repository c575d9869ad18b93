"""An append-only, hash-chained store of what was decided.

    value ─► canonical JSON with place, time and the digest before it ─► SHA-256 ─► one row, one transaction

The chain is over exactly the bytes that are stored, so nothing depends on how a clock or a float is written
out again. The ledger knows no policy and no sensor: what it keeps is JSON to it.
"""

from outspan.ledger.amend import Verdict, amend, amendments
from outspan.ledger.chain import Artefact, Entry, Head, Problem, Verification
from outspan.ledger.export import export_jsonl, export_labelled, export_parquet
from outspan.ledger.store import Ledger

__all__ = [
    "Artefact",
    "Entry",
    "Head",
    "Ledger",
    "Problem",
    "Verdict",
    "Verification",
    "amend",
    "amendments",
    "export_jsonl",
    "export_labelled",
    "export_parquet",
]
