"""Draw images as a masked model's classifier saw them: `python -m tools.seen RUN OUT.jpg`.

The first test image of every ninth class (`--every`), whatever the model makes of it; or all
images of a folder (`--images`). Below each image: what the classifier saw, and the mask over the
image; above it the class, the decision and its probability.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from PIL import Image

from aib.data.decode import open_rgb, resized
from aib.data.folder import image_files
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.evaluation.matching import prepare_images
from aib.figures.overlay import Array, overlay
from aib.figures.picture import draw_mosaic, image_tile
from aib.interpret.maps import explain
from aib.models.explanation import Explanation
from aib.runs.pretrained import find_model
from aib.runs.run import Run, open_run
from aib.system.files import write_whole

ROWS = ("image", "seen", "mask")
QUALITY = 85  # of the JPEG: noise makes a PNG large


def draw_seen(run: Run, data: str, root: str | None, every: int) -> Image.Image:
    """Return the picture of a data set's test images."""
    _, images = prepare_images(run.model, run.images(data, "test", root))
    firsts = [int((images.labels == c).nonzero()[0]) for c in images.labels.unique().tolist()]
    names = [images.class_names[int(images.labels[i])] for i in firsts]
    return mosaic(run, [image_tile(images.pixels(i)) for i in firsts[::every]], names[::every])


def draw_folder(run: Run, folder: Path) -> Image.Image:
    """Return the picture of all images in a folder, sorted by name."""
    policy = run.model.preprocessing
    files = image_files(folder)
    images = [resized(open_rgb(file), policy.image_size, policy.resize) for file in files]
    return mosaic(run, [np.asarray(image) for image in images], [None] * len(images))


def mosaic(run: Run, images: Sequence[Array], names: Sequence[str | None]) -> Image.Image:
    """One column per image; a name is the image's class."""
    columns, captions = [], []
    for image, name in zip(images, names, strict=True):
        found = explain(run.model, image, deterministic=True)
        columns.append(tiles(image, found, run.model.preprocessing))
        captions.append(caption(name, found))
    rows = [list(row) for row in zip(*columns, strict=True)]
    return draw_mosaic(rows, ROWS, captions)


def caption(name: str | None, found: Explanation) -> str:
    """The class, and below it the decision with its probability; long lines are broken."""
    [decided] = found.names()
    decision = "\N{CHECK MARK}" if decided == name else f"\N{BALLOT X} {decided}"
    lines = [decided] if name is None else [name, decision]
    lines[-1] += f" {float(found.probability):.0%}"
    return "\n".join(fill(line.replace("_", " "), 20) for line in lines)


def tiles(image: Array, found: Explanation, policy: Preprocessing) -> list[Array]:
    """One column: the image, what the classifier saw, and the mask over the image."""
    if found.mask is None or found.seen is None:
        raise AibError("only a masked model has a picture of what its classifier saw")
    masked = overlay(image, found.mask[0], alpha=0.6, scale=False)
    return [image, image_tile(policy.to_pixels(found.seen)[0]), masked]


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.seen`."""
    parser = argparse.ArgumentParser(prog="python -m tools.seen", description=__doc__)
    parser.add_argument("run", type=Path, help="a run, or a packaged model by its name")
    parser.add_argument("out", type=Path, help="the JPEG to write")
    parser.add_argument("--data", default="pets", help="data set")
    parser.add_argument("--root", help="folder of the data set's official files")
    parser.add_argument("--images", type=Path, help="a folder of images, instead of a data set")
    parser.add_argument("--every", type=int, default=9, help="take every N-th class")
    options = parser.parse_args(argv)
    run = open_run(find_model(options.run))
    if options.images:
        image = draw_folder(run, options.images)
    else:
        image = draw_seen(run, options.data, options.root, options.every)
    write_whole(options.out, lambda path: image.save(path, "JPEG", quality=QUALITY))


if __name__ == "__main__":
    main()
