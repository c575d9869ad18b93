"""Sensors: each measures one named thing about a claim and its evidence, and carries its own contract."""
