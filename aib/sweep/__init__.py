"""Ablations: the same training with different settings, each run in its own folder.

`grid` is what varies, `plan` lists the runs, `run` does them, `results` collects them, `show` makes
tables and plots.
"""
