"""The lab asks whether the sensor is any good. The instrument never imports it.

    datasets ─► probe ─► features ─► splits, models ─► findings ─► report

Every number that it reports is a row of ``findings.jsonl``, with its interval and where it came from; reports
are made from the rows alone.
"""
