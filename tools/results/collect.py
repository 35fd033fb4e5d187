"""From finished runs to one results file: what was trained, how, and every metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from aib.config.settings import Settings
from aib.errors import AibError
from aib.interpret.stored import RESULT
from aib.models.registry import create_model
from aib.models.weights import CONFIG, EVALUATION, METRICS, read_config
from aib.runs.files import read_metrics, read_settings, train_seconds
from aib.system.environment import environment
from aib.system.files import quoted, read_json, without_folders
from tools.results.command import portable

SCHEMA = 1


def collect(runs: Sequence[Path], title: str, note: str = "") -> dict[str, Any]:
    """Return the content of a results file: runs that belong together, as one comparison."""
    if not runs:
        raise AibError("name at least one run")
    return {
        "schema": SCHEMA,
        "kind": "runs",
        "title": title,
        "note": note,
        "runs": [summary(run) for run in runs],
        "environment": portable(environment()),
    }


def added(path: Path, new: dict[str, Any]) -> dict[str, Any]:
    """Return a results file with further runs, each in place of an older one of its name."""
    old = read_json(path)
    if old is None:
        raise AibError(f"there is no {path} to add runs to")
    runs = {run["name"]: run for run in (*old["runs"], *new["runs"])}
    given = {name: new[name] for name in ("title", "note") if new[name]}
    return old | {"environment": new["environment"], "runs": list(runs.values())} | given


def summary(run: Path) -> dict[str, Any]:
    """Return the settings and results of one finished run."""
    settings = read_settings(run)
    config = read_config(run / CONFIG)
    evaluations = read_json(run / EVALUATION)
    metrics = read_metrics(run)
    errors = [row["error"] for row in metrics if "error" in row]
    held_out = [row["validation"] for row in metrics if row.get("validation")]
    if not evaluations or not any("seconds" in row for row in metrics):
        raise AibError(f"{run} is not a finished run: it has no {EVALUATION} or no {METRICS}")
    return {
        "name": run.resolve().name,
        "data": without_folders(settings.data),
        "model": settings.model,
        "parameters": count_parameters(config["model"]),
        "recipe": {
            k: without_folders(v) if isinstance(v, str) else v for k, v in settings.recipe().items()
        },
        "seed": settings.seed,
        "epochs": settings.epochs,
        "minutes": train_seconds(run) / 60,  # compilation included
        "reported": without_folders(reported_evaluation(run, settings, evaluations)),
        "evaluations": {without_folders(name): e for name, e in evaluations.items()},
        "held_out": held_out[-1] if held_out else None,
        "training_error": errors[-1] if errors else None,  # of the last steps, with augmentation
        "interpret": interpreted(run),
        "environment": portable(config["environment"]),
    }


def reported_evaluation(run: Path, settings: Settings, evaluations: dict[str, Any]) -> str:
    """Return the name of the run's own evaluation: on test images, or of a run that chose settings
    on held-out ones."""
    name = settings.own_evaluation(evaluations)
    if name is None:
        raise AibError(
            f"{run} was not evaluated on its own data: run `aib eval {quoted(run)}` first"
        )
    return name


def count_parameters(recipe: dict[str, Any]) -> int | None:
    """Count the parameters of a named model; None for one that was composed elsewhere."""
    arguments = dict(recipe)
    if arguments.pop("kind", None) != "named":
        return None
    with torch.device("meta"):
        return sum(p.numel() for p in create_model(**arguments).parameters())


def interpreted(run: Path) -> dict[str, Any] | None:
    """Return the run's study of its maps without what no table needs: curves and class metrics."""
    found = read_json(run / RESULT)
    if found is None:
        return None
    found = {k: v for k, v in found.items() if k not in ("classes", "run", "class_names")}
    found["faithfulness"] = {
        source: {k: v for k, v in metrics.items() if not k.endswith("_curve")}
        for source, metrics in found["faithfulness"].items()
    }
    if evaluator := found.get("evaluator"):
        found["evaluator"] = evaluator | {"run": without_folders(evaluator["run"])}
    # A note may name the data's folder.
    notes = [note.replace(str(Path.home()), "~") for note in found["notes"]]
    return found | {"notes": notes, "environment": portable(found["environment"])}
