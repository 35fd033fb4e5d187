"""Modified images: an occluding block, or only the high or the low frequencies.

An interpretable map should stay the same when a modification leaves the prediction unchanged
(the paper's section 4.4). Everything works on batches of uint8 pixels, before normalisation.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.data.objects import boxes_to_objects
from aib.errors import AibError
from aib.interpret.metrics.seeded import Stream, integers

Kind = Literal["color", "foreign", "high", "low"]

# A channel with less contrast than this (of 255) has nothing to rescale but rounding noise.
FLAT_PIXELS = 1e-2


@dataclass(frozen=True)
class Modification:
    """One way to modify images. The same seed and index give the same pixels for every model."""

    name: str
    kind: Kind
    amount: float  # the block's side p, or the radius r

    def fits(self, size: int) -> bool:
        """Whether images of this size hold the block."""
        return self.kind in ("high", "low") or self.amount <= size

    def __call__(
        self, images: Tensor, index: Tensor, *, seed: int = 0, foreign: Tensor | None = None
    ) -> Tensor:
        """uint8 [N,3,H,W] to uint8 [N,3,H,W]; `index` [N] is each image's index in its data set."""
        if images.dtype != torch.uint8:
            raise AibError(f"images must be uint8, from before normalisation, not {images.dtype}")
        if self.kind == "color":
            return occlude_color(images, index, int(self.amount), seed=seed)
        if self.kind in ("high", "low"):
            return keep_frequencies(images, self.kind, self.amount)
        if foreign is None:
            raise AibError(f"{self.name} needs the images of another data set: pass foreign=")
        return occlude_foreign(images, index, int(self.amount), foreign, seed=seed)


def modifications(foreign: str = "svhn") -> dict[str, Modification]:
    """The paper's ten, by name, and `high>4`; `foreign` names the data set whose images occlude.

    `high-4` keeps r >= 4, as Wang et al. do. The paper's text has r > 4: that is `high>4`, and the
    two show the effect of the boundary.
    """
    sizes = (4, 8, 12, 16)
    known = [Modification(f"color-{p}", "color", p) for p in sizes]
    known += [Modification(f"{foreign}-{p}", "foreign", p) for p in sizes]
    # r^2 is an integer, so r >= 4.01 is r > 4.
    known += [Modification("high-4", "high", 4), Modification("high>4", "high", 4.01)]
    known += [Modification("low-12", "low", 12)]
    return {modification.name: modification for modification in known}


def block_corners(index: Tensor, size: tuple[int, int], p: int, *, seed: int = 0) -> Tensor:
    """Top and left [N,2] of each image's p x p block, uniform over all positions inside the image.

    The random numbers depend neither on p nor on what fills the block, so sizes and fillings are
    compared at nearly the same positions.
    """
    height, width = size
    if p > min(size):
        raise AibError(f"a block of {p} x {p} does not fit inside an image of {height} x {width}")
    return integers(seed, Stream.OCCLUSION, index, (height - p + 1, width - p + 1))


def block_mask(index: Tensor, size: tuple[int, int], p: int, *, seed: int = 0) -> Tensor:
    """True where the block covers the image: bool [N,H,W]."""
    top, left = block_corners(index, size, p, seed=seed).T
    return boxes_to_objects(torch.stack([left, top, left + p, top + p], dim=1), size)


def occlude_color(images: Tensor, index: Tensor, p: int, *, seed: int = 0) -> Tensor:
    """A p x p block of one uniform random colour on each image."""
    index = index.to(images.device)
    mask = block_mask(index, (images.shape[2], images.shape[3]), p, seed=seed)
    # Numbers 0 and 1 give the position, 2, 3 and 4 the colour, and 5 the foreign image.
    color = integers(seed, Stream.OCCLUSION, index, (1, 1, 256, 256, 256))[:, 2:]  # [N,3]
    return torch.where(mask[:, None], color.to(torch.uint8)[:, :, None, None], images)


def occlude_foreign(
    images: Tensor, index: Tensor, p: int, foreign: Tensor, *, seed: int = 0
) -> Tensor:
    """A random image of `foreign` (uint8 [M,3,h,w]), resized to p x p, on each image."""
    index = index.to(images.device)
    mask = block_mask(index, (images.shape[2], images.shape[3]), p, seed=seed)
    chosen = integers(seed, Stream.OCCLUSION, index, (1, 1, 1, 1, 1, len(foreign)))[:, 5]  # [N]
    patch = foreign[chosen.to(foreign.device)].to(images.device).float()  # [N,3,h,w]
    patch = F.interpolate(patch, size=(p, p), mode="bilinear", antialias=True, align_corners=False)
    patch = patch.round().clamp(0, 255).to(torch.uint8)  # [N,3,p,p]
    modified = images.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)  # [N,H,W,3]
    modified[mask] = patch.permute(0, 2, 3, 1).reshape(-1, 3)
    return modified.permute(0, 3, 1, 2)


def frequency_split(images: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Low (r < radius) and high (r >= radius) parts, float [N,3,H,W]; they add up to the images."""
    height, width = images.shape[2:]
    device = images.device
    # In a centred spectrum the constant part stands at (H/2, W/2), and a coefficient's distance
    # from there is r = sqrt(u^2 + v^2) with u, v its integer cycles per image: no shift is needed.
    # Pixels are real, so half of the spectrum is enough; squares keep the comparison exact.
    u = torch.fft.fftfreq(height, 1 / height, device=device).round()  # [H]
    v = torch.fft.rfftfreq(width, 1 / width, device=device).round()  # [W//2+1]
    keep = u[:, None] ** 2 + v[None, :] ** 2 < radius**2  # [H,W//2+1]
    spectrum = torch.fft.rfft2(images.float())
    low = torch.fft.irfft2(spectrum * keep, s=(height, width))
    high = torch.fft.irfft2(spectrum * ~keep, s=(height, width))
    return low, high


def keep_frequencies(images: Tensor, kind: Literal["high", "low"], radius: float) -> Tensor:
    """One part of the split, each image and channel min-max rescaled to 0-255, as uint8."""
    low, high = frequency_split(images, radius)
    part = low if kind == "low" else high
    least = part.amin(dim=(2, 3), keepdim=True)  # [N,3,1,1]
    contrast = part.amax(dim=(2, 3), keepdim=True) - least
    scaled = (part - least) / contrast.clamp_min(FLAT_PIXELS) * 255
    # A flat channel keeps its values, as a flat map does in the score.
    part = torch.where(contrast < FLAT_PIXELS, part, scaled)
    return part.round().clamp(0, 255).to(torch.uint8)
