"""The method: start with `bottleneck.py`, then `masked.py`."""
