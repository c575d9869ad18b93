"""``measure_file``: rows in, rows out, in bounded memory, resumable.

    lines ─► rows ─► batch ─► one embedding pass ─► rows of the output ─► commit
                      ▲                                                     │
                      └─────────────────────────────────────────────────────┘

Each row is measured against its own evidence by itself, so its numbers do not depend on its neighbours or on
where a batch began; a batch only shares the embedding pass.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from outspan import __version__
from outspan.bulk.columns import require_parquet
from outspan.bulk.journal import (
    PARQUET,
    STANDARD_OUTPUT,
    Checkpoint,
    Counts,
    FileDestination,
    Names,
    StreamDestination,
    check_output,
)
from outspan.bulk.rows import EvidenceShelf, Row, Unit, error_line, read_row, result_line
from outspan.errors import InputError, ResumeError
from outspan.files import MAX_LINE_BYTES, STANDARD_INPUT, JsonLineReader, open_binary, shown_name
from outspan.sensors.energy import EnergySensor

BATCH_TEXTS = 1024
"""Distinct texts after which a batch is measured: many enough for the embedder, few enough to lose little."""
BATCH_ROWS = 512
BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of input after which a batch is measured, whatever it holds; a longer row is a batch by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, after each batch."""

    counts: Counts
    """Since the first row."""
    input_bytes: int
    """Read so far."""
    input_size: int | None
    """Bytes of the whole input; None where it cannot be known, as for a pipe."""
    texts: int
    """Distinct texts of all batches of this session: claims and evidence, cached or not."""
    seconds: float
    """Since this session began to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a complete run did."""

    source: str
    out: str
    errors: str | None
    """Where the bad rows are; None when there are none, or when they went to standard error."""
    fingerprint: str
    unit: Unit
    counts: Counts
    resumed_rows: int
    """Rows, good and bad, that an earlier, interrupted session had done."""
    texts: int
    """Distinct texts of all batches of this session: claims and evidence, cached or not."""
    seconds: float
    """Of this session."""

    @property
    def texts_per_second(self) -> float | None:
        """Of this session; None when it had nothing to do."""
        return self.texts / self.seconds if self.seconds > 0 and self.texts else None

    def to_dict(self) -> dict[str, object]:
        """The summary as one flat JSON object."""
        record = asdict(self)
        counts = record.pop("counts")
        return {**record, "texts_per_second": self.texts_per_second, **counts}


def check_request(source: Path | str, out: Path | str, *, overwrite: bool = False) -> None:
    """Find what would stop a run before anything is loaded for it.

    Raises
    ------
    InputError
        As :func:`check_output`; and for a source that cannot be opened or is no text.
    NotInstalled
        For a Parquet output without pyarrow.
    """
    check_output(source, out, overwrite=overwrite)
    if Path(out).suffix.lower() == PARQUET:
        require_parquet()
    if str(source) == STANDARD_INPUT:
        return
    if Path(source).exists() and not Path(source).is_file() and not Path(source).is_dir():
        raise InputError(
            "is a pipe or a device, which can be read only once",
            remedy="Give '-' and pipe it into standard input",
            path=shown_name(source),
        )
    with open_binary(source) as stream:
        if next(JsonLineReader(stream, shown_name(source)), None) is None:
            raise _no_rows(source)


def measure_file(
    source: Path | str,
    out: Path | str,
    sensor: EnergySensor,
    *,
    unit: Unit = "sentences",
    overwrite: bool = False,
    max_line_bytes: int = MAX_LINE_BYTES,
    batch_texts: int = BATCH_TEXTS,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunSummary:
    """Measure every row of a JSON Lines file.

    Parameters
    ----------
    source : the file, or ``-`` for standard input.
    out : ``.jsonl`` or ``.parquet``, or ``-`` for JSON Lines on standard output.
    sensor : measures; its regime is part of what an interrupted run must share with its continuation.
    unit : ``sentences`` splits each claim, ``whole`` measures it as one.
    overwrite : replace a complete output, and forget an interrupted run.
    max_line_bytes : a longer line is a bad row.
    on_progress : called after each batch.

    Returns
    -------
    RunSummary
        Of the complete run. Bad rows do not stop it; they are counted, and listed in ``OUT.errors.jsonl``.

    Raises
    ------
    InputError
        If nothing can be read or written, if no row is usable, or if the disk is full. Rows done are kept.
    ResumeError
        If an interrupted run to this output cannot be continued with this input and these settings.
    NotInstalled
        For a Parquet output without pyarrow.
    """
    check_request(source, out, overwrite=overwrite)
    run = {
        "outspan": __version__,
        "unit": unit,
        "batch_texts": batch_texts,
        "max_line_bytes": max_line_bytes,
        "regime": sensor.regime.to_dict(),
        "proxies": dict(sensor.proxy_fingerprints),
        "proxy_contracts": {name: str(proxy.contract) for name, proxy in sensor.proxies.items()},
    }
    if sensor.sensors:
        run["sensors"] = sensor.sensor_fingerprints
        run["sensor_contracts"] = {name: one.to_dict() for name, one in sensor.sensor_contracts.items()}
    destination: FileDestination | StreamDestination
    if str(out) == STANDARD_OUTPUT:
        destination = StreamDestination(sys.stdout.buffer, sys.stderr.buffer)
    else:
        destination = FileDestination(
            out, run, overwrite=overwrite, proxies=tuple(sensor.proxies), sensors=tuple(sensor.sensors)
        )
    with destination, open_binary(source) as stream:
        reached = destination.begin()
        reader = JsonLineReader(stream, shown_name(source), max_line_bytes=max_line_bytes)
        _catch_up(reader, reached, source)
        session = _Session(
            sensor=sensor, unit=unit, reader=reader, batch_texts=batch_texts, size=_size(source)
        )
        before = reached.counts
        while not reached.complete:
            rows, errors, reached = session.next_batch(reached)
            destination.commit(rows, errors, reached)
            if on_progress is not None:
                on_progress(session.progress(reached))
        if not reached.counts.rows:
            destination.discard()
            raise _no_usable_row(source, out, reached.counts)
        destination.publish()
    return RunSummary(
        source=shown_name(source),
        out=str(out),
        errors=None
        if str(out) == STANDARD_OUTPUT or not reached.counts.bad_rows
        else str(Names.of(out).errors),
        fingerprint=sensor.fingerprint,
        unit=unit,
        counts=reached.counts,
        resumed_rows=before.rows + before.bad_rows,
        texts=session.texts,
        seconds=session.seconds,
    )


@dataclass(kw_only=True)
class _Session:
    """One process's share of a run."""

    sensor: EnergySensor
    unit: Unit
    reader: JsonLineReader
    batch_texts: int
    size: int | None
    texts: int = 0
    shelf: EvidenceShelf = field(default_factory=EvidenceShelf)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def next_batch(self, reached: Checkpoint) -> tuple[bytes, bytes, Checkpoint]:
        """Rows and bad rows of the next batch, as they will be written, and the point behind it."""
        rows, errors, texts = self._collect()
        self.texts += texts
        written, counts = self._measure(rows)
        counts = replace(counts, bad_rows=len(errors))
        return (
            "".join(written).encode("utf-8"),
            "".join(errors).encode("utf-8"),
            Checkpoint(
                lines=self.reader.lines,
                input_bytes=self.reader.offset,
                input_digest=self.reader.digest,
                complete=self.reader.at_end,
                counts=reached.counts + counts,
            ),
        )

    def _collect(self) -> tuple[list[Row], list[str], int]:
        # The lines of a batch alone decide where it ends, so that a resumed run makes the same batches.
        rows: list[Row] = []
        errors: list[str] = []
        texts: set[str] = set()
        start = self.reader.offset
        for line in self.reader:
            try:
                row = read_row(line, unit=self.unit, shelf=self.shelf)
            except InputError as error:
                errors.append(error_line(line, error))
            else:
                rows.append(row)
                texts.update(row.texts())
            if (
                len(texts) >= self.batch_texts
                or len(rows) + len(errors) >= BATCH_ROWS
                or self.reader.offset - start >= BATCH_BYTES
            ):
                break
        return rows, errors, len(texts)

    def _measure(self, rows: list[Row]) -> tuple[list[str], Counts]:
        written: list[str] = []
        row_states: Counter[str] = Counter()
        sentence_states: Counter[str] = Counter()
        if not rows:
            return written, Counts()
        named = (
            self.sensor.fingerprint,
            self.sensor.proxy_fingerprints,
            self.sensor.sensor_fingerprints,
        )
        with _located(rows):
            results = self.sensor.measure_many([(row.claims, row.evidence) for row in rows])
        for row, measurements in zip(rows, results, strict=True):
            text, state, counted = result_line(row, measurements, *named)
            written.append(text)
            row_states[str(state)] += 1
            sentence_states.update(counted.states)
        total = sum(sentence_states.values())
        return written, Counts(
            rows=len(rows),
            row_states=dict(row_states),
            sentences=total,
            measured=sentence_states.get("MEASURED", 0),
            sentence_states=dict(sentence_states),
        )

    def progress(self, reached: Checkpoint) -> Progress:
        return Progress(
            counts=reached.counts,
            input_bytes=reached.input_bytes,
            input_size=self.size,
            texts=self.texts,
            seconds=self.seconds,
        )


@contextmanager
def _located(rows: list[Row]) -> Iterator[None]:
    """Say where in the input an error arose that nobody expected; it goes on up."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while measuring lines {rows[0].line} to {rows[-1].line}")
        raise


def _catch_up(reader: JsonLineReader, reached: Checkpoint, source: Path | str) -> None:
    """Pass what an earlier session has done, and make sure that it is still the same.

    Raises
    ------
    ResumeError
        If the input has changed.
    """
    long_enough = reader.skip(reached.input_bytes, reached.lines)
    if not long_enough or reader.digest != reached.input_digest:
        raise ResumeError(
            f"{shown_name(source)} is not the input of the interrupted run: its first "
            f"{reached.lines} lines have changed. Give the same input, or start over with --overwrite"
        )


def _size(source: Path | str) -> int | None:
    if str(source) == STANDARD_INPUT:
        return None
    path = Path(source)
    return path.stat().st_size if path.is_file() else None


def _no_rows(source: Path | str) -> InputError:
    return InputError("holds no rows", remedy="Write one JSON object a line", path=shown_name(source))


def _no_usable_row(source: Path | str, out: Path | str, counts: Counts) -> InputError:
    if not counts.bad_rows:
        return _no_rows(source)
    problem = f"none of its {counts.bad_rows} rows can be used"
    if str(out) == STANDARD_OUTPUT:
        return InputError(problem, remedy="What is wrong with each is above", path=shown_name(source))
    listed = Names.of(out).errors
    with listed.open(encoding="utf-8") as stream:
        first = json.loads(stream.readline())
    return InputError(
        f"{problem}; line {first['line']}: {first['error']}",
        remedy=f"{first['remedy']}. All of them: {listed}",
        path=shown_name(source),
    )
