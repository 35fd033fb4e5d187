"""Objects on other backgrounds: models that read only the object, or only what surrounds it."""

from dataclasses import replace

import torch
from torch import nn

from aib.data import Batches, ImageSet
from aib.interpret import Plan, all_tables, study
from aib.interpret.foreign import ForeignClassifier
from aib.interpret.measure import Context, run_measures
from aib.interpret.measures.backgrounds import BackgroundMeasure
from aib.interpret.metrics.fill import fill_hole
from tests.interpret import planted
from tests.interpret.planted import CLASSES, glyph_images

TITLE = "Does the decision rest on the background?"


def coloured(count: int, seed: int = 0) -> ImageSet:
    """Glyphs on a ground whose brightness names the class as well."""
    data = glyph_images(count, seed)
    shifts = (6 * data.labels - 9).view(-1, 1, 1, 1)
    return replace(data, images=(data.images.short() + shifts).to(torch.uint8))


class ObjectReader(nn.Module):
    def forward(self, x):
        return planted.glyph_logits(x)


class BackgroundReader(nn.Module):
    """The brightness; as many pixels of a glyph are bright as dark."""

    def forward(self, x):
        mean = 127.5 * (x.mean((1, 2, 3)) + 1) - 128
        return -(mean[:, None] - (6 * torch.arange(CLASSES) - 9)).abs()


class Recorder(ObjectReader):
    """Keeps what it sees, as pixels."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append((127.5 * (x + 1)).round().to(torch.uint8))
        return super().forward(x)


def measure(network, data, batch_size=50):
    model = ForeignClassifier(network, CLASSES, data.preprocessing).eval()
    context = Context(model, frozenset(), batch_size=batch_size)
    with torch.no_grad():
        [one] = run_measures(context, [BackgroundMeasure(context)], Batches(data, batch_size))
    return one.fields().get("backgrounds")


def test_a_model_that_reads_the_object_keeps_its_error():
    found = measure(ObjectReader(), coloured(300))
    assert found.images == 300 and found.without == 0
    assert found.own.value == found.filled.value == found.other.value == 0
    assert found.noise.value < 10
    assert found.alone.low < 45 and abs(found.lost.value) < 1
    assert found.chance < 35


def test_a_model_that_reads_the_background_fails_on_others():
    found = measure(BackgroundReader(), coloured(300))
    assert found.own.value == 0 and found.filled.value < 2
    assert found.other.value > 98 and found.alone.value > 98
    assert found.lost.low > 95 and found.lost.high <= 100
    assert 55 < found.noise.value < 95


def test_the_object_alone_is_exchanged():
    """By comparison with each image and its partner; the uncertain border goes with the hole."""
    data = coloured(12)
    objects = data.objects.clone()
    certain = data.objects.bool() & data.objects.roll(1, 1).bool()  # without the glyph's top row
    objects[data.objects.bool() & ~certain] = 255
    data = replace(data, objects=objects)
    spy = Recorder()
    measure(spy, data, batch_size=12)
    own, filled, other, noise, alone = spy.seen
    assert torch.equal(own, data.images)
    empty = [fill_hole(x[None].float(), o[None] != 0) for x, o in zip(own, objects, strict=True)]
    assert torch.equal(alone, torch.cat(empty).round().to(torch.uint8))
    inside = (objects == 1)[:, None].expand_as(own)
    for seen in (filled, other, noise):
        assert torch.equal(seen[inside], own[inside])
    assert torch.equal(filled[~inside], alone[~inside])
    for i in range(12):
        sources = [j for j in range(12) if torch.equal(other[i][~inside[i]], alone[j][~inside[i]])]
        assert sources and data.labels[sources[0]] != data.labels[i]
    assert noise[~inside].float().std() > 60 and not torch.equal(noise[0], noise[1])


def test_images_without_an_object_are_left_out_and_batches_do_not_matter():
    data = coloured(60)
    objects = data.objects.clone()
    objects[:5], objects[5:9] = 0, 255
    data = replace(data, objects=objects)
    found = measure(ObjectReader(), data, batch_size=60)
    assert (found.images, found.without) == (51, 9)
    assert measure(ObjectReader(), data, batch_size=7) == found
    one_class = replace(data, labels=torch.zeros_like(data.labels))
    assert measure(ObjectReader(), one_class) is None
    assert measure(ObjectReader(), replace(data, objects=torch.zeros_like(objects))) is None


def test_a_study_shows_plain_networks_and_masked_models_side_by_side():
    data, plan = coloured(40), Plan({}, subset=2)
    runs = {
        "plain": study(ObjectReader(), data, plan),
        "masked": study(planted.Selector(), data, plan),
    }
    [table] = [table for table in all_tables(runs) if table.title == TITLE]
    assert [row[0] for row in table.rows] == ["plain", "masked"]
    assert runs["masked"].to_dict()["backgrounds"]["other"]["value"] == 0
    quick = study(ObjectReader(), data, plan, expensive=False)
    assert quick.backgrounds is None and quick.stability == {}
    boxes = replace(data, objects=None, boxes=torch.tensor([[4.0, 4, 8, 8]]).expand(40, 4))
    assert study(ObjectReader(), boxes, plan).backgrounds is None
