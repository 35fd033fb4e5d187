"""Run a sweep on this machine, several processes at a time."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from aib.sweep.one import log_path
from aib.sweep.plan import PlannedRun
from aib.training.interrupt import SignalCatcher

OnEnd = Callable[[PlannedRun, str | None], None]  # a run, and its error if it failed
POLL = 0.2  # seconds


def run_local(
    sweep: Path,
    runs: Sequence[PlannedRun],
    jobs: int,
    on_end: OnEnd,
    stop: SignalCatcher,
) -> None:
    """Do all runs. A failed run does not affect the others; on a stop, active runs save first."""
    waiting = deque(runs)
    running: dict[int, tuple[PlannedRun, subprocess.Popen[bytes]]] = {}
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
                    on_end(run, failure(process.returncode, log_path(sweep, run.name)))
            time.sleep(POLL)
    finally:  # after a second Ctrl-C or an error: leave no process behind
        for _, process in running.values():
            with suppress(OSError):
                process.kill()
            process.wait()


def start(sweep: Path, run: PlannedRun, slot: int, jobs: int) -> "subprocess.Popen[bytes]":
    """Start one run in its own process group, so that Ctrl-C reaches it only through us."""
    log = log_path(sweep, run.name)
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


def command(sweep: Path, run: PlannedRun) -> list[str]:
    """The command that does one run."""
    return [sys.executable, "-m", "aib.sweep.one", str(sweep), run.name]


def environment_of(slot: int, jobs: int) -> dict[str, str]:
    """Environment variables of a job: its share of the cores and, of several GPUs, one."""
    variables = dict(os.environ)
    if jobs > 1:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // jobs)))
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    if len(gpus) > 1:
        variables["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return variables


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def failure(code: int, log: Path) -> str | None:
    """Why a run failed, from its exit code and log; None if it did not."""
    if code == 0:
        return None
    if code in (130, 143, -2, -15):
        return "stopped"
    if code < 0:
        return f"ended by signal {-code}; its log is {log}"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "no message")
    return last if code == 2 else f"{last}; its log is {log}"
