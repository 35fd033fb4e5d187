"""Oxford-IIIT Pet, 37 breeds: three models on whole images.

They start from ImageNet's VGG-16 (cub200.py says where to get it):

    aib train pets_masked --init vgg16:PATH

Measured on photographs that were re-encoded (results/pets.json says how).
"""

from aib.configs.preset import Measured, photographs

PRESETS = photographs(
    "pets",
    "pets",
    ours={
        "vgg_aib_qt": Measured((13.46,), 0.9),
        "vgg_aib_masked": Measured((14.58,), 2.5),
    },
)
