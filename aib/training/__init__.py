"""Training: `fit` in Python, `train` for a run folder; the step, checkpoints and exact resume.

Start with `loop.py`; `step.py` is one update, `warm_start.py` reads the weights to start from.
"""
