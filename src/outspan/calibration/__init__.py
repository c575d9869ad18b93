"""From labelled measurements to a threshold with an error budget, or to the reason why there is none.

rows of a measured file ─► Labelled units ─► one draw a source ─► exact tests ─► Threshold | Infeasible
"""

from outspan.calibration.artefact import (
    TOLERANCE,
    Bound,
    Risk,
    Threshold,
    read_threshold,
    write_threshold,
)
from outspan.calibration.calibrate import ErrorBudget, Infeasible, Scale, calibrate
from outspan.calibration.operating import CurvePoint, OperatingPoint, curve, operating_point
from outspan.calibration.sample import Labelled, Share

__all__ = [
    "TOLERANCE",
    "Bound",
    "CurvePoint",
    "ErrorBudget",
    "Infeasible",
    "Labelled",
    "OperatingPoint",
    "Risk",
    "Scale",
    "Share",
    "Threshold",
    "calibrate",
    "curve",
    "operating_point",
    "read_threshold",
    "write_threshold",
]
