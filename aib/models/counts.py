"""Parameters and multiply-adds of the models, with the paper's counts."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from aib.config.paper import PAPER_MULTIPLY_ADDS, PAPER_PARAMETERS
from aib.config.validation import ProfileName
from aib.models.registry import MODELS, create_model

REMARKS = {  # by the beginning of a model's name, and its image sizes
    ("vgg_aib", (32,)): "The paper's 20.05 M for vgg_aib counts BatchNorm's statistics as well.",
    ("wrn_aib", (224,)): "The paper's 130.73 M for wrn_aib includes 20.74 M that are never used.",
    ("wrn_aib", (32, 224)): "The paper's multiply-adds for wrn_aib are a counting artefact.",
}


@dataclass(frozen=True)
class Row:
    """Counts of one model at one image size."""

    name: str
    image_size: int
    num_classes: int
    parameters: int
    multiply_adds: int  # per image and sample
    attention: list[int] | None  # h, w of the map
    paper_parameters: int | None
    paper_multiply_adds: int | None
    summary: str


def measure(
    name: str,
    num_classes: int = 10,
    image_size: int = 32,
    width: float = 1.0,
    profile: ProfileName = "paper",
    **options: Any,
) -> Row:
    """Count parameters and multiply-adds on the meta device: shapes only, no computation."""
    options |= {"width": width, "profile": profile}
    with torch.device("meta"):
        model = create_model(name, num_classes, image_size, **options).eval()
        x = torch.empty(1, 3, image_size, image_size)
    with FlopCounterMode(display=False) as counter:
        out = model(x, samples=(1, 1))
    key = (name, image_size, num_classes)
    comparable = width == 1.0
    return Row(
        name=name,
        image_size=image_size,
        num_classes=num_classes,
        parameters=sum(p.numel() for p in model.parameters()),
        multiply_adds=counter.get_total_flops() // 2,
        attention=None if out.attention is None else list(out.attention.mu.shape[1:]),
        paper_parameters=PAPER_PARAMETERS.get(key) if comparable else None,
        paper_multiply_adds=PAPER_MULTIPLY_ADDS.get(key) if comparable else None,
        summary=MODELS[name].summary,
    )


def remarks(rows: list[Row]) -> list[str]:
    """Notes on why some counts differ from the paper's."""
    compared = [(row.name, row.image_size) for row in rows if row.paper_parameters is not None]
    return [
        note
        for (model, sizes), note in REMARKS.items()
        if any(name.startswith(model) and size in sizes for name, size in compared)
    ]
