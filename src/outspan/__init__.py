"""outspan measures how much of a claim lies outside the span of its evidence."""

__version__ = "0.1.0"
