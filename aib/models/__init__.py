"""The method: start with `bottleneck.py`, then `masked.py`.

`registry.py` makes models by name from `backbones/`; `networks/` attaches to any other network.
"""
