"""`aib.fit` and `aib.evaluate` on a user's own Dataset or DataLoader."""

from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import aib
from aib.data import Batches, ImageSet, adapt, as_images, from_dataset
from aib.data.decode import to_tensor
from tests.helpers import image_set, photo, pixels, same_weights, small_model

SMALL = aib.Settings(epochs=2, batch_size=8, lr=0.01, workers=0, augment=False)
LABELS = torch.arange(24) % 4
POLICY = aib.Preprocessing(32, "squash", (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


def model(**options) -> aib.Classifier:
    return small_model(num_classes=4, **options)


def pictures(count: int = 24, size: int = 32) -> list[tuple[Image.Image, int]]:
    """Pixels of `pixels` as PIL images with labels: a list is a map-style data set."""
    tiles = pixels(count, size).permute(0, 2, 3, 1).numpy()
    return [(Image.fromarray(tile), i % 4) for i, tile in enumerate(tiles)]


def normalised() -> torch.Tensor:
    return POLICY.normalise(pixels(24))


class Photos(Dataset):
    """As torchvision's: `classes`, `targets`, `transform`; counts how often an image was read."""

    classes = ("ant", "bee", "cat", "dog")

    def __init__(self, transform=None, size: int = 40) -> None:
        self.targets = (LABELS % 3).tolist()
        self.transform, self.size, self.reads = transform, size, 0

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int):
        self.reads += 1
        image = photo(self.size, self.size, seed=i)
        return (self.transform(image) if self.transform else image), self.targets[i]


@pytest.mark.parametrize(
    "data",
    [
        pictures(),
        [{"image": image, "label": label} for image, label in pictures()],
        TensorDataset(pixels(24), LABELS),
        [(tile.permute(1, 2, 0).numpy(), y) for tile, y in zip(pixels(24), LABELS, strict=True)],
    ],
    ids=["PIL", "dict", "uint8 tensors", "uint8 arrays"],
)
def test_pixels_train_as_the_same_pixels_in_an_image_set(data) -> None:
    trained = model(preprocessing=POLICY)
    ours = aib.fit(trained, data, SMALL)
    policy = {"mean": POLICY.mean, "std": POLICY.std}
    images = ImageSet.from_tensors(pixels(24), LABELS, **policy)
    assert same_weights(ours.model, aib.fit(model(), images, SMALL).model)
    assert trained.preprocessing == images.preprocessing
    assert aib.evaluate(trained, data).nll == aib.evaluate(trained, images).nll


def test_pixels_are_resized_as_the_user_or_else_the_model_says() -> None:
    policy = aib.Preprocessing(40, "crop", POLICY.mean, POLICY.std)
    data = [(photo(60, 30), 0), (photo(30, 60), 1)]
    for found in (
        adapt(data, policy, 2, batch_size=1),
        adapt(data, POLICY, 2, batch_size=1, preprocessing=policy),
    ):
        assert isinstance(found, ImageSet)
        middle = photo(60, 30).resize((40, 40), Image.Resampling.BILINEAR, (15, 0, 45, 30))
        assert torch.equal(found.pixels(0), to_tensor(middle))
        assert found.class_names == ("0", "1")


def test_large_images_are_read_on_access_and_labels_without_reading_images() -> None:
    data = Photos()
    found = from_dataset(Subset(data, range(12)), aib.Preprocessing(80), 4)
    assert found.images is None and found.class_names == Photos.classes
    data.reads = 0
    found = from_dataset(data, aib.Preprocessing(80), 4)
    assert data.reads == 1  # to see what an item is
    assert found.labels.tolist() == data.targets
    part = found.subset(torch.tensor([5, 2]))
    assert part.pixels(1).equal(found.pixels(2))
    assert data.reads == 3
    assert part.subset(torch.tensor([1])).pixels(0).equal(found.pixels(2))


class RandomGrey(Dataset):
    """Images of one random grey level, as a random transform would make them."""

    transform = "random"

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int):
        level = int(torch.randint(256, ()))
        return Image.new("RGB", (8, 8), (level,) * 3), i % 2


def test_a_random_transform_differs_between_epochs_seeds_and_ranks_but_not_between_runs() -> None:
    data = from_dataset(RandomGrey(), aib.Preprocessing(image_size=8), 2)

    def levels(epoch: int, **options) -> list[float]:
        batches = Batches(data, 4, train=True, workers=1, **options)
        return torch.cat([x[:, 0, 0, 0] for x, _ in batches.epoch(epoch)]).tolist()

    first = levels(0)
    assert levels(0) == first
    assert levels(1) != first and levels(0, seed=1) != first
    assert levels(0, rank=1, world_size=2) != levels(0, world_size=2)


@pytest.mark.parametrize("kind", ["loader", "data set"])
def test_tensors_train_as_they_are(kind: str) -> None:
    """One batch with all images: no order, and nothing that is not in the tensors."""
    seen: list[torch.Tensor] = []
    trained = model()
    trained.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].cpu().clone()))
    data = TensorDataset(normalised(), LABELS)
    settings = aib.Settings(epochs=1, batch_size=24, workers=0)
    aib.fit(trained, DataLoader(data, 24) if kind == "loader" else data, settings)
    key = lambda x: x.flatten(1).sum(1).argsort()  # noqa: E731
    assert torch.equal(seen[0][key(seen[0])], normalised()[key(normalised())])


def test_a_loader_gives_the_batch_size_and_drops_an_incomplete_batch() -> None:
    loader = DataLoader(TensorDataset(normalised(), LABELS), batch_size=5)
    assert aib.fit(model(), loader, SMALL).steps == 2 * 4
    assert aib.fit(model(), loader, aib.Settings(epochs=2, accumulate=2)).steps == 2 * 2
    assert aib.evaluate(model(), loader).images == 24


def test_tensors_of_a_data_set_come_in_another_order_in_each_epoch_but_the_same_in_each_run() -> (
    None
):
    data = TensorDataset(normalised(), torch.arange(24))

    def epochs(seed: int) -> list[list[int]]:
        found = adapt(data, POLICY, 24, batch_size=5, train=True, seed=seed)
        return [torch.cat([y for _, y in found.epoch(e)]).tolist() for e in (0, 1)]

    first, second = epochs(0)
    assert first != second and len(set(first)) == len(set(second)) == 20
    assert epochs(0) == [first, second] != epochs(1)
    found = adapt(data, POLICY, 24, batch_size=5, train=True)
    assert torch.cat([y for _, y in found.epoch(1, start=2)]).tolist() == second[10:]


def test_evaluation_of_tensors_is_that_of_the_pixels() -> None:
    trained = model(preprocessing=POLICY).eval()
    pixel = aib.evaluate(trained, image_set(24), deterministic=True)
    tensors = TensorDataset(normalised(), LABELS)
    for data in (tensors, DataLoader(tensors, 7)):
        tensor = aib.evaluate(trained, data, deterministic=True)
        assert tensor.nll == pytest.approx(pixel.nll) and tensor.images == 24
        assert tensor.top1_error == pixel.top1_error


@pytest.mark.parametrize("kind", ["images", "pixels", "data set", "loader"])
def test_a_study_gets_pixels_of_anything(kind: str) -> None:
    whole = ImageSet.from_tensors(pixels(24), LABELS, mean=POLICY.mean, std=POLICY.std)
    data = {
        "images": whole,
        "pixels": pictures(),
        "data set": TensorDataset(normalised(), LABELS),
        "loader": DataLoader(TensorDataset(normalised(), LABELS), 7),
    }[kind]
    found = as_images(data, POLICY, 4)
    assert torch.equal(found.images, whole.images) and torch.equal(found.labels, whole.labels)
    assert found.preprocessing == whole.preprocessing
    unknown = aib.Preprocessing(mean=(), std=())
    if kind in ("data set", "loader"):
        with pytest.raises(aib.AibError, match="not known how to normalise"):
            as_images(data, unknown, 4)
        as_images(data, unknown, 4, preprocessing=POLICY)


def test_preprocessing_may_be_given() -> None:
    trained = model()
    loader = DataLoader(Photos(lambda image: torch.zeros(3, 32, 32)), 8)
    aib.fit(trained, loader, SMALL, preprocessing=POLICY)
    assert (trained.preprocessing.mean, trained.preprocessing.std) == (POLICY.mean, POLICY.std)
    wrong = aib.Preprocessing(64)
    with pytest.raises(aib.AibError, match="says 64 pixels, and the images have 32"):
        aib.fit(trained, loader, SMALL, preprocessing=wrong)
    with pytest.raises(aib.AibError, match="must both be given, or neither"):
        aib.Preprocessing(mean=())


def test_unknown_preprocessing_explains_tensors_but_no_photo(tmp_path) -> None:
    trained = small_model("tiny_aib_masked", 4)
    aib.fit(trained, TensorDataset(normalised(), LABELS), SMALL.updated(epochs=1))
    trained.save_pretrained(tmp_path)
    for name, loaded in (("a", trained), ("b", aib.from_pretrained(tmp_path))):
        found = aib.explain(loaded, normalised()[:2])
        assert len(found.save(tmp_path / name)) == 2
        for source in (photo(), pixels(2)):
            with pytest.raises(aib.AibError, match="not known how to normalise images"):
                aib.explain(loaded, source)
        with pytest.raises(aib.AibError, match="not known how to normalise images"):
            aib.evaluate(loaded, pictures())


class Broken(Photos):
    def __getitem__(self, i: int):
        return super().__getitem__(i) if i != 7 else {}["image"]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(3, 32, 32), 0)])


FLOATS, BYTES = normalised(), pixels(24)
REFUSED = [
    ("folder:photos", "must be an ImageSet, a map-style Dataset or a DataLoader"),
    (Stream(), "a map-style Dataset"),
    (DataLoader(Stream(), 8), "a map-style Dataset"),
    (DataLoader(TensorDataset(BYTES, LABELS), 8), r"normalised floats \[B,3,S,S\]"),
    (DataLoader(TensorDataset(FLOATS[:0], LABELS[:0]), 8), "needs images and a batch_size"),
    ([], "the data set is empty"),
    ([photo()], r"must be \(image, label\), or a dict with both"),
    ([{"x": photo(), "label": 0}], r"must be \(image, label\), or a dict with both"),
    ([("missing.jpg", 0)], "item 0 of the data cannot be read: missing.jpg does not exist"),
    (Broken(), "item 7 of the data cannot be read: KeyError: 'image'"),
    (TensorDataset(BYTES[:, :2], LABELS), "item 0 .* an image must be a path"),
    (TensorDataset(FLOATS[:, :, :20], LABELS), r"normalised floats \[B,3,S,S\]"),
    (TensorDataset(FLOATS, LABELS - 1), r"integer labels \[B\] from 0 to 3"),
    (TensorDataset(FLOATS, LABELS.float()), r"integer labels \[B\] from 0 to 3"),
    ([(photo(), None)], "the labels of the data must be integers"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_be_taken_is_named_in_one_sentence(data, message: str) -> None:
    for take in (partial(aib.fit, settings=SMALL), partial(aib.evaluate, batch_size=8)):
        with pytest.raises(aib.AibError, match=message):
            take(model(), data)


class Table(list):
    """As a data set of Hugging Face: rows are dicts, `features` names the classes."""

    features: ClassVar = {"label": SimpleNamespace(names=["ant", "bee", "cat", "dog"])}

    def __getitem__(self, key):
        return [row["label"] for row in self] if key == "label" else super().__getitem__(key)


def test_a_data_set_of_hugging_face_is_read_by_its_columns() -> None:
    data = Table({"img": photo(90, 80, seed=i), "label": i % 3} for i in range(9))
    images = adapt(data, aib.Preprocessing(80), 4, batch_size=1)
    assert images.class_names == ("ant", "bee", "cat", "dog") and images.images is None
    assert images.labels.tolist() == [0, 1, 2] * 3 and images.pixels(4).shape == (3, 80, 80)


@pytest.mark.parametrize("change", [{"cutout": 4}, {"devices": 2}])
def test_tensors_are_neither_augmented_nor_shared_out(change: dict) -> None:
    with pytest.raises(aib.AibError, match="neither augmented nor shared out"):
        aib.fit(model(), TensorDataset(normalised(), LABELS), SMALL.updated(**change))


def test_evaluate_prepares_an_image_set_for_the_model() -> None:
    trained = model(preprocessing=POLICY)
    seen: list[torch.Tensor] = []
    trained.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    aib.evaluate(trained, image_set(24, size=48))
    assert seen[0].shape[-1] == 32
    aib.evaluate(trained, image_set(24))
    assert torch.equal(seen[1], normalised())
