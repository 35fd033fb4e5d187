"""Judge models that cheat, and honest ones: `python -m tools.plants [SEEDS]`, 10 by default.

Each is studied as a whole, with an evaluator, on 300 images of its own for each seed. The table
says what its map was called, and what its decision follows in the transplant. The exit code is 1 if
a map was called what it may not be called (tests/interpret/planted.py).
"""

import sys
import warnings
from collections import Counter
from statistics import mean

from rich.console import Console
from rich.table import Table

from aib.errors import AibWarning
from tests.interpret.planted import PLANTS


def main(seeds: int = 10) -> int:
    """Print a row per plant."""
    columns = ("plant", "verdicts", "right", "follow the pixels %", "follow the map %")
    table = Table(*columns, title=f"Planted models, {seeds} seeds; means, boxes / objects cut out")
    wrong = 0
    for name, plant in PLANTS.items():
        studies = [plant.study(seed) for seed in range(seeds)]
        verdicts = [study.verdict.name for study in studies if study.verdict]
        right = sum(verdict in plant.may for verdict in verdicts)
        wrong += seeds - right
        forms = [study.transplant.forms.values() for study in studies if study.transplant]
        pixels, followed = (
            " / ".join(
                f"{100 * mean(getattr(found, name).value for found in form):.0f}"
                for form in zip(*forms, strict=True)
            )
            for name in ("pixels", "map")
        )
        counted = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
        table.add_row(name, counted, f"{right}/{seeds}", pixels, followed)
        print(f"{name}: {counted}", file=sys.stderr, flush=True)
    Console(width=120).print(table)
    return min(wrong, 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore", AibWarning)
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
