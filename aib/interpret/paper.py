"""The paper's Table 2: its interpretability scores, as printed (percent).

The paper gives neither its threshold nor its code, so these stand beside our figures and are not
a target. Its high frequencies are r > 4; ours keep r >= 4 (see `perturb.frequency_split`). VGG-att3
is the paper's own re-implementation.
"""

# One line a row of the table, whitespace as column mark: its layout is the easiest to check.
#         CIFAR-10, p = 4 8 12 16         CIFAR-100, p = 4 8 12 16       radius    C-10   C-100
_TABLE = """
vgg_att3
  color   91.46  79.61  37.71   7.12      52.92  39.93  25.40  14.56     high-4    83.06   3.69
  svhn    90.97  75.70  36.74   6.51      82.08  63.16  39.07  21.03     low-12    49.61  50.90
vgg_aib
  color   99.22  99.69  93.78  20.59      98.88  98.56  95.92  22.70     high-4    99.91  99.78
  svhn    98.59  97.52  97.35  72.86      98.73  96.70  96.69  93.02     low-12    53.26  79.13
vgg_aib_qt
  color   99.26  99.79  91.10  18.36      99.18  99.30  94.59  20.54     high-4    99.96  99.60
  svhn    98.65  98.04  97.85  78.82      99.12  97.64  97.21  94.79     low-12    73.52  79.70
wrn_abn
  color   90.76  65.01  33.89  13.24      89.74  61.38  30.56   9.67     high-4    38.14  14.04
  svhn    90.40  68.41  38.46  16.55      92.77  63.67  30.57   9.47     low-12    36.33  25.43
wrn_aib
  color   99.95  93.94  45.17   6.69      99.86  95.35  64.27  17.15     high-4    78.96  90.44
  svhn    99.94  97.34  81.98  47.65      99.90  97.77  89.37  62.64     low-12    84.58  94.18
wrn_aib_qt
  color   99.84  84.18  28.94   4.64      99.97  97.07  69.51  25.80     high-4    72.05  94.13
  svhn    99.91  96.05  70.75  28.35      99.95  98.52  89.00  63.10     low-12    76.53  93.17
"""


def _parse(table: str) -> dict[tuple[str, str, str], float]:
    scores: dict[tuple[str, str, str], float] = {}
    model = ""
    for line in table.strip().splitlines():
        cells = line.split()
        if len(cells) == 1:
            model = cells[0]
            continue
        block, sizes, frequency = cells[0], (4, 8, 12, 16), cells[9]
        for i, dataset in enumerate(("cifar10", "cifar100")):
            for j, p in enumerate(sizes):
                scores[model, dataset, f"{block}-{p}"] = float(cells[1 + 4 * i + j])
            scores[model, dataset, frequency] = float(cells[10 + i])
    return scores


PAPER_SCORES: dict[tuple[str, str, str], float] = _parse(_TABLE)


def paper_score(model: str, dataset: str, modification: str) -> float | None:
    """The paper's score for a model, a data set and a modification; None where it has none."""
    return PAPER_SCORES.get((model, dataset, modification))
