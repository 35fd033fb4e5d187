"""The error that users see, and messages for foreseeable errors of other libraries."""

OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "storage size")
ONE_VALUE = "expected more than 1 value per channel"  # of BatchNorm
PEER_LOST = "gloo/transport"  # in what torch raises when a connection between processes fails
TOO_LARGE = ("overflow", "int too large", "too large to convert")


class AibError(Exception):
    """What was wrong, with which value, and what to do. The command line prints it and exits 2."""


class AibWarning(UserWarning):
    """Something that was ignored, and what to do. The command line prints it and goes on."""


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'aib[{extra}]'"


def missing_extra(extra: str, why: str) -> AibError:
    """The error for a package that is not installed; `why` says what needs it."""
    return AibError(f"{why}: {install(extra)}")


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its type where there is none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def counted(number: float, what: str) -> str:
    """A number of things: 1 epoch, 2 epochs."""
    return f"{number:,.10g} {what}" + ("" if number == 1 else "s")


def sentence_for(error: Exception) -> str | None:
    """A readable message for an error that the user can fix; None for an unexpected one."""
    if isinstance(error, AibError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:  # a path that does not exist, a full disk
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    # torch has no error types for these, so that its messages have to be compared.
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY):
        return "there is not enough memory for that; fewer images at a time, or smaller ones?"
    if ONE_VALUE in text:
        return (
            "BatchNorm needs two images at a time or more: choose a larger --batch-size, or a "
            "smaller --accumulate"
        )
    if PEER_LOST in text:
        return (
            "another process of this training has ended, or its connection was lost; "
            "`aib train --resume RUN` resumes from the last checkpoint, if there is one"
        )
    if isinstance(error, OverflowError) or any(words in text for words in TOO_LARGE):
        return f"one of the numbers is too large ({first_line(error).lower()})"
    return None
