"""Labelled claims with their evidence, read from files in their published formats into one record shape."""

from outspan.lab.datasets.read import read_dataset
from outspan.lab.datasets.record import Dataset, Record

__all__ = ["Dataset", "Record", "read_dataset"]
