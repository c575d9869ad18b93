"""Reading what people hand in: every spelling that is fine reads the same, everything else is refused by name."""

from __future__ import annotations

import io
import json
import os
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan import files
from outspan.errors import InputError
from outspan.files import JsonLineReader, iter_json_lines, read_evidence, read_text

ROW = {"claim": "Zürich has trams.", "evidence": ["Trams run in Zürich."]}


def lines_of(data: bytes, **options: int) -> list[files.JsonLine]:
    return list(JsonLineReader(io.BytesIO(data), "in.jsonl", **options))


class TestText:
    def test_byte_order_mark_is_no_part_of_the_text(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"\xef\xbb\xbfTrams run.")
        assert read_text(path) == "Trams run."

    def test_line_ends_and_separators_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("One.\r\nTwo.\u2028Three.\u0085Four.\rFive.\n".encode())
        assert read_text(path) == "One.\r\nTwo.\u2028Three.\u0085Four.\rFive.\n"

    @pytest.mark.parametrize(
        "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
    )
    def test_wide_encodings_are_refused_by_name(self, tmp_path: Path, encoding: str) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("Trams run.".encode(encoding))
        with pytest.raises(InputError, match=rf"a\.txt: looks like {encoding[:6].upper()}.*iconv -f"):
            read_text(path)

    @pytest.mark.parametrize(
        ("head", "kind"),
        [(b"%PDF-1.7", "PDF"), (b"PK\x03\x04", "ZIP"), (b"\x1f\x8b\x08", "gzip"), (b"PAR1", "Parquet")],
    )
    def test_known_binaries_are_refused_by_name(self, tmp_path: Path, head: bytes, kind: str) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(head + b" and so on")
        with pytest.raises(InputError, match=kind):
            read_text(path)

    def test_what_is_not_utf_8_is_placed(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("One line.\nZürich.".encode("latin-1"))
        with pytest.raises(InputError, match=r"line 2: is not UTF-8: 0xfc at byte 11 of the file") as caught:
            read_text(path)
        assert caught.value.line == 2
        assert "iconv" in caught.value.remedy

    def test_nul_is_binary(self, tmp_path: Path) -> None:
        path = tmp_path / "a.bin"
        path.write_bytes(b"\n\n\n\x7fELF and more\x00\x01")
        with pytest.raises(InputError, match="line 4: is binary: a NUL at byte 16"):
            read_text(path)

    def test_missing_file_suggests_a_near_one(self, tmp_path: Path) -> None:
        (tmp_path / "answer.md").write_text("x")
        with pytest.raises(InputError, match=r"anwser\.md: there is no such file.*answer\.md"):
            read_text(tmp_path / "anwser.md")

    def test_missing_folder_suggests_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read_text(tmp_path / "nowhere" / "a.txt")

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is a folder"):
            read_text(tmp_path)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_no_permission(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("x")
        path.chmod(0)
        with pytest.raises(InputError, match="may not be read"):
            read_text(path)

    def test_limit(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("four")
        assert read_text(path, max_bytes=4) == "four"
        with pytest.raises(InputError, match="more than 3 bytes"):
            read_text(path, max_bytes=3)

    def test_long_text_without_a_newline(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("word " * 240_000)
        assert len(read_text(path)) == 1_200_000

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfPiped.\r\n")))
        assert read_text("-") == "Piped.\r\n"

    def test_empty_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        with pytest.raises(InputError, match="standard input is empty"):
            read_text("-")

    def test_terminal_as_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = io.StringIO()
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(InputError, match="nothing is piped"):
            read_text("-")


class TestEvidence:
    def test_any_text_is_one_item_named_after_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "report.md"
        path.write_text("# Trams\nThey run.")
        (item,) = read_evidence(path)
        assert (item.id, item.text) == ("report.md", "# Trams\nThey run.")

    def test_passages_by_line(self, tmp_path: Path) -> None:
        path = tmp_path / "p.jsonl"
        path.write_text(
            '"One."\n\n{"id": "b", "text": "Two."}\n{"id": 7, "content": "Three."}\n{"text": null}\nnull\n'
        )
        assert [(item.id, item.text) for item in read_evidence(path)] == [
            ("p.jsonl:1", "One."),
            ("b", "Two."),
            ("7", "Three."),
            ("p.jsonl:5", ""),
            ("p.jsonl:6", ""),
        ]

    def test_passages_as_a_list(self, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        path.write_text('["One.",\n {"passage": "Two."}]')
        assert [(item.id, item.text) for item in read_evidence(path)] == [
            ("p.json:1", "One."),
            ("p.json:2", "Two."),
        ]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("{", "is not JSON"),
            ("3", "is a number, not a passage"),
            ("[]", "is a list, not a passage"),
            ('{"id": "a"}', "has no 'text'"),
            ('{"text": ["a"]}', "has a 'text' that is a list"),
            ("NaN", "holds NaN"),
        ],
    )
    def test_a_passage_that_cannot_be_used_stops_the_work(
        self, tmp_path: Path, line: str, problem: str
    ) -> None:
        path = tmp_path / "p.jsonl"
        path.write_text(f'"One."\n{line}\n')
        with pytest.raises(InputError, match=rf"p\.jsonl, line 2: .*{problem}") as caught:
            read_evidence(path)
        assert caught.value.remedy

    def test_list_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        path.write_text('{"text": "One."}')
        with pytest.raises(InputError, match="is not a list of passages"):
            read_evidence(path)
        path.write_text('["One.", 3]')
        with pytest.raises(InputError, match="passage 2 is a number"):
            read_evidence(path)
        path.write_text('["One.",\n 3,,]')
        with pytest.raises(InputError, match="is not JSON.*line 2, column 4"):
            read_evidence(path)

    def test_standard_input_is_one_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Piped.")))
        assert [(item.id, item.text) for item in read_evidence("-")] == [("stdin", "Piped.")]


class TestJsonLines:
    @pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
    def test_spellings_that_mean_the_same(self, before: bytes, end: bytes) -> None:
        (line,) = lines_of(before + json.dumps(ROW, ensure_ascii=False).encode() + end)
        assert (line.number, line.value, line.error) == (1, ROW, None)

    def test_records_are_split_on_newline_only(self) -> None:
        texts = ["a\u2028b", "a\u2029b", "a\u0085b", "a\x0bb", "a\x1cb"]
        data = "".join(
            json.dumps(text, ensure_ascii=text.isprintable()) + "\n" for text in texts[:3]
        ).encode()
        data += b"".join(json.dumps(text).encode() + b"\n" for text in texts[3:])
        assert [line.value for line in lines_of(data)] == texts
        assert "\u2028".encode() in data

    def test_blank_lines_are_passed_over_and_counted(self) -> None:
        lines = lines_of(b"\xef\xbb\xbf\n\n  \t\r\n1\n\n2")
        assert [(line.number, line.value) for line in lines] == [(4, 1), (6, 2)]

    @pytest.mark.parametrize(
        ("raw", "problem"),
        [
            (b"{'a': 1}", "is not JSON"),
            (b'{"a": 1} {"a": 2}', "Extra data"),
            (b'{"a": NaN}', "holds NaN, which is not JSON"),
            (b'{"a": -Infinity}', "holds -Infinity"),
            (b'{"a": 1e999}', "beyond the range"),
            (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' twice"),
            (b'{"a": "Z\xfcrich"}', "is not UTF-8: 0xfc at byte 8 of the line"),
            (b'{"a": "\x00"}', "is binary: a NUL at byte 7"),
            (b'{"a": "\x01"}', "Invalid control character"),
            (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
            (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        ],
    )
    def test_a_bad_line_is_an_error_of_that_line_alone(self, raw: bytes, problem: str) -> None:
        first, bad, last = lines_of(b'{"x": 1}\n' + raw + b'\n{"x": 2}\n')
        assert (first.value, last.value, last.number) == ({"x": 1}, {"x": 2}, 3)
        assert bad.error is not None
        assert problem in bad.error.problem
        assert bad.error.line == 2
        assert bad.error.remedy
        assert bad.excerpt.startswith("{")
        assert len(bad.excerpt) <= 200

    @pytest.mark.parametrize(
        "raw", [b'{"claim": "Half a sen', b'{"claim": "x", "evid', b'{"claim": "x"', b'{"claim":']
    )
    def test_cut_off_last_line(self, raw: bytes) -> None:
        good, cut = lines_of(b'{"claim": "x"}\n' + raw)
        assert good.error is None
        assert cut.error is not None
        assert "is cut off" in cut.error.problem
        assert cut.error.line == 2

    def test_long_line_below_the_limit(self) -> None:
        text = "ä" * 1_500_000
        (line,) = lines_of(json.dumps(text, ensure_ascii=False).encode() + b"\n")
        assert line.value == text

    @pytest.mark.parametrize("end", [b"", b"\n", b"\n3\n"])
    def test_line_beyond_the_limit_is_passed_over(self, end: bytes) -> None:
        long = b'"' + b"x" * 3_000_000 + b'"'
        lines = lines_of(b"1\n" + long + end, max_line_bytes=1_000_000)
        assert lines[0].value == 1
        assert lines[1].error is not None
        length = len(long) + min(len(end), 1)
        assert f"has {length:,} bytes, more than the limit of 1,000,000" in lines[1].error.problem
        assert lines[1].excerpt.startswith('"xxx')
        assert [(line.number, line.value) for line in lines[2:]] == ([(3, 3)] if end == b"\n3\n" else [])

    def test_limit_is_exact(self) -> None:
        assert lines_of(b'"1234"\n', max_line_bytes=6)[0].error is None
        assert lines_of(b'"12345"\n', max_line_bytes=6)[0].error is not None

    def test_memory_is_bounded_whatever_the_length(self) -> None:
        class Endless(io.RawIOBase):
            left = 200

            def read(self, size: int = -1) -> bytes:
                self.left -= 1
                return b"x" * size if self.left >= 0 else b""

        tracemalloc.start()
        try:
            (line,) = JsonLineReader(Endless(), "pipe", max_line_bytes=2_000_000)  # type: ignore[arg-type]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert line.error is not None
        assert "has 209,715,200 bytes" in line.error.problem
        assert peak < 12_000_000

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le"])
    def test_wide_encodings_are_refused_as_a_whole(self, tmp_path: Path, encoding: str) -> None:
        path = tmp_path / "in.jsonl"
        path.write_bytes((json.dumps(ROW) + "\n").encode(encoding))
        with pytest.raises(InputError, match=f"looks like {encoding[:6].upper()}"):
            list(iter_json_lines(path))

    def test_many_short_lines_take_linear_time(self) -> None:
        assert sum(1 for _ in iter_json_lines(io.BytesIO(b"1\n" * 200_000))) == 200_000

    @settings(deadline=None, max_examples=60)
    @given(
        values=st.lists(
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                max_leaves=6,
            ),
            max_size=8,
        ),
        chunk=st.integers(1, 40),
        cut=st.integers(0, 8),
    )
    def test_count_in_is_count_out_wherever_a_read_ends(
        self, values: list[object], chunk: int, cut: int
    ) -> None:
        encoded = [
            json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
            if "\\ud" not in json.dumps(value)
            else json.dumps(value).encode() + b"\n"
            for value in values
        ]
        data = b"".join(encoded)
        kept, files._CHUNK = files._CHUNK, chunk
        try:
            lines = lines_of(data)
            reader = JsonLineReader(io.BytesIO(data), "in.jsonl")
            before = [line for line, _ in zip(reader, range(cut), strict=False)] if cut else []
            resumed = JsonLineReader(io.BytesIO(data), "in.jsonl")
            assert resumed.skip(reader.offset, reader.lines)
            assert resumed.digest == reader.digest
            behind = list(resumed)
        finally:
            files._CHUNK = kept
        assert [line.value for line in lines] == values
        assert [line.number for line in lines] == list(range(1, len(values) + 1))
        assert [line.number for line in behind] == list(range(reader.lines + 1, len(values) + 1))
        assert len(before) <= cut
