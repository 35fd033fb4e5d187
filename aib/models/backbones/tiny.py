"""A small network that two CPU cores train in minutes."""

from torch import nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import Embed, MaskedDefaults, Parts, scaled
from aib.models.backbones.vgg import block, conv_bn_relu
from aib.models.latent import mlp_decoder


def tiny(options: ModelOptions) -> Parts:
    """Seven convolutions; the attention sits at 8 x 8 positions.

    At 16 x 16 the receptive field of such a stem is too small, and the map follows the edges. A
    masked model that looks twice gets a cheaper stem.
    """
    width = options.width
    depth = 1 if options.propose == "twice" else 2
    c1, c2, c3 = scaled(16, width), scaled(32, width), scaled(64, width)
    return Parts(
        stem=nn.Sequential(
            block(3, c1, 1, pool=True), block(c1, c2, depth, pool=True), block(c2, c3, 2)
        ),
        tail=nn.Sequential(
            nn.MaxPool2d(2), conv_bn_relu(c3, c3), conv_bn_relu(c3, c3, kernel=1), Embed()
        ),
        feature_channels=c3,
        embedding_dim=c3,
        attention_trunk=lambda num_classes: nn.Conv2d(c3, 1, 3, padding=1),
        decoder=mlp_decoder,
        latent_dim=32,
        num_anchors=20,
        min_size=8,
        masked=MaskedDefaults(proposal_width=0.25 * width, strided=True, hidden=scaled(32, width)),
    )
