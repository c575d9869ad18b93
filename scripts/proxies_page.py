"""Writes docs/proxies.md from the contracts, so that the page cannot say anything else than the code.

python scripts/proxies_page.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from outspan.geometry.proxies import PROPERTIES, PROXIES, Proxy, ProxyContract
from outspan.geometry.proxies.contract import format_parameter

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "proxies.md"

HEAD = """# Proxies

<!-- Written by scripts/proxies_page.py from the contracts in the code. Change those and run it again. -->

A proxy is one way to see in vectors whether a claim is contained in its evidence. Each has its own name and
contract, none is a mode of another, and all answer to the same call:

```python
from outspan.geometry.proxies import make_proxy
from outspan.geometry.subspace import factor

proxy = make_proxy("local_span(k=2)")
values = proxy([[0.8, 0.6]], factor([[1.0, 0.0]]))  # one value a claim, float64
assert abs(values[0] - 0.36) < 1e-12
```

In the formulas c is the unit claim, e_i are the n unit evidence rows, E the matrix of these rows with
singular values σ_1 ≥ σ_2 ≥ …, right-singular directions v_i and numeric rank ρ, and d is the dimension. A
claim without direction gives NaN, evidence without a row an error. Which proxy does better, where, and why:
[findings](findings-proxies.md).
"""


def page() -> str:
    """The whole page."""
    contracts = [kind().contract for kind in PROXIES.values()]
    parts = [HEAD, "\n".join(_table(contracts)), "\n".join(_properties(contracts))]
    parts += [
        "\n".join(_section(kind, contract))
        for kind, contract in zip(PROXIES.values(), contracts, strict=True)
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _table(contracts: list[ProxyContract]) -> Iterator[str]:
    yield "| name and defaults | formula | range | higher means |"
    yield "| --- | --- | --- | --- |"
    for contract in contracts:
        low, high = (format_parameter(bound) for bound in contract.range)
        formula = contract.formula.replace("|", "\\|")
        yield f"| `{contract}` | {formula} | [{low}, {high}] | {_higher(contract)} |"


def _higher(contract: ProxyContract) -> str:
    return contract.direction.removeprefix("higher_means_").replace("_", " ")


def _properties(contracts: list[ProxyContract]) -> Iterator[str]:
    yield "## What holds for which"
    yield ""
    yield "Tests hold to both sides: a property with a mark holds, one without fails for some input."
    yield ""
    for key, meaning in PROPERTIES.items():
        yield f"- **{key}**: {meaning}"
    yield ""
    yield "| name | " + " | ".join(PROPERTIES) + " |"
    yield "| --- |" + " :-: |" * len(PROPERTIES)
    for contract in contracts:
        marks = ("yes" if key in contract.properties else "" for key in PROPERTIES)
        yield f"| `{contract.name}` | " + " | ".join(marks) + " |"


def _section(kind: type[Proxy], contract: ProxyContract) -> Iterator[str]:
    """The docstring, its underlined headings in bold: Markdown would make sections of them."""
    yield f"## {contract.name}"
    yield ""
    lines = (inspect.getdoc(kind) or "").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if set(following) == {"-"}:
            yield f"**{line}**"
            yield ""
        elif set(line) != {"-"}:
            yield line.replace("``", "`").replace(":meth:`excluding`", "`excluding`")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
