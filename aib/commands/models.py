"""`aib models`: tables of models, of networks and of their layers."""

from dataclasses import asdict
from typing import Annotated, Any

import tyro
from rich.table import Column, Table

from aib.commands.arguments import print_json, wide_console
from aib.config.options import MapStride, Propose, is_library_name
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

    Of timm and torchvision: networks with the default of --at, or the layers of one network.

    Example: aib models "*aib*" --num-classes 100

    Example: aib models "lite2*" --map-stride 16

    Example: aib models "timm:resnet*"

    Example: aib models timm:resnet50

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
    if not is_library_name(filter):
        sizes = (32, 224) if image_size is None else (image_size,)
        masked = {"propose": propose, "map_stride": map_stride}
        found, table = named_models(filter, sizes, num_classes, masked, width, profile)
    elif filter.endswith(":") or any(sign in filter for sign in "*?["):
        found, table = library_networks(filter)
    else:
        found, table = network_layers(filter)
    if json:
        print_json(found)
        return
    wide_console().print(table, *found.get("remarks", ()), sep="\n")


def named_models(
    filter: str, sizes: tuple[int, ...], num_classes: int, masked: dict[str, Any], *form: Any
) -> tuple[dict[str, Any], Table]:
    """Models by name, with their counts, at the first image size at which some match.

    `masked` are options of the masked ones, `form` width and profile of all.
    """
    from aib.models.counts import measure, remarks
    from aib.models.registry import list_models

    matching = ((size, list_models(filter, image_size=size)) for size in sizes)
    image_size, names = next(((size, names) for size, names in matching if names), (0, []))
    if not names:
        where = f" at image_size {sizes[0]} (32 and 224 exist)" if len(sizes) == 1 else ""
        raise AibError(f"no model matches {filter!r}{where}")
    given = {name: masked if name.endswith("_masked") else {} for name in names}
    rows = [measure(name, num_classes, image_size, *form, **given[name]) for name in names]
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
    return {"models": [asdict(row) for row in rows], "remarks": remarks(rows)}, table


def library_networks(filter: str) -> tuple[dict[str, Any], Table]:
    """The networks of a library that match, with the default of `at`."""
    from aib.models.networks.by_name import list_networks
    from aib.models.networks.layers import default_layer

    found = [{"name": name, "at": default_layer(name)} for name in list_networks(filter)]
    if not found:
        raise AibError(f"no network matches {filter!r}")
    table = Table("network", "default of --at", title="networks for aib train --model")
    for one in found:
        table.add_row(one["name"], one["at"] or "- (name a layer)")
    return {"networks": found}, table


def network_layers(name: str) -> tuple[dict[str, Any], Table]:
    """The layers of a network that may be given as `at`, with the size of their map."""
    from aib.models.networks.by_name import build_network, preprocessing_of
    from aib.models.networks.grid import layer_grids
    from aib.models.networks.layers import default_layer, name_from_start

    network = build_network(name)
    policy = preprocessing_of(name, network)
    assert policy is not None  # a library's network has one
    size = policy.image_size
    layers = layer_grids(network, size)
    path = default_layer(name)
    at = name_from_start(network, path) if path else None
    title = f"layers of {name} for --at, images of {size} x {size}"
    table = Table("layer", "channels", "map", "", title=title)
    for one in layers:
        grid, mark = "x".join(map(str, one.grid)), "default" if one.name == at else ""
        table.add_row(one.name, str(one.channels), grid, mark)
    found = {"network": name, "image_size": size, "at": at, "layers": list(map(asdict, layers))}
    return found, table


COMMAND = models
