"""What of a written unit is embedded: the words without their decoration.

Everything here is one bounded pass; on hostile input the decoration stays in the core, and no time is lost.
"""

from __future__ import annotations

import html
import re
import unicodedata

from .citations import MAY_HOLD_MARKER, find_markers

_TAG_NAME = (
    r"(?:a|abbr|article|aside|b|blockquote|body|br|caption|center|cite|code|col|dd|del|details|div|dl|dt|em|figcaption"
    r"|figure|font|footer|h[1-6]|head|header|hr|html|i|img|ins|kbd|li|link|main|mark|meta|nav|ol|p|pre|q|s|samp|section"
    r"|small|span|strike|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul|var|wbr)"
)
_ATTRIBUTE = (
    r"\s{1,8}+[\w:-]{1,64}+\s{0,8}+=\s{0,8}+(?:\"[^\"<>]{0,2000}+\"|'[^'<>]{0,2000}+'|[^\s\"'<>]{1,2000}+)"
)
TAG = re.compile(
    rf"</{_TAG_NAME}\s{{0,8}}+>|<{_TAG_NAME}(?:{_ATTRIBUTE}){{0,20}}+\s{{0,8}}+/?>|<!--[^<>]{{0,2000}}+-->",
    re.IGNORECASE,
)
"""A tag of HTML, by its known name: "<b" in a formula is none."""

_TARGET = r"\((?:[^()\s]|\([^()\s]{0,200}+\)){0,500}+(?:\s\"[^\"\n]{0,300}+\")?\)"
_LINK = rf"!?\[(?P<label>[^\[\]]{{0,1000}}+)\](?:{_TARGET}|\[[^\[\]]{{0,80}}+\])"
_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`\n]{1,1000}+)(?P=ticks)(?!\w)"
    rf"|{_LINK}"
    r"|<(?P<url>(?:https?://|mailto:)[^<>\s]{1,2000}+)>"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<mark>\*{1,3}+|_{1,3}+|~~)"
    r"|(?P<entity>&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});)"
)
_MARKED = re.compile(
    r"\*\*\S|__\S|~~\S|(?<![\w*])\*[^\s*][^*\n]{0,300}\*(?!\w)|\]\(|(?<![^\s(])`[^`\s][^`\n]{0,300}(?<!\s)`(?!\w)"
    r"|^[ ]{0,3}#{1,6}[ \t]+\S"
    r"|^[ ]{0,3}(?:```|~~~|>)|^[ \t]*\|[^\n]*\|[ \t]*$"
    r"|^(?=[^\n]*\|)[ \t|:-]*--[ \t|:-]*$|^={3,}[ \t]*$|\[\^\w",
    re.MULTILINE,
)
UNSEEN = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode categories of spaces, line ends, controls, and zero-width and other format characters."""
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
_WIDE = "\u3000-\u9fff\uf900-\ufaff\uff00-\uffef"
_WIDE_BREAK = re.compile(rf"(?<=[{_WIDE}])[ \t]*+[\r\n]\s*+(?=[{_WIDE}])")
_WORD = re.compile(r"[^\W_]")


def looks_marked_up(text: str) -> bool:
    """Tell whether a document is in Markdown or HTML, by its plain signs (headings, ``**``, links, tags)."""
    return bool(_MARKED.search(text) or ("<" in text and TAG.search(text)))


def has_words(text: str) -> bool:
    """Tell whether a text holds at least one letter or digit of any script."""
    return bool(_WORD.search(text))


def is_blank(text: str) -> bool:
    """Nothing in the text is visible: it is empty, or white space, control and zero-width characters only."""
    # Only the classes that can never be seen: an unassigned code point may be an emoji that this Python is
    # too old for.
    return all(unicodedata.category(character) in UNSEEN for character in text)


def blank_tags(text: str) -> str:
    """Overwrite the tags of HTML with spaces; the length stays, so that offsets hold."""
    return TAG.sub(lambda match: " " * len(match[0]), text) if "<" in text else text


def clean(text: str, *, markdown: bool) -> tuple[str, list[tuple[int, int]]]:
    """Return the words of a unit and the offsets of the citation markers that were left out of them.

    Parameters
    ----------
    text : the unit as written, the marks at the head of its lines already blanked.
    markdown : undo inline Markdown and HTML too; citation markers and white space are treated in any case.
    """
    markers = list(find_markers(text)) if MAY_HOLD_MARKER.search(text) else []
    words = _leave_out(text, markers) if markers else text
    if markdown:
        words = undecorate(words)
    return fold(words), markers


def undecorate(text: str) -> str:
    """Undo inline Markdown and HTML: links become their label, tags and emphasis go, entities are read."""
    return _INLINE.sub(_plain, TAG.sub(_plain_tag, text) if "<" in text else text)


def fold(text: str) -> str:
    """Fold white space to single spaces; a line break between Chinese or Japanese characters goes."""
    if not text.isascii():
        text = _WIDE_BREAK.sub("", _INVISIBLE.sub("", text))
    return " ".join(text.split())


def _leave_out(text: str, markers: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in markers:
        piece = text[at:start]
        # the space before the marker belongs to it where a stop follows: "fast [2]." is "fast."
        rest = text[end : end + 1]
        kept.append(piece.rstrip() if not rest or rest in ".,;:!?)[。，；：！？" else piece)
        at = end
    kept.append(text[at:])
    return "".join(kept)


_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|code|del|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|su[bp]|tt|u|var|wbr)\b",
    re.IGNORECASE,
)


def _plain_tag(match: re.Match[str]) -> str:
    return "" if _INLINE_TAG.match(match[0]) else " "


def _plain(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "code":
        return match["code"]
    if kind == "label":
        return _EMPHASIS.sub(_plain_mark, match["label"])
    if kind == "url":
        return match["url"]
    if kind == "escaped":
        return match["escaped"]
    if kind == "entity":
        return html.unescape(match[0])
    return _plain_mark(match)


_EMPHASIS = re.compile(r"\*{1,3}+|_{1,3}+|~~|`")


def _plain_mark(match: re.Match[str]) -> str:
    """Drop a run of ``*`` or ``_`` at the edge of a word; "5 * 3", "5*3" and "a_b" keep theirs."""
    before = match.string[match.start() - 1 : match.start()] if match.start() else ""
    after = match.string[match.end() : match.end() + 1]
    if before.isalnum() and after.isalnum():
        return "" if len(match[0]) > 1 and match[0][0] == "*" else match[0]
    at_edge = bool(before and not before.isspace()) or bool(after and not after.isspace())
    return "" if at_edge else match[0]
