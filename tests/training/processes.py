"""`aib` commands and functions in new processes that a server forks, with everything imported.

A new interpreter would first import torch for five seconds, and these tests start many.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import torch

from aib.cli import main

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["tests.training.processes", "aib.training.train"])


class Started:
    """A process that runs a function in a folder, and writes what it prints into a file."""

    def __init__(self, function: Callable, *arguments: object, cwd: Path, **environment: str):
        self.log = cwd / f"process{len(list(cwd.glob('process*.log')))}.log"
        self.log.touch()
        call = (function, arguments, cwd, environment, self.log)
        self.process = SERVER.Process(target=_call, args=call)
        self.process.start()

    def wait_for(self, path: Path) -> None:
        while not path.exists() and self.process.is_alive():
            time.sleep(0.01)

    def send(self, number: int) -> None:
        os.kill(self.process.pid or 0, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.join(60)

    def finish(self, code: int = 0) -> str:
        """Wait for the end with this exit code; return what was printed."""
        self.process.join(300)
        text = self.log.read_text()
        assert self.process.exitcode == code, text
        return text


def start_training(words: list[str], cwd: Path, **environment: str) -> Started:
    """`aib train` with these words."""
    return Started(main, ["train", *words], cwd=cwd, **environment)


def start_pair(function: Callable, *arguments: object, cwd: Path) -> list[Started]:
    """Two processes of one training, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
    }  # fmt: skip
    return [
        Started(function, *arguments, cwd=cwd, RANK=str(i), LOCAL_RANK=str(i), **common)
        for i in (0, 1)
    ]


def _call(
    function: Callable, arguments: tuple, cwd: Path, environment: dict[str, str], log: Path
) -> None:
    os.chdir(cwd)
    os.environ.update(environment)
    torch.set_num_threads(1)
    number = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(number, stream.fileno())
    sys.exit(function(*arguments) or 0)
