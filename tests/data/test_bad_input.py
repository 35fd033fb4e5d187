"""Bad input gets one sentence that names the culprit, and exit code 2 from the command."""

import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from aib.cli import main
from aib.data import ImageSet, load
from tests.data import official


def complaint(capsys, *argv: str) -> str:
    """Run `aib data ARGV`, which must fail with exit code 2 and one line; give the line."""
    assert main(["data", *argv]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_unknown_names_list_the_known_ones(capsys):
    assert "cifar10" in complaint(capsys, "show", "cifar11")
    assert "cifar10" in complaint(capsys, "verify", "imagenet")
    assert "cifar10" in complaint(capsys, "fetch", "imagenet")


def test_unknown_options_and_splits_list_the_known_ones(capsys):
    assert "clutter" in complaint(capsys, "show", "shapes:cluter=1")
    assert "float" in complaint(capsys, "show", "shapes:clutter=much")
    assert "medium" in complaint(capsys, "show", "shapes:size=huge")
    assert "val" in complaint(capsys, "show", "shapes", "--split", "valid")


def test_a_set_that_is_not_there_says_how_to_get_it(capsys, tmp_path):
    sentence = complaint(capsys, "show", "cifar10", "--root", str(tmp_path))
    assert "aib data fetch cifar10" in sentence and str(tmp_path) in sentence


def test_a_missing_file_is_named(capsys, tmp_path):
    official.write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-bin/data_batch_3.bin").unlink()
    sentence = complaint(capsys, "show", "cifar10:partial", "--root", str(tmp_path))
    assert "data_batch_3.bin" in sentence and "missing" in sentence


@pytest.mark.parametrize("cut", [0, 1, 3072, 61_000])
def test_a_truncated_file_is_named(capsys, tmp_path, cut):
    official.write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-bin/data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:cut])
    sentence = complaint(capsys, "show", "cifar10:partial", "--root", str(tmp_path))
    assert "data_batch_3.bin" in sentence and "truncated" in sentence


def test_wrong_counts_are_stated_with_both_numbers(capsys, tmp_path):
    official.write_cifar10(tmp_path)
    sentence = complaint(capsys, "show", "cifar10", "--root", str(tmp_path))
    assert "100" in sentence and "50,000" in sentence and "partial" in sentence


def test_labels_out_of_range_are_refused(capsys, tmp_path):
    official.write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-bin/test_batch.bin"
    content = bytearray(path.read_bytes())
    content[0] = 10
    path.write_bytes(content)
    options = ("--split", "test", "--root", str(tmp_path))
    assert "0 to 9" in complaint(capsys, "show", "cifar10:partial", *options)


def test_images_and_labels_of_different_number_are_refused(capsys, tmp_path):
    official.write_stl10(tmp_path)
    path = tmp_path / "stl10_binary/train_y.bin"
    path.write_bytes(path.read_bytes()[:-1])
    sentence = complaint(capsys, "show", "stl10:partial", "--root", str(tmp_path))
    assert "40 images and 39 labels" in sentence


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_a_truncated_mat_file_is_named(capsys, tmp_path, keep):
    official.write_svhn(tmp_path)
    path = tmp_path / "svhn/train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    sentence = complaint(capsys, "show", "svhn:partial", "--root", str(tmp_path))
    assert "train_32x32.mat" in sentence


def test_cub_tables_must_agree(capsys, tmp_path):
    folder = official.write_cub(tmp_path)
    table = folder / "bounding_boxes.txt"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]))
    sentence = complaint(capsys, "show", "cub200:partial", "--root", str(tmp_path))
    assert "boxes for 11" in sentence


def test_cub_may_not_name_files_outside_its_folder(capsys, tmp_path):
    folder = official.write_cub(tmp_path)
    table = folder / "images.txt"
    table.write_text(table.read_text().replace("001.Bird_0/Bird_3.png", "../../secret.png"))
    sentence = complaint(
        capsys, "show", "cub200:partial", "--split", "test", "--root", str(tmp_path)
    )
    assert "outside" in sentence


def test_an_empty_folder_and_one_without_classes(capsys, tmp_path):
    assert "no sub-folders" in complaint(capsys, "show", f"folder:{tmp_path}")
    assert "not a folder" in complaint(capsys, "show", f"folder:{tmp_path}/nowhere")
    (tmp_path / "cat").mkdir()
    assert "no readable image" in complaint(capsys, "show", f"folder:{tmp_path}")
    assert "path" in complaint(capsys, "show", "folder:")


def test_a_class_with_one_image_cannot_be_split(capsys, tmp_path):
    official.write_folder(tmp_path, per_class=1)
    sentence = complaint(capsys, "show", f"folder:{tmp_path}", "--split", "val")
    assert "class_0" in sentence and "one image" in sentence
    assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 3


def bomb(side: int) -> bytes:
    """A PNG of a few bytes whose header promises side x side pixels."""
    header = struct.pack(">II5B", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def bad_images(folder):
    """A truncated JPEG, a file that is no image, a 1 x 1 image, two bombs; next to good ones."""
    official.write_folder(folder)
    good = np.zeros((64, 64, 3), np.uint8)
    Image.fromarray(good).save(folder / "class_0/whole.jpg")
    whole = (folder / "class_0/whole.jpg").read_bytes()
    (folder / "class_0/cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "class_1/text.png").write_text("no image")
    Image.new("RGB", (1, 1)).save(folder / "class_1/dot.png")
    (folder / "class_2/bomb.png").write_bytes(bomb(11_000))  # above our limit
    (folder / "class_2/huge.png").write_bytes(bomb(60_000))  # above Pillow's too
    return {"cut.jpg", "text.png", "dot.png", "bomb.png", "huge.png"}


def test_damaged_files_are_named_and_skipped(capsys, tmp_path):
    bad = bad_images(tmp_path / "photos")
    out = tmp_path / "sheet.png"
    assert main(["data", "show", f"folder:{tmp_path / 'photos'}", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in bad)
    assert "5 file(s) skipped" in printed and "13 images" in printed


def test_strict_stops_at_damaged_files_and_writes_nothing(capsys, tmp_path):
    bad = bad_images(tmp_path / "photos")
    out = tmp_path / "sheet.png"
    name = f"folder:{tmp_path / 'photos'}"
    sentence = complaint(capsys, "show", name, "--strict", "--out", str(out))
    assert any(file in sentence for file in bad)
    assert not out.exists()


def test_verify_of_a_folder_lists_its_damaged_files(capsys, tmp_path):
    bad = bad_images(tmp_path)
    assert main(["data", "verify", f"folder:{tmp_path}"]) == 2
    printed = capsys.readouterr().out
    assert all(name in printed for name in bad)


@pytest.mark.parametrize(
    ("images", "labels", "word"),
    [
        (torch.zeros(2, 3, 8, 8), [0, 1], "uint8"),
        (torch.zeros(2, 3, 8, 9, dtype=torch.uint8), [0, 1], "uint8"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.uint8), [0, 1], "uint8"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0], "2 images and 1 labels"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0, 7], "0 to 7"),
        (torch.zeros(0, 3, 8, 8, dtype=torch.uint8), [], "no images"),
    ],
)
def test_tensors_of_the_wrong_form_are_refused(images, labels, word):
    from aib.errors import AibError

    with pytest.raises(AibError, match=word):
        ImageSet.from_tensors(images, torch.tensor(labels).long(), class_names=("a", "b"))
