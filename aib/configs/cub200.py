"""CUB-200-2011: the paper's four models on the birds' boxes, and three on whole images.

The paper starts from ImageNet weights. The presets cub200_full* need them:

    aib train cub200_full_masked --init vgg16:PATH

PATH is a state dict of VGG-16 by torchvision's or timm's names: the file that
`torchvision.models.VGG16_Weights.IMAGENET1K_V1` names (vgg16-397923af.pth), timm's
vgg16.tv_in1k (model.safetensors), or an .npz of the convolutions. The presets of the paper's
table start from random weights without --init.
"""

from aib.configs.preset import Measured, photographs, table_one

# Without a warm-up of beta the latent of the paper's form collapsed, in a run that was given up.
FULL = photographs(
    "cub200_full",
    "cub200",
    ours={
        "vgg": Measured((30.13,), 1.9),
        "vgg_aib_qt": Measured((31.10,), 2.2),
        "vgg_aib_masked": Measured((28.29,), 2.4),
    },
    beta_warmup=15.0,
)
PRESETS = [*table_one("cub200", ":crop"), *FULL]
