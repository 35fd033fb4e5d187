"""`aib.fit`, `aib.evaluate` and studies on a user's own data."""

from functools import cache, partial

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import aib
from aib.data import ImageSet, as_images
from aib.data.decode import to_tensor
from tests.data import official
from tests.helpers import image_set, photo, pixels, same_weights, small_model

SMALL = aib.Settings(epochs=2, batch_size=8, lr=0.01, workers=0, augment=False)
PIXELS, LABELS = pixels(24), torch.arange(24) % 4
POLICY = aib.Preprocessing(32, "squash", (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
ARRAYS = PIXELS.permute(0, 2, 3, 1).numpy()  # [N,H,W,3]
PICTURES = [(Image.fromarray(tile), i % 4) for i, tile in enumerate(ARRAYS)]
IMAGES = ImageSet.from_tensors(PIXELS, LABELS, mean=POLICY.mean, std=POLICY.std)
FORMS = {
    "PIL": PICTURES,
    "rows": [{"image": image, "label": label} for image, label in PICTURES],
    "tensors": (PIXELS, LABELS),
    "arrays": (ARRAYS, LABELS.numpy()),
    "data set": TensorDataset(PIXELS, LABELS),
    "subset": Subset(IMAGES, range(24)),
    "loader": DataLoader(TensorDataset(PIXELS, LABELS), 8, shuffle=True),
}


def model(**options) -> aib.Classifier:
    return small_model(num_classes=4, **options)


@cache
def trained_on_images() -> aib.Classifier:
    return aib.fit(model(), IMAGES, SMALL).model


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_pixels_train_as_the_same_pixels_in_an_image_set(data) -> None:
    trained = model(preprocessing=POLICY)
    ours = aib.fit(trained, data, SMALL)
    assert same_weights(ours.model, trained_on_images())
    assert trained.preprocessing == IMAGES.preprocessing
    assert aib.evaluate(trained, data).nll == aib.evaluate(trained, IMAGES).nll


def test_pixels_are_resized_as_the_user_or_else_the_model_says() -> None:
    policy = aib.Preprocessing(40, "crop", POLICY.mean, POLICY.std)
    data = [(photo(60, 30), 0), (photo(30, 60), 1)]
    for found in (as_images(data, policy, 2), as_images(data, POLICY, 2, preprocessing=policy)):
        middle = photo(60, 30).resize((40, 40), Image.Resampling.BILINEAR, (15, 0, 45, 30))
        assert torch.equal(found.pixels(0), to_tensor(middle))
        assert found.class_names == ("0", "1")


def test_large_images_are_read_once_and_reduced() -> None:
    reads = []

    class Photos(list):
        def __getitem__(self, i: int):
            reads.append(i)
            return photo(400, 200, seed=i), i % 3

    found = as_images(Photos(range(6)), aib.Preprocessing(80), 4)
    assert found.images is None and found.files.decode(0).size == (200, 100)
    whole = to_tensor(photo(400, 200, seed=5).resize((80, 80), Image.Resampling.BILINEAR))
    assert (found.pixels(5).int() - whole.int()).abs().float().mean() < 3
    assert found.subset(torch.tensor([5, 2])).pixels(0).equal(found.pixels(5))
    assert reads == list(range(6)) and found.labels.tolist() == [0, 1, 2] * 2


def test_a_name_means_its_training_images_and_its_test_images(tmp_path) -> None:
    for split, count in (("train", 6), ("test", 2)):
        official.write_folder(tmp_path / split, classes=4, per_class=count)
    name = f"folder:{tmp_path}:image_size=32"
    fitted = aib.fit(model(), name, SMALL, test=name)
    assert fitted.steps == 2 * (20 // 8) and fitted.test.images == 8  # four are held out
    assert aib.evaluate(fitted.model, name).images == 8


class Broken(list):
    def __getitem__(self, i: int):
        return super().__getitem__(i) if i != 7 else {}["image"]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(3, 32, 32), 0)])


ACCEPTED = r"must be an ImageSet, a name such as folder:PATH, \(images, labels\), or a map-style"
REFUSED = [
    (7, ACCEPTED),
    (Stream(), ACCEPTED),
    (DataLoader(Stream(), 8), ACCEPTED),
    ([], "0 images"),
    ([photo()], r"item 0 of the data cannot be read as \(image, integer label\)"),
    ([{"x": photo(), "label": 0}], "item 0 .*'image'"),
    ([("missing.jpg", 0)], "item 0 .*missing.jpg does not exist"),
    (Broken(PICTURES), "item 7 .*'image'"),
    (TensorDataset(PIXELS[:, :2], LABELS), "item 0 .* an image must be a path"),
    (TensorDataset(PIXELS.float(), LABELS), "item 0 .* a uint8 tensor"),
    (TensorDataset(PIXELS, LABELS - 1), "labels -1 to 2 of 4 classes"),
    (TensorDataset(PIXELS, LABELS.float()), "item 0 .* integer"),
    ([(photo(), None)], "item 0 .* integer"),
    ((PIXELS, LABELS[:5]), "24 images and 5 labels"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_be_taken_is_named_in_one_sentence(data, message: str) -> None:
    for take in (partial(aib.fit, settings=SMALL), partial(aib.evaluate, batch_size=8)):
        with pytest.raises(aib.AibError, match=message):
            take(model(), data)


def test_evaluate_prepares_an_image_set_for_the_model() -> None:
    trained = model(preprocessing=POLICY)
    seen: list[torch.Tensor] = []
    trained.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    aib.evaluate(trained, image_set(24, size=48))
    assert seen[0].shape[-1] == 32
    aib.evaluate(trained, image_set(24))
    assert torch.equal(seen[1], POLICY.normalise(PIXELS))
