"""A report from the rows alone: one HTML file that opens offline and prints, and the same tables in Markdown.

Separation of distributions and operating points are different tables, and so are single scalars and bundles:
they answer different questions, and a good number in one says little about the other.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from outspan.lab.findings import latest, read

Row: TypeAlias = Mapping[str, Any]

WARN = 0.6
FORMS = {
    "single": "single scalar",
    "bundle": "bundle of features",
    "text": "text alone, no embedding",
    "recorded": "recorded score of another detector",
}
TABLES: tuple[tuple[str, str, str], ...] = (
    (
        "singles",
        "Separation of distributions: single scalars and recorded detectors",
        "AUC: chance that an unsupported row scores above a supported one. Nothing is trained.",
    ),
    (
        "singles minus max_cosine",
        "Difference from the cosine with the nearest evidence sentence",
        "Paired over the same resamples of sources. Where the interval holds 0, nothing is decided.",
    ),
    (
        "bundles",
        "Separation of distributions: bundles of features",
        "Logistic regression unless named otherwise; no model saw a row of the source that it scores.",
    ),
    ("ablations", "What the bundles lose and gain", "Paired differences of AUC on the same held-out rows."),
    (
        "operating",
        "Operating point: supported rows accepted within a budget of false acceptance",
        "A cut accepts at most this share of the unsupported rows; chosen here, so an upper limit.",
    ),
    (
        "subset: length-matched",
        "On the length-matched subset",
        "As many rows of each class in every decile of length.",
    ),
    (
        "subset: undisputed labels",
        "Without rows on which annotators disagreed",
        "The disagreement queue is below.",
    ),
    (
        "disagreement",
        "Disagreement queue",
        "Rows whose label is disputed: look here first.",
    ),
    (
        "other splits",
        "Other splits",
        "Row-level splits reproduce older results; sources may be on both sides.",
    ),
    (
        "ranks",
        "Rank sweep against all evidence",
        "Where the cap seldom binds, all ranks are one measurement.",
    ),
    ("summaries", "Summaries of sentences", "How the energies of an answer's sentences become one number."),
    ("segmentation", "Evidence by sentence, five sentences, paragraph", ""),
    (
        "importance",
        "Permutation importance on held-out folds",
        "AUC lost when columns are shuffled together.",
    ),
    ("transfer", "Trained on one set, tested on another", "Leave-one-domain-out, domain by domain."),
    ("probe", "Probe: what the form of the texts tells", "AUC of each shortcut, turned to be at least 0.5."),
    ("counts", "Rows", ""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows of the last finished run of each set."""

    rows: Sequence[Row]

    @property
    def sets(self) -> list[str]:
        """Names of the sets, in the order in which they were run."""
        return list(dict.fromkeys(row["set"] for row in self.rows))

    def table(self, name: str, of: str) -> list[Row]:
        """Rows of one table of one set; numbers first that are largest."""
        found = [row for row in self.rows if row["table"] == name and row["set"] == of]
        if name in ("singles", "singles minus max_cosine", "bundles", "importance", "probe", "transfer"):
            found.sort(key=lambda row: (row["metric"], -(row["value"] if row["value"] is not None else -9)))
        return found

    def warnings(self) -> list[str]:
        """Shortcuts above the limit, which stand at the top."""
        found = []
        for row in self.rows:
            if row["table"] == "probe" and row["value"] is not None and row["value"] > WARN:
                found.append(f"{row['set']}: {row['name']} alone has AUC {_number(row)} ({row['note']})")
        return found


def render(folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into the folder, from its rows."""
    report = Report(rows=latest(read(folder)))
    page, text = folder / "report.html", folder / "report.md"
    page.write_text(as_html(report), encoding="utf-8")
    text.write_text(as_markdown(report), encoding="utf-8")
    return page, text


def _number(row: Row) -> str:
    if row["value"] is None:
        return "not defined"
    if row["metric"] == "count":
        return f"{row['value']:.0f}"
    form = "+.3f" if "difference" in row["metric"] or row["table"] == "importance" else ".3f"
    shown = f"{row['value']:{form}}"
    if row["low"] is not None and row["high"] is not None:
        shown += f" [{row['low']:{form}}, {row['high']:{form}}]"
    return shown


def _cells(row: Row) -> list[str]:
    count = f"{row['n']} of {row['of']}" if row["of"] else ""
    return [row["name"], row["metric"], _number(row), count, str(row["sources"] or ""), FORMS[row["form"]],
            row["split"], row["note"]]  # fmt: skip


HEAD = ("name", "metric", "value [95 % interval]", "measured", "sources", "what it is", "split", "note")


def _provenance(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    return [
        f"data {first['dataset_digest'][:23]}…; format: {first['format'] or 'several'}",
        f"licence: {first['licence'] or 'several'}",
        f"regime {first['regime'][:19]}…; code {first['code']}",
        f"seed {first['seed']}; {first['draws']} resamples of sources",
        f"command: {first['command']}",
    ]


def _not_run(report: Report) -> list[tuple[str, str, str]]:
    """(name, why, sets), one line where several sets give one reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in report.rows:
        if row["table"] == "not_run":
            found.setdefault((row["name"], row["note"]), []).append(row["set"])
    return [(name, why, ", ".join(dict.fromkeys(sets))) for (name, why), sets in found.items()]


def as_markdown(report: Report) -> str:
    """The report as Markdown."""
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: Report) -> Iterator[str]:
    yield "# Findings\n"
    yield "Made from `findings.jsonl` alone. Unsupported is positive. Intervals resample whole sources.\n"
    yield "## Shortcuts that tell the labels apart\n"
    warnings = report.warnings()
    yield from (f"- **{warning}**" for warning in warnings)
    if not warnings:
        yield f"None above {WARN}."
    for name in report.sets:
        rows = [row for row in report.rows if row["set"] == name]
        yield f"\n## {name}\n"
        yield from (f"- {line}" for line in _provenance(rows))
        for table, title, about in TABLES:
            found = report.table(table, name)
            if found:
                yield f"\n### {title}\n\n{about}\n"
                yield "| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD)
                yield from ("| " + " | ".join(_escaped(_cells(row))) + " |" for row in found)
    yield "\n## Not run, and why\n"
    yield from (f"- {name} ({sets}): {why}" for name, why, sets in _not_run(report))


def _escaped(cells: Iterable[str]) -> list[str]:
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}
table{border-collapse:collapse;margin:.6rem 0 1.6rem;font-variant-numeric:tabular-nums;font-size:13px}
th,td{border-bottom:1px solid #ddd;padding:.2rem .6rem;text-align:left;vertical-align:top}
th{cursor:pointer;border-bottom:2px solid #444}th:focus{outline:2px solid #47a}
.warn{border-left:5px solid #b30;background:#fff4ee;padding:.6rem 1rem}
.small{color:#555;font-size:13px}svg{max-width:100%;height:auto;margin:.4rem 1rem .4rem 0}
nav a{margin-right:1rem}details>summary{cursor:pointer;font-weight:600}
@media print{nav{display:none}details{display:block}h2{page-break-before:always}body{max-width:none}}
"""
SCRIPT = """
document.querySelectorAll('th').forEach(h=>{h.tabIndex=0;const go=()=>{const t=h.closest('table'),
b=t.tBodies[0],i=[...h.parentNode.children].indexOf(h),up=h.dataset.up!=='1';h.dataset.up=up?'1':'0';
[...b.rows].sort((x,y)=>{
const p=x.cells[i].textContent,q=y.cells[i].textContent,m=parseFloat(p),n=parseFloat(q);
const c=isNaN(m)||isNaN(n)?p.localeCompare(q):m-n;return up?c:-c}).forEach(r=>b.append(r))};
h.onclick=go;h.onkeydown=e=>{if(e.key==='Enter')go()}});
addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open=true));
"""


def as_html(report: Report) -> str:
    """The report as one HTML document that needs nothing beside it."""
    return "\n".join(_html_parts(report)) + "\n"


def _html_parts(report: Report) -> Iterator[str]:
    e = html.escape
    yield "<!doctype html><html lang='en'><meta charset='utf-8'>"
    yield f"<title>Findings</title><style>{STYLE}</style>"
    yield "<h1>Findings</h1>"
    warnings = report.warnings()
    items = "".join(f"<li>{e(line)}</li>" for line in warnings) or f"<li>None above {WARN}.</li>"
    yield f"<div class='warn'><b>Shortcuts that tell the labels apart</b><ul>{items}</ul></div>"
    yield "<p>Made from <code>findings.jsonl</code> alone. Unsupported is positive. "
    yield "Intervals resample whole sources. A column's head sorts the table.</p>"
    links = "".join(f"<a href='#s{i}'>{e(name)}</a>" for i, name in enumerate(report.sets))
    yield f"<nav>{links}<a href='#not'>not run</a></nav>"
    for i, name in enumerate(report.sets):
        rows = [row for row in report.rows if row["set"] == name]
        yield f"<h2 id='s{i}'>{e(name)}</h2><p class='small'>{'<br>'.join(map(e, _provenance(rows)))}</p>"
        yield from _plots(rows)
        for table, title, about in TABLES:
            found = report.table(table, name)
            if found:
                opened = " open" if table in ("singles", "bundles", "operating", "ablations") else ""
                yield f"<details{opened}><summary>{e(title)}</summary><p class='small'>{e(about)}</p>"
                yield _html_table(HEAD, [_cells(row) for row in found]) + "</details>"
    yield "<h2 id='not'>Not run, and why</h2>"
    yield _html_table(("what", "why", "sets"), _not_run(report))
    yield f"<script>{SCRIPT}</script></html>"


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _plots(rows: Sequence[Row]) -> Iterator[str]:
    """A forest of the AUCs, and the curves."""
    wanted = [
        r
        for r in rows
        if r["table"] in ("singles", "bundles") and r["metric"] == "auc" and r["value"] is not None
    ]
    if wanted:
        yield _forest(sorted(wanted, key=lambda row: -row["value"]))
    for metric, axes in (
        ("roc", ("supported flagged", "unsupported flagged")),
        ("precision and recall", ("recall", "precision")),
        ("calibration", ("predicted share", "observed share")),
    ):
        curves = [row for row in rows if row["table"] == "curves" and row["metric"] == metric]
        if curves:
            yield _curves(metric, axes, curves)


COLOURS = {"single": "#4477aa", "bundle": "#aa3377", "text": "#888888", "recorded": "#ccbb44"}
LINES = ("#4477aa", "#228833", "#aa3377", "#888888")


def _x(value: float) -> float:
    return 330 + (min(max(value, 0.3), 1.0) - 0.3) / 0.7 * 480


def _forest(rows: Sequence[Row]) -> str:
    """AUC with interval, one line a row, 0.3 to 1."""
    height = 18 * len(rows) + 40
    parts = [f"<svg viewBox='0 0 860 {height}' width='860' role='img' aria-label='AUC with intervals'>"]
    for tick in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        dash = "" if tick == 0.5 else " stroke-dasharray='2 4'"
        parts.append(
            f"<line x1='{_x(tick):.1f}' x2='{_x(tick):.1f}' y1='8' y2='{height - 24}' stroke='#999'{dash}/>"
        )
        parts.append(
            f"<text x='{_x(tick):.1f}' y='{height - 8}' font-size='11' text-anchor='middle'>{tick}</text>"
        )
    for i, row in enumerate(rows):
        y, colour = 20 + 18 * i, COLOURS[row["form"]]
        parts.append(
            f"<text x='322' y='{y + 4}' font-size='11' text-anchor='end'>{html.escape(row['name'])}</text>"
        )
        if row["low"] is not None:
            parts.append(
                f"<line x1='{_x(row['low']):.1f}' x2='{_x(row['high']):.1f}' "
                f"y1='{y}' y2='{y}' stroke='{colour}'/>"
            )
        parts.append(f"<circle cx='{_x(row['value']):.1f}' cy='{y}' r='3.5' fill='{colour}'/>")
    legend = " · ".join(f"<tspan fill='{COLOURS[form]}'>{name}</tspan>" for form, name in FORMS.items())
    return (
        "".join(parts)
        + "</svg><p class='small'><svg width='700' height='16'><text y='12' font-size='12'>"
        + f"{legend}</text></svg></p>"
    )


def _curves(metric: str, axes: tuple[str, str], rows: Sequence[Row]) -> str:
    """Curves in the unit square."""
    parts = [f"<svg viewBox='0 0 340 {330 + 14 * len(rows)}' width='340' role='img' aria-label='{metric}'>"]
    parts.append("<rect x='40' y='20' width='270' height='270' fill='none' stroke='#999'/>")
    if metric != "precision and recall":
        parts.append("<line x1='40' y1='290' x2='310' y2='20' stroke='#ccc'/>")
    parts.append(f"<text x='175' y='306' font-size='11' text-anchor='middle'>{axes[0]}</text>")
    parts.append(
        "<text x='30' y='155' font-size='11' text-anchor='middle' transform='rotate(-90 30 155)'>"
        f"{axes[1]}</text>"
    )
    parts.append(f"<text x='175' y='14' font-size='12' text-anchor='middle'>{metric}</text>")
    for i, row in enumerate(rows):
        colour = LINES[i % len(LINES)]
        path = " ".join(f"{40 + 270 * p[0]:.1f},{290 - 270 * p[1]:.1f}" for p in row["points"])
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.6'/>")
        parts.append(
            f"<text x='44' y='{324 + 14 * i}' font-size='11' fill='{colour}'>"
            f"{html.escape(row['name'])}</text>"
        )
    return "".join(parts) + "</svg>"
