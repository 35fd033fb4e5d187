"""Collect photographs to learn from without labels, as WebP files of one size.

    python -m tools.photographs OUT duts=DUTS-TR-Image pets=images --without imagenet_val

OUT/NAME/ holds those of each folder; OUT/sources.json says how many and from where. Left out are
damaged files, equal files, and those of the names of images below a folder of `--without`: images
to test on.
"""

import argparse
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from aib.data.decode import open_rgb
from aib.data.folder import image_files
from aib.errors import AibError
from aib.system.files import sha256, write_json
from aib.system.progress import progress_bar

SIDE = 256  # pixels: crops of them have about 224
QUALITY = 75  # of the WebP files: half the size of JPEG files as good


def collect(
    out: Path, sources: dict[str, Path], without: Collection[Path] = (), side: int = SIDE
) -> dict[str, dict[str, int]]:
    """Write the copies, and return how many images each source has, and how many were written."""
    if out.exists() and any(out.iterdir()):
        raise AibError(f"{out} is not empty: name a new folder")
    tested = {file.stem for folder in without for file in image_files(folder)}
    files = {name: image_files(folder) for name, folder in sources.items()}
    if empty := [str(sources[name]) for name, images in files.items() if not images]:
        raise AibError(f"{empty[0]} holds no images")
    first: dict[str, Path] = {}  # the first file of each content
    counts = {}
    with progress_bar(sum(map(len, files.values()))) as tick, ThreadPoolExecutor() as pool:
        for name, images in files.items():
            (out / name).mkdir(parents=True)
            new = [file for file in images if file.stem not in tested]
            hashes = zip(new, pool.map(sha256, new), strict=True)
            new = [file for file, digest in hashes if first.setdefault(digest, file) == file]
            tick(name, len(images) - len(new))
            targets = [out / name / f"{number:06}.webp" for number in range(len(new))]
            written = 0
            for done in pool.map(partial(copy, side=side), new, targets):
                written += done
                tick(name, 1)
            counts[name] = {"images": len(images), "written": written}
    write_json(out / "sources.json", {"side": side, "quality": QUALITY, "sources": counts})
    return counts


def copy(file: Path, target: Path, side: int) -> bool:
    """Write the whole image as side x side pixels; False if the file is damaged."""
    try:
        image = open_rgb(file, reduce=side).resize((side, side), Image.Resampling.BILINEAR)
    except AibError:
        return False
    image.save(target, quality=QUALITY)
    return True


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.photographs`."""
    parser = argparse.ArgumentParser(prog="python -m tools.photographs", description=__doc__)
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("sources", nargs="+", metavar="NAME=FOLDER", help="folders of images")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="folders to test on")
    parser.add_argument("--side", type=int, default=SIDE, help="of the copies, in pixels")
    options = parser.parse_args(argv)
    sources = {name: Path(to) for name, _, to in (s.partition("=") for s in options.sources)}
    for name, count in collect(options.out, sources, options.without, options.side).items():
        print(f"{name}: {count['written']:,} of {count['images']:,} images")


if __name__ == "__main__":
    main()
