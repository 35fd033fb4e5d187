"""Judge models that cheat, and honest ones: `python -m tools.plants [SEEDS]`, 10 by default.

Each is measured on 300 images of its own for each seed, by all that its verdict depends on: swaps,
probe, transplant and evaluator. The table says what its map was called, and what its decision
follows in the transplant. The exit code is 1 if a map was called what it may not be called
(tests/interpret/planted.py).
"""

import sys
from collections import Counter
from statistics import mean

from rich.console import Console
from rich.table import Table

from aib.interpret import judge
from tests.interpret.planted import PLANTS


def main(seeds: int = 10) -> int:
    """Print a row per plant."""
    columns = ("plant", "verdicts", "right", "follow the pixels %", "follow the map %")
    table = Table(*columns, title=f"Planted models, {seeds} seeds; means, boxes / objects cut out")
    wrong = 0
    for name, plant in PLANTS.items():
        results = [plant.measured(seed) for seed in range(seeds)]
        verdicts = [judge(**found).name for found in results]
        right = sum(verdict in plant.may for verdict in verdicts)
        wrong += seeds - right
        forms = [found["transplant"].forms.values() for found in results]
        pixels, followed = (
            " / ".join(
                f"{100 * mean(getattr(found, column).value for found in form):.0f}"
                for form in zip(*forms, strict=True)
            )
            for column in ("pixels", "map")
        )
        counted = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
        table.add_row(name, counted, f"{right}/{seeds}", pixels, followed)
        print(f"{name}: {counted}", file=sys.stderr, flush=True)
    Console(width=120).print(table)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
