"""The paper's Table 1: top-1 errors in percent, as printed, and what they may stand beside."""

from collections.abc import Mapping
from typing import Any

# One line a row of the table; SVHN and the cross-domain columns are of the same models.
#              CIFAR-10 CIFAR-100 CUB-200    SVHN  STL-10 train, test
_TABLE = """
  vgg              7.77     30.62   34.64    4.27         54.66 55.09
  vgg_gap          9.87     31.77   29.50    5.84         56.76 57.24
  vgg_pan          6.29     24.35   31.46    8.02         52.50 52.79
  vgg_dvib         4.64     22.88   23.94    3.28         51.40 51.60
  wrn              4.00     19.25   26.50       -             -     -
  vgg_att2         5.23     23.19   26.80    3.74         51.24 51.71
  vgg_att3         6.34     22.97   26.95    3.52         51.58 51.68
  wrn_abn          3.92     18.12       -    2.88         50.90 51.24
  vgg_aib          4.28     21.56   23.73    3.24         50.64 51.24
  vgg_aib_qt       4.10     20.87   21.83    3.07         50.44 51.16
  wrn_aib          3.60     17.82   17.26    2.76         50.08 50.84
  wrn_aib_qt       3.43     17.64   15.50    2.69         50.34 50.49
"""
_COLUMNS = ("cifar10", "cifar100", "cub200", "svhn", "stl10 train", "stl10 test")


def _parse(table: str) -> dict[tuple[str, str], float]:
    rows = [line.split() for line in table.strip().splitlines()]
    return {
        (model, column): float(cell)
        for model, *cells in rows
        for column, cell in zip(_COLUMNS, cells, strict=True)
        if cell != "-"
    }


# Settings that make a model, or what it is trained for, another than the paper's.
OTHER_FORM = {
    "width", "latent_dim", "num_anchors", "modulation", "attention_depth", "attention_noise",
    "attention_guide", "tap", "lambda_a",
}  # fmt: skip

PAPER_ERRORS: dict[tuple[str, str], float] = _parse(_TABLE)


def paper_error(model: str, data: str, recipe: Mapping[str, Any] | None = None) -> float | None:
    """The paper's error of a model on a data set ("cifar10", "stl10 train"); None if not given.

    With a recipe, also None where that gives the model another form than the paper's.
    """
    ours = recipe is None or has_papers_form(recipe)
    return PAPER_ERRORS.get((model, data.partition(":")[0])) if ours else None


def has_papers_form(recipe: Mapping[str, Any]) -> bool:
    """Do the paper's figures belong beside this one? A recipe holds what is not the default."""
    return not OTHER_FORM & set(recipe)
