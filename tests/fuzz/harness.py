"""What every fuzz test shares: how many cases, a limit on each, a watch over what is written."""

import contextlib
import faulthandler
import io
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from aib.cli import main

CASES = int(os.environ.get("AIB_FUZZ_CASES", "50"))  # `make test-all` asks for 1,000
SECONDS = 60  # no case needs one; this is to find what never ends, not what is slow

fuzz = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,  # the same cases everywhere
    suppress_health_check=list(HealthCheck),  # fixtures are shared by the cases on purpose
)


class Hang(BaseException):
    """Not an Exception: the code under test must not be able to catch it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Fail what takes longer than SECONDS."""

    def stop(number: int, frame: Any) -> None:
        raise Hang(f"still running after {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    # Code in C does not hear the alarm; then the process ends, and says where it was.
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


class WriteWatch:
    """Every path that Python opens for writing, makes, moves or removes while it is on."""

    def __init__(self) -> None:
        self.paths: set[Path] | None = None
        sys.addaudithook(self._hear)  # stays for the life of the process, hence one for all

    @contextlib.contextmanager
    def on(self) -> Iterator[set[Path]]:
        self.paths = seen = set()
        try:
            yield seen
        finally:
            self.paths = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.paths is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else "r" not in mode
            touched = [path] if writes else []
        elif event in ("os.mkdir", "os.rmdir", "os.remove", "os.truncate"):
            touched = [arguments[0]]
        elif event in ("os.rename", "os.link", "os.symlink"):
            touched = list(arguments[:2])
        else:
            return
        for path in touched:
            if isinstance(path, str | bytes | os.PathLike):
                self.paths.add(Path(os.path.realpath(os.fsdecode(path))))


WATCH = WriteWatch()
# Not the command's own doing: what Python compiles, and what processes share memory through.
IGNORED = ("/dev", "/proc")


def strays(written: set[Path], allowed: Path) -> list[Path]:
    """The paths outside the folder that may be written to."""
    return sorted(
        path
        for path in written
        if not path.is_relative_to(allowed)
        and not str(path).startswith(IGNORED)
        and "__pycache__" not in path.parts
    )


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Name, size and time of everything below: what code in C or Rust has written shows here."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        found[str(path)] = (facts.st_size if path.is_file() else 0, facts.st_mtime_ns)
    return found


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


def command(*words: str, inside: Path) -> Answer:
    """Run `aib WORDS` here; whatever it is given, it has to answer as a command should."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # as Python makes them
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    with (
        limited(),
        WATCH.on() as written,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(list(words))
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    answer = Answer(code, *texts)
    assert code in (0, 2), answer  # 1 is an error that nobody foresaw
    assert "Traceback" not in answer.out + answer.err, answer
    assert code == 0 or (answer.out + answer.err).strip(), answer
    assert not strays(written, inside), (strays(written, inside), answer)
    return answer
