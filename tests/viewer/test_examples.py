"""Example pictures: test images of the data that a run was trained on, or none."""

from dataclasses import replace

from aib.config.settings import Settings
from aib.viewer.examples import COUNT, find_examples
from tests.data.official import write_folder
from tests.helpers import shapes
from tests.viewer.fixtures import opened


def test_examples_are_test_images_of_the_runs_data_if_it_is_there(tmp_path):
    saved = opened(tmp_path)  # a saved model names no data
    gone = replace(saved, settings=Settings(data="cifar10", root=str(tmp_path)))
    assert find_examples(saved) == find_examples(gone) == []
    photos = tmp_path / "photos"
    for split in ("train", "test"):
        write_folder(photos / split, classes=2)
    own = Settings(data=f"folder:{photos}:image_size=80")
    found = find_examples(replace(saved, settings=own))
    assert {name.split(", ")[1] for _, name in found} == {"test: class_0", "test: class_1"}
    found = find_examples(replace(saved, settings=Settings(data="shapes")))
    assert len(found) == COUNT and {image.size for image, _ in found} == {(32, 32)}
    assert {name.removeprefix("shapes, test: ") for _, name in found} <= {*shapes(2).class_names}
