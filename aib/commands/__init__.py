"""One file per command: it reads the options, calls the library and prints.

`arguments.py` and `setting_flags.py` are shared.
"""
