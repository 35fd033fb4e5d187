"""Kinds of maps on the same model and images, and the protocol of measures."""

from collections import Counter
from dataclasses import replace

import torch

from aib.data import Batches, ImageFiles
from aib.interpret import Plan, kinds, studies, study
from aib.interpret.measure import Measure
from aib.interpret.studies import no_objects
from tests.helpers import SmallNet, eval_model, photo, shapes

DATA = shapes(20)


def test_data_without_masks_give_the_reason(tmp_path):
    assert no_objects(DATA) is None
    assert "neither" in no_objects(replace(DATA, objects=None))
    crops = torch.zeros(20, 4)
    files = ImageFiles(tuple(tmp_path for _ in range(20)), crops)
    cut = replace(DATA, images=None, objects=None, files=files)
    assert "cropped to the objects' boxes" in no_objects(cut)


def test_without_captum_the_controls_remain(monkeypatch):
    monkeypatch.setattr(kinds, "has_captum", lambda: False)
    model = eval_model("tiny_aib", DATA)
    makers, layer, problems = kinds.map_makers(model, Batches(DATA, 8), {}, has_maps=True, seed=0)
    assert list(makers) == ["own", "centre", "random"] and layer is None
    assert "pip install" in problems[0]


def test_a_map_of_a_batch_is_made_once_for_all_measures():
    calls = []

    def counted(x):
        calls.append(len(x))
        return x.mean(1)

    study(SmallNet(), DATA, Plan({}, subset=6), maps={"counted": counted})
    assert calls == [6]


def test_a_measure_takes_one_file_and_one_entry_of_the_list(monkeypatch):
    """A later measurement: its own pass over all images, and a second one."""
    seen = []

    class Later(Measure):
        title, passes = "later", 2

        def update(self, view):
            seen.append(("first", view.first, len(view.x)))

        def update_again(self, view):
            seen.append(("second", view.first, len(view.x)))

        def fields(self):
            return {"gradcam_layer": "later"}

    monkeypatch.setattr(studies, "MEASURES", (*studies.MEASURES, Later))
    data = Batches(DATA, 12)
    found = study(SmallNet(), data, Plan({}), expensive=False)
    assert seen == [("first", 0, 12), ("first", 12, 8), ("second", 0, 12), ("second", 12, 8)]
    assert found.gradcam_layer == "later"


def test_files_are_decoded_once_for_both_passes(monkeypatch):
    decoded, decode = Counter(), ImageFiles.decode

    def count(files, index, reduce=0):
        decoded[index] += 1
        return decode(files, index, reduce)

    monkeypatch.setattr(ImageFiles, "decode", count)
    files = ImageFiles(tuple(photo(seed=i) for i in range(20)))
    data = replace(DATA, images=None, objects=None, files=files)
    found = study(eval_model("tiny_aib", DATA), Batches(data, 8), Plan({}), expensive=False)
    assert found.encoding is not None, "with a second pass"
    # The first image also says what the model has.
    assert decoded == {0: 2} | dict.fromkeys(range(1, 20), 1)
