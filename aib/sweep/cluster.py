"""Run a sweep as jobs of a SLURM cluster through submitit; without SLURM, submitit's local
executor runs them on this machine."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.errors import AibError, missing_extra
from aib.sweep.local import OnEnd
from aib.sweep.one import LOGS, is_done, run_one
from aib.sweep.plan import PlannedRun
from aib.training.interrupt import Interrupted, SignalCatcher


@dataclass(frozen=True)
class Request:
    """Resources of each job."""

    partition: str | None = None
    timeout_min: int = 240
    gpus: int = 1
    cpus: int = 4


class Job:
    """One run as submitit calls it.

    At its time limit submitit signals a job and queues it again; it then resumes from the run's
    last checkpoint. On SIGTERM, with which some clusters preempt, `train` saves and the job ends
    as stopped; submitit does not queue it again.
    """

    def __init__(self, sweep: Path, name: str):
        self.sweep, self.name = sweep, name

    def __call__(self) -> str | None:
        """Do the run; return the error message if it fails."""
        try:
            run_one(self.sweep, self.name)
        except Interrupted as stopped:
            return f"stopped by signal {stopped.signal}, after saving; repeat the command to resume"
        except AibError as error:
            return str(error)
        return None

    def checkpoint(self) -> Any:
        """The job that submitit queues again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def run_cluster(
    sweep: Path,
    runs: Sequence[PlannedRun],
    request: Request,
    jobs: int | None,
    on_end: OnEnd,
    stop: SignalCatcher,
    poll: float = 5.0,
) -> None:
    """Submit the runs and wait for them; a stop cancels those that are left."""
    executor = make_executor(sweep, request, jobs)
    sweep = sweep.resolve()
    with executor.batch():
        submitted = [executor.submit(Job(sweep, run.name)) for run in runs]
    waiting = dict(zip(runs, submitted, strict=True))
    cancelled = False
    while waiting:
        if stop.signal is not None and not cancelled:
            cancelled = True
            for job in waiting.values():
                job.cancel()
        for run, job in list(waiting.items()):
            if job.done():
                del waiting[run]
                done = is_done(sweep / run.name)
                on_end(run, None if done else "stopped" if cancelled else failure(job))
        time.sleep(min(poll, 0.2) if cancelled else poll)


def make_executor(sweep: Path, request: Request, jobs: int | None) -> Any:
    """submitit's executor: SLURM, or local where there is none."""
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise missing_extra("cluster", "submitit is not installed") from error
    executor = submitit.AutoExecutor(folder=sweep / LOGS / "submitit")
    parameters: dict[str, Any] = {
        "timeout_min": request.timeout_min,
        "gpus_per_node": request.gpus,
        "cpus_per_task": request.cpus,
        "name": "aib-sweep",
    }
    if request.partition is not None:
        parameters["slurm_partition"] = request.partition
    if jobs is not None:
        parameters["slurm_array_parallelism"] = jobs
    executor.update_parameters(**parameters)
    return executor


def failure(job: Any) -> str:
    """Why a job failed: its message, or where its log is."""
    with suppress(Exception):  # submitit raises many kinds for a job that was aborted
        if message := job.result():
            return str(message)
    return f"the job was aborted; its log is {job.paths.stderr}"
