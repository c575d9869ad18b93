"""What a segmented text is made of: kinds, citations, spans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a span is in the layout of its document."""

    SENTENCE = "sentence"
    ITEM = "item"
    ROW = "row"
    HEADING = "heading"
    CODE = "code"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A marker that points to a source, such as ``[2]`` or ``(Brandt, 2019)``."""

    start: int
    """First character, in the whole document; 0 ≤ start < end."""
    end: int
    """One past the last character, in the whole document."""
    text: str
    """The marker as written: ``document[start:end]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One unit of a document: at least one character, none of them shared with another span."""

    start: int
    """First character, in the whole document; never white space."""
    end: int
    """One past the last character; the character before it is never white space."""
    text: str
    """The unit as written: ``document[start:end]``."""
    kind: Kind
    """Its place in the layout."""
    core: str
    """What is embedded: no citation markers, no decoration, white space folded; empty only if unmeasured."""
    citations: tuple[Citation, ...]
    """Markers found in the unit, in order; each lies inside it."""
    context: str
    """Nearest heading, lead-in of the list, header of the table: one a line, outermost first, or empty."""
    unmeasured: str | None
    """None if the unit is to be measured, else the reason in a few words."""
