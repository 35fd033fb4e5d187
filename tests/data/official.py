"""Writers of tiny data sets in the official formats."""

import struct
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

from aib.data.specs import CUB200
from tests.helpers import pixels


def write_cifar10(root: Path, per_file: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training images and labels."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    images = pixels(per_file * 6).numpy()
    labels = np.arange(per_file * 6, dtype=np.uint8) % 10
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for number, name in enumerate(names):
        part = slice(number * per_file, (number + 1) * per_file)
        rows = images[part].reshape(per_file, -1)
        np.hstack([labels[part, None], rows]).tofile(folder / f"{name}.bin")
    return images[: per_file * 5], labels[: per_file * 5]


def write_cifar100(root: Path, count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Returns images and fine labels; both files have the same content."""
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    images = pixels(count).numpy()
    fine = (np.arange(count) % 100).astype(np.uint8)
    coarse = (np.arange(count) % 20).astype(np.uint8)
    rows = np.hstack([coarse[:, None], fine[:, None], images.reshape(count, -1)])
    for name in ("train.bin", "test.bin"):
        rows.tofile(folder / name)
    return images, fine


def write_svhn(root: Path, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Returns images and the labels in the files, 1 to 10."""
    from scipy.io import savemat

    folder = root / "svhn"
    folder.mkdir(parents=True)
    images = pixels(count).numpy()
    labels = (np.arange(count) % 10 + 1).astype(np.uint8)
    for split in ("train", "test"):
        content = {"X": images.transpose(2, 3, 1, 0), "y": labels[:, None]}
        savemat(folder / f"{split}_32x32.mat", content)
    return images, labels


def write_stl10(root: Path, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Returns images and the labels in the files, 1 to 10."""
    folder = root / "stl10_binary"
    folder.mkdir(parents=True)
    images = pixels(count, 96).numpy()
    labels = (np.arange(count) % 10 + 1).astype(np.uint8)
    for split in ("train", "test"):
        images.transpose(0, 1, 3, 2).tofile(folder / f"{split}_X.bin")  # column by column
        labels.tofile(folder / f"{split}_y.bin")
    return images, labels


def write_cub(root: Path, count: int = 12) -> Path:
    """Images of 40 x 30 pixels with a red box at (10, 5), 20 wide and 15 high, on blue."""
    folder = root / CUB200.folders[0]
    tables: dict[str, list[str]] = defaultdict(list)
    for i in range(1, count + 1):
        name = f"{i % 3 + 1:03d}.Bird_{i % 3}/Bird_{i}.png"
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", (40, 30), "blue")
        image.paste((255, 0, 0), (10, 5, 30, 20))
        image.save(path)
        tables["images"].append(f"{i} {name}")
        tables["image_class_labels"].append(f"{i} {i % 3 + 1}")
        tables["train_test_split"].append(f"{i} {int(i > 4)}")
        tables["bounding_boxes"].append(f"{i} 10.0 5.0 20.0 15.0")
    tables["classes"] = [f"{i} {i:03d}.Bird_{i - 1}" for i in (1, 2, 3)]
    for name, lines in tables.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_segmentations(folder: Path, names: list[str]) -> None:
    """Grey masks of the red box, with a rim that two of five people called bird."""
    for name in names:
        mask = Image.new("L", (40, 30))
        mask.paste(102, (8, 3, 32, 22))
        mask.paste(153, (10, 5, 30, 20))
        path = (folder / name).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        mask.save(path)


def write_pets(root: Path) -> Path:
    """Two classes of 40 x 20 images, four for training and two for test, with trimaps.

    The left half is the pet, the next quarter the border.
    """
    folder = root / "oxford-iiit-pet"
    trimaps = folder / "annotations/trimaps"
    trimaps.mkdir(parents=True)
    (folder / "images").mkdir()
    (folder / "images/Abyssinian_1.mat").write_bytes(b"stray")
    trimap = Image.new("L", (40, 20), 2)
    trimap.paste(1, (0, 0, 20, 20))
    trimap.paste(3, (20, 0, 30, 20))
    for table, numbers in (("trainval", (1, 2)), ("test", (3,))):
        lines = []
        for label, breed in enumerate(("Abyssinian", "great_pyrenees"), start=1):
            for number in numbers:
                name = f"{breed}_{number}"
                Image.new("RGB", (40, 20), "green").save(folder / f"images/{name}.jpg")
                trimap.save(trimaps / f"{name}.png")
                lines.append(f"{name} {label} {label} 1")
        (folder / f"annotations/{table}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_folder(root: Path, classes: int = 3, per_class: int = 4, side: int = 40) -> Path:
    for label in range(classes):
        (root / f"class_{label}").mkdir(parents=True)
        for number, image in enumerate(pixels(per_class, side, seed=label).numpy()):
            array = image.transpose(1, 2, 0)
            Image.fromarray(array).save(root / f"class_{label}" / f"{number}.png")
    return root


def bomb(side: int) -> bytes:
    """A PNG of a few bytes whose header claims side x side pixels."""
    header = struct.pack(">II5B", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
