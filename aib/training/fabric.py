"""Lightning Fabric from the settings: devices, precision, loggers and processes."""

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
from lightning.fabric.utilities.exceptions import MisconfigurationException

from aib.config.settings import Settings
from aib.errors import AibError, first_line, missing_extra

PRECISIONS: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
LAUNCHER = "AIB_LAUNCHER"  # in a worker's environment: the id of the process that started it


def start_fabric(s: Settings, folder: Path | None = None) -> Fabric:
    """Fabric by the settings, with all its processes; `folder` is for the loggers."""
    if s.precision == "fp16" and (s.accelerator == "cpu" or not torch.cuda.is_available()):
        raise AibError("fp16 needs a GPU; on a CPU use bf16 or fp32")  # Fabric would take bf16
    cores = max(os.cpu_count() or 1, 2)
    on_cpu = s.accelerator == "cpu" or (s.accelerator == "auto" and not torch.cuda.is_available())
    if on_cpu and s.devices > cores:
        raise AibError(f"{s.devices} processes on {cores} CPU cores would wait for each other")
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)  # we report ourselves
    warnings.filterwarnings("ignore", message=".*The `srun` command is available.*")
    loggers = [make_logger(name, folder or Path("runs")) for name in s.loggers]
    try:
        fabric = Fabric(
            accelerator=s.accelerator,
            devices=s.devices,
            num_nodes=s.nodes,
            strategy="auto" if s.devices * s.nodes == 1 else "ddp",
            precision=PRECISIONS[s.precision],
            loggers=loggers,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise AibError(f"this machine cannot train so: {first_line(error)}") from error
    launch_processes(fabric)
    return fabric


def run_on_rank_zero(fabric: Fabric, function: Callable[[], object]) -> None:
    """Call the function in the first process; its AibError is raised in all of them."""
    problem = None
    if fabric.is_global_zero:
        try:
            function()
        except AibError as error:
            problem = str(error)
    problem = fabric.broadcast(problem)
    if problem is not None:
        raise AibError(problem)


def launch_processes(fabric: Fabric) -> None:
    """Start the other processes of this machine, unless torchrun or SLURM did; end them with us."""
    launcher = os.environ.pop(LAUNCHER, None)
    if launcher is not None:
        threading.Thread(target=_exit_with, args=(int(launcher),), daemon=True).start()
        fabric.launch()
        return
    atexit.register(_stop_workers, getattr(fabric.strategy.launcher, "procs", []))
    os.environ[LAUNCHER] = str(os.getpid())
    try:
        fabric.launch()
    finally:
        del os.environ[LAUNCHER]  # other subprocesses must not inherit it


def _exit_with(launcher: int) -> None:
    """In a worker: exit when the process that started it has ended for whatever reason.

    In a thread, as the main one may wait in a collective operation for ever.
    """
    while os.getppid() == launcher:
        time.sleep(0.2)
    os._exit(1)


def _stop_workers(workers: "list[subprocess.Popen[bytes]]") -> None:
    """At our exit: give the workers some seconds to end, then kill them."""
    deadline, ours = time.monotonic() + 5, workers.copy()
    workers.clear()  # Fabric would kill us for the exit code of a worker in this list
    for worker in ours:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.0, deadline - time.monotonic()))
        worker.kill()  # does nothing to one that has ended
        worker.wait()


def make_logger(name: str, folder: Path) -> Any:
    """The TensorBoard or Weights & Biases logger of a run."""
    try:
        if name == "tensorboard":
            from lightning.fabric.loggers.tensorboard import TensorBoardLogger

            return TensorBoardLogger(folder, name="tensorboard", version="")
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(save_dir=folder, name=folder.name, project="aib")
    except ModuleNotFoundError as error:
        raise missing_extra(name, f"{name} is not installed") from error
