"""A sweep's runs on this machine: N processes at a time."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from aib.sweep.one import log_of
from aib.sweep.plan import Planned
from aib.training.interrupt import SignalCatcher

Ended = Callable[[Planned, str | None], None]  # a run, and what went wrong with it if anything
Beat = Callable[[Sequence[Planned]], None]  # now and then: the runs under way
POLL = 0.2  # seconds


def run_local(
    sweep: Path, runs: Sequence[Planned], jobs: int, ended: Ended, beat: Beat, stop: SignalCatcher
) -> None:
    """Do the runs. One that fails leaves the others alone; a stop lets those under way save."""
    waiting = deque(runs)
    running: dict[int, tuple[Planned, subprocess.Popen[bytes]]] = {}
    try:
        while running or (waiting and stop.signal is None):
            for slot in range(jobs):
                if waiting and slot not in running and stop.signal is None:
                    run = waiting.popleft()
                    running[slot] = (run, start(sweep, run, slot, jobs))
            for slot, (run, process) in list(running.items()):
                if stop.signal is not None and process.stdin is not None:
                    process.stdin.close()  # see `stop_with_parent`
                if process.poll() is not None:
                    del running[slot]
                    ended(run, why(process.returncode, log_of(sweep, run.name)))
            beat([run for run, _ in running.values()])
            time.sleep(POLL)
    finally:  # of a second Ctrl-C, or an error of ours: nothing is left running
        for _, process in running.values():
            with suppress(OSError):
                process.kill()
            process.wait()


def start(sweep: Path, run: Planned, slot: int, jobs: int) -> "subprocess.Popen[bytes]":
    """One run in a process group of its own: Ctrl-C reaches it through us, once."""
    log = log_of(sweep, run.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            command(sweep, run),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment_of(slot, jobs),
            start_new_session=True,
        )


def command(sweep: Path, run: Planned) -> list[str]:
    """What does one run."""
    return [sys.executable, "-m", "aib.sweep.one", str(sweep), run.name]


def environment_of(slot: int, jobs: int) -> dict[str, str]:
    """A share of the cores, and one GPU in turn where there are several."""
    given = dict(os.environ)
    if jobs > 1:
        given.setdefault("OMP_NUM_THREADS", str(max(1, cores() // jobs)))
    visible = given.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    if len(gpus) > 1:
        given["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return given


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def why(code: int, log: Path) -> str | None:
    """None for a run that is done, else one sentence."""
    if code == 0:
        return None
    if code in (130, 143, -2, -15):
        return "stopped"
    if code < 0:
        return f"ended by signal {-code}; its log is {log}"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = next((line for line in reversed(lines) if line), "it said nothing")
    return said if code == 2 else f"{said}; its log is {log}"
