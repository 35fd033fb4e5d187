"""List and fetch data sets. For example: aib data list"""

from collections.abc import Callable
from typing import Annotated, Any

from rich.table import Column, Table
from tyro.conf import Positional, arg

from aib.commands.arguments import wide_console
from aib.errors import AibError

Name = Annotated[Positional[str], arg(metavar="NAME")]
Root = Annotated[str | None, arg(metavar="FOLDER")]


def list_(root: Root = None) -> None:
    """List the known data sets, and which are on disk.

    For example: aib data list --root ~/datasets

    Args:
        root: folder of the data sets; by default the cache ($AIB_DATA).
    """
    from aib.data.files import locate, root_folder
    from aib.data.specs import SPECS

    table = Table("name", "title", "classes", "size", "images", Column("location", overflow="fold"))
    for name, spec in SPECS.items():
        images = ", ".join(f"{split} {count:,}" for split, count in spec.sizes.items())
        location = str(locate(spec, root) or f"not on disk: aib data fetch {name}")
        location = location if spec.folders else "generated"
        size = f"{spec.image_size} px"
        table.add_row(name, spec.title, str(spec.num_classes), size, images, location)
    table.add_row("folder:PATH", "your own images: one sub-folder per class", "", "", "", "")
    console = wide_console()
    console.print(table)
    console.print(f"Data sets are in {root_folder(root)}.")


def fetch(name: Name, /, root: Root = None) -> None:
    """Download a data set, check it and unpack it.

    For example: aib data fetch cifar10

    Args:
        name: one of the names that `aib data list` shows.
        root: folder to download to; by default the cache ($AIB_DATA).
    """
    from aib.data.fetch import fetch as fetch_set
    from aib.data.load import parse_name
    from aib.data.specs import SPECS

    if name.startswith("folder:"):
        raise AibError(f"{name} is read where it is, so there is nothing to fetch")
    print(f"{name} is in {fetch_set(SPECS[parse_name(name)[0]], root)}")


COMMAND: dict[str, Callable[..., Any]] = {"list": list_, "fetch": fetch}
