"""Example pictures: a run's own test images if they are on disk, and shapes."""

import json
from dataclasses import replace

import pytest

from aib.config.settings import Settings
from aib.viewer.examples import find_examples, training_data, unknown_classes
from tests.helpers import photo, shapes
from tests.viewer.fixtures import opened


def test_examples_are_the_runs_own_test_images_and_shapes(tmp_path):
    for number, name in enumerate(("ant", "bee")):
        folder = tmp_path / "photos" / "test" / name
        folder.mkdir(parents=True)
        for i in range(9):
            photo(60, 40, seed=10 * number + i).save(folder / f"{i}.png")
    settings = Settings(data=f"folder:{tmp_path / 'photos'}:image_size=80")
    saved = opened(tmp_path)
    gone = replace(saved, settings=Settings(data="cifar10", root=str(tmp_path)))
    found = find_examples([saved, gone, replace(saved, settings=settings)])
    own = [e for e in found if not e.name.startswith("shapes")]
    assert len(own) == 12 and len(found) == 18
    assert {e.image.size for e in own} == {(60, 40)}
    assert {e.name.split(", ")[1] for e in own} == {"test: ant", "test: bee"}


def test_examples_need_no_data(tmp_path):
    """A saved model names none, and a run's data may be elsewhere."""
    saved = opened(tmp_path)
    gone = replace(saved, settings=Settings(data="cifar10", root=str(tmp_path)))
    shaped = replace(saved, settings=Settings())
    assert unknown_classes([saved], find_examples([saved])) == ""  # shapes are its classes
    for found in map(find_examples, ([saved], [gone], [shaped])):
        assert len(found) == 12 and {e.image.size for e in found} == {(32, 32)}
        assert all(e.name.removeprefix("shapes, test: ") in shapes(2).class_names for e in found)
    saved.model.preprocessing = replace(saved.model.preprocessing, class_names=())
    assert unknown_classes([saved], found) == ""  # which classes it has is not known


@pytest.mark.parametrize(
    ("trained", "data"),
    [
        ({"recipe": {"data": "cifar10", "epochs": 3}}, "cifar10"),
        ({"recipe": {}}, "shapes"),  # the default is left out
        ({"recipe": {"data": 5}}, None),
        ({"recipe": None}, None),
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
