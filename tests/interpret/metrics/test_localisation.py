import pytest
import torch

from aib.errors import AibError
from aib.interpret import (
    Localisation,
    centre_gaussian,
    energy_inside,
    mask_auroc,
    pointing,
    random_map,
)


def disc(size: int = 32, radius: float = 8.0) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return ((y - 12) ** 2 + (x - 18) ** 2 < radius**2)[None]


def test_a_mask_finds_itself_and_its_inverse_does_not():
    mask = disc()
    for figure in (pointing, energy_inside, mask_auroc):
        assert float(figure(mask.float(), mask)) == 1
        assert float(figure(1 - mask.float(), mask)) == 0
    assert float(mask_auroc(-mask.float(), mask)) == 0


def test_a_constant_map_knows_nothing():
    mask = disc()
    share = float(mask.float().mean())
    flat = torch.full((1, 7, 7), 0.3)  # resized in float32 its ties would break
    assert float(mask_auroc(flat, mask)) == 0.5
    assert float(pointing(flat, mask)) == pytest.approx(share)
    assert float(energy_inside(flat, mask)) == pytest.approx(share)


def test_pointing_counts_the_share_of_tied_maxima_inside():
    maps = torch.zeros(1, 4, 4)
    maps[0, 0, 0] = maps[0, 1, 1] = maps[0, 3, 3] = 0.8
    maps[0, 3, 0] = 0.799  # nearly one
    mask = torch.zeros(1, 4, 4, dtype=torch.uint8)
    mask[0, :2, :2] = 1
    assert float(pointing(maps, mask)) == pytest.approx(2 / 3)


def test_negative_values_are_no_energy():
    maps = torch.tensor([[[3.0, -5.0], [1.0, -1.0]]])
    mask = torch.tensor([[[True, True], [False, False]]])
    assert float(energy_inside(maps, mask)) == 0.75
    assert energy_inside(-maps.abs(), mask).isnan()


def test_images_without_an_answer_are_counted_and_not_averaged():
    objects = torch.cat([disc(), torch.ones(1, 32, 32), torch.zeros(1, 32, 32), disc()]).bool()
    maps = torch.cat([disc(), disc(), disc(), torch.zeros(1, 32, 32)]).float()
    metric = Localisation()
    metric.update(maps[:3], objects[:3])
    metric.update(maps[3:], objects[3:])
    found = metric.compute()
    assert found.images == 4 and found.pointing.undefined == 2
    assert (found.auroc.value, found.auroc.undefined) == (0.75, 2)
    assert (found.energy.value, found.energy.undefined) == (1, 3)
    assert found.auroc.low <= 0.75 <= found.auroc.high


def test_controls_the_gaussian_finds_the_centre_and_noise_nothing():
    objects = torch.zeros(200, 32, 32, dtype=torch.bool)
    objects[:, 10:22, 10:22] = True
    noise = random_map(torch.arange(200), (32, 32))
    assert abs(float(mask_auroc(noise, objects).mean()) - 0.5) < 0.01
    centre = centre_gaussian(200, (32, 32))
    assert float(mask_auroc(centre, objects).mean()) > 0.95
    assert torch.equal(centre[0], centre[0].flip(0)) and torch.equal(centre[0], centre[0].T)


def test_bad_input_is_named():
    maps = torch.rand(2, 4, 4)
    with pytest.raises(AibError, match=r"\[2,H,W\], not \[3, 8, 8\]"):
        pointing(maps, torch.ones(3, 8, 8, dtype=torch.bool))
    with pytest.raises(AibError, match="threshold them first"):
        pointing(maps, torch.rand(2, 8, 8))
    with pytest.raises(AibError, match="maps of 2 images hold NaN"):
        Localisation().update(maps * torch.nan, torch.ones(2, 8, 8, dtype=torch.bool))


def test_ignored_pixels_count_in_no_score():
    generator = torch.Generator().manual_seed(0)
    maps = (torch.rand(4, 5, 6, generator=generator) * 6).round() / 6 - 0.2
    objects = (torch.rand(4, 5, 6, generator=generator) < 0.4).to(torch.uint8)
    ignored = torch.rand(4, 5, 6, generator=generator) < 0.3
    maps[:, 0, 0] = 9.0  # the highest score is ignored
    ignored[:, 0, 0] = True
    for score in (pointing, energy_inside, mask_auroc):
        found = score(maps, objects.masked_fill(ignored, 255))
        for i in range(4):  # the pixels that are left, as an image of one row
            left = maps[i][~ignored[i]][None, None], objects[i][~ignored[i]][None, None]
            assert float(found[i]) == pytest.approx(float(score(*left))), score
        full = objects.new_ones(4, 5, 6).masked_fill(ignored, 255)  # all that counts is the object
        assert score(maps, full).isnan().all()
