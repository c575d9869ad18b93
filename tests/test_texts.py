"""Text → spans: what holds for any text, and what each kind of text needs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.texts import Kind, Span, segment

PIECES = st.sampled_from(
    [
        "The dam opened.", "no cable", "et al.", "[2]", "[3, 4]", "(Brandt, 2019)", ".", "...", "!?", "\"", "'", "”", "。", "।",
        "# ", "## Ice", "- ", "* ", "1. ", "> ", "| a | b |", "|---|---|", "```", "~~~", "    ", "\t", "\n", "\r\n", "\r", "\n\n",
        "\u2028", "\x85", "\x0b", "\u200b", "\ufeff", "===", "---", "**", "_", "`", "<b>", "</p>", "<a b=\"", "&amp;", "[x](y)",
        "水", "यह", "👍", "e\u0301", "\ud800", ":", "Dr. ", "U.S. ", " ", "7", "Tromsø", "|", "\\",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))
MODES = st.sampled_from([None, True, False])


def texts_of(document: str, **options: bool | None) -> list[str]:
    return [span.text for span in segment(document, **options)]


def cores_of(document: str) -> list[str]:
    return [span.core for span in segment(document) if span.unmeasured is None]


def assert_covers(document: str, spans: list[Span]) -> None:
    at = 0
    for span in spans:
        assert at <= span.start < span.end <= len(document)
        assert document[span.start : span.end] == span.text == span.text.strip()
        assert not document[at : span.start].strip()
        for marker in span.citations:
            assert span.start <= marker.start < marker.end <= span.end
            assert document[marker.start : marker.end] == marker.text
        assert span.core or span.unmeasured
        at = span.end
    assert not document[at:].strip()


@settings(max_examples=400, deadline=None)
@given(TEXTS, MODES)
def test_each_character_lies_in_exactly_one_span(document: str, markdown: bool | None) -> None:
    assert_covers(document, segment(document, markdown=markdown))


@settings(max_examples=100, deadline=None)
@given(TEXTS, MODES)
def test_the_same_text_gives_the_same_spans(document: str, markdown: bool | None) -> None:
    assert segment(document, markdown=markdown) == segment(document, markdown=markdown)


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\r\n \t\u3000\x85"])
def test_a_blank_text_has_no_spans(blank: str) -> None:
    assert segment(blank) == []


ONE_SENTENCE = """
Brandt et al. [2019] found that basalt weathers faster above 40 C.
..[120 121 122 123 124 125 126 127 128 129]
Halden Corp. Norway opened a plant in Tromsø last May.
Mr. Oake met Dr. Lind and Prof. Falk on St. Olaf Square.
The pump (see Fig. 3) runs at approx. 40 Hz, i.e. slowly, vs. 60 Hz elsewhere.
Pears, plums, etc. Norwegian growers sell them all.
No. 12 burned, as did Nos. 4 and 5.
J. R. R. Holm and K.L. Berg wrote it.
The U.S. Navy left at 5 p.m. Friday.
It closed on Jan. 5 and on Sept. 12.
Version 2.10.3 of app.py listens on 127.0.0.1 and mails a.b@example.org.
See https://example.org/a.b?c=d!e for more.
The rate rose from 1.5 to 2.75 percent.
He paused... and went on.
"Did it burn?" asked the warden.
Well... I think it holds.
The hall (it opened in 1911. or so) is red.
Am 3. Mai fuhr das Schiff z.B. nach Bergen.
「はい。」と彼は言った
円周率は３．１４である
डॉ. राव ने पुल बनाया
Sgt. Moe and Mlle. Petit waited.
The cave is 5 km. long.
It differed (p<0. 05) and cost £5. 7 million.
1. Open the valve
"""


@pytest.mark.parametrize("document", ONE_SENTENCE.strip().splitlines())
def test_a_stop_that_ends_nothing(document: str) -> None:
    assert texts_of(document) == [document]


MORE = """
The dam was finished in 1936.[4] | It is 221 m high.[5]
It opened in 1936.⁴ | It is high.⁵
It opened in 1936. [4] | It is high. [5]
It opened in 1936.[^a] | It is high.
He waited... and waited.... | Then the bell rang. | She left.
He left." | She stayed.
“It holds.” | They cheered.
(It opened late.) | The roof leaks.
Is it open?! | No. | It closed.
Stop!! | Who goes there?? | A friend.
He works at Halden Corp. | The firm makes pumps.
It moved to the U.S. | It came back in May.
It closed at 5 p.m. | The guard left.
The mass is 5 kg. | Then it doubled.
It rose to 40 C. | Basalt weathers.
It opened in 1936. | 12 people came.
It has two rooms. | Both are red.
the dam opened . | it was 20 m high .
the dam opened. | it was 20 m high.
They sang " we hold . '' | Then it broke .
水在零度结冰。 | 它在一百度沸腾！
水在零度结冰。它停了 | 。
पानी शून्य पर जमता है। | यह सौ पर उबलता है।
هل يتجمد الماء؟ | نعم يتجمد۔ | حسنا.
Ջուրը սառչում է։ | Այն եռում է։
ውሃ ይቀዘቅዛል። | ይፈላል።
ទឹកកក។ | ទឹកពុះ។
Лёд тает. | Вода кипит.
Ο πάγος λιώνει. | Το νερό βράζει.
"""


@pytest.mark.parametrize("line", [line for line in MORE.strip().splitlines() if not line.endswith("| 。")])
def test_sentences_are_told_apart(line: str) -> None:
    expected = line.split(" | ")
    for glue in (" ", "\n"):
        document = glue.join(expected)
        assert_covers(document, segment(document))
        assert texts_of(document) == expected


@pytest.mark.parametrize(
    "line", ["水在零度结冰。它在一百度沸腾！", "पानी जमता है।यह उबलता है।", "ውሃ።ይፈላል።", "他来了!她走了?"]
)
def test_some_stops_need_no_space(line: str) -> None:
    assert len(segment(line)) == 2


@pytest.mark.parametrize("line", ["ຂ້ອຍມາ ເຈົ້າໄປ", "ᐃᓄᒃᑎᑐᑦ", "น้ำแข็งละลาย", "𒀀𒀁𒀂", "ⴰⵎⴰⵏ"])
def test_an_unknown_script_is_not_dropped(line: str) -> None:
    (span,) = segment(line)
    assert (span.text, span.unmeasured) == (line, None)


def test_a_million_characters_without_a_break_are_one_span() -> None:
    document = "word " * 240_000
    (span,) = segment(document)
    assert (span.start, span.end) == (0, len(document) - 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_soft_wrap_joins_and_a_blank_line_parts(newline: str) -> None:
    document = newline.join(
        ["The old dam was", "opened by the mayor.", "It leaks", "", "and nobody knows why"]
    )
    spans = segment(document)
    assert_covers(document, spans)
    assert [span.core for span in spans] == [
        "The old dam was opened by the mayor.",
        "It leaks",
        "and nobody knows why",
    ]


def test_a_soft_wrap_between_han_characters_leaves_no_space() -> None:
    assert cores_of("水在零度\n结冰。") == ["水在零度结冰。"]


@pytest.mark.parametrize(
    ("document", "units"),
    [
        ("two batteries\none charger\nno cable", ["two batteries", "one charger", "no cable"]),
        ("Ada Brook\nHarbour office, Bergen", ["Ada Brook", "Harbour office, Bergen"]),
        ("It holds:\ntwo batteries\none charger", ["It holds:", "two batteries", "one charger"]),
        ("The dam was\nopened in 1936", ["The dam was opened in 1936"]),
        ("The committee met in the old\nTown Hall and it\nVoted.", ["The committee met in the old Town Hall and it Voted."]),
    ],
)  # fmt: skip
def test_lines_that_look_like_a_list_are_units(document: str, units: list[str]) -> None:
    assert cores_of(document) == units


def test_lines_too_long_to_be_wrapped_are_paragraphs() -> None:
    long = "the harbour at the mouth of the fjord was " * 5 + "dredged again"
    assert len(segment(f"{long}\nthe old quay was left as it stood")) == 2


@pytest.mark.parametrize(
    ("document", "core", "markers"),
    [
        ("Basalt weathers fast [2].", "Basalt weathers fast.", ["[2]"]),
        ("Basalt [3, 4] weathers fast.", "Basalt weathers fast.", ["[3, 4]"]),
        ("Basalt weathers fast (Brandt, 2019).", "Basalt weathers fast.", ["(Brandt, 2019)"]),
        (
            "It is fast (Brandt et al., 2019; Holm & Lie 2020).",
            "It is fast.",
            ["(Brandt et al., 2019; Holm & Lie 2020)"],
        ),
        ("Brandt et al. [2019] found it.", "Brandt et al. found it.", ["[2019]"]),
        ("Basalt weathers [A].", "Basalt weathers.", ["[A]"]),
        ("Fast [1](https://example.org/a).", "Fast.", ["[1](https://example.org/a)"]),
        ("Fast.【3†notes】", "Fast.", ["【3†notes】"]),
        ("Fast.[^2]", "Fast.", ["[^2]"]),
        ("The energy lies in [0, 1].", "The energy lies in [0, 1].", []),
        ("The range [2, 5] is closed.", "The range [2, 5] is closed.", []),
        ("It closed (May, 2019).", "It closed (May, 2019).", []),
        ("An area of 5 m² is small.", "An area of 5 m² is small.", []),
        ("He said [sic] so.", "He said [sic] so.", []),
        ("[T]he dam **x** [M].", "[T]he dam x.", ["[M]"]),
    ],
)
def test_citation_markers_are_kept_out_of_the_core(document: str, core: str, markers: list[str]) -> None:
    (span,) = segment(document)
    assert (span.core, [marker.text for marker in span.citations]) == (core, markers)


def test_a_marker_alone_is_not_measured() -> None:
    (span,) = segment("[5]")
    assert (span.kind, span.core, span.unmeasured) == (Kind.OTHER, "", "citation only")


def test_signs_alone_are_not_measured() -> None:
    assert [(span.kind, span.unmeasured) for span in segment("👍\n\n***\n\n\u200b")] == [
        (Kind.OTHER, "no words")
    ] * 3


def test_the_lower_case_rule_needs_a_text_without_capitals() -> None:
    assert len(segment("The gauge read approx five. then it fell.")) == 1
