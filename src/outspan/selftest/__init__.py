"""What a regime can and cannot see, by kind of error: hand-made pairs of an edit and an honest paraphrase."""

from outspan.selftest.pairs import KINDS, Half, Pair, load_pairs
from outspan.selftest.scoring import Line, SelfTest, known_sensors, run

__all__ = ["KINDS", "Half", "Line", "Pair", "SelfTest", "known_sensors", "load_pairs", "run"]
