"""Example pictures: test images of the data that a model was trained on, or none."""

import json
from dataclasses import replace

import pytest

from aib.config.settings import Settings
from aib.viewer.examples import COUNT, find_examples, training_data
from tests.data.official import write_folder
from tests.helpers import shapes
from tests.viewer.fixtures import opened


def test_examples_are_test_images_of_the_first_run_whose_data_is_there(tmp_path):
    photos = write_folder(tmp_path / "photos" / "test", classes=2).parent
    settings = Settings(data=f"folder:{photos}:image_size=80")
    saved = opened(tmp_path)  # a saved model names no data
    gone = replace(saved, settings=Settings(data="cifar10", root=str(tmp_path)))
    assert find_examples([saved, gone]) == []
    found = find_examples([saved, gone, replace(saved, settings=settings)])
    assert found and {one.name.split(", ")[1] for one in found} <= {
        "test: class_0",
        "test: class_1",
    }
    found = find_examples([replace(saved, settings=Settings(data="shapes"))])
    assert len(found) == COUNT and {one.image.size for one in found} == {(32, 32)}
    assert {one.name.removeprefix("shapes, test: ") for one in found} <= {*shapes(2).class_names}


@pytest.mark.parametrize(
    ("trained", "data"),
    [
        ({"recipe": {"data": "cifar10", "epochs": 3}}, "cifar10"),
        ({"recipe": {}}, "shapes"),  # the default is left out
        ({"recipe": {"data": 5}}, None),
        ("long ago", None),
        (None, None),
    ],
)
def test_a_saved_models_recipe_names_its_training_data(tmp_path, trained, data):
    config = {"schema": 1, "model": {}, "preprocessing": {}, "trained": trained}
    saved = opened(tmp_path)
    saved.folder.mkdir()
    (saved.folder / "config.json").write_text(json.dumps(config))
    assert training_data(saved) == data
