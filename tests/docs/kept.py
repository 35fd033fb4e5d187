"""The figures of runs that were kept, for tests of what pages say of them."""

import json

from tests.docs.blocks import ROOT


def kept(name: str) -> dict:
    return json.loads((ROOT / "results" / name).read_text())


def errors_by_name(file: str) -> dict[str, float]:
    runs = kept(file)["runs"]
    return {run["name"]: run["evaluations"]["cifar10 test"]["top1_error"] for run in runs}


def run_of(file: str, name: str) -> dict:
    [found] = [run for run in kept(file)["runs"] if run["name"] == name]
    return found


def maps_of(file: str, run: str) -> dict:
    """What `aib interpret` found of a run that was kept."""
    return run_of(file, run)["interpret"]


def areas(maps: dict, curve: str) -> dict[str, float]:
    """The area under a curve, by the source of the maps."""
    return {source: figures[curve] for source, figures in maps["faithfulness"].items()}


def against_random(maps: dict, curve: str) -> str:
    """The area in the order of the model's own map and in random order, as the pages write them."""
    found = areas(maps, curve)
    return f"({found['own']:.2f}, against {found['random']:.2f})"


def cost(maps: dict) -> float:
    """Points of accuracy that are lost with another image's map in the map's place."""
    return 100 * maps["reliance"]["replaced"]["another"]["drop"]
