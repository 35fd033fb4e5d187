"""From the folder of a finished run to its entry in a results file."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from aib.config.settings import Settings
from aib.errors import AibError
from aib.interpret.stored import RESULT
from aib.models.registry import create_model
from aib.models.weights import CONFIG, EVALUATION, read_config
from aib.runs.files import read_metrics, read_settings, train_seconds
from aib.system.files import quoted, read_json, without_folders

ENVIRONMENT = ("python", "aib", "torch", "device", "command")
LOCATED = ("pointing", "energy", "auroc", "max_box_acc", "pxap", "mask_iou", "max_f", "mae")
CURVES = ("deletion", "insertion")
AREAS = ("area", "over_random", "over_centre")  # of the evaluator's curve
MASK = ("area", "closed", "open", "rounded", "bits", "faint_bits")


def collect(runs: Sequence[Path], title: str, note: str = "") -> dict[str, Any]:
    """Return the content of a results file."""
    if not runs:
        raise AibError("name at least one run")
    return {"kind": "runs", "title": title, "note": note, "runs": [summarise(r) for r in runs]}


def summarise(run: Path) -> dict[str, Any]:
    """Return the settings and results of one finished run."""
    settings = read_settings(run)
    config = read_config(run / CONFIG)
    evaluations = read_json(run / EVALUATION)
    metrics = read_metrics(run)
    if not evaluations or not any("seconds" in row for row in metrics):
        raise AibError(f"{run} is not a finished run: train and evaluate it first")
    held_out = [row["validation"] for row in metrics if row.get("validation")]
    errors = [row["error"] for row in metrics if "error" in row]
    study = read_json(run / RESULT)
    return {
        "name": run.resolve().name,
        "data": without_folders(settings.data),
        "model": settings.model,
        "recipe": {
            k: without_folders(v) if isinstance(v, str) else v for k, v in settings.recipe().items()
        },
        "seed": settings.seed,
        "epochs": settings.epochs,
        "minutes": train_seconds(run) / 60,  # compilation included
        "parameters": count_parameters(config["model"]),
        "reported": without_folders(reported(run, settings, evaluations)),
        "evaluations": {without_folders(k): stored_evaluation(e) for k, e in evaluations.items()},
        "held_out": stored_evaluation(held_out[-1]) if held_out else None,
        "training_error": errors[-1] if errors else None,  # of the last steps, with augmentation
        "maps": summarise_study(study) if study else None,
        "environment": portable(config["environment"]),
    }


def collect_measured(folders: Sequence[Path], title: str, note: str = "") -> dict[str, Any]:
    """Return what was measured of models that these folders hold, or studies of whom they hold."""
    evaluations, studies = [], []
    for folder in folders:
        study, found = read_json(folder / RESULT), read_json(folder / EVALUATION) or {}
        if not (study or found):
            raise AibError(f"{folder} has neither {RESULT} nor {EVALUATION}")
        if study:
            more = {name: study[name] for name in ("model", "backgrounds", "weights_sha256")}
            about = {"seed": study["seed"], "environment": portable(study["environment"])}
            studies.append(more | summarise_study(study) | about)
        for one in found.values():
            model = read_config(folder / CONFIG)["model"]["name"]
            evaluations.append({"model": model, **stored_evaluation(one)})
    about = {"kind": "measured", "title": title, "note": note}
    return about | {"evaluations": evaluations, "studies": studies}


def reported(run: Path, settings: Settings, evaluations: Mapping[str, Any]) -> str:
    """Return the name of the run's own evaluation: on its test images or on held-out ones."""
    name = settings.own_evaluation(evaluations)
    if name is None:
        raise AibError(
            f"{run} was not evaluated on its own data: run `aib eval {quoted(run)}` first"
        )
    return name


def stored_evaluation(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation without folders of the machine."""
    return {**evaluation, "data": without_folders(evaluation["data"])}


def count_parameters(recipe: Mapping[str, Any]) -> int | None:
    """Count the parameters of a named model; None for one that was composed elsewhere."""
    if recipe.get("kind") != "named":
        return None
    with torch.device("meta"):
        model = create_model(**{k: v for k, v in recipe.items() if k != "kind"})
    return sum(p.numel() for p in model.parameters())


def portable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions, hardware and the typed command, without folders of the machine."""
    kept = {name: facts.get(name) for name in ENVIRONMENT}
    if kept["command"] is not None:
        kept["command"] = shlex.join(without_folders(w) for w in shlex.split(kept["command"]))
    return kept


def summarise_study(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the docs show of interpret.json. Its names occur in this function only.

    A value with an interval is a list of the value and its bounds.
    """
    information, encoding, mask = study["information"], study.get("encoding"), study.get("mask")
    reliance = study["reliance"] or {"replaced": {}}
    swaps = {**reliance["replaced"], **(encoding["swaps"] if encoding else {})}
    found = {
        "data": without_folders(study["data"]),
        "split": study["split"],
        "images": study["images"],
        "subset": study["subset_images"],  # of localisation, curves and evaluator
        "accuracy": study["accuracy"],
        "verdict": (study["verdict"] or {}).get("name"),
        "contrast": information["contrast"],
        "kl_bits": information["kl_bits"],
        "perplexity": information["perplexity"],
        "own": study["localisation_own_all_images"],  # the model's map, over all images
        "drops": {name: [drop[k] for k in ("drop", "low", "high")] for name, drop in swaps.items()},
        "stability": {
            name: {
                "same_class": one["prediction_consistent"]["value"],
                "score": _estimate(one["score"].get("0.9")),
                "centred": one["centred"].get("0.9", {}).get("value"),
            }
            for name, one in study["stability"].items()
        },
        "paper": study["paper"],  # its scores, by modification
        "located": _by_map(study["localisation"], LOCATED),
        "curves": _by_map(study["faithfulness"], CURVES),
        "device": study["environment"].get("device"),
    }
    if encoding:
        found["encoding"] = {
            "follows": encoding["follows"]["value"],
            "follows_chance": encoding["follows_chance"],
            "blank": encoding["blank"]["value"],
            "probe": {name: _estimate(one) for name, one in encoding["probe"].items()},
            "probe_chance": encoding["probe_chance"],
        }
    if mask:
        found["mask"] = {name: mask[name] for name in MASK} | {"rounded": mask["rounded"]["value"]}
    if transplant := study.get("transplant"):
        found["transplant"] = transplant
    if evaluator := study.get("evaluator"):
        found["evaluator"] = _by_map(evaluator["maps"], AREAS)
    return {k: v for k, v in found.items() if v is not None and v != {}}


def _by_map(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        kind: {name: value for name in names if (value := _estimate(one[name]))}
        for kind, one in found.items()
    }


def _estimate(found: Mapping[str, Any] | None) -> list[float] | None:
    if found is None or found["value"] is None:
        return None
    return [found[end] for end in ("value", "low", "high")]
