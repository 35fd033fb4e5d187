"""`aib models`: the models by name, with their counts."""

from dataclasses import asdict
from typing import Annotated, Any

import tyro
from rich.table import Column, Table

from aib.commands.arguments import print_json, wide_console
from aib.config.options import MapStride, Propose
from aib.config.validation import ProfileName
from aib.errors import AibError
from aib.figures.table import number


def models(
    filter: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[FILTER]")] = "",
    /,
    num_classes: int = 10,
    image_size: int | None = None,
    width: float = 1.0,
    profile: ProfileName = "paper",
    propose: Propose | None = None,
    map_stride: MapStride = 8,
    json: bool = False,
) -> None:
    """Print the models with their parameters, multiply-adds and the size of their attention map.

    Example: aib models "*aib*" --num-classes 100

    Example: aib models "lite2*" --map-stride 16

    Args:
        filter: a name or wildcard; without it the paper's twelve models.
        num_classes: number of classes.
        image_size: 32 or 224; by default the smaller at which models match.
        width: scales the models' channels.
        profile: the paper's models, or those of the authors' released code.
        propose: where the maps of masked models come from; separate, twice or copy.
        map_stride: pixels per position of a copy's map, 8 or 16.
        json: print JSON instead of a table.
    """
    from aib.models.counts import measure, remarks
    from aib.models.registry import list_models

    sizes = (32, 224) if image_size is None else (image_size,)
    matching = ((size, list_models(filter, image_size=size)) for size in sizes)
    image_size, names = next(((size, names) for size, names in matching if names), (0, []))
    if not names:
        where = f" at image_size {sizes[0]} (32 and 224 exist)" if len(sizes) == 1 else ""
        raise AibError(f"no model matches {filter!r}{where}")
    masked: dict[str, Any] = {"propose": propose, "map_stride": map_stride}
    given = {name: masked if name.endswith("_masked") else {} for name in names}
    form = num_classes, image_size, width, profile
    rows = [measure(name, *form, **given[name]) for name in names]
    if json:
        print_json({"models": [asdict(row) for row in rows], "remarks": remarks(rows)})
        return
    numbers = ("parameters", "paper, M", "mult-adds, G", "paper, G", "map")
    right = (Column(name, justify="right") for name in numbers)
    title = f"{image_size} x {image_size}, {num_classes} classes"
    table = Table("model", *right, "what it is", title=title)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.parameters:,}",
            number(row.paper_parameters, 2, 1e-6),
            f"{row.multiply_adds / 1e9:.2f}",
            number(row.paper_multiply_adds, 2, 1e-9),
            "x".join(map(str, row.attention)) if row.attention else "-",
            row.summary,
        )
    wide_console().print(table, *remarks(rows), sep="\n")


COMMAND = models
