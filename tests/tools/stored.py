"""Made-up results of runs."""


def evaluation(error: float, data="cifar10", split="test", classes="own") -> dict:
    """The result of `aib eval`."""
    return {
        "data": data, "split": split, "classes": classes, "images": 100, "top1_error": error,
        "top1_interval": [error - 1, error + 1], "top5_error": None, "top5_interval": None,
        "nll": 0.25, "calibration_error": 1.5, "kl_bits": 8.0, "samples": "4x12",
        "averaged": "probabilities", "images_per_second": 100.0,
    }  # fmt: skip
