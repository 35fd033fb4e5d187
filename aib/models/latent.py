"""p(z|x,a) and q(y|z): the latent and its decoder; and the plain linear head without them."""

from collections.abc import Callable

from torch import Tensor, nn

from aib.config.validation import Count, check
from aib.models.gaussian import noise_or_sample, positive_sigma, reparameterise, widen
from aib.models.types import Latent


class VariationalHead(nn.Module):
    """Embedding -> mu_z, sigma_z -> z -> logits. Extra z samples cost only the decoder."""

    def __init__(
        self, embedding_dim: int, latent_dim: int, decoder: nn.Module, *, norm: bool = False
    ):
        super().__init__()
        check("latent_dim", latent_dim, Count)
        self.latent_dim = latent_dim
        self.norm = nn.BatchNorm1d(embedding_dim) if norm else None
        self.encode = nn.Linear(embedding_dim, 2 * latent_dim)
        self.decode = decoder  # [..., K] -> [..., C]

    def forward(
        self, e: Tensor, samples: tuple[int, int], deterministic: bool, noise: Tensor | None
    ) -> tuple[Latent, Tensor]:
        """Embeddings [S*B,d] to the latent and to logits [S,M,B,C]."""
        s, m = samples
        e = e if self.norm is None else self.norm(e)
        # under bf16 autocast the KL would lose its small differences
        mu, raw_sigma = widen(self.encode(e)).unflatten(0, (s, -1)).chunk(2, dim=-1)  # [S,B,K]
        sigma = positive_sigma(raw_sigma)
        if deterministic:
            z = mu.unsqueeze(1)  # [S,1,B,K]
        else:
            eps = noise_or_sample(noise, (s, m, *mu.shape[1:]), mu, "z")
            z = reparameterise(mu.unsqueeze(1), sigma.unsqueeze(1), eps)  # [S,M,B,K]
        return Latent(mu, sigma, z), self.decode(z.to(self.encode.weight.dtype))


class LinearHead(nn.Linear):
    """Embedding -> logits: the same network without a bottleneck."""

    def __init__(self, embedding_dim: int, num_classes: int, *, norm: bool = False):
        super().__init__(embedding_dim, num_classes)
        self.norm = nn.BatchNorm1d(embedding_dim) if norm else None

    def forward(  # type: ignore[override]
        self, e: Tensor, samples: tuple[int, int], deterministic: bool, noise: Tensor | None
    ) -> tuple[None, Tensor]:
        """Embeddings [S*B,d] to logits [S,1,B,C]; there is nothing to sample."""
        e = e if self.norm is None else self.norm(e)
        return None, super().forward(e).unflatten(0, (samples[0], 1, -1))


def make_head(
    embedding_dim: int,
    num_classes: int,
    latent_dim: int | None,
    decoder: Callable[[int, int], nn.Module],
    *,
    norm: bool = False,
) -> VariationalHead | LinearHead:
    """A head with a bottleneck of K = `latent_dim`, or with None without one."""
    if latent_dim is None:
        return LinearHead(embedding_dim, num_classes, norm=norm)
    return VariationalHead(embedding_dim, latent_dim, decoder(latent_dim, num_classes), norm=norm)


def mlp_decoder(latent_dim: int, num_classes: int) -> nn.Sequential:
    """FC-ReLU-FC: the decoder of the VGG models and of all models at 224."""
    return nn.Sequential(
        nn.Linear(latent_dim, latent_dim), nn.ReLU(), nn.Linear(latent_dim, num_classes)
    )


def relu_decoder(latent_dim: int, num_classes: int) -> nn.Sequential:
    """ReLU-FC: the decoder of WRN at 32."""
    return nn.Sequential(nn.ReLU(), nn.Linear(latent_dim, num_classes))
