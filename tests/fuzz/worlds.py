"""A small world for commands to run in: photos, a finished run, a home; and a place to write."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from aib.cli import main
from tests.fuzz.harness import Answer, command, contents

PHOTOS = "folder:../given/photos:image_size=16"


class World:
    """`given` is what there is and must stay as it is; `work` is where the command runs."""

    def __init__(self, base: Path) -> None:
        self.base, self.given, self.work = base, base / "given", base / "work"
        for name in ("given", "work", "home"):
            (base / name).mkdir()
        for number in range(12):
            name = ("cat", "dog")[number % 2]
            path = self.given / "photos" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (20 * number, 100, 255 - 20 * number)).save(path)

    def make_run(self) -> None:
        """`given/run`, by a real training. Not watched: libraries make their caches now."""
        assert main([*CHEAP, "--out", "../given/run"]) == 0

    def clear(self) -> None:
        """An empty `work` with a copy of the run in it."""
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if (self.given / "run").is_dir():
            shutil.copytree(self.given / "run", self.work / "run")

    def aib(self, *words: str) -> Answer:
        """The command in `work`; nothing else may change."""
        before = self._others()
        answer = command(*words, inside=self.work)
        assert self._others() == before, answer
        return answer

    def _others(self) -> dict[str, tuple[int, int]]:
        inside = str(self.work)
        found = contents(self.base)
        return {name: facts for name, facts in found.items() if not name.startswith(inside)}


CHEAP = (
    f"train --data {PHOTOS} --model tiny_aib_qt --width 0.1 --epochs 1 --batch-size 4 "
    "--accelerator cpu --workers 0"
).split()


def make_world(base: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Home and caches inside, and no network."""
    world = World(base)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "AIB_DATA", "HF_HOME"):
        monkeypatch.setenv(name, str(base / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(world.work)
    world.make_run()
    return world
