"""Networks of libraries and of the user.

`attachment.py` adds the attention; the other files find a network, its layers and their features.
"""
