"""The measurements of a study, one per file: a result, a `Measure` and its tables."""
