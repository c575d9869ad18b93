"""The layout of a document: headings, paragraphs, items, rows, code, each with the lines that it covers.

One pass over the lines, no look-ahead beyond the next line, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .markup import clean, fold, has_words, undecorate
from .sentences import find_cuts
from .spans import Kind

_LINE = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]*+(?:\r\n|[\n\r\v\f\x85\u2028\u2029]|\Z)")
_QUOTE_MARKS = re.compile(r"(?:[ ]{0,3}>)++[ ]?")
_INDENT = re.compile(r"[ \t]*+")
_ATX = re.compile(r"[ ]{0,3}#{1,6}(?=[ \t]|\Z)")
_FENCE = re.compile(r"[ \t]*+(?P<run>`{3,}+(?=[^`]*+\Z)|~{3,}+)")
_BULLET = re.compile(
    r"[ \t]*+(?P<mark>[-*+•‣◦▪●○■–—]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\)|\([ivx]{1,4}\))(?:[ \t]++|\Z)"
    r"(?:\[[ xX]\][ \t]++)?"
)
_CELL = re.compile(r"(?:[^|\\]|\\.|\\\Z)*+")
_SENTENCE_END = tuple(".!?…。！？।؟۔")
_GOES_ON = (",", ";", "-", "–", "、", "，", "；")
_OPEN_END = (*_SENTENCE_END, *_GOES_ON)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNFINISHED = _words(
    "a an the of and or to in on at by for with from as is are was were that which who has have had not "
    "be its his her their will would can could than into but der die das und le la les de et el los y"
)
_SHORT_LINE, _WIDE_LINE, _WRAP_LIMIT = 40, 80, 160
_MAX_NEST, _MAX_COLUMNS, _MAX_NAME, _MAX_LEAD = 20, 256, 80, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A run of whole lines of one kind."""

    start: int
    """First character of its first line, in the document."""
    end: int
    """One past its last character, line break left out."""
    kind: Kind
    parts: tuple[tuple[int, int], ...]
    """Offsets of its content, line by line, without the marks at the head of the lines."""
    context: str
    """Heading, lead-in, table header, one a line, outermost first."""
    header: tuple[str, ...] = ()
    """Names of the columns, for a row."""
    reason: str | None = None
    """Why it is not to be measured, or None."""


def scan(document: str, *, markdown: bool) -> Iterator[Block]:
    """Yield the blocks of a document in order; every line that is not blank lies in exactly one."""
    return _Scanner(document, markdown).run()


def split_row(row: str) -> list[str]:
    """Split a table row at its pipes; an escaped pipe splits nothing, edge pipes open no cell."""
    row = row.strip().removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    cells: list[str] = []
    at = 0
    while at <= len(row) and len(cells) < _MAX_COLUMNS:
        match = _CELL.match(row, at)
        end = match.end() if match and len(cells) < _MAX_COLUMNS - 1 else len(row)
        cells.append(row[at:end].replace("\\|", "|"))
        at = end + 1
    return cells


class _Scanner:
    """The state of the one pass: the open paragraph, the list and the table it is in, the heading above."""

    def __init__(self, document: str, markdown: bool) -> None:
        self.document = document
        self.markdown = markdown
        self.done: list[Block] = []
        self.open: list[tuple[int, int, int]] = []  # line start, content start, content end
        self.kind = Kind.SENTENCE
        self.depth = 0
        self.fence = ""
        self.heading = ""
        self.lead = ""
        self.in_list = False
        self.item_indent = 0
        self.nested_lead: tuple[int, str] = (0, "")
        self.header: tuple[str, ...] | None = None
        self.row_context = ""
        self.joined: tuple[tuple[str, ...], str] = ((), "")

    def run(self) -> Iterator[Block]:
        lines = [(match.start(), match.end()) for match in _LINE.finditer(self.document) if match[0]]
        for index, (start, stop) in enumerate(lines):
            following = lines[index + 1] if index + 1 < len(lines) else None
            self._line(start, stop, following)
            yield from self.done
            self.done.clear()
        self._close()
        yield from self.done

    def _line(self, start: int, stop: int, following: tuple[int, int] | None) -> None:
        body, depth = self._past_quote_marks(start, stop)
        content = self.document[body:stop].rstrip()
        end = body + len(content)
        if self.fence:
            self._fenced(start, body, end, content)
            return
        if depth != self.depth:
            self._close()
            self.header = None
            self.depth = depth
        if not content:
            self._close()
            self.header = None
            if depth:
                self._emit(Kind.OTHER, start, body, reason="no words")
            return
        if self.markdown and self._markdown_line(start, body, end, content, following):
            return
        self._prose(start, body, end, content)

    def _past_quote_marks(self, start: int, stop: int) -> tuple[int, int]:
        if self.markdown and (match := _QUOTE_MARKS.match(self.document, start, stop)):
            return match.end(), match[0].count(">")
        return start, 0

    def _fenced(self, start: int, body: int, end: int, content: str) -> None:
        self.open.append((start, body, end))
        run = content.strip()
        if len(run) >= len(self.fence) and not run.strip(self.fence[0]):
            self.fence = ""
            self._close()

    def _markdown_line(
        self, start: int, body: int, end: int, content: str, following: tuple[int, int] | None
    ) -> bool:
        if self._row(start, body, end, content, following):
            return True
        fence = _FENCE.match(content)
        if fence:
            self._close()
            self.kind, self.fence = Kind.CODE, fence["run"]
            self.open.append((start, body, end))
            return True
        if _ATX.match(content):
            self._close()
            self._set_heading(start, end, content.strip().strip("#"))
            return True
        return self._rule(start, end, content) or self._indented_code(start, body, end, content)

    def _set_heading(self, start: int, end: int, title: str) -> None:
        self.heading = clean(title[:_MAX_LEAD], markdown=True)[0]
        self.lead, self.in_list = "", False
        self._emit(Kind.HEADING, start, end, parts=((start, end),), context="", reason="heading")

    def _rule(self, start: int, end: int, content: str) -> bool:
        bare = "".join(content.split())
        if bare[0] not in "-=*_" or bare.strip(bare[0]):
            return False
        if bare[0] in "-=" and len(bare) > 1 and len(self.open) == 1 and self.kind is Kind.SENTENCE:
            line_start, line_body, line_end = self.open[0]
            title = self.document[line_body:line_end]
            # CommonMark makes a heading of any line above "---"; a finished sentence above a rule is a claim
            if not title.rstrip(" *_\"'”)").endswith(_SENTENCE_END):
                self.open.clear()
                self._set_heading(line_start, end, title)
                return True
        if len(bare) < 3 or bare[0] == "=":
            return False
        self._close()
        self.in_list = False
        self._emit(Kind.OTHER, start, end, reason="no words")
        return True

    def _indented_code(self, start: int, body: int, end: int, content: str) -> bool:
        if self.in_list or not content.startswith(("    ", "\t", " \t", "  \t", "   \t")):
            return False
        if self.open and self.kind is not Kind.CODE:
            return False
        self.kind = Kind.CODE
        self.open.append((start, body, end))
        return True

    def _row(self, start: int, body: int, end: int, content: str, following: tuple[int, int] | None) -> bool:
        if "|" not in content:
            if self.header is not None:
                self.header = None
            return False
        if self.header is not None:
            if _is_delimiter(content):
                self._emit(Kind.OTHER, start, end, reason="table delimiter")
            else:
                context = self.row_context
                self._emit(Kind.ROW, start, end, parts=((body, end),), context=context, header=self.header)
            return True
        if following is None or not self._opens_table(content, *following):
            return False
        self._close()
        self.in_list = False
        names = (clean(cell[: 4 * _MAX_NAME], markdown=True)[0][:_MAX_NAME] for cell in split_row(content))
        self.header = tuple(names)
        self.row_context = self._above(" | ".join(self.header))
        self._emit(Kind.ROW, start, end, parts=((body, end),), reason="table header", context=self._above())
        return True

    def _opens_table(self, content: str, start: int, stop: int) -> bool:
        body, depth = self._past_quote_marks(start, stop)
        below = self.document[body:stop].strip()
        if depth != self.depth or "|" not in below or not has_words(content):
            return False
        if _is_delimiter(below):
            return True
        # a table that lost its delimiter row: two lines between pipes, with the same number of cells
        pipes = content.count("|")
        above = content.strip()
        edged = above[0] == above[-1] == below[0] == below[-1] == "|"
        return not self.open and edged and pipes >= 3 and below.count("|") == pipes

    def _prose(self, start: int, body: int, end: int, content: str) -> None:
        indent_match = _INDENT.match(content)
        indent = indent_match.end() if indent_match else 0
        marker = _BULLET.match(content)
        if marker and self._opens_item(marker):
            self._close()
            self.in_list, self.kind, self.item_indent = True, Kind.ITEM, indent
            at = marker.end()
            for _ in range(_MAX_NEST):
                if not (marker := _BULLET.match(content, at)):
                    break
                at = marker.end()
            self.open.append((start, body + at, end))
            return
        if self.open and (self.kind is Kind.CODE or self._leaves_item(content, indent)):
            self._close()
            self.in_list = False
        if not self.open:
            self.in_list = self.in_list and indent >= 2
            self.kind = Kind.ITEM if self.in_list else Kind.SENTENCE
        self.open.append((start, body, end))

    def _opens_item(self, marker: re.Match[str]) -> bool:
        mark = marker["mark"]
        if not self.open or self.kind is not Kind.SENTENCE:
            return True
        # inside a paragraph a line may begin with "12." or a dash by the accident of wrapping
        first = self.document[self.open[-1][1] : self.open[-1][2]].endswith(":")
        return first or mark in "-*+•‣◦▪●○■" or mark.strip("().") in ("1", "a", "A", "i")

    def _leaves_item(self, content: str, indent: int) -> bool:
        if self.kind is not Kind.ITEM or indent >= 2 or not content[indent].isupper():
            return False
        _, body, end = self.open[-1]
        return end - body < 60 or self.document[body:end].endswith(_SENTENCE_END)

    def _above(self, *within: str) -> str:
        """Join heading, lead-in and what stands within; items that share a context share one string."""
        parts = (self.heading, self.lead, *within)
        if parts != self.joined[0]:
            self.joined = (parts, "\n".join(part for part in parts if part))
        return self.joined[1]

    def _close(self) -> None:
        """End the open paragraph, item or code block and hand it on."""
        lines, self.open = self.open, []
        if not lines:
            return
        if self.kind is Kind.CODE:
            self.fence = ""
            self._emit(Kind.CODE, lines[0][0], lines[-1][2], parts=_parts(lines), reason="code")
        elif self.kind is Kind.ITEM:
            self._close_item(lines)
        else:
            self._close_paragraph(lines)

    def _close_item(self, lines: list[tuple[int, int, int]]) -> None:
        if self.item_indent <= self.nested_lead[0]:
            self.nested_lead = (self.item_indent, "")
        context = self._above(self.nested_lead[1])
        self._emit(Kind.ITEM, lines[0][0], lines[-1][2], parts=_parts(lines), context=context)
        lead = self._lead_in(lines)
        if lead:
            self.nested_lead = (self.item_indent, lead)

    def _close_paragraph(self, lines: list[tuple[int, int, int]]) -> None:
        self.lead = ""
        self.nested_lead = (0, "")
        group: list[tuple[int, int, int]] = []
        for line in lines:
            group.append(line)
            if self.document[line[1] : line[2]].rstrip("*_ ").endswith((":", "：")):
                self._emit_group(group)
                self.lead = self._lead_in(group)
                group = []
        if group:
            listed = self._emit_group(group)
            self.lead = self.lead if listed else ""

    def _emit_group(self, group: list[tuple[int, int, int]]) -> bool:
        if self._looks_like_list([self.document[body:end].strip() for _, body, end in group]):
            context = self._above()
            for start, body, end in group:
                self._emit(Kind.ITEM, start, end, parts=((body, end),), context=context)
            return True
        paragraph: list[tuple[int, int, int]] = []
        unwrapped = max(end - body for _, body, end in group) > _WRAP_LIMIT
        for line in group:
            paragraph.append(line)
            # lines as long as this were not wrapped at a column: each break is the author's
            if unwrapped and self._finished(self.document[line[1] : line[2]]):
                self._emit(Kind.SENTENCE, paragraph[0][0], line[2], parts=_parts(paragraph))
                paragraph = []
        if paragraph:
            self._emit(Kind.SENTENCE, paragraph[0][0], paragraph[-1][2], parts=_parts(paragraph))
        return False

    def _finished(self, line: str) -> bool:
        return not line.endswith(_GOES_ON) and line[-40:].rsplit(None, 1)[-1].lower() not in _UNFINISHED

    def _looks_like_list(self, lines: Sequence[str]) -> bool:
        if len(lines) < 2:
            return False
        if any(line.rstrip("*_\"'”)").endswith(_OPEN_END) or len(line) > _WIDE_LINE for line in lines):
            return False
        if any(line.rsplit(None, 1)[-1].lower() in _UNFINISHED for line in lines):
            return False
        if not any(line[0].islower() for line in lines):
            return True
        return (bool(self.lead) or len(lines) > 2) and max(map(len, lines)) <= _SHORT_LINE

    def _lead_in(self, lines: list[tuple[int, int, int]]) -> str:
        """Return the last sentence of these lines if it ends in a colon, else nothing."""
        tail = self.document[max(lines[-1][1], lines[-1][2] - _MAX_LEAD) : lines[-1][2]]
        tail = tail.rstrip("*_ ")
        if not tail.endswith((":", "：")):
            return ""
        cuts = find_cuts(tail)
        return fold(undecorate(tail[cuts[-1] :] if cuts else tail))

    def _emit(
        self,
        kind: Kind,
        start: int,
        end: int,
        *,
        parts: tuple[tuple[int, int], ...] = (),
        context: str | None = None,
        header: tuple[str, ...] = (),
        reason: str | None = None,
    ) -> None:
        above = self.heading if context is None else context
        self.done.append(
            Block(start=start, end=end, kind=kind, parts=parts, context=above, header=header, reason=reason)
        )


def _parts(lines: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((body, end) for _, body, end in lines)


def _is_delimiter(line: str) -> bool:
    return "-" in line and "|" in line and not line.strip("|:- \t")
