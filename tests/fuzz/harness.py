"""Shared by the fuzz tests: number of cases, time limit, watch on written files, a small world."""

import contextlib
import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from aib.cli import main
from aib.errors import AibError
from tests.data.official import write_folder

CASES = int(os.environ.get("AIB_FUZZ_CASES", "10"))  # `make test-all` sets 1,000
SECONDS = 60  # far more than any case needs: finds what never ends, not what is slow

fuzz = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,  # the same cases everywhere
    phases=[phase for phase in Phase if phase is not Phase.explain],  # which traces every line
    suppress_health_check=list(HealthCheck),  # the cases share fixtures on purpose
)


class Hang(BaseException):
    """Not an Exception, so that the code under test does not catch it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` after SECONDS."""

    def stop(number: int, frame: Any) -> None:
        raise Hang(f"still running after {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


class WriteWatch:
    """Records every path that Python opens for writing, creates, moves or removes."""

    def __init__(self) -> None:
        self.paths: set[Path] | None = None
        sys.addaudithook(self._record)  # cannot be removed, hence one for all tests

    @contextlib.contextmanager
    def allow(self, folder: Path | None) -> Iterator[None]:
        """Fail if anything was written outside of the folder; None allows nothing."""
        self.paths = written = set()
        try:
            yield
        finally:
            self.paths = None
        inside = [path for path in written if folder and path.is_relative_to(folder)]
        ours = [p for p in written if "__pycache__" in p.parts or p.parts[1] in ("dev", "proc")]
        assert written <= {*inside, *ours}

    def _record(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.paths is None:
            return
        touched: tuple[Any, ...] = ()
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else "r" not in mode
            touched = (path,) if writes else ()
        elif event in ("os.mkdir", "os.rmdir", "os.remove", "os.truncate"):
            touched = arguments[:1]
        elif event in ("os.rename", "os.link", "os.symlink"):
            touched = arguments[:2]
        for path in touched:
            if isinstance(path, str | bytes | os.PathLike):
                self.paths.add(Path(os.path.realpath(os.fsdecode(path))))


WATCH = WriteWatch()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """What may fail with an AibError of one line, in time, and writes nothing."""
    try:
        with limited(), WATCH.allow(None):
            yield
    except AibError as error:
        assert str(error) and "\n" not in str(error)


PHOTOS = "folder:../given/photos:image_size=16"
CHEAP = (
    f"train --data {PHOTOS} --model tiny_aib_qt --width 0.1 --epochs 1 --batch-size 4 "
    "--accelerator cpu --workers 0"
).split()


class World:
    """Folders for commands: `given` (photos and a run) must not change, `work` may."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Train a run; home and caches are inside, and there is no network."""
        self.given, self.work = base / "given", base / "work"
        for name in ("given", "work", "home"):
            (base / name).mkdir()
        write_folder(self.given / "photos", classes=2, per_class=6, side=8)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "AIB_DATA", "HF_HOME"):
            monkeypatch.setenv(name, str(base / "home"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.chdir(self.work)
        assert main([*CHEAP, "--out", "../given/run"]) == 0  # libraries write their caches now

    def clear(self) -> None:
        """Empty `work` and copy the run into it."""
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(self.given / "run", self.work / "run")

    def aib(self, *words: str) -> int:
        """Run `aib WORDS` in `work`: exit code 0, or 2 with a message; nothing else may change."""
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # as Python creates them
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
        redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with limited(), WATCH.allow(self.work), redirected[0], redirected[1]:
            code = main(list(words))
        text = out.buffer.getvalue().decode() + err.buffer.getvalue().decode()
        assert code in (0, 2), (code, text)  # 1 is an unexpected error
        assert "Traceback" not in text, text
        assert code == 0 or text.strip(), code
        return code


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    import matplotlib.font_manager  # noqa: F401 (writes its own cache when first imported)

    with pytest.MonkeyPatch.context() as patch:
        yield World(tmp_path_factory.mktemp("world").resolve(), patch)
