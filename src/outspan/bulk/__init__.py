"""Measuring files of rows: streamed, resumable, every row accounted for."""

from outspan.bulk.journal import Counts
from outspan.bulk.rows import Unit
from outspan.bulk.run import Progress, RunSummary, check_request, measure_file

__all__ = ["Counts", "Progress", "RunSummary", "Unit", "check_request", "measure_file"]
