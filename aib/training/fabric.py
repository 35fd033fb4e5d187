"""Fabric as the settings ask for it: devices, precision, loggers; and the processes it starts."""

import atexit
import logging
import os
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

from aib.errors import AibError, missing_extra
from aib.settings import Settings

PRECISIONS: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
LAUNCHER = "AIB_LAUNCHER"  # in a worker's environment: the id of the process that started it


def make_fabric(s: Settings, folder: Path | None = None) -> Fabric:
    """Devices, precision and loggers as the settings say."""
    if s.precision == "fp16" and (s.accelerator == "cpu" or not torch.cuda.is_available()):
        raise AibError("fp16 needs a GPU; on a CPU take bf16 or fp32")
    if s.accelerator == "cuda" and not torch.cuda.is_available():
        raise AibError("no CUDA device was found; take --accelerator cpu")
    if s.accelerator == "mps" and not torch.backends.mps.is_available():
        raise AibError("no Apple GPU was found; take --accelerator cpu")
    _check_processes(s)
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)  # the reporter says what matters
    warnings.filterwarnings("ignore", message=".*The `srun` command is available.*")
    return Fabric(
        accelerator=s.accelerator,
        devices=s.devices,
        num_nodes=s.nodes,
        strategy="auto" if s.devices * s.nodes == 1 else "ddp",
        precision=PRECISIONS[s.precision],
        loggers=make_loggers(s, folder),
    )


def in_first(fabric: Fabric, do: Callable[[], object]) -> None:
    """Call `do` in the first process. An AibError there is raised in all: none waits for it."""
    problem = None
    if fabric.is_global_zero:
        try:
            do()
        except AibError as error:
            problem = str(error)
    problem = fabric.broadcast(problem)
    if problem is not None:
        raise AibError(problem)


def launch(fabric: Fabric) -> None:
    """Start the other processes of this machine, unless torchrun or SLURM did. None outlives us."""
    launcher = os.environ.pop(LAUNCHER, None)
    if launcher is not None:
        threading.Thread(target=_end_with, args=(int(launcher),), daemon=True).start()
        fabric.launch()
        return
    atexit.register(_end_workers, getattr(fabric.strategy.launcher, "procs", []))
    os.environ[LAUNCHER] = str(os.getpid())
    try:
        fabric.launch()
    finally:
        del os.environ[LAUNCHER]  # for no other process that we may start


def _end_with(launcher: int) -> None:
    """In a worker: end when the process that started it is gone, however that came about.

    A thread, as the main one may be inside a collective operation that nobody will ever answer.
    """
    while os.getppid() == launcher:
        time.sleep(0.2)
    os._exit(1)


def _end_workers(workers: "list[subprocess.Popen[bytes]]") -> None:
    """At our exit: they end by themselves where all is well, and are killed where it is not."""
    deadline, ours = time.monotonic() + 5, workers.copy()
    workers.clear()  # Fabric watches this list, and would kill us for a worker's exit code
    for worker in ours:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.0, deadline - time.monotonic()))
        worker.kill()  # does nothing to one that has ended
        worker.wait()


def _check_processes(s: Settings) -> None:
    """Refuse what would wait for ever for other machines, or drown this one in processes."""
    started = {"MASTER_ADDR", "SLURM_NTASKS"} & set(os.environ)
    if s.nodes > 1 and not started:
        raise AibError(f"{s.nodes} nodes have to be started by torchrun or srun")
    if s.accelerator != "cpu" and torch.cuda.is_available():
        if s.devices > (here := torch.cuda.device_count()):
            raise AibError(f"{s.devices} devices are more than the {here} that this machine has")
    elif s.devices > (cores := os.cpu_count() or 1) and not s.oversubscribe:
        raise AibError(
            f"{s.devices} processes are more than the {cores} CPU cores of this machine: take "
            f"--devices {cores} or fewer, or --oversubscribe to try it all the same"
        )


def make_loggers(s: Settings, folder: Path | None) -> list[Any]:
    """TensorBoard and Weights & Biases, for those who asked."""
    place = folder or Path("runs")
    return [_make_logger(name, place) for name in s.loggers]


def _make_logger(name: str, place: Path) -> Any:
    try:
        if name == "tensorboard":
            from lightning.fabric.loggers.tensorboard import TensorBoardLogger

            return TensorBoardLogger(place, name="tensorboard", version="")
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(save_dir=place, name=place.name, project="aib")
    except ModuleNotFoundError as error:
        raise missing_extra(name, f"{name} is not installed") from error
