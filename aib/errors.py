"""The errors a user can cause, told in one sentence."""


class AibError(Exception):
    """What was wrong, with which value, and what to do. The command line prints it and exits 2."""
