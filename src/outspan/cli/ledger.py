"""``outspan ledger``: reading, checking, replaying and amending what was decided."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outspan.cli.options import build_sensor
from outspan.cli.terminal import clean, console, decision_style, show_pairs
from outspan.embedders import DEFAULT_MODEL
from outspan.errors import InputError
from outspan.sensors.energy import DEFAULT_RANK

if TYPE_CHECKING:
    from outspan.ledger import Entry, Ledger
    from outspan.replay import Replay


def _open(place: str) -> Ledger:
    from outspan.ledger import Ledger as Opened

    return Opened(place, create=False)


@click.group(epilog="Example: outspan ledger verify ledger.db --head head.json")
def ledger() -> None:
    """Decisions that were kept: read them, check the chain, replay, export, amend.

    LEDGER is a path (SQLite) or an address such as postgresql://user@host/database. ID is the number of an
    entry, the id of a row, or the digest of a threshold or policy.
    """


@ledger.command(epilog="Example: outspan ledger show ledger.db 17")
@click.argument("place", metavar="LEDGER")
@click.argument("name", metavar="[ID]", required=False)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="Decisions listed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(place: str, name: str | None, limit: int, as_json: bool) -> None:
    """List the latest decisions, or show one with its trace, its texts and what people said of it."""
    kept = _open(place)
    if name is None:
        entries = _latest(kept, limit)
        head = kept.head()
        if as_json:
            _print({"head": head.to_dict(), "decisions": [_document(one) for one in entries]})
            return
        out = console()
        out.print(_listing(entries))
        out.print(f"{head.count} entries, head {head.digest}", style="dim")
        return
    found = _named(kept, name)
    if as_json:
        _print({"entries": [_full(kept, one) for one in found]})
        return
    for entry in found:
        _show_entry(kept, entry, console())


def _latest(kept: Ledger, limit: int) -> list[Entry]:
    """The last decisions, in order; read from the end in growing steps."""
    end = kept.head().count
    step = limit * 2
    while True:
        found = list(kept.entries(kind="decision", after=max(0, end - step)))
        if len(found) >= limit or step >= end:
            return found[-limit:]
        step *= 4


def _named(kept: Ledger, name: str) -> list[Entry]:
    if name.isdecimal():
        entry = kept.get(int(name))
        if entry is not None:
            return [entry]
    found = [one for one in kept.find(name) if one.kind != "amendment"]
    if not found:
        raise InputError(
            f"there is no entry {name!r} in the ledger",
            path=kept.name,
            remedy="outspan ledger show LEDGER lists the latest",
        )
    return found


def _document(entry: Entry) -> dict[str, Any]:
    return {"digest": entry.digest, **entry.to_dict()}


def _full(kept: Ledger, entry: Entry) -> dict[str, Any]:
    from outspan.ledger import amendments

    document = _document(entry)
    if entry.kind == "decision":
        content = entry.content
        names = [one for one in ("contract", "regime", "threshold", "policy") if one in content]
        document["artefacts"] = {name: kept.artefact(content[name]) for name in names}
        document["amendments"] = [_document(one) for one in amendments(kept, entry.seq)]
    return document


def _print(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _listing(entries: Iterable[Entry]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("#", "time (UTC)", "id", "outcome", "why"):
        table.add_column(title)
    for entry in entries:
        record = entry.to_dict()
        content = record["content"]
        decision = content.get("decision", {})
        outcome = str(decision.get("outcome"))
        table.add_row(
            str(entry.seq),
            record["time"][:19].replace("T", " "),
            Text(clean("" if content.get("id") is None else str(content["id"]), 40)),
            Text(outcome, style=decision_style(outcome)),
            Text(clean(str(decision.get("reason")), 100)),
        )
    return table


def _show_entry(kept: Ledger, entry: Entry, out: Console) -> None:
    from outspan.ledger import amendments

    record = entry.to_dict()
    content = record["content"]
    out.print(f"entry {entry.seq}, {entry.kind}, {record['time']}", style="bold")
    pairs = [("digest", entry.digest), ("previous", record["previous"])]
    if entry.kind != "decision" or "decision" not in content:
        show_pairs([*pairs, ("content", json.dumps(content, ensure_ascii=False, indent=2))], out)
        return
    pairs += [
        (name, str(content[name]))
        for name in ("id", "group", "fingerprint", "threshold", "policy", "texts")
        if content.get(name) is not None
    ]
    show_pairs(pairs, out)
    decision = content["decision"]
    out.print()
    line = Text(decision["outcome"], style=decision_style(decision["outcome"]))
    out.print(line.append(f"  {decision['reason']}", style="not bold default"))
    for number, claim in enumerate(content["claims"], start=1):
        _show_claim(number, claim, out)
    if content["texts"] == "stored":
        out.print("\nevidence", style="bold")
        for item in content["evidence"]:
            out.print(Text(f"  [{item['id']}] {clean(item['text'], 400)}"))
    for one in amendments(kept, entry.seq):
        said = one.content
        where = "" if said["claim"] is None else f" sentence {said['claim'] + 1}"
        note = f": {clean(said['note'])}" if said["note"] else ""
        out.print(Text(f"\nentry {one.seq}: {said['verdict']}{where} by {said['by']}{note}"))


def _show_claim(number: int, claim: Mapping[str, Any], out: Console) -> None:
    decision = claim["decision"]
    value = claim["state"] if claim.get("energy") is None else f"energy {claim['energy']:.6f}"
    line = Text(f"\n{number} ")
    line.append(decision["outcome"], style=decision_style(decision["outcome"]))
    line.append(f"  {value}  {clean(claim['text'])}")
    out.print(line)
    for step in decision["trace"]:
        mark = "→" if step["outcome"] else " "
        out.print(Text(f"   {mark} {step['rule']}: {step['reason']}", style="dim" if mark == " " else ""))


@ledger.command(epilog="Example: outspan ledger verify ledger.db --head head.json")
@click.argument("place", metavar="LEDGER")
@click.option(
    "--head", "head_path", metavar="FILE", help="A head kept elsewhere: finds rows cut off at the end."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(place: str, head_path: str | None, as_json: bool) -> None:
    """Recompute every digest of the chain; exit code 2, with the row, if one does not hold."""
    from outspan.ledger import Head

    kept = _open(place)
    result = kept.verify(None if head_path is None else Head.read(head_path))
    if as_json:
        _print(result.to_dict())
    for note in result.notes:
        click.echo(f"NOTE: {note}", err=True)
    if result.ok:
        if not as_json:
            kinds = ", ".join(f"{count} {kind}" for kind, count in result.kinds.items())
            click.echo(f"{result.head.count} entries ({kinds}): the chain holds, head {result.head.digest}")
        if head_path is None:
            click.echo("No head was given: rows cut off at the end cannot be seen.", err=True)
        return
    for problem in result.problems:
        click.echo(f"{problem.kind}: {problem.message}", err=True)
    first = result.problems[0]
    where = "" if first.row is None else f" at row {first.row}"
    raise InputError(
        f"the chain does not hold{where}: {first.kind}",
        path=kept.name,
        remedy="Restore the ledger from a copy, and find out who can write to it",
    )


@ledger.command(epilog="Example: outspan ledger head ledger.db -o /elsewhere/head.json")
@click.argument("place", metavar="LEDGER")
@click.option("-o", "--out", metavar="FILE", help="Write it there; to standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, as without it.")
def head(place: str, out: str | None, as_json: bool) -> None:  # noqa: ARG001  every command has --json
    """Print where the ledger ends: to be kept where who can write to the ledger cannot."""
    text = json.dumps(_open(place).head().to_dict())
    if out is None:
        click.echo(text)
        return
    try:
        Path(out).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=out) from error


@ledger.command(epilog="Example: outspan ledger replay ledger.db 17")
@click.argument("place", metavar="LEDGER")
@click.argument("name", metavar="[ID]", required=False)
@click.option("--model", metavar="NAME|FOLDER", help="Another model than the one that is recorded.")
@click.option(
    "--batch", default=32, show_default=True, type=click.IntRange(min=1), help="Decisions at a time."
)
@click.option(
    "--fail-on",
    type=click.Choice(["drifted", "equivalent"]),
    help="Exit with code 1 if a decision drifted, or is not identical.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines: one object a decision.")
def replay(
    place: str, name: str | None, *, model: str | None, batch: int, fail_on: str | None, as_json: bool
) -> None:
    """Measure and decide again from the stored texts: identical, equivalent or drifted, and why.

    The sensor is made as each record says. Vectors are computed anew, never taken from a cache. Entries
    without texts cannot be replayed, and say so.
    """
    kept = _open(place)
    entries = kept.entries(kind="decision") if name is None else iter(_named(kept, name))
    counts: Counter[str] = Counter()
    for result in _replayed(kept, entries, model, batch):
        counts[str(result.status)] += 1
        if as_json:
            _print(result.to_dict())
        elif result.status != "identical":
            click.echo(f"{result.seq}: {result.status}: {result.reason}")
    shown = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no decision"
    click.echo(f"replayed {counts.total() - counts['not_replayable']} of {counts.total()}: {shown}", err=True)
    bad = {"drifted": ("drifted",), "equivalent": ("drifted", "equivalent", "not_replayable")}
    if fail_on is not None and any(counts[status] for status in bad[fail_on]):
        sys.exit(1)


def _replayed(kept: Ledger, entries: Iterator[Entry], model: str | None, batch: int) -> Iterator[Replay]:
    from outspan.replay import replay_many

    sensors: dict[str, Any] = {}
    for key, group in groupby(entries, key=_sensor_key):
        if key not in sensors:
            sensors[key] = _sensor(kept, json.loads(key), model)
        yield from replay_many(group, sensors[key], kept.artefact, batch=batch)


def _sensor_key(entry: Entry) -> str:
    content = entry.content
    asked = (sorted(content.get(name) or ()) for name in ("proxy_fingerprints", "sensor_fingerprints"))
    return json.dumps([content.get("regime"), *asked])


def _sensor(kept: Ledger, key: list[Any], model: str | None) -> Any:
    """The sensor that a record describes; of one that does not, the default."""
    regime = (kept.artefact(key[0]) if key[0] else None) or {}
    embedder = regime.get("embedder") or {}
    return build_sensor(
        model=model or embedder.get("name", DEFAULT_MODEL),
        rank=regime.get("rank_policy", DEFAULT_RANK),
        select=regime.get("evidence_policy", "nearest:64"),
        proxies=tuple(key[1]),
        sensors=tuple(key[2]),
        no_cache=True,
    )


@ledger.command(epilog="Example: outspan ledger export ledger.db -o ledger.parquet")
@click.argument("place", metavar="LEDGER")
@click.option("-o", "--out", required=True, metavar="OUT", help="OUT.jsonl or OUT.parquet.")
@click.option(
    "--labelled",
    is_flag=True,
    help="Only amended decisions, as labelled rows that outspan calibrate reads (OUT.jsonl).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
def export(place: str, out: str, labelled: bool, as_json: bool) -> None:
    """Write the ledger as JSON Lines (every entry, its exact bytes) or Parquet (one row a decision)."""
    from outspan.ledger import export_labelled
    from outspan.ledger.export import FORMATS

    path = Path(out)
    suffix = path.suffix.lower()
    if suffix not in FORMATS or (labelled and suffix != ".jsonl"):
        raise InputError("is no name of an export", path=path, remedy="End it in .jsonl or .parquet")
    count = (export_labelled if labelled else FORMATS[suffix])(_open(place), path)
    if as_json:
        _print({"out": out, "rows": count})
    click.echo(f"{count} rows in {out}", err=True)


@ledger.command(epilog="Example: outspan ledger amend ledger.db 17 --verdict rejected --by 'A. Reviewer'")
@click.argument("place", metavar="LEDGER")
@click.argument("name", metavar="ID")
@click.option("--verdict", required=True, type=click.Choice(["accepted", "rejected", "note"]))
@click.option("--by", required=True, metavar="NAME", help="Who says so.")
@click.option("--note", default="", metavar="TEXT", help="Why.")
@click.option("--claim", type=click.IntRange(min=1), metavar="N", help="Of the N-th sentence only.")
@click.option("--json", "as_json", is_flag=True, help="Print the entry as one JSON document.")
def amend(
    place: str, name: str, *, verdict: str, by: str, note: str, claim: int | None, as_json: bool
) -> None:
    """Add a person's verdict on a decision; what was decided stays as it is."""
    from outspan.ledger import amend as add

    kept = _open(place)
    found = _named(kept, name)
    if len(found) > 1:
        numbers = ", ".join(str(one.seq) for one in islice(found, 5))
        raise InputError(f"{name!r} names several entries: {numbers}", remedy="Give the number of one")
    entry = add(
        kept,
        found[0].seq,
        verdict,  # type: ignore[arg-type]  # click has checked it
        by=by,
        note=note,
        claim=None if claim is None else claim - 1,
    )
    if as_json:
        _print(_document(entry))
    else:
        click.echo(f"entry {entry.seq} amends {found[0].seq}")
