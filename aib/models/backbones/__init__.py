"""The backbones of the models, each cut in two where the attention sits.

`parts.py` is what each of them gives, `propose.py` makes the maps of masked models.
"""
