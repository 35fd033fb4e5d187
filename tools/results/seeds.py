"""Maps of the same recipe with several seeds: their main figures, averaged."""

from collections import Counter
from collections.abc import Callable

from aib.configs.preset import spread
from aib.figures.table import NOTHING, Table
from tools.results.errors import Found, by_recipe, options, own_error

# A column's name, the figure's digits, and where it is found.
FIGURES: list[tuple[str, int, Callable[[Found], float | None]]] = [
    ("AUROC", 2, lambda maps: maps["localisation_own_all_images"].get("auroc")),
    ("insertion", 2, lambda maps: _area(maps, "own", "insertion")),
    ("the centre's", 2, lambda maps: _area(maps, "centre", "insertion")),
    ("deletion", 2, lambda maps: _area(maps, "own", "deletion")),
    ("a random map's", 2, lambda maps: _area(maps, "random", "deletion")),
    ("contrast", 2, lambda maps: maps["information"]["contrast"]),
    ("another image's map costs", 1, lambda maps: _cost(maps)),
]


def measured(group: Found) -> list[list[Found]]:
    """The runs whose maps were, those of a recipe together."""
    return by_recipe(run for run in group["runs"] if run["interpret"])


def over_seeds(group: Found) -> Table:
    """One row a recipe; none where there is one seed of each."""
    recipes = measured(group)
    rows = []
    for alike in recipes if any(len(alike) > 1 for alike in recipes) else []:
        maps = [run["interpret"] for run in alike]
        figures = (_mean([find(found) for found in maps], digits) for _, digits, find in FIGURES)
        verdicts = Counter(found["reliance"]["verdict"] for found in maps)
        rows.append(
            (
                f"`{alike[0]['model']}`",
                options(alike[0], group["runs"]),
                str(len(alike)),
                spread([own_error(run) for run in alike]),
                *figures,
                ", ".join(f"{word} ({n})" for word, n in verdicts.items() if word) or NOTHING,
            )
        )
    head = ("model", "options", "n", "error %", *(name for name, _, _ in FIGURES), "map is")
    note = (
        "Means over n seeds, ± their standard deviation. The figures of the centre and of a random "
        "map are controls for the one before; the cost is in points of accuracy. The tables below "
        "are of the first seed of each."
    )
    return Table("Over seeds", head, tuple(rows), note)


def _mean(values: list[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return spread(known, digits) if known else NOTHING


def _area(maps: Found, source: str, curve: str) -> float | None:
    return maps["faithfulness"].get(source, {}).get(curve)


def _cost(maps: Found) -> float | None:
    replaced = maps["reliance"].get("replaced")  # a model without a map has none
    return 100 * replaced["another"]["drop"] if replaced else None
