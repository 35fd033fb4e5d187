"""The errors a user can cause, told in one sentence."""

OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "storage size")


class AibError(Exception):
    """What was wrong, with which value, and what to do. The command line prints it and exits 2."""


def install(extra: str) -> str:
    """The command that adds an extra. The package is installed from its checkout."""
    return f"pip install '.[{extra}]'"


def missing_extra(extra: str, why: str) -> AibError:
    """`why` says what needs which package."""
    return AibError(f"{why}: {install(extra)} in the checkout of aib")


def sentence_for(error: Exception) -> str | None:
    """An error that a person can do something about, in words; None for what nobody foresaw."""
    if isinstance(error, AibError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:  # the machine's answer to a name or a disk
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    # torch has no type of its own for a host that is out of memory, so its words have to do.
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY):
        return "there is not enough memory for that; fewer images at a time, or smaller ones?"
    return None
