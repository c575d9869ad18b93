"""docs/proxies.md says what the contracts say."""

from __future__ import annotations

import runpy
from pathlib import Path

from outspan.geometry.proxies import PROXIES

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "proxies_page.py"))


def test_page_is_the_one_that_the_contracts_give() -> None:
    written = (ROOT / "docs" / "proxies.md").read_text(encoding="utf-8")
    assert written == SCRIPT["page"](), "run: python scripts/proxies_page.py"


def test_every_proxy_has_its_row_and_its_section() -> None:
    page = SCRIPT["page"]()
    for name, kind in PROXIES.items():
        assert f"\n## {name}\n" in page
        assert f"| `{kind().contract}` |" in page


def test_the_example_on_the_page_runs() -> None:
    example = SCRIPT["page"]().split("```python\n")[1].split("```")[0]
    exec(compile(example, "docs/proxies.md", "exec"), {})
