"""Shared by the fuzz tests: number of cases, time limit, watch on written files, a small world."""

import contextlib
import faulthandler
import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

from aib.cli import main

CASES = int(os.environ.get("AIB_FUZZ_CASES", "30"))  # `make test-all` sets 1,000
SECONDS = 60  # far more than any case needs: finds what never ends, not what is slow

fuzz = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,  # the same cases everywhere
    suppress_health_check=list(HealthCheck),  # the cases share fixtures on purpose
)


class Hang(BaseException):
    """Not an Exception, so that the code under test does not catch it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` after SECONDS."""

    def stop(number: int, frame: Any) -> None:
        raise Hang(f"still running after {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    # Code in C does not react to the alarm; then the process ends with a traceback.
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


class WriteWatch:
    """Records every path that Python opens for writing, creates, moves or removes."""

    def __init__(self) -> None:
        self.paths: set[Path] | None = None
        sys.addaudithook(self._record)  # cannot be removed, hence one for all tests

    @contextlib.contextmanager
    def on(self) -> Iterator[set[Path]]:
        self.paths = seen = set()
        try:
            yield seen
        finally:
            self.paths = None

    def _record(self, event: str, arguments: tuple[Any, ...]) -> None:
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


def outside(written: set[Path], allowed: Path) -> list[Path]:
    """The written paths outside of the allowed folder, without bytecode and shared memory."""
    return sorted(
        path
        for path in written
        if not path.is_relative_to(allowed)
        and not str(path).startswith(("/dev", "/proc"))
        and "__pycache__" not in path.parts
    )


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def command(*words: str, inside: Path) -> Answer:
    """Run `aib WORDS`: exit code 0, or 2 with a message, and nothing written outside."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # as Python creates them
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
    assert code in (0, 2), answer  # 1 is an unexpected error
    assert "Traceback" not in answer.out + answer.err, answer
    assert code == 0 or (answer.out + answer.err).strip(), answer
    assert not outside(written, inside), (outside(written, inside), answer)
    return answer


PHOTOS = "folder:../given/photos:image_size=16"
CHEAP = (
    f"train --data {PHOTOS} --model tiny_aib_qt --width 0.1 --epochs 1 --batch-size 4 "
    "--accelerator cpu --workers 0"
).split()


class World:
    """Folders for commands: `given` (photos and a run) must not change, `work` may."""

    def __init__(self, base: Path) -> None:
        self.base, self.given, self.work = base, base / "given", base / "work"
        for name in ("given", "work", "home"):
            (base / name).mkdir()
        for number in range(12):
            path = self.given / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (20 * number, 100, 255 - 20 * number)).save(path)

    @classmethod
    def make(cls, base: Path, monkeypatch: pytest.MonkeyPatch) -> "World":
        """A world with a trained run; home and caches are inside, and there is no network."""
        world = cls(base)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "AIB_DATA", "HF_HOME"):
            monkeypatch.setenv(name, str(base / "home"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.chdir(world.work)
        assert main([*CHEAP, "--out", "../given/run"]) == 0  # libraries write their caches now
        return world

    def clear(self) -> None:
        """Empty `work` and copy the run into it."""
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if (self.given / "run").is_dir():
            shutil.copytree(self.given / "run", self.work / "run")

    def aib(self, *words: str) -> Answer:
        """Run a command in `work`; nothing else may change."""
        return command(*words, inside=self.work)
