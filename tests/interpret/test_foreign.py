"""Studies of any network, with any function from images to maps."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from aib.config.validation import parse_json
from aib.data import Batches
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.interpret import Plan, modifications, study
from aib.interpret.posthoc import has_captum
from aib.interpret.results import Study
from aib.interpret.tables import all_tables
from tests.helpers import SmallNet, eval_model, shapes

DATA = shapes(12)
PLAN = Plan({"color-8": modifications()["color-8"]}, subset=6)


def gradients(network):
    def maps(x):
        x = x.detach().requires_grad_()
        best = network(x).max(-1).values.sum()
        return torch.autograd.grad(best, x)[0].abs().sum(1)

    return maps


def masks_of(data):
    """The masks as maps: each image is recognised by its pixels."""
    x = data.preprocessing.normalise(data.images)

    def maps(batch):
        same = (batch[:, None] == x[None]).flatten(2).all(2).float()  # [B,N]
        return (same @ data.objects.flatten(1).float()).unflatten(1, data.objects.shape[1:])

    return maps


def test_a_network_is_scored_with_maps_of_any_function():
    network = SmallNet()
    given = {
        "gradient": gradients(network),
        "mask": masks_of(DATA),
        "constant": lambda x: np.ones((len(x), 8, 8)),
    }
    found = study(network, DATA, PLAN, maps=given, name="theirs")
    network.eval()
    x = DATA.preprocessing.normalise(DATA.images)
    right = network(x).argmax(1) == DATA.labels
    assert found.accuracy == pytest.approx(100 * float(right.double().mean()))
    assert found.images == 12 and found.subset_images == 6 and not found.has_maps
    posthoc = {"gradcam"} if has_captum() else set()
    assert set(found.localisation) == {*given, *posthoc, "centre", "random"}
    assert set(found.faithfulness) == set(found.localisation)
    mask = found.localisation["mask"]
    for one in (mask.auroc, mask.energy, mask.pointing, mask.pxap, mask.mask_iou):
        assert one.value == 1
    assert mask.max_box_acc.value > 0.7  # a stroke may cut a shape in two
    assert found.localisation["constant"].auroc.value == 0.5
    assert "no single" in found.verdict_text
    assert found.data == "shapes"
    text = json.dumps(found.to_dict(), allow_nan=False)
    again = parse_json(Study, json.loads(text), "a study")
    assert again.to_dict() == json.loads(text)
    tables = {table.title: table for table in all_tables({"theirs": again})}
    assert any("gradient" in row for row in tables["Where is the object?"].rows)


def test_a_study_needs_neither_a_plan_nor_batches():
    found = study(SmallNet(), DATA)
    assert set(found.stability) == {
        name for name, m in modifications().items() if m.kind != "foreign"
    }


class Items(Dataset):
    """Images and labels of a list."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def test_a_dataset_is_studied_as_its_images():
    policy = DATA.preprocessing
    data = Items([(DATA.images[i], int(y)) for i, y in enumerate(DATA.labels)])
    model, network = eval_model("tiny_aib", DATA), SmallNet()
    found = study(model, data, PLAN, expensive=False)
    expected = study(model, replace(DATA, objects=None), PLAN, expensive=False)
    assert found.images == 12 and found.accuracy == expected.accuracy
    assert found.verdict == expected.verdict is not None
    theirs = study(network, data, PLAN, preprocessing=policy, expensive=False)
    assert theirs.accuracy == study(network, DATA, PLAN, expensive=False).accuracy


def test_images_are_prepared_for_the_network():
    """The caller's normalisation and size, not the data's."""
    seen = []

    class Spy(SmallNet):
        def forward(self, x):
            seen.append(x)
            return super().forward(x)

    policy = Preprocessing(image_size=48, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    study(Spy(), DATA, PLAN, preprocessing=policy, expensive=False)
    assert all(x.shape[2:] == (48, 48) and x.min() >= 0 and x.max() <= 1 for x in seen)


def test_the_scale_of_given_maps_does_not_matter():
    """Tiny ones are not flat."""
    made = gradients(network := SmallNet())
    given = {"large": made, "tiny": lambda x: 2.0**-30 * made(x)}  # exact
    found = study(network, DATA, PLAN, maps=given)
    for part in (found.localisation, found.faithfulness):
        assert part["tiny"] == part["large"]


def test_classes_are_matched_by_name():
    """Of data with the model's classes in another order, as in an evaluation."""
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    policy = replace(DATA.preprocessing, class_names=tuple(DATA.class_names[i] for i in order))
    other = replace(DATA, labels=order.argsort()[DATA.labels], preprocessing=policy)
    for model, own in ((eval_model("tiny", DATA), None), (SmallNet(), DATA.preprocessing)):
        found, expected = (
            study(model, data, PLAN, preprocessing=own, expensive=False) for data in (other, DATA)
        )
        assert found.accuracy == expected.accuracy
        with pytest.raises(AibError, match="give the ImageSet instead"):
            study(model, Batches(other, 4), PLAN, preprocessing=own, expensive=False)


def test_a_network_without_a_grid_has_no_gradcam_and_a_note():
    pytest.importorskip("captum")
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    found = study(flat, DATA, PLAN)
    assert set(found.faithfulness) == {"centre", "random"}
    assert any("Grad-CAM needs a layer" in note for note in found.notes)


def test_a_compiled_model_is_studied_as_the_model_that_was_compiled():
    model = eval_model("tiny_aib_masked", DATA)
    found = study(torch.compile(model, backend="eager"), DATA, PLAN, expensive=False)
    assert found.verdict == study(model, DATA, PLAN, expensive=False).verdict is not None


class Pair(SmallNet):
    def forward(self, x):
        return super().forward(x), x


@pytest.mark.parametrize(
    ("network", "arguments", "said"),
    [
        (SmallNet(), {"maps": {"own": lambda x: x[:, 0]}}, "choose another name"),
        (SmallNet(), {"maps": {"rgb": lambda x: x}}, r"must give \[B,h,w\]"),
        (SmallNet(), {"maps": {"none": lambda x: None}}, r"must give \[B,h,w\]"),
        (SmallNet(), {"maps": lambda x: x[:, 0]}, "maps must be functions by name"),
        (SmallNet(), {"maps": {"a": lambda x: x[:, 0]}, "expensive": False}, "expensive measures"),
        (SmallNet(7), {}, "7 classes and the data 10"),
        (SmallNet(), {"data": [DATA[0]]}, "needs preprocessing="),
        (Pair(), {}, r"logits \[1,classes\], not tuple"),
        (nn.Sequential(SmallNet(), nn.Softmax(1)), {}, "probabilities, not logits"),
        (eval_model("tiny", DATA), {"preprocessing": DATA.preprocessing}, "of its own"),
        (
            SmallNet(),
            {"data": Batches(DATA, 4), "preprocessing": Preprocessing(image_size=48)},
            "give the ImageSet instead",
        ),
    ],
)
def test_mistakes_are_answered_in_a_sentence(network, arguments, said):
    with pytest.raises(AibError, match=said):
        study(network, **{"data": DATA, "plan": PLAN} | arguments)


def test_a_bar_shows_the_progress_on_a_terminal(monkeypatch, capsys):
    model = eval_model("tiny_aib_masked", DATA)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    study(model, DATA, PLAN, expensive=False)
    assert "starting" in capsys.readouterr().err
