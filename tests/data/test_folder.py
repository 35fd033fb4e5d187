"""Folders of images: classes, splits, image modes, rotation, options in the name."""

import hashlib
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import aib
from aib.cli import main
from aib.config.own_images import own_images
from aib.config.settings import Settings
from aib.data import load
from aib.data.decode import open_rgb
from aib.data.load import parse_name
from aib.errors import AibError, AibWarning
from aib.evaluation.error import Evaluation
from aib.figures.picture import is_figure, save_image
from aib.runs.pretrained import packaged_models
from aib.training.freeze import FrozenLayers
from aib.training.train import Trained, build_model, load_data, train
from tests.data import official
from tests.helpers import RecordingReporter


def test_sub_folders_are_classes_in_alphabetical_order(tmp_path):
    official.write_folder(tmp_path)
    images = load(f"folder:{tmp_path}", "train", holdout=0)
    assert images.class_names == ("class_0", "class_1", "class_2")
    assert images.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert images.images is None and images[0][0].shape == (3, 224, 224)
    small = load(f"folder:{tmp_path}:image_size=32", "train", holdout=0)  # stays in memory
    assert small.images is not None and small.images.shape == (12, 3, 32, 32)
    at_224 = replace(small.preprocessing, image_size=224)  # a model's
    large = load(f"folder:{tmp_path}:image_size=32", holdout=0, preprocessing=at_224)
    assert large.images is None and large[0][0].shape == (3, 224, 224)
    again = load(f"folder:{tmp_path}", holdout=0, preprocessing=small.preprocessing)
    assert again.images is None and torch.equal(again.pixels(0), small.images[0])


def test_a_run_knows_its_training_files_by_their_names_and_labels(tmp_path):
    official.write_folder(tmp_path, classes=2, per_class=3)
    lines = "".join(f"{label} class_{label}/{i}.png\n" for label in range(2) for i in range(3))
    known = {"files": 6, "sha256": hashlib.sha256(lines.encode()).hexdigest()}
    for split in ("train", "val"):  # of all files that they are drawn from
        assert load(f"folder:{tmp_path}", split, holdout=0.3).drawn_from == known
    held_out = [load(f"folder:{tmp_path}", "val", holdout=0.3, seed=s).files.paths for s in (0, 1)]
    assert held_out[0] != held_out[1]


def test_own_splits_are_used(tmp_path):
    for split, count in (("train", 5), ("val", 2), ("test", 3)):
        official.write_folder(tmp_path / split, per_class=count)
    counts = {s: len(load(f"folder:{tmp_path}", s)) for s in ("train", "val", "test")}
    assert counts == {"train": 15, "val": 6, "test": 9}


@pytest.mark.parametrize("val", ["valid", "validation", "dev", "Val"])
def test_val_may_have_another_name_beside_train(tmp_path, val):
    official.write_folder(tmp_path / "train", per_class=5)
    official.write_folder(tmp_path / val, per_class=2)
    official.write_folder(tmp_path / "masks" / val, per_class=2)
    loaded = {split: load(f"folder:{tmp_path}", split) for split in ("train", "val")}
    assert [len(data) for data in loaded.values()] == [15, 6]
    assert {p.parts[-3] for p in loaded["val"].files.paths} == {val}
    assert loaded["val"].has_outlines


def test_a_class_may_be_called_like_a_split(tmp_path):
    official.write_folder(tmp_path, classes=2)
    (tmp_path / "class_0").rename(tmp_path / "dev")
    (tmp_path / "class_1").rename(tmp_path / "Test")
    assert load(f"folder:{tmp_path}", "train", holdout=0).class_names == ("Test", "dev")


def test_a_class_called_train_is_told_where_to_go(tmp_path):
    official.write_folder(tmp_path, classes=3)
    (tmp_path / "class_2").rename(tmp_path / "train")
    with pytest.raises(AibError, match="if 'train' is a class, move all classes into a folder tr"):
        load(f"folder:{tmp_path}", "train")


def deny(monkeypatch, folder):
    """Let a folder not be read; permissions would not stop a test as root."""

    def replace_in_os(name):
        real = getattr(os, name)

        def answer(path=".", **options):
            where = Path() if isinstance(path, int) else Path(path)
            if folder in where.parents or (where == folder and name != "stat"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, **options)

        monkeypatch.setattr(os, name, answer)

    for name in ("listdir", "scandir", "stat"):
        replace_in_os(name)


def test_a_class_called_train_with_sub_folders_is_not_taken_for_the_split(tmp_path, monkeypatch):
    official.write_folder(tmp_path, classes=2)
    official.write_folder(tmp_path / "train", classes=2, per_class=2)
    assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 4  # of the same classes
    (tmp_path / "class_0").rename(tmp_path / "car")
    with pytest.raises(AibError, match="has sub-folders and lies beside car/, .* move the other"):
        load(f"folder:{tmp_path}", "train", holdout=0)
    closed = tmp_path / "lost+found"
    closed.mkdir()
    deny(monkeypatch, closed)
    (tmp_path / "car").rename(tmp_path.with_name(f"{tmp_path.name}_car"))  # as the error says
    assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 4
    official.write_folder(tmp_path / "test", classes=2)
    assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 4


def test_a_folder_without_training_images_is_told_where_to_put_them(tmp_path):
    official.write_folder(tmp_path / "test")
    with pytest.raises(AibError, match="has no train/ folder: .* under train/ and test/"):
        load(f"folder:{tmp_path}", "train")


@pytest.mark.parametrize("splits", [("Test", "Train"), ("training", "validation")])
def test_splits_of_other_names_do_not_become_classes(tmp_path, splits):
    for split in splits:
        official.write_folder(tmp_path / split)
    with pytest.raises(AibError, match=f"{', '.join(splits)}, which look like splits .* rename"):
        load(f"folder:{tmp_path}", "train", holdout=0)


def test_files_in_hidden_folders_are_no_images(tmp_path):
    home = tmp_path / ".home"  # a hidden folder above the images does not matter
    official.write_folder(home)
    for folder in ("class_0/.thumbnails", ".thumbnails"):
        (home / folder).mkdir()
        Image.new("RGB", (20, 20)).save(home / folder / "0.png")
    Image.new("RGB", (20, 20)).save(home / "class_0/.0.png")
    data = load(f"folder:{home}", "train", holdout=0)
    assert len(data) == 12 and data.class_names == ("class_0", "class_1", "class_2")


def test_a_folder_of_explanations_is_no_class_and_a_class_with_some_stays_one(tmp_path):
    official.write_folder(tmp_path, classes=2)
    (tmp_path / "explained").mkdir()
    for folder in ("explained", "class_0"):
        (tmp_path / folder / "manifest.json").write_text('{"made_by": "aib explain"}')
    save_image(Image.new("RGB", (20, 20)), tmp_path / "class_0/drawn.png")
    data = load(f"folder:{tmp_path}", "train", holdout=0)
    assert data.class_names == ("class_0", "class_1") and len(data) == 8


def test_links_to_folders_are_followed_once(tmp_path):
    official.write_folder(tmp_path / "photos", classes=2, per_class=2)
    official.write_folder(tmp_path / "more", classes=1, per_class=3)
    first = tmp_path / "photos/class_0"
    (first / "more").symlink_to(tmp_path / "more/class_0")
    (first / "again").symlink_to(first)
    (first / "up").symlink_to(tmp_path / "photos")
    (tmp_path / "more/class_0/back").symlink_to(first)
    images = load(f"folder:{tmp_path / 'photos'}", "train", holdout=0)
    assert images.labels.tolist() == [0] * 5 + [1] * 2


@pytest.mark.parametrize("name", ["", "class_0", "class_0/closed", "masks/class_0"])
def test_a_folder_that_may_not_be_read_is_an_error_that_names_it(tmp_path, monkeypatch, name):
    official.write_folder(tmp_path / "photos", classes=3, per_class=2)
    for folder in ("masks/class_0", "class_0/closed"):
        (tmp_path / "photos" / folder).mkdir(parents=True)
    closed = tmp_path / "photos" / name
    deny(monkeypatch, closed)
    with pytest.raises(AibError, match=f"{closed} cannot be read: Permission denied"):
        load(f"folder:{tmp_path / 'photos'}", "train", holdout=0)


@pytest.mark.parametrize("options", ["", ":check=false"])
def test_photographs_of_formats_that_are_not_read_are_reported(tmp_path, options):
    official.write_folder(tmp_path, classes=2, per_class=2)
    Image.new("RGB", (8, 8)).save(tmp_path / "class_0" / "saved.jfif", "JPEG")
    (tmp_path / "class_0" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    images = load(f"folder:{tmp_path}{options}", "train", holdout=0)
    assert "saved.jfif" in {path.name for path in images.files.paths} and len(images) == 5
    [message] = images.skipped
    assert "phone.HEIC is not an image of any known format (PNG, JPEG" in message


def test_a_file_is_decoded_once_to_find_out_whether_it_is_damaged(tmp_path, monkeypatch):
    official.write_folder(tmp_path, per_class=5)
    decoded = []

    def counted(path, **options):
        decoded.append(path.name)
        return open_rgb(path, **options)

    monkeypatch.setattr("aib.data.image_files.open_rgb", counted)
    sizes = [len(load(f"folder:{tmp_path}", split, holdout=0.2)) for split in ("train", "val")]
    assert (sizes, len(decoded)) == ([12, 3], 15)
    (tmp_path / "class_0" / "0.png").write_bytes(b"no longer a picture")
    for _ in range(2):  # what failed is tried again
        assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 14
    assert decoded[15:] == ["0.png"] * 2


def test_test_images_may_lack_a_class_and_not_add_one(tmp_path):
    official.write_folder(tmp_path / "train", classes=3)
    official.write_folder(tmp_path / "test", classes=2)
    assert load(f"folder:{tmp_path}", "test").num_classes == 3
    (tmp_path / "test/class_7").mkdir()
    with pytest.raises(AibError, match="class_7"):
        load(f"folder:{tmp_path}", "test")


def test_test_images_that_do_not_fit_are_an_error_before_the_training(tmp_path) -> None:
    official.write_folder(tmp_path / "photos/train", classes=2)
    official.write_folder(tmp_path / "photos/test", classes=3)
    data = f"folder:{tmp_path / 'photos'}:image_size=16"
    with pytest.raises(AibError, match="class_2 is a class that the training images do not have"):
        train(Settings(data=data, model="tiny", accelerator="cpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_reports_damaged_files_of_every_split(tmp_path) -> None:
    for split in ("train", "val", "test"):
        official.write_folder(tmp_path / "photos" / split, classes=2)
        (tmp_path / "photos" / split / "class_0/0.png").write_bytes(b"damaged")
    settings = Settings(data=f"folder:{tmp_path / 'photos'}:image_size=16", model="tiny", epochs=1)
    report = RecordingReporter()
    train(replace(settings, batch_size=4, accelerator="cpu"), tmp_path / "run", report=report)
    left_out = [message for message in report.messages if "1 unreadable file left out" in message]
    assert len(left_out) == 3 and "/val/" in left_out[1] and "/test/" in left_out[2]


@pytest.mark.parametrize(
    ("image", "shade"),
    [
        (Image.fromarray(np.full((4, 4), 32_768, np.uint16)), 127),
        (Image.new("RGBA", (4, 4), (255, 0, 0, 0)), 255),
        (Image.new("LA", (4, 4), (99, 0)), 255),
        (Image.new("RGBA", (4, 4), (255, 0, 0, 0)).convert("P"), 255),
    ],
)
def test_sixteen_bits_are_scaled_and_transparent_pixels_white(tmp_path, image, shade):
    image.save(tmp_path / "image.png")
    assert open_rgb(tmp_path / "image.png").getpixel((0, 0)) == (shade,) * 3


def test_twelve_bits_are_scaled_where_the_file_says_so_and_reported_where_not(tmp_path):
    official.write_folder(tmp_path, classes=2, per_class=2)
    bits = [struct.pack("<HHIHH", 258, 3, 1, count, 0) for count in (16, 12)]  # BitsPerSample
    path = tmp_path / "class_0" / "image.tif"
    for packed, shade in (("0ff0ff", 15), ("ffffff", 255)):  # two pixels of 255, or of 4095
        Image.fromarray(np.full((4, 4), 65_535, np.uint16)).save(path)
        content, pixels = path.read_bytes(), b"\xff" * 32
        assert bits[0] in content and pixels in content
        path.write_bytes(content.replace(*bits).replace(pixels, bytes.fromhex(packed) * 10))
        assert open_rgb(path).getpixel((0, 0)) == (shade,) * 3
    assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 5
    Image.fromarray(np.full((4, 4), 4095, np.uint16)).save(tmp_path / "class_0" / "dark.tif")
    with pytest.warns(AibWarning, match=r"1 of the images .* such as .*dark.tif: .* 12 bits"):
        load(f"folder:{tmp_path}", "train", holdout=0)


@pytest.mark.parametrize(("largest", "shade"), [(1.0, 255), (0.5, 127), (200.0, 200)])
def test_floats_are_shares_of_white_if_none_is_above_one(tmp_path, largest, shade):
    values = np.array([[0, largest], [largest / 2, 0]], np.float32)
    Image.fromarray(values).save(tmp_path / "image.tif")
    found = np.asarray(open_rgb(tmp_path / "image.tif"))[:, :, 0]
    assert found.tolist() == [[0, shade], [int(shade / 2), 0]]


def test_checking_whether_a_large_image_is_a_figure_gives_no_warning(tmp_path, recwarn):
    (tmp_path / "large.png").write_bytes(official.bomb(11_000))
    assert not is_figure(tmp_path / "large.png") and not recwarn.list


def test_a_name_may_hold_a_path_with_colons_and_options():
    assert parse_name("folder:/a:b/c")[1].as_posix() == "/a:b/c"
    kind, path, options = parse_name("folder:/a:b/c:image_size=64,resize=crop")
    assert (kind, path.as_posix()) == ("folder", "/a:b/c")
    assert options == {"image_size": "64", "resize": "crop"}
    assert parse_name("shapes_spurious:size=small")[2] == {"size": "small", "spurious": "true"}


def test_a_class_without_a_readable_image_is_an_error(tmp_path):
    official.write_folder(tmp_path, classes=2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AibError, match=r"empty has no readable image: .* remove it"):
        load(f"folder:{tmp_path}", "train", holdout=0)
    (tmp_path / "empty" / "bad.png").write_bytes(b"not a picture")
    with pytest.raises(AibError, match=r"empty has no readable image \(.*bad\.png"):
        load(f"folder:{tmp_path}", "val")


@pytest.mark.parametrize("inside", ["photos", "photos/train"])
def test_training_on_a_folder_with_one_class_is_an_error(tmp_path, capsys, inside):
    where = official.write_folder(tmp_path / inside / "animals", classes=5).parent
    words = f"--data folder:{tmp_path}/photos:image_size=32 --batch-size 4 --accelerator cpu"
    assert main(["train", *words.split(), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert f"{where} has one class folder, 'animals'" in error
    assert f"class_2, ...) are the classes, move them up into {where}" in error
    assert not (tmp_path / "run").exists()


def test_without_test_images_the_last_validation_is_the_result(tmp_path) -> None:
    official.write_folder(tmp_path / "photos", per_class=5)
    s = Settings(data=f"folder:{tmp_path}/photos:image_size=16", model="tiny_aib", epochs=1)
    trained = train(s.updated(width=0.25, batch_size=4, accelerator="cpu"), tmp_path / "run")
    assert (trained.evaluation.split, trained.evaluation.images) == ("val", 3)
    last = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])
    stored = json.loads((tmp_path / "run/evaluation.json").read_text())
    [(name, found)] = stored.items()
    assert name == f"{s.data} val" and found.pop("weights_sha256")
    assert found == {k: v for k, v in last["validation"].items() if k in found}  # evaluated once


def test_a_packaged_model_is_started_from_by_its_name(tmp_path, monkeypatch) -> None:
    """Other classes get a new head, and nothing else is trained with the default settings."""
    official.write_folder(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    s = own_images(gpu=False, image_size=112).updated(data="folder:photos:image_size=112")
    model = build_model(s, load_data(s, "train"))
    packaged = aib.from_pretrained(packaged_models()["pets_masked"])
    trained = FrozenLayers(model, s.freeze)
    assert [n for n, p in model.named_parameters() if p.requires_grad] == [
        n for n, _ in model.named_parameters() if n.startswith("head.")
    ]
    trained.release()
    for name, value in packaged.state_dict().items():
        if not name.startswith("head."):
            assert torch.equal(model.state_dict()[name], value), name
    assert model.num_classes == 3
    with pytest.raises(AibError, match=r"the name of a packaged model \(pets_masked"):
        build_model(s.updated(init="pets"), load_data(s, "train"))


@pytest.mark.parametrize(("gpu", "size"), [(False, 112), (True, 224)])
def test_a_model_that_suits_the_machine_is_chosen_if_none_is_named(
    tmp_path, capsys, monkeypatch, gpu: bool, size: int
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    started: list[Settings] = []
    command = "aib.commands.train.start"
    monkeypatch.setattr(command, lambda options, _: started.append(options.settings))
    data = f"folder:{tmp_path}/my photos"
    main(["train", "--data", data, "--epochs", "3"])
    flags = "--model vgg_aib_masked --init pets_masked --freeze body propose"
    said = f"no --model given and {'a' if gpu else 'no'} GPU: {flags} --data '{data}:"
    assert capsys.readouterr().out == f"{said}image_size={size}'\n"
    main(["train", f"--data={data}:resize=crop", "--accelerator", "cpu"])
    main(["train", "--data", f"{data}:image_size=50", "--accelerator", "cpu"])
    main(["train", "--data", data, "--model", "wrn"])
    main(["train", "--data", "shapes"])
    assert [(s.model, s.data) for s in started] == [
        ("vgg_aib_masked", f"{data}:image_size={size}"),
        ("vgg_aib_masked", f"{data}:resize=crop,image_size=112"),
        ("tiny_aib_masked", f"{data}:image_size=50"),
        ("wrn", data),
        (Settings().model, "shapes"),
    ]
    assert started[0].epochs == 3 and started[1].optimizer == "adamw"  # a recipe for the model
    assert started[3].optimizer == Settings().optimizer
    capsys.readouterr()
    main(["train", "--data", data, "--evaluator"])  # it must not know the map
    assert "needs many images: --init vgg16:PATH" in capsys.readouterr().out
    main(["train", "--data", data, "--init", "vgg16:weights.npz"])  # has no map that could stay
    main(["train", "--data", data, "--freeze", "body"])
    main(["train", "--data", data, "--freeze"])
    assert [(s.init, s.freeze) for s in started[5:]] == [
        (None, ()),
        ("vgg16:weights.npz", ()),
        ("pets_masked", ("body",)),
        ("pets_masked", ()),
    ]
    assert "many images" not in capsys.readouterr().out
    # What is trained already is changed in smaller steps than a new head.
    assert {s.lr for s in started[5:]} == {started[0].lr / 5}


def test_a_frozen_map_that_opens_next_to_nothing_is_reported(tmp_path, capsys, monkeypatch) -> None:
    def closed(settings, folder, **_):
        found = Evaluation("folder:x", "val", "own", 9, 60.0, (40.0, 80.0), None, None, 1.4, 2.0,
                           None, "4x1", "probabilities", area=0.01, mask_bits=300.0)  # fmt: skip
        return Trained(folder, torch.nn.Identity(), found, 1.0)

    monkeypatch.setattr("aib.training.train.train", closed)
    command = ["train", "--data", f"folder:{tmp_path}", "--accelerator", "cpu"]
    for freeze, reported in ((["body", "propose"], True), (["body"], False)):
        assert main([*command, "--freeze", *freeze]) == 0
        assert ("`--freeze body` trains it" in capsys.readouterr().out) == reported
