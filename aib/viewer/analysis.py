"""What one model says of one image: the decision, the map, and how sure it is of both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from aib.classifier import Classifier, seeded_evaluation
from aib.errors import install
from aib.gaussian import kl_to_standard_normal
from aib.interpret.maps import Method, make_maps
from aib.interpret.metrics.information import nats_to_bits
from aib.interpret.posthoc import has_captum
from aib.types import Attention, Output


@dataclass(frozen=True)
class Analysis:
    """Everything that the page shows of one model and one image, on the CPU."""

    names: tuple[str, ...]  # of the classes
    probabilities: Tensor  # [C], averaged over the samples as the model's profile says
    spread: Tensor | None  # [C], deviation of each probability over the samples; None for one
    entropy: float  # of the decision, in bits
    disagreement: float | None  # the part of it on which the samples disagree, in bits
    kl: float | None  # of the latent to its prior, in bits: the most that it carries
    drawn: str  # "4x12", or "one pass" for a model without noise
    method: Method | None  # how the map was made; None where there is no map
    map: Tensor | None  # [h,w], quantised where the model quantises
    levels: Tensor | None  # [h,w], 0 to Q - 1 in rising order of the anchors' values
    anchors: Tensor | None  # [Q], rising
    sigma: Tensor | None  # [h,w]
    samples: Tensor | None  # [S,h,w], what the features met: quantised as well

    @property
    def prediction(self) -> int:
        """The class decided on."""
        return int(self.probabilities.argmax())

    @property
    def used_levels(self) -> list[int]:
        """The levels that occur in the map, highest first."""
        return [] if self.levels is None else sorted(self.levels.unique().tolist(), reverse=True)

    def top(self, count: int) -> list[int]:
        """The likeliest classes, likeliest first."""
        best: list[int] = self.probabilities.topk(min(count, len(self.names))).indices.tolist()
        return best


@torch.no_grad()
def analyse(
    model: Classifier, pixels: Tensor, *, samples: tuple[int, int] | None = None, seed: int = 0
) -> Analysis:
    """Look at one image, uint8 [3,S,S] at the model's size.

    The noise is seeded: the figures are those of `aib explain`, and an occluded image differs from
    the whole one by its blocks alone and not by the draws.
    """
    device = next(model.parameters()).device
    x = model.preprocessing.normalise(pixels[None].to(device))  # [1,3,S,S]
    with seeded_evaluation(model, seed):
        out: Output = model(x, samples)
        probabilities = out.logits.softmax(-1)[0].float().cpu()  # [C]
        method = map_method(out.attention)
        map = _map(model, out.attention, x, method, probabilities)
    each = out.sample_logits[:, :, 0].flatten(0, 1).float().softmax(-1).cpu()  # [S*M,C]
    several = len(each) > 1
    levels, anchors = _levels(model, out.attention)
    sigma, drawn = _noise(out.attention)
    return Analysis(
        names=model.preprocessing.class_names or tuple(str(i) for i in range(model.num_classes)),
        probabilities=probabilities,
        spread=each.std(0) if several else None,
        entropy=float(_entropy(probabilities)),
        disagreement=_disagreement(each) if several else None,
        kl=_kl(out),
        drawn="{}x{}".format(*out.sample_logits.shape[:2]) if several else "one pass",
        method=method,
        map=map,
        levels=levels,
        anchors=anchors,
        sigma=sigma,
        samples=drawn,
    )


def map_method(attention: Attention | None) -> Method | None:
    """The model's own map; for a model without one Grad-CAM's, where captum is there to make it."""
    if attention is not None:
        return "own"
    return "gradcam" if has_captum() else None


def map_note(found: Analysis) -> str | None:
    """What to know of a model before its maps are read; None for one with attention."""
    if found.method == "own":
        return None
    if found.method == "gradcam":
        return "it has no attention of its own, so the map shown is Grad-CAM's"
    return f"it has no attention of its own; {install('posthoc')} to see Grad-CAM instead"


def _map(
    model: Classifier,
    attention: Attention | None,
    x: Tensor,
    method: Method | None,
    probabilities: Tensor,
) -> Tensor | None:
    if method is None:
        return None
    if attention is not None:
        maps = model.mean_map(attention)[0]
    else:
        maps = make_maps(model, x, method, probabilities.argmax()[None])
    return maps[0].float().cpu()  # [h,w]


def _levels(model: Classifier, attention: Attention | None) -> tuple[Tensor | None, Tensor | None]:
    """Levels [h,w] of the mean map and the anchors' values in rising order, or neither."""
    if attention is None or model.quantizer is None:
        return None, None
    _, levels = model.mean_map(attention)
    assert levels is not None
    return levels[0].cpu(), model.quantizer.anchors.detach().sort().values.float().cpu()


def _noise(attention: Attention | None) -> tuple[Tensor | None, Tensor | None]:
    """sigma [h,w] and the draws [S,h,w] as the features met them; neither for a fixed map."""
    if attention is None or attention.sigma is None:
        return None, None
    return attention.sigma[0].float().cpu(), attention.a_q[:, 0].float().cpu()


def _entropy(probabilities: Tensor) -> Tensor:
    """In bits, over the last axis."""
    return nats_to_bits(torch.special.entr(probabilities).sum(-1))


def _disagreement(each: Tensor) -> float:
    """H(mean p) - mean H(p) of samples [n,C]: 0 where all say the same, however unsure they are."""
    return max(float(_entropy(each.mean(0)) - _entropy(each).mean()), 0.0)


def _kl(out: Output) -> float | None:
    """In bits, averaged over the attention's samples."""
    if out.latent is None:
        return None
    return float(nats_to_bits(kl_to_standard_normal(out.latent.mu, out.latent.sigma)).mean())
