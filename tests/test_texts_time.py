"""Hostile texts take time in proportion to their length."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from outspan.texts import segment

HOSTILE: dict[str, Callable[[int], str]] = {
    "no newline": lambda n: "word " * (n // 5),
    "numbers in brackets": lambda n: "..[120 121 122 123 124 125]" * (n // 27),
    "broken tags": lambda n: '<a b="' * (n // 6),
    "tags": lambda n: '<a b="c" ' * (n // 9),
    "open parentheses": lambda n: "(" * n,
    "open brackets": lambda n: "[a " * (n // 3),
    "open links": lambda n: "[a](" * (n // 4),
    "dots": lambda n: "." * n,
    "spaced dots": lambda n: " ." * (n // 2),
    "quotes": lambda n: '"' * n,
    "pipes": lambda n: "|" * n,
    "wide table": lambda n: "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|x|\n" * (n // 16),
    "long heading and lead-in": lambda n: "# " + "h " * 900 + "\n" + "l " * 900 + ":\n" + "- a\n" * (n // 16),
    "quote marks": lambda n: "> " * (n // 2) + "a",
    "deeper quotes": lambda n: "\n".join(">" * i for i in range(int((2 * n) ** 0.5))),
    "nested items": lambda n: "- " * (n // 2) + "a",
    "deeper items": lambda n: "\n".join("  " * i + "- a" for i in range(int(n**0.5))),
    "stars": lambda n: "*a " * (n // 3),
    "ticks": lambda n: "`a" * (n // 2),
    "authors": lambda n: "(Brandt, " * (n // 9),
    "initials": lambda n: "A. " * (n // 12),
    "stops": lambda n: "水。" * (n // 16),
    "spaces": lambda n: "a." + " " * n + "B",
    "comments": lambda n: "<!--" * (n // 4),
    "short lines": lambda n: "a\n" * (n // 8),
}
SIZE = 100_000


def fastest(document: str) -> float:
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        segment(document)
        best = min(best, time.process_time() - begun)
    return best


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_proportional_to_length(name: str) -> None:
    make = HOSTILE[name]
    small, size = fastest(make(SIZE)), SIZE
    while small < 0.05 and size < 12 * SIZE:
        size *= 2
        small = fastest(make(size))
    if small < 0.05:
        return  # over a million characters in less than the clock can compare
    # quadratic time would be 16; the room above 4 is for a machine that is busy with something else
    assert fastest(make(4 * size)) / small < 10
