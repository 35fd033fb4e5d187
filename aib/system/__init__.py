"""Files, the machine and progress bars. Knows nothing of models.

Every file of a run is written through `files.py`, atomically.
"""
