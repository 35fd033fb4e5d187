"""CUB-200-2011, cropped to the birds' boxes: the paper's four models.

The paper starts from ImageNet weights here. These presets start from random weights unless
--init names a trained model of the same form; a pretrained network of another form can be used
with `aib.attach` and trained with `aib.fit`.
"""

from aib.configs.preset import table_one

PRESETS = table_one("cub200", ":crop")
