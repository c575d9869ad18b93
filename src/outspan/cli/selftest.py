"""``outspan selftest``: what this regime can and cannot see, by kind of error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outspan.cli.terminal import console
from outspan.embedders import DEFAULT_MODEL, VectorCache, load_embedder
from outspan.selftest import SelfTest, known_sensors, load_pairs, run
from outspan.selftest.scoring import ALL, RULES, Line

if TYPE_CHECKING:
    from rich.table import Table

LEAST_AUC = 0.85
"""From here on the table says that an instrument sees a kind; a word for readers, no threshold of a gate."""
COIN = 0.6


@click.command(epilog="Example: outspan selftest --half report")
@click.option(
    "--model",
    default=DEFAULT_MODEL,
    show_default=True,
    metavar="NAME|FOLDER",
    help="Embedding model: a name from `outspan models list`, st:NAME, or a folder.",
)
@click.option("--sensor", "names", multiple=True, metavar="NAME", help="Only this sensor; repeatable.")
@click.option(
    "--half",
    type=click.Choice(["report", "build", "all"]),
    default="report",
    show_default=True,
    help="Which pairs: the rules were tuned on `build`, so only `report` says how well they do.",
)
@click.option("--no-cache", is_flag=True, help="Neither read nor keep vectors on disk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def selftest(*, model: str, names: tuple[str, ...], half: str, no_cache: bool, as_json: bool) -> None:
    """Run the pairs that come with the package, and tell what is seen by kind of error.

    Each pair holds a wrong edit of a supported claim and a paraphrase that keeps its meaning. AUC: how often
    the edit looks further outside the evidence than a paraphrase; 0.5 is a coin, below it the edit looks
    more contained. The pairs are hand-made and short: natural text is harder.
    """
    try:
        sensors, missing = known_sensors(names)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    folder = Path(model)
    result = run(
        load_pairs(None if half == "all" else half),  # type: ignore[arg-type]  # click.Choice leaves no other
        load_embedder(folder if folder.is_dir() else model),
        sensors=sensors,
        not_run=missing,
        half=half,
        cache=None if no_cache else VectorCache(),
    )
    if as_json:
        click.echo(json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    _show(result)


def _show(result: SelfTest) -> None:
    out = console()
    out.print(f"{result.pairs} pairs ({result.half}), regime {result.fingerprint[:19]}…")
    out.print(
        "AUC of the wrong edit against the honest paraphrase, and who flags what (edits/paraphrases, %)"
    )
    out.print(_table(result))
    bare = result.of("energy")[ALL]
    out.print(
        f"\nBy energy, {_percent(bare.edit_more_contained)} % of the edits look more contained than their "
        "paraphrase: no threshold on it parts them."
    )
    for word, kinds in _seen(result).items():
        out.print(f"{word}: {', '.join(kinds) or 'none'}")
    for name, reason in result.not_run.items():
        out.print(f"not run: {name}: {reason}")


def _instruments(result: SelfTest) -> list[str]:
    return list(dict.fromkeys(line.instrument for line in result.lines))


def _table(result: SelfTest) -> Table:
    from rich.table import Table

    instruments = _instruments(result)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    table.add_column("kind", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("same words", justify="right")
    for instrument in instruments:
        table.add_column(instrument, justify="right")
    for kind, share in result.same_bag.items():
        lines = [result.of(instrument)[kind] for instrument in instruments]
        cells = [_cell(line) for line in lines]
        table.add_row(kind.replace("_", " "), str(lines[0].of), f"{_percent(share)} %", *cells)
    return table


def _cell(line: Line) -> str:
    number = "–" if line.auc is None else f"{line.auc:.2f}"
    if line.edits_flagged is None:
        return number
    return f"{number} {_percent(line.edits_flagged)}/{_percent(line.paraphrases_flagged)}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def _seen(result: SelfTest) -> dict[str, list[str]]:
    """Kinds by what the best instrument makes of them."""
    words: dict[str, list[str]] = {"Seen": [], "Seen in part": [], "Not seen": []}
    for kind in result.same_bag:
        if kind == ALL:
            continue
        best = max(
            (line for line in result.lines if line.kind == kind and line.instrument != RULES),
            key=lambda line: line.auc or 0.0,
        )
        auc = best.auc or 0.0
        word = "Seen" if auc >= LEAST_AUC else "Seen in part" if auc >= COIN else "Not seen"
        words[word].append(f"{kind.replace('_', ' ')} ({best.instrument} {auc:.2f})")
    return words
