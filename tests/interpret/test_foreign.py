"""Studies of any network, with any function from images to maps."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from aib.data import Batches
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.interpret import ImageMetrics, Plan, mask_auroc, modifications, study
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
    found, each = study(network, DATA, PLAN, maps=given, name="theirs")
    network.eval()
    x = DATA.preprocessing.normalise(DATA.images)
    right = network(x).argmax(1) == DATA.labels
    assert found.accuracy == pytest.approx(100 * float(right.double().mean()))
    assert found.images == 12 and found.subset_images == 6 and not each.has_maps
    posthoc = {"gradcam", "integrated_gradients"} if has_captum() else set()
    assert set(found.localisation) == {*given, *posthoc, "centre", "random"}
    assert set(found.faithfulness) == set(found.localisation)
    mask = found.localisation["mask"]
    for one in (mask.auroc, mask.energy, mask.pointing, mask.pxap, mask.mask_iou):
        assert one.value == 1
    assert mask.max_box_acc.value > 0.7  # a stroke may cut a shape in two
    assert found.localisation["constant"].auroc.value == 0.5
    whole = found.faithfulness["mask"].deletion_curve[0]
    for curves in found.faithfulness.values():
        starts = [curves.deletion_curve[0], curves.road_morf_curve[0], curves.road_lerf_curve[0]]
        assert starts == pytest.approx([whole] * 3)
        assert curves.road_fractions == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]
    assert "no single" in found.verdict_text
    assert found.data == "shapes" and found.class_names == DATA.class_names
    text = json.dumps(found.to_dict(), allow_nan=False)
    again = Study.from_dict(json.loads(text))
    assert again.to_dict() == json.loads(text)
    tables = {table.title: table for table in all_tables({"theirs": again})}
    assert any("gradient" in row for row in tables["Where is the object?"].rows)


def test_every_kind_of_map_has_its_values_of_each_image_of_the_subset():
    network = SmallNet().eval()
    given = {"gradient": gradients(network), "mask": masks_of(DATA)}
    batches = Batches(DATA.subset(torch.arange(12).flip(0)), 5)
    found, each = study(network, batches, PLAN, maps=given)
    kinds = list(found.localisation)
    assert {"gradient", "mask", "centre", "random"} <= set(kinds)
    measured = ~each.columns["centre deletion"].isnan()
    assert int(measured.sum()) == 6
    for kind in kinds:
        located, curves = found.localisation[kind], found.faithfulness[kind]
        means = {
            "pointing": located.pointing,
            "energy_inside": located.energy,
            "auroc": located.auroc,
            "deletion": curves.deletion,
            "insertion": curves.insertion,
            "road_morf": curves.road_morf,
            "road_lerf": curves.road_lerf,
        }
        for name, mean in means.items():
            column = each.columns[f"{kind} {name}"]
            assert column[~measured].isnan().all()
            assert column[measured].isnan().sum() == (mean.undefined or 0)
            assert each.mean(f"{kind} {name}") == pytest.approx(mean.value)
    images = batches.data
    for row in measured.nonzero().flatten().tolist():
        position = int(each.columns["index"][row])
        x = images.preprocessing.normalise(images.images[position][None])
        value = mask_auroc(given["gradient"](x), images.objects[position][None])
        assert float(each.columns["gradient auroc"][row]) == pytest.approx(float(value), abs=1e-5)
    assert found.classes[0].means.keys() == study(network, DATA, PLAN)[0].classes[0].means.keys()


def test_values_of_a_subset_go_to_every_row_of_their_image():
    index = torch.tensor([5, 3, 3, 1])
    each = ImageMetrics({"index": index, "label": index})
    wide = each.with_subset(torch.tensor([1, 3]), {"a": torch.tensor([0.25, 0.5])})
    expected = torch.tensor([torch.nan, 0.5, 0.5, 0.25])
    torch.testing.assert_close(wide.columns["a"], expected, equal_nan=True)
    assert torch.equal(wide.columns["index"], index)


def test_a_study_needs_neither_a_plan_nor_batches():
    network = SmallNet()
    quick, _ = study(network, DATA, expensive=False)
    assert set(quick.stability) == {
        name for name, m in modifications().items() if m.kind != "foreign"
    }
    batched, _ = study(network, Batches(DATA, 5), PLAN)
    whole, _ = study(network, DATA, PLAN)
    assert batched.accuracy == whole.accuracy


def test_a_dataset_is_studied_as_its_images():
    policy = DATA.preprocessing
    data = Items([(DATA.images[i], int(y)) for i, y in enumerate(DATA.labels)])
    model = eval_model("tiny_aib", DATA)
    found, _ = study(model, data, PLAN, expensive=False)
    expected, _ = study(model, replace(DATA, objects=None), PLAN, expensive=False)
    assert found.images == 12 and found.accuracy == expected.accuracy
    assert found.stability == expected.stability
    network = SmallNet()
    theirs, _ = study(network, data, PLAN, preprocessing=policy, expensive=False)
    assert theirs.accuracy == study(network, DATA, PLAN, expensive=False)[0].accuracy


class Items(Dataset):
    """Images and labels of a list."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


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
    found, _ = study(network, DATA, PLAN, maps=given)
    for part in (found.localisation, found.faithfulness):
        assert part["tiny"] == part["large"]


@pytest.mark.parametrize("ours", [True, False])
def test_classes_are_matched_by_name(ours):
    """Of data with the model's classes in another order, as in an evaluation."""
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    names = tuple(DATA.class_names[i] for i in order)
    policy = replace(DATA.preprocessing, class_names=names)
    other = replace(DATA, labels=order.argsort()[DATA.labels], preprocessing=policy)
    model = eval_model("tiny", DATA) if ours else SmallNet()
    options = {} if ours else {"preprocessing": DATA.preprocessing}
    [expected, found] = [
        study(model, data, PLAN, expensive=False, **options)[0] for data in (DATA, other)
    ]
    assert found.accuracy == expected.accuracy and found.classes == expected.classes
    assert found.class_names == DATA.class_names
    with pytest.raises(AibError, match="give the ImageSet instead"):
        study(model, Batches(other, 4), PLAN, expensive=False, **options)


def test_a_network_without_a_grid_has_no_gradcam_and_a_note():
    pytest.importorskip("captum")
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    found, _ = study(flat, DATA, PLAN)
    assert "gradcam" not in found.faithfulness and "integrated_gradients" in found.faithfulness
    assert any("Grad-CAM needs a layer" in note for note in found.notes)


def test_a_compiled_model_is_studied_as_the_model_that_was_compiled():
    model = eval_model("tiny_aib_masked", DATA)
    found, _ = study(torch.compile(model, backend="eager"), DATA, PLAN, expensive=False)
    assert found.verdict == study(model, DATA, PLAN, expensive=False)[0].verdict is not None


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
    model, ticks = eval_model("tiny_aib_masked", DATA), []
    study(model, DATA, PLAN, tick=lambda what, done: ticks.append(what))
    assert {"images", "modified images", "localisation", "changed masks"} <= set(ticks)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)  # rich then takes any output for a terminal
    study(model, DATA, PLAN, expensive=False, progress=False)
    assert capsys.readouterr().err == ""
    study(model, DATA, PLAN, expensive=False)
    assert "starting" in capsys.readouterr().err
