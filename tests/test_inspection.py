"""Taking one claim apart: the parts add up to the measurement, and the interval holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from outspan.claims import whole_claim
from outspan.cli import cli
from outspan.sensors.energy import EnergySensor
from outspan.sensors.inspection import Inspection, inspect_claim
from outspan.testing import FakeEmbedder

EVIDENCE = [
    "Lamps were paid for by the toll.",
    "Trams were withdrawn in 1961.",
    "The bridge has lamps and a toll house.",
    "Trams were withdrawn in 1961.",
    "A toll house stood by the bridge.",
]
ROOT = Path(__file__).parent.parent


def inspected(claim: str = "The toll paid for lamps on the bridge.", **options: str) -> Inspection:
    return inspect_claim(whole_claim(claim), EVIDENCE, EnergySensor(FakeEmbedder(), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("rank", ["cap:64", "cap:2", "variance:0.8"])
def test_the_shares_add_up_to_what_is_explained(rank: str) -> None:
    found = inspected(rank=rank)
    assert sum(part.share for part in found.contributions) == pytest.approx(
        found.measurement.explained, abs=1e-10
    )


def test_the_weights_rebuild_the_projection() -> None:
    sensor = EnergySensor(FakeEmbedder())
    claim = whole_claim("The toll paid for lamps on the bridge.")
    found = inspect_claim(claim, EVIDENCE, sensor)
    _, work = sensor.measure_with_subspace(claim, EVIDENCE)
    assert work is not None
    weights = {part.evidence_id: part.weight for part in found.contributions}
    rows = np.asarray([weights[s.id] for s in work.sentences]) @ work.subspace.rows
    least_squares, *_ = np.linalg.lstsq(work.subspace.rows.T, work.claim, rcond=None)
    assert rows == pytest.approx(least_squares @ work.subspace.rows, abs=1e-6)


def test_the_inspection_holds_the_same_measurement() -> None:
    sensor = EnergySensor(FakeEmbedder())
    claim = whole_claim("The toll paid for lamps.")
    found = inspect_claim(claim, EVIDENCE, sensor)
    assert found.measurement == sensor.measure([claim], EVIDENCE)[0]
    assert found.energy_by_rank[-1] == pytest.approx(found.measurement.energy)
    assert list(found.energy_by_rank) == sorted(found.energy_by_rank, reverse=True)
    assert next(p for p in found.contributions if p.evidence_id == "1#0").multiplicity == 2


def test_the_intervals_hold_the_energy_and_grow() -> None:
    found = inspected()
    energy = found.measurement.energy
    assert energy is not None
    intervals = list(found.energy_when_a_row_moves.values())
    assert all(low <= energy <= high for low, high in intervals)
    widths = [high - low for low, high in intervals]
    assert widths == sorted(widths)


def test_what_was_not_measured_has_no_parts() -> None:
    found = inspected("Thanks!")
    assert found.contributions == ()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["measurement"]["state"] == "NO_CLAIM"


def test_the_command_prints_plots_and_counts_from_one(tmp_path: Path) -> None:
    arguments = ["inspect", str(ROOT / "examples/answer.md"), "--evidence", str(ROOT / "examples/report.md")]
    runner = CliRunner()
    for suffix, magic in ((".svg", b"<?xml"), (".png", b"\x89PNG")):
        plot = tmp_path / f"claim{suffix}"
        shown = runner.invoke(cli, [*arguments, "--claim", "2", "--plot", str(plot)])
        assert shown.exit_code == 0, shown.output
        assert plot.read_bytes().startswith(magic)
    assert "The electric ferry Sula has connected" in shown.output
    record = json.loads(runner.invoke(cli, [*arguments, "--claim", "2", "--json"]).stdout)
    assert record["contributions"][0]["evidence_id"] == "report.md#1"
    assert runner.invoke(cli, [*arguments, "--claim", "9"]).exit_code != 0
    assert runner.invoke(cli, [*arguments, "--claim", "2", "--plot", "x.gif"]).exit_code == 2
    assert (
        runner.invoke(cli, [*arguments, "--claim", "2", "--plot", str(tmp_path / "no/x.svg")]).exit_code != 0
    )
