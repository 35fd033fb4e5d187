"""A sweep's runs as jobs of a cluster, through submitit: SLURM where there is one, and this
machine, by submitit's own local executor, where there is none."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.errors import AibError, missing_extra
from aib.sweep.local import Beat, Ended
from aib.sweep.one import LOGS, is_done, perform
from aib.sweep.plan import Planned
from aib.training.interrupt import Interrupted, SignalCatcher


@dataclass(frozen=True)
class Request:
    """What each job asks the cluster for."""

    partition: str | None = None
    timeout_min: int = 240
    gpus: int = 1
    cpus: int = 4


class Job:
    """One run as submitit calls it.

    At its time limit a job is sent submitit's own signal, upon which submitit queues it again,
    and it goes on from the run's last checkpoint. SIGTERM, by which some clusters preempt, is
    `train`'s: it saves and the job ends as stopped; submitit does not queue it again.
    """

    def __init__(self, sweep: Path, name: str):
        self.sweep, self.name = sweep, name

    def __call__(self) -> str | None:
        """None, or the sentence that says what went wrong."""
        try:
            perform(self.sweep, self.name)
        except Interrupted as stopped:
            return f"stopped by signal {stopped.signal}, after saving; the same command goes on"
        except AibError as error:
            return str(error)
        return None

    def checkpoint(self) -> Any:
        """What submitit submits again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def run_cluster(
    sweep: Path,
    runs: Sequence[Planned],
    request: Request,
    jobs: int | None,
    ended: Ended,
    beat: Beat,
    stop: SignalCatcher,
    poll: float = 5.0,
) -> None:
    """Submit the runs and wait for them; a stop cancels what is left."""
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
                fine = is_done(sweep / run.name)
                ended(run, None if fine else "stopped" if cancelled else why(job))
        beat(list(waiting))
        time.sleep(min(poll, 0.2) if cancelled else poll)


def make_executor(sweep: Path, request: Request, jobs: int | None) -> Any:
    """submitit's executor for wherever this is."""
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


def why(job: Any) -> str:
    """What a job without figures said, or where it did."""
    with suppress(Exception):  # submitit raises many kinds for a job that broke off
        if said := job.result():
            return str(said)
    return f"the job broke off; its log is {job.paths.stderr}"
