"""From labelled measurements to a threshold with an error budget, or to the reason why there is none."""

from outspan.calibration.artefact import (
    TOLERANCE,
    Bound,
    Risk,
    Threshold,
    read_threshold,
    write_threshold,
)

__all__ = ["TOLERANCE", "Bound", "Risk", "Threshold", "read_threshold", "write_threshold"]
