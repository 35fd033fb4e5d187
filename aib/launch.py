"""Fabric as the settings ask for it: devices, precision, loggers."""

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

from aib.errors import AibError, missing_extra
from aib.settings import Settings

PRECISIONS: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
MIN_CPU_PROCESSES = 8  # also where there are fewer cores: to try out a command for many GPUs


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


def _check_processes(s: Settings) -> None:
    """Refuse what would wait for ever for other machines, or drown this one in processes."""
    started = {"MASTER_ADDR", "SLURM_NTASKS"} & set(os.environ)
    if s.nodes > 1 and not started:
        raise AibError(f"{s.nodes} nodes have to be started by torchrun or srun")
    on_gpus = s.accelerator != "cpu" and torch.cuda.is_available()
    here = torch.cuda.device_count() if on_gpus else max(os.cpu_count() or 1, MIN_CPU_PROCESSES)
    if s.devices > here:
        raise AibError(f"{s.devices} devices are more than the {here} that this machine has")


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
