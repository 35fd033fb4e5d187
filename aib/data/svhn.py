"""SVHN's cropped digits, read from the official .mat files (needs scipy, the extra svhn)."""

from pathlib import Path

import numpy as np
import torch

from aib.data.files import check_count, check_labels, require, require_file
from aib.data.imageset import ImageSet
from aib.data.specs import SVHN
from aib.errors import AibError, missing_extra


def read(split: str, *, root: str | None = None, partial: bool = False) -> ImageSet:
    path = require(SVHN, root) / f"{split}_32x32.mat"
    content = _load_mat(path)
    missing = np.empty(0)
    pixels, labels = content.get("X", missing), content.get("y", missing)
    shaped = pixels.ndim == 4 and pixels.shape[:3] == (32, 32, 3)
    if not shaped or not labels.size or labels.dtype.kind not in "iuf":
        raise AibError(f"{path} does not hold X [32,32,3,N] and y: it is not the official file")
    labels = labels.reshape(-1).astype(np.int64)
    check_count(SVHN, split, len(labels), partial)
    if len(labels) != pixels.shape[3] or pixels.dtype != np.uint8:
        raise AibError(f"{path} has {pixels.shape[3]} {pixels.dtype} images, {len(labels)} labels")
    labels[labels == 10] = 0  # the files label the digit zero as 10
    check_labels(path, labels, SVHN.num_classes)
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))  # [N,3,32,32]
    return ImageSet.of(SVHN, split, torch.from_numpy(labels), images=images)


def _load_mat(path: Path) -> dict[str, np.ndarray]:
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise missing_extra("svhn", "SVHN's .mat files need scipy") from error
    require_file(path)
    try:
        return loadmat(path)
    except Exception as error:  # a damaged .mat fails in many ways
        raise AibError(f"{path} cannot be read: truncated or damaged, fetch it again") from error
