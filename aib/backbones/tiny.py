"""A network of the same form that two CPU cores train in minutes."""

from torch import nn

from aib.backbones.parts import Embed, Parts, scaled
from aib.backbones.vgg import block
from aib.latent import mlp_decoder


def tiny(width: float = 1.0) -> Parts:
    """Eight convolutions. The attention sits at 16 x 16 places, as in the large models.

    Three of them stand between the first pool and the attention: with two, the map saw too little
    of a shape to fill its inside.
    """
    c1, c2, c3 = scaled(16, width), scaled(32, width), scaled(64, width)
    return Parts(
        stem=nn.Sequential(block(3, c1, 2, pool=True), block(c1, c2, 3)),
        tail=nn.Sequential(
            block(c2, c3, 1, pool=True), block(c3, c3, 1, pool=True), block(c3, c3, 1), Embed()
        ),
        feature_channels=c2,
        embedding_dim=c3,
        attention_trunk=lambda num_classes: nn.Conv2d(c2, 1, 3, padding=1),
        decoder=mlp_decoder,
        latent_dim=32,
        num_anchors=20,
        min_size=8,
    )
