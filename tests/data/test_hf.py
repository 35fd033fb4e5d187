"""`hf:NAME` reads a Hugging Face data set. The package `datasets` is replaced by a stand-in."""

import sys

import pytest

import aib
from aib.cli import main
from aib.data import has_split, hf, load, same_images
from aib.data.dataset import from_dataset
from aib.runs.files import measured_split
from aib.training.train import train
from tests.data.hugging_face import ClassLabel, Dataset, Image, Value, package
from tests.helpers import photo, small_model

NAMES = ["healthy", "rust"]


def beans(count: int = 12, label: int | None = None, size: int = 40) -> Dataset:
    """Image and label, under names of their own, and a column that is neither."""
    columns = {
        "id": list(range(count)),
        "labels": [i % 2 if label is None else label for i in range(count)],
        "picture": [photo(size, size, seed=i) for i in range(count)],
    }
    return Dataset(columns, {"id": Value(), "labels": ClassLabel(NAMES), "picture": Image()})


def fine_and_coarse() -> Dataset:
    features = {"img": Image(), "fine": ClassLabel(list("abc")), "coarse": ClassLabel(list("xy"))}
    columns = {"img": [photo(300, 20)] * 3, "fine": [0, 1, 2], "coarse": [0, 1, 0]}
    return Dataset(columns, features)


def labelled(*labels: str | int | None) -> Dataset:
    columns = {"image": [photo()] * len(labels), "label": list(labels)}
    return Dataset(columns, {"image": Image(), "label": Value()})


@pytest.fixture(autouse=True)
def hub(monkeypatch):
    features = {"image": Image(), "label": Value()}
    only = Dataset({"image": [photo()] * 5, "label": [0] * 5}, features)
    known = {
        ("texts", None): {
            "train": labelled("pug", "cat", "pug", "owl"),
            "test": labelled("pug", "ox"),
        },
        ("numbers", None): {
            "train": labelled(0, 1, 2, 0),
            "validation": labelled(0, 1),
            "test": labelled(1, 0),
            "secret": labelled(-1, None),
        },
        ("mixed", None): {"train": labelled("a", None)},
        ("beans", None): {"train": beans(), "validation": beans(4), "test": beans(6)},
        ("me/leaves", "small"): {"train": beans(20)},
        ("secret", None): {"train": beans(20), "test": beans(6, label=-1)},
        ("cifar", None): {"train": fine_and_coarse()},
        ("one", None): {"train": only},
        ("empty", None): {"train": beans(0), "test": beans()},
    }
    monkeypatch.setitem(sys.modules, "datasets", package(known))
    hf._load.cache_clear()
    hf.has_split.cache_clear()
    yield known
    hf._load.cache_clear()
    hf.has_split.cache_clear()


def test_splits_columns_and_class_names(hub) -> None:
    assert [len(load("hf:beans", split)) for split in ("train", "val", "test")] == [12, 4, 6]
    test = load("hf:beans", "test")
    assert test.class_names == ("healthy", "rust") and test.labels.tolist() == [0, 1] * 3
    assert test.name == "hf:beans" and test.preprocessing.image_size == 40  # as the images are
    assert [has_split("hf:beans", split) for split in ("train", "val", "test")] == [True] * 3


def test_images_are_decoded_on_access_above_64_pixels(hub) -> None:
    hub["beans", None]["test"] = beans(6, size=100)
    data = load("hf:beans:image_size=80", "test")
    decoded = hub["beans", None]["test"].decoded
    decoded.clear()
    assert data.images is None and data.pixels(4).shape == (3, 80, 80) and decoded == [4]
    assert load("hf:beans:image_size=32", "test").images.shape == (6, 3, 32, 32)


def test_a_config_a_held_out_part_and_a_secret_test_set() -> None:
    assert len(load("hf:me/leaves:small", "train", holdout=0.2)) == 16
    assert len(load("hf:me/leaves:small:image_size=32", "val", holdout=0.2)) == 4
    for name in ("hf:me/leaves:small", "hf:secret"):
        assert measured_split(name) == "val"
    assert same_images("hf:beans", "hf:beans:image_size=32")
    assert not same_images("hf:beans", "hf:secret")


def test_columns_may_be_chosen() -> None:
    data = load("hf:cifar:label=coarse,resize=crop", "train", holdout=0)
    assert data.class_names == ("x", "y") and data.labels.tolist() == [0, 1, 0]
    assert data.preprocessing.resize == "crop" and data.preprocessing.image_size == 224


def test_labels_that_are_integers_have_the_classes_of_all_splits(hub, tmp_path) -> None:
    splits = ("train", "val", "test")
    assert [load("hf:numbers", split).num_classes for split in splits] == [3, 3, 3]
    options = {"width": 0.25, "epochs": 1, "batch_size": 4, "accelerator": "cpu", "workers": 0}
    settings = aib.Settings(data="hf:numbers", model="tiny_aib").updated(**options)
    assert train(settings, tmp_path / "run").model.num_classes == 3


def test_labels_that_are_text_are_classes_in_alphabetical_order_over_all_splits(hub) -> None:
    train, test = (load("hf:texts:image_size=32", split, holdout=0) for split in ("train", "test"))
    assert train.class_names == test.class_names == ("cat", "owl", "ox", "pug")
    assert (train.labels.tolist(), test.labels.tolist()) == ([3, 0, 3, 1], [3, 2])
    model = small_model(num_classes=3)  # the data set itself, whose names the model takes over
    aib.fit(model, hub["texts", None]["train"], aib.Settings(epochs=1, batch_size=4, workers=0))
    assert model.preprocessing.class_names == ("cat", "owl", "pug")
    found = aib.evaluate(model, hub["texts", None]["train"])
    assert (found.images, found.classes) == (4, "own")
    assert from_dataset(labelled("pug", "cat"), model.preprocessing).labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("hf:", "train", "hf: needs a path or name"),
        ("hf:nothing", "train", "^hf:nothing cannot be loaded: Dataset 'nothing' doesn't exist on"),
        ("hf:secret", "val2", "hf:secret has no split 'val2'; it has train, test"),
        ("hf:empty", "train", "hf:empty has no images in split 'train'"),
        ("hf:secret", "test", "labels of hf:secret run from -1 to -1"),
        (
            "hf:cifar",
            "train",
            "one column for the label, not fine, coarse: it has img",
        ),
        ("hf:mixed", "train", "labels must be integers, or all of them text, not NoneType"),
        ("hf:cifar:label=age", "train", "one column for the label, not age"),
        ("hf:beans:size=3", "train", "hf has no option 'size'"),
    ],
)
def test_mistakes_are_named_in_one_sentence(name: str, split: str, message: str) -> None:
    with pytest.raises(aib.AibError, match=message) as caught:
        load(name, split)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(aib.AibError, match=r"pip install 'aib\[datasets\]'"):
        load("hf:beans", "train")


def test_commands(hub, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = "--model tiny_aib_qt --width 0.25 --epochs 1 --batch-size 4 --accelerator cpu"
    data = "--data hf:beans:image_size=32"
    main(f"train {data} {words} --workers 0 --out run".split())
    main(["eval", "run", "--workers", "0"])
    assert "hf:beans test" in capsys.readouterr().out
    assert main(f"train --data hf:one {words} --out other".split()) == 2
    assert "hf:one has one class, '0'" in capsys.readouterr().err
