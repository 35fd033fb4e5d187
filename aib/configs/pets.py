"""Oxford-IIIT Pet, 37 breeds: three models on whole images.

They start from ImageNet's VGG-16 (cub200.py says where to get it):

    aib train pets_masked --init vgg16:PATH
"""

from aib.configs.preset import photographs

PRESETS = photographs("pets", "pets")
