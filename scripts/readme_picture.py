"""Draws docs/table.svg: what ``outspan check`` prints for the example.

python scripts/readme_picture.py
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from outspan import check
from outspan.cli.terminal import check_table, evidence_line, summary_lines
from outspan.evidence import EvidenceItem

ROOT = Path(__file__).parent.parent


def main() -> None:
    names = ("report.md", "minutes.txt")
    items = [
        EvidenceItem(id=name, text=(ROOT / "examples" / name).read_text(encoding="utf-8")) for name in names
    ]
    record = check((ROOT / "examples" / "answer.md").read_text(encoding="utf-8"), items)
    console = Console(record=True, width=118, file=StringIO(), highlight=False)
    console.print(check_table(record))
    console.print()
    for line in summary_lines(record.summary):
        console.print(line)
    console.print(evidence_line(record) or "", style="dim")
    command = "outspan check examples/answer.md --evidence examples/report.md --evidence examples/minutes.txt"
    drawn = console.export_svg(title=command, unique_id="table")
    # A picture in a README must not fetch fonts from elsewhere: any monospaced font will do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"<!-- .*? -->\n?", "", drawn)
    drawn = "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"
    (ROOT / "docs" / "table.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
