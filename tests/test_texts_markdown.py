"""The layout of Markdown and plain documents, against expectations and against markdown-it as an oracle."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from outspan.texts import Kind, segment


def rows(document: str, **options: bool | None) -> list[tuple[str, str, str | None]]:
    return [(str(span.kind), span.core, span.unmeasured) for span in segment(document, **options)]


def test_bullets_are_units_under_their_lead_in() -> None:
    spans = segment("The kit holds:\n- two batteries\n- one charger\n- no cable")
    assert [span.core for span in spans] == ["The kit holds:", "two batteries", "one charger", "no cable"]
    assert [span.kind for span in spans] == [Kind.SENTENCE, Kind.ITEM, Kind.ITEM, Kind.ITEM]
    assert [span.context for span in spans] == ["", *["The kit holds:"] * 3]


def test_headings_are_context() -> None:
    spans = segment("## Refunds\nPaid within 14 days.\n## Exclusions\nGift cards.")
    assert [(span.core, span.context, span.unmeasured) for span in spans] == [
        ("Refunds", "", "heading"),
        ("Paid within 14 days.", "Refunds", None),
        ("Exclusions", "", "heading"),
        ("Gift cards.", "Exclusions", None),
    ]


@pytest.mark.parametrize("underline", ["===", "-----"])
def test_an_underlined_line_is_a_heading(underline: str) -> None:
    assert rows(f"Refunds\n{underline}\nPaid soon.", markdown=True)[0] == ("heading", "Refunds", "heading")


def test_a_finished_sentence_above_a_rule_stays_a_claim() -> None:
    assert rows("The dam **opened**.\n---\nIt leaks.") == [
        ("sentence", "The dam opened.", None),
        ("other", "", "no words"),
        ("sentence", "It leaks.", None),
    ]


@pytest.mark.parametrize("delimiter", ["", "|---|--:|\n"])
def test_a_row_carries_the_header(delimiter: str) -> None:
    spans = segment(f"| city | people |\n{delimiter}| Oslo | 709,037 |\n| Bergen | 291,189 |")
    assert [span.core for span in spans if span.unmeasured is None] == [
        "city: Oslo; people: 709,037",
        "city: Bergen; people: 291,189",
    ]
    assert spans[0].unmeasured == "table header"
    assert spans[-1].context == "city | people"


def test_a_table_without_edge_pipes_and_with_gaps() -> None:
    assert rows("a | b | \n--|--|--\n1 | | **x** [2]\n\\| | 5")[2:] == [
        ("row", "a: 1; x", None),
        ("row", "|; b: 5", None),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~~", "```python"])
def test_code_is_not_measured(fence: str) -> None:
    close = fence.rstrip("python")
    assert [kind for kind, *_ in rows(f"Run it.\n{fence}\nx = 1\n\n# no heading\n{close}\nDone.")] == [
        "sentence",
        "code",
        "sentence",
    ]


def test_indented_code_after_a_blank_line() -> None:
    assert [kind for kind, *_ in rows("# Use\n\n    x = 1\n    y = 2\n\nDone.")] == [
        "heading",
        "code",
        "sentence",
    ]
    assert [kind for kind, *_ in rows("Use\n\n    a plain indent\n")] == ["sentence", "sentence"]


def test_quote_marks_leave_the_core() -> None:
    spans = segment("> The dam\n> opened. It\n> > leaks.\n>\n> Badly.")
    assert [span.core for span in spans if span.core] == ["The dam opened.", "It", "leaks.", "Badly."]


@pytest.mark.parametrize(
    ("document", "core"),
    [
        ("**The dam** opened *late*.", "The dam opened late."),
        ("__The dam__ opened ~~early~~.", "The dam opened early."),
        ("Call `x_y` or **`f(*a)`** now.", "Call x_y or f(*a) now."),
        ('See [the *old* dam](http://a.b/c_(d) "t") now.', "See the old dam now."),
        ("![A dam](dam.png) holds **water**.", "A dam holds water."),
        ("The <b>dam</b> is<br>H<sub>2</sub>O &amp; ice.", "The dam is H2O & ice."),
        ("**5 * 3** is 15 and a_b_c is a name.", "5 * 3 is 15 and a_b_c is a name."),
        ("If a <b and c> d then <u>x</u>.", "If a <b and c> d then x."),
        ("Costs \\*rise\\* **fast**.", "Costs *rise* fast."),
        ("<https://example.org> is **up**.", "https://example.org is up."),
    ],
)
def test_decoration_leaves_the_core(document: str, core: str) -> None:
    assert [span.core for span in segment(document)] == [core]


def test_plain_text_keeps_its_signs() -> None:
    assert rows("5 * 3 is 15 and # is a sign.") == [("sentence", "5 * 3 is 15 and # is a sign.", None)]
    assert rows("# no heading", markdown=False) == [("sentence", "# no heading", None)]


def test_bold_over_two_sentences() -> None:
    assert [core for _, core, _ in rows("**The dam opened. It leaks.** Badly.")] == [
        "The dam opened.",
        "It leaks.",
        "Badly.",
    ]


def test_items_nest_and_go_on() -> None:
    document = "# Kit\nIt holds:\n\n1. a lamp:\n   - red\n   - with\n     glass\n2. [x] a rope. It is\nlong.\n\nThat is all."
    spans = segment(document)
    assert [(span.core, span.context) for span in spans if span.kind is Kind.ITEM] == [
        ("a lamp:", "Kit\nIt holds:"),
        ("red", "Kit\nIt holds:\na lamp:"),
        ("with glass", "Kit\nIt holds:\na lamp:"),
        ("a rope.", "Kit\nIt holds:"),
        ("It is long.", "Kit\nIt holds:"),
    ]
    assert spans[-1].kind is Kind.SENTENCE


def test_a_wrapped_number_opens_no_item() -> None:
    assert len(segment("The team won by a margin of\n12. The crowd left.")) == 2
    assert all(
        span.kind is Kind.SENTENCE for span in segment("The team won by a margin of\n12. The crowd left.")
    )


DOCUMENTS = [
    "# A\n\nText here.\n\n- b\n- c\n\n```\nd\n```\n\n> e\n\n| f | g |\n|---|---|\n| h | i |\n",
    "Title\n=====\n\nOne para\nof two lines.\n\n1. x\n2. y\n\n---\n\nLast.",
    "#no heading\n\n####### none\n\n### yes ###\n\n~~~\n# code\n~~~\n",
    "> # quoted\n> text\n\n    code here\n\ntext\n    not code\n",
    "a | b\n-|-\nc | d\n\nz\n",
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_layout_agrees_with_markdown_it(document: str) -> None:
    lines = document.splitlines(keepends=True)
    starts = [sum(map(len, lines[:index])) for index in range(len(lines) + 1)]

    def ours(kind: Kind) -> set[int]:
        spans = [span for span in segment(document, markdown=True) if span.kind is kind]
        return {max(i for i, start in enumerate(starts) if start <= span.start) for span in spans}

    tokens = MarkdownIt("commonmark").enable("table").parse(document)
    theirs: dict[str, set[int]] = {}
    for token in tokens:
        if token.map:
            theirs.setdefault(token.type, set()).add(token.map[0])
    assert ours(Kind.HEADING) == theirs.get("heading_open", set())
    assert ours(Kind.CODE) == theirs.get("fence", set()) | theirs.get("code_block", set())
    assert ours(Kind.ROW) == theirs.get("tr_open", set())
    assert ours(Kind.ITEM) == theirs.get("list_item_open", set())
