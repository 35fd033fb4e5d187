"""The tables of models that were measured on other data than their own (kind `measured`)."""

from collections.abc import Mapping
from typing import Any

from aib.evaluation.error import Evaluation, metric_texts
from aib.figures.table import Table, number, table_of, without_empty_columns
from tools.results.maps import LOCATED, MAP_KINDS, MAPS, find, means

FOLLOWED = {
    "pixels %": "pixels",
    "map %": "map",
    "chance %": "chance",
    "control: own map %": "own_map",
    "control: map of the same class %": "foreign_map",
}
GROUNDS = {
    "error % as it is": "own",
    "own, filled": "filled",
    "another class's": "other",
    "lost, points": "lost",
    "alone: accuracy %": "alone",
}
SALIENCY = [("max F %", 1, "max_f", 100), ("MAE", 3, "mae", 1)]


def measured(content: Mapping[str, Any]) -> list[Table]:
    """Errors, verdicts, localisation and backgrounds, one row per model and data set."""
    studies = [(_of(study), study) for study in content["studies"]]
    return [
        without_empty_columns(table)
        for table in (
            _errors(content["evaluations"]),
            table_of("Maps", [of | _verdict(s) for of, s in studies if s.get("verdict")]),
            table_of("Transplant", [of | row for of, s in studies for row in _transplants(s)]),
            table_of("Localisation", [of | row for of, s in studies for row in _located(s)]),
            table_of("Other backgrounds", [of | _grounds(s) for of, s in studies if _grounds(s)]),
        )
    ]


def _of(found: Mapping[str, Any]) -> dict[str, str]:
    """The data, a folder by its name, and the model."""
    data = found["data"].removeprefix("folder:").partition(":")[0]
    return {"data": data, "model": f"`{found['model']}`"}


def _errors(evaluations: list[Mapping[str, Any]]) -> Table:
    rows = []
    for e in evaluations:
        found = Evaluation(**{name: value for name, value in e.items() if name != "model"})
        rows.append(_of(e) | {"images": f"{found.images:,}"} | metric_texts(found))
    return table_of("Error", rows)


def _verdict(study: Mapping[str, Any]) -> dict[str, str]:
    return {
        "images": f"{study['images']:,}",
        "accuracy %": number(study["accuracy"], 1),
        "map is": study["verdict"],
        **means(MAPS, [study]),
    }


def _transplants(study: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row per form of the transplant."""
    found = study.get("transplant") or {}
    return [
        {
            "form": form,
            "pairs": f"{one['pairs']:,}",
            **{name: number(find(one, key, "value"), 1, 100) for name, key in FOLLOWED.items()},
        }
        for form, one in found.items()
        if one
    ]


def _located(study: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row per kind of map but the random one. The other control stands beside own maps only."""
    located = study.get("located", {})
    left_out = {"random"} if "own" in located else {"random", "centre"}
    return [
        {
            "images": f"{study['subset']:,}",
            "map": MAP_KINDS[kind],
            **{
                column: number(find(found, key, 0), digits, times)
                for column, digits, key, times in LOCATED + SALIENCY
            },
        }
        for kind, found in located.items()
        if kind not in left_out
    ]


def _grounds(study: Mapping[str, Any]) -> dict[str, str]:
    found = study["backgrounds"]
    if not found:
        return {}
    values = {name: number(found[key]["value"], 1) for name, key in GROUNDS.items()}
    return {"images": f"{found['images']:,}", **values}
