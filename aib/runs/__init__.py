"""Run folders: settings, split, weights, evaluations; models of the package and the Hub.

`pretrained.py` loads a model, `run.py` opens a run with its images.
"""
