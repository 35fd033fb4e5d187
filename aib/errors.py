"""The error that users see, and messages for foreseeable errors of other libraries."""

# torch has no error types for these, so that its messages have to be compared.
MEMORY = "there is not enough memory for that; fewer images at a time, or smaller ones?"
TOO_LARGE = "one of the numbers is too large"
MESSAGES = {
    "allocate memory": MEMORY,
    "not enough memory": MEMORY,
    "out of memory": MEMORY,
    "storage size": MEMORY,
    "expected more than 1 value per channel": "BatchNorm needs two images at a time or more: "
    "choose a larger --batch-size, or a smaller --accumulate",
    "gloo/transport": "another process of this training has ended, or its connection was lost; "
    "`aib train --resume RUN` resumes from the last checkpoint, if there is one",
    "overflow": TOO_LARGE,
    "int too large": TOO_LARGE,
    "too large to convert": TOO_LARGE,
}


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
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, OverflowError):
        return TOO_LARGE
    text = str(error).lower()
    return next((message for words, message in MESSAGES.items() if words in text), None)
