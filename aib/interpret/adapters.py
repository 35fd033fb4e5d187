"""Our maps in the shapes that other tools call, and theirs in ours.

A map function is anything that gives maps [B,h,w] for images x [B,C,H,W]. The adapters look like a
pytorch-grad-cam CAM, a captum attribution and a Quantus explanation, so that others' metrics can
score our maps; none of those packages has to be installed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from aib.errors import AibError
from aib.interpret.checks import check_batch, check_maps
from aib.interpret.localise import resize_maps
from aib.interpret.similarity import min_max

MapFunction = Callable[[Tensor], Tensor]
FloatArray = npt.NDArray[np.float32]


class CamAdapter:
    """Called like pytorch-grad-cam: `cam(input_tensor=x, targets=None)`, numpy [B,H,W] in [0,1].

    An attention map is the same for every class, so `targets` and the smoothing options change
    nothing. Each map is min-max scaled, as there; a flat one is 0.
    """

    def __init__(self, maps: MapFunction) -> None:
        self.maps = maps

    def __call__(
        self, input_tensor: Tensor, targets: list[Any] | None = None, **options: Any
    ) -> FloatArray:
        scaled = min_max(_at_image_size(self.maps, input_tensor))
        values = scaled.values.masked_fill(scaled.flat[:, None], 0)
        height, width = input_tensor.shape[2:]
        return _numpy(values.reshape(-1, height, width))

    def __enter__(self) -> "CamAdapter":
        return self

    def __exit__(self, *error: object) -> None:
        return None


class AttributionAdapter:
    """Called like captum: `.attribute(inputs, target=None)`, a tensor of the inputs' shape.

    Every channel of a pixel carries the pixel's value. `target` changes nothing.
    """

    def __init__(self, maps: MapFunction) -> None:
        self.maps = maps

    def attribute(self, inputs: Tensor, target: Any = None, **options: Any) -> Tensor:
        maps = _at_image_size(self.maps, inputs)
        return maps[:, None].to(inputs.dtype).expand_as(inputs)  # [B,C,H,W]


def quantus_explainer(
    maps: Callable[[nn.Module, Tensor], Tensor],
) -> Callable[..., FloatArray]:
    """A Quantus `explain_func`: (model, inputs, targets, **kwargs) to numpy [B,1,H,W].

    `maps` takes the model too, because Quantus also hands over copies with randomised weights.
    """

    def explain(model: nn.Module, inputs: Any, targets: Any = None, **kwargs: Any) -> FloatArray:
        parameter = next(model.parameters(), None)
        device = kwargs.get("device") or (parameter.device if parameter is not None else "cpu")
        x = torch.as_tensor(inputs, dtype=torch.float32, device=device)
        return _numpy(_at_image_size(lambda images: maps(model, images), x)[:, None])

    return explain


def maps_from_cam(cam: Callable[..., Any]) -> MapFunction:
    """A pytorch-grad-cam object as a map function, for the predicted class."""

    def maps(x: Tensor) -> Tensor:
        return torch.as_tensor(np.asarray(cam(input_tensor=x, targets=None)), device=x.device)

    return maps


def maps_from_attribution(
    method: Any, predict: Callable[[Tensor], Any], **options: Any
) -> MapFunction:
    """A captum attribution as a map function: summed over channels, for the predicted class."""

    def maps(x: Tensor) -> Tensor:
        result = predict(x)
        logits = result if isinstance(result, Tensor) else result.logits
        values = method.attribute(x, target=logits.argmax(dim=1), **options)
        return values.detach().sum(dim=1)  # [B,h,w]

    return maps


def _at_image_size(maps: MapFunction, x: Tensor) -> Tensor:
    check_batch(x)
    values = maps(x).detach()
    check_maps(values)
    if len(values) != len(x):
        raise AibError(f"the map function gave {len(values)} maps for {len(x)} images")
    return resize_maps(values, (x.shape[2], x.shape[3]))


def _numpy(values: Tensor) -> FloatArray:
    array: FloatArray = values.float().cpu().numpy()
    return array
