"""The output of a model, its parts and their shapes.

    x [B,3,H,W] -> f [B,c,h,w] -> a [S,B,h,w] -> a_q -> z [S,M,B,K] -> logits [S,M,B,C]

S samples of the attention, and M samples of the latent for each of them.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor

from aib.config.validation import Averaging, Positive, Rule, check_fields
from aib.models.gaussian import widen


@dataclass(frozen=True)
class Attention:
    """p(a|x) and its samples. For a deterministic map sigma is None and `a` is `mu`."""

    mu: Tensor  # [B,h,w]
    sigma: Tensor | None  # [B,h,w]
    a: Tensor  # [S,B,h,w]
    a_q: Tensor  # [S,B,h,w], `a` itself without a quantiser
    indices: Tensor | None = None  # [S,B,h,w], which anchor
    quantization: Tensor | None = None  # scalar, moves the anchors
    commitment: Tensor | None = None  # scalar, moves the attention
    maps: tuple[Tensor, ...] = ()  # every [B,h,w] map of a model that has several

    @classmethod
    def fixed(cls, mu: Tensor, maps: tuple[Tensor, ...] = ()) -> "Attention":
        """A deterministic map, as the baselines have it."""
        return cls(mu=mu, sigma=None, a=mu[None], a_q=mu[None], maps=maps or (mu,))


@dataclass(frozen=True)
class Latent:
    """p(z|x,a) and its samples."""

    mu: Tensor  # [S,B,K]
    sigma: Tensor  # [S,B,K]
    z: Tensor  # [S,M,B,K]


@dataclass(frozen=True)
class Output:
    """Result of a forward pass; what a model does not have is None."""

    sample_logits: Tensor  # [S,M,B,C]
    attention: Attention | None = None
    latent: Latent | None = None
    aux_logits: Tensor | None = None  # [B,C], of ABN's second head
    mask: Tensor | None = None  # [S,B,H,W], masked models: the share of each pixel that is seen

    @property
    def logits(self) -> Tensor:
        """[B,C]: log of the mean probability over the samples."""
        return self.average("probabilities")

    def average(self, over: Averaging) -> Tensor:
        """[B,C]: log of the mean probability over the samples, or the mean of their logits."""
        samples = widen(self.sample_logits).flatten(0, 1)  # [S*M,B,C]
        if over == "logits":
            return samples.mean(0)
        # log((1/n) sum_i p_i), without ever leaving the log domain
        return samples.log_softmax(-1).logsumexp(0) - math.log(samples.shape[0])


@dataclass(frozen=True)
class LossTerms:
    """The loss, term by term, unweighted and in nats; `total` is the weighted sum."""

    total: Tensor
    nll: Tensor
    kl: Tensor
    quantization: Tensor
    commitment: Tensor
    auxiliary: Tensor  # of ABN's second head
    area: Tensor  # mean of the map; of a masked model, of the mask
    excess: Tensor  # masked models: area above the budget, mean over images

    def detached(self) -> dict[str, Tensor]:
        """The terms by name, without gradient, still on their device."""
        return {name: getattr(self, name).detach() for name in self.__dataclass_fields__}


class Noise(NamedTuple):
    """Noise given by the caller, for a repeatable pass; what is None is sampled."""

    a: Tensor | None = None  # [S,B,h,w]
    z: Tensor | None = None  # [S,M,B,K]
    x: Tensor | None = None  # [S,B,3,H,W], masked models: in place of closed pixels


class Given(NamedTuple):
    """What a caller puts in place of the model's own map; None is the model's."""

    attention_map: Tensor | None = None  # [B,h,w], in place of a_q
    mask: Tensor | None = None  # [B,H,W], masked models: in place of m


class Sampling(NamedTuple):
    """Sampling of one forward pass: S attention samples, M latent samples for each of them."""

    s: int = 1
    m: int = 1
    deterministic: bool = False  # take the means; s = m = 1
    noise: Noise = Noise()


Share = Annotated[float, Rule("from 0 to 1", lambda share: 0 <= share <= 1)]


@dataclass(frozen=True)
class Calibration:
    """Fitted after training, and stored in config.json.

    The calibrated probabilities are softmax(log probabilities / temperature). A decision is unsure
    if its calibrated probability is below `unsure_below`.
    """

    temperature: Positive
    unsure_below: Share

    def __post_init__(self) -> None:
        check_fields(self)
