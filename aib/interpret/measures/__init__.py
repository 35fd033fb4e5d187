"""The measurements of a study, one per file: a `Measure` and its tables.

`studies.py` lists them; `metrics/` holds their computations.
"""
