"""SVHN's cropped digits, read from the official .mat files (needs scipy, the extra svhn)."""

import numpy as np
import torch

from aib.data.files import check_count, require, require_file
from aib.data.imageset import ImageSet
from aib.data.specs import SVHN
from aib.errors import AibError, missing_extra


def read(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise missing_extra("svhn", "SVHN's .mat files need scipy") from error
    path = require_file(require(SVHN, root) / f"{split}_32x32.mat")
    try:
        content = loadmat(path)
    except Exception as error:  # a damaged .mat fails in many ways
        raise AibError(f"{path} cannot be read: truncated or damaged, fetch it again") from error
    pixels, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
    check_count(SVHN, split, len(labels))
    labels[labels == 10] = 0  # the files label the digit zero as 10
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))  # [N,3,32,32]
    return ImageSet.of(SVHN, split, torch.from_numpy(labels), images=images)
