"""Does closed mean closed? Every value against loops over the images of a model made by hand."""

import math
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from aib.config.validation import parse_json
from aib.data import ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibWarning
from aib.interpret import study
from aib.interpret.maps import explain_batch
from aib.interpret.measure import Context
from aib.interpret.measured import MaskUse
from aib.interpret.measures.mask import MaskMeasure
from aib.models.latent import LinearHead
from aib.models.masked import Masked
from tests.interpret.planted import FromRed

N, C, SIDE, STD = 23, 3, 6, 0.8
FIELD = np.random.Generator(np.random.PCG64(0)).standard_normal((3, SIDE, SIDE))


def make():
    """The map is the red channel, clipped: it has exact zeros and ones."""
    torch.manual_seed(1)
    head = LinearHead(3 * SIDE * SIDE, C)
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.3)
    return Masked(nn.Flatten(), head, FromRed(), C, noise_std=STD).eval()


def mask_use(model, x, y, batch=N):
    """What the measure finds on normalised images and labels."""
    measure = MaskMeasure(Context(model, frozenset()))
    with torch.no_grad():
        for i in torch.arange(N).split(batch):
            found = explain_batch(model, x[i], deterministic=True)
            seen = {"x": x[i], "first": int(i[0]), "explanation": found}
            measure.update(SimpleNamespace(batch=SimpleNamespace(labels=y[i]), **seen))
    return measure.fields()["mask"]


def pictures():
    generator = torch.Generator().manual_seed(2)
    x = 0.5 + 0.6 * torch.randn(N, 3, SIDE, SIDE, generator=generator)
    return x, torch.randint(C, (N,), generator=generator)


def mask_by_hand(a):
    return np.clip(1.1 * a - 0.05, 0, 1)


def moved(a, image):
    """One cell to the right, down, left and up in turn; the edge's value comes in."""
    found = np.empty_like(a)
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[image % 4]
    for i in range(SIDE):
        for j in range(SIDE):
            found[i, j] = a[np.clip(i - down, 0, SIDE - 1), np.clip(j - right, 0, SIDE - 1)]
    return found


def smoothed(a):
    wide = np.pad(a, 1, mode="edge")
    return np.array([[wide[i : i + 3, j : j + 3].mean() for j in range(SIDE)] for i in range(SIDE)])


def bits_by_hand(x, m):
    total = np.zeros_like(m)
    for value, at in (
        (float(x[c, i, j]), (i, j)) for c in range(3) for i, j in np.ndindex(m.shape)
    ):
        share = float(m[at])
        if share == 1:
            total[at] += 8
        elif share > 0:
            nats = ((share * value / STD) ** 2 + (1 - share) ** 2 - 1) / 2 - math.log(1 - share)
            total[at] += min(max(nats / math.log(2), 0), 8)
    return total


def by_hand(model, x, y):
    weight, bias = (p.detach().double().numpy() for p in model.head.parameters())
    x, y = x.double().numpy(), y.numpy()

    def logits(image, m):
        return weight @ (m * image + (1 - m) * STD * FIELD).ravel() + bias

    rows = []
    for i in range(N):
        a = np.clip(x[i, 0], 0, 1)
        m = mask_by_hand(a)
        bits = bits_by_hand(x[i], m)
        masks = {
            "own": m,
            "without_faint": np.where(m < 0.1, 0, m),
            "rounded": (m >= 0.5).astype(float),
            "shifted": mask_by_hand(moved(a, i)),
            "blurred": mask_by_hand(smoothed(a)),
        }
        rows.append(
            {name: logits(x[i], other).argmax() == y[i] for name, other in masks.items()}
            | {
                "closed": (m == 0).mean(),
                "open": (m == 1).mean(),
                "area": m.mean(),
                "bits": bits.sum(),
                "faint_bits": bits[m < 0.5].sum(),
            }
        )
    return {name: np.mean([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("batch", [N, 7])
def test_every_value_is_that_of_a_loop_over_the_images(batch):
    model, (x, y) = make(), pictures()
    found = mask_use(model, x, y, batch)
    hand = by_hand(model, x, y)
    assert found.images == N and found.bits == pytest.approx(hand["bits"], rel=1e-5)
    for name in ("closed", "open", "area"):
        assert getattr(found, name) == pytest.approx(100 * hand[name], rel=1e-4), name
    assert found.faint_bits == pytest.approx(100 * hand["faint_bits"] / hand["bits"], rel=1e-5)
    assert found.accuracy == pytest.approx(100 * hand["own"])
    for name in ("without_faint", "rounded", "shifted", "blurred"):
        drop = getattr(found, name)
        assert drop.value == pytest.approx(100 * (hand["own"] - hand[name])), name
        assert drop.low <= drop.value <= drop.high
    # The case shows something: pixels of every kind, and changes that matter.
    assert 5 < found.closed < 50 and 5 < found.open < 50
    assert len({getattr(found, n).value for n in ("rounded", "shifted", "blurred")}) > 1


def test_open_and_closed_ends():
    """Fully open: no noise can change anything. Fully closed: nothing passes."""
    model, (x, y) = make(), pictures()
    x[:, 0] = 1
    found = mask_use(model, x, y)
    assert (found.open, found.area, found.bits) == (100, 100, 24 * SIDE * SIDE)
    assert found.faint_bits == 0
    assert found.rounded.value == found.shifted.value == found.blurred.value == 0
    x[:, 0] = 0
    found = mask_use(model, x, y)
    assert (found.closed, found.area, found.bits, found.faint_bits) == (100, 0, 0, None)
    assert parse_json(MaskUse, asdict(found), "a mask") == found


def test_a_quick_study_counts_nearly_closed_masks_and_warns_of_many():
    model = make()
    model.preprocessing = Preprocessing(SIDE)
    pixels = torch.zeros(20, 3, SIDE, SIDE, dtype=torch.uint8)
    pixels[3:, 0, 0] = 255  # the first row of all but three images is open
    labels = torch.arange(20) % C
    data = ImageSet.from_tensors(pixels, labels)
    with pytest.warns(AibWarning, match="15% of the masks keep less than 2%"):
        found = study(model, data, expensive=False)
    assert found.information.nearly_closed == pytest.approx(3 / 20)
