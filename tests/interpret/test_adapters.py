import numpy as np
import pytest
import torch
from torch import nn

from aib.errors import AibError
from aib.interpret import (
    AttributionAdapter,
    CamAdapter,
    maps_from_attribution,
    maps_from_cam,
    quantus_explainer,
)

X = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def maps(x):
    """The channels' mean at half size."""
    return nn.functional.avg_pool2d(x, 2).mean(1)


def test_a_cam_gives_scaled_numpy_maps_at_image_size():
    with CamAdapter(maps) as cam:
        values = cam(input_tensor=X, targets=None)
    assert isinstance(values, np.ndarray) and values.dtype == np.float32
    assert values.shape == (3, 16, 16)
    assert np.allclose(values.min((1, 2)), 0) and np.allclose(values.max((1, 2)), 1)
    assert (CamAdapter(lambda x: 0 * maps(x) + 0.5)(X) == 0).all()


def test_an_attribution_has_the_inputs_shape():
    values = AttributionAdapter(maps).attribute(X, target=1)
    assert values.shape == X.shape and torch.equal(values[:, 0], values[:, 2])
    torch.testing.assert_close(values.mean(), X.mean(), atol=1e-3, rtol=0)


def test_captum_s_infidelity_can_score_our_maps():
    metrics = pytest.importorskip("captum.metrics")
    values = AttributionAdapter(maps).attribute(X)

    def noise(x):
        step = 0.01 * torch.randn_like(x)
        return step, x - step

    score = metrics.infidelity(lambda x: x.mean((2, 3)), noise, X, values, target=0)
    assert score.shape == (3,) and score.isfinite().all()


def test_a_quantus_explainer_uses_the_model_it_is_given():
    explain = quantus_explainer(lambda model, x: model(x).mean(1))
    double, negative = nn.Conv2d(3, 3, 1, bias=False), nn.Conv2d(3, 3, 1, bias=False)
    for model, factor in ((double, 2.0), (negative, -1.0)):
        nn.init.dirac_(model.weight)
        with torch.no_grad():
            model.weight *= factor
    inputs = X.numpy().astype(np.float64)
    first = explain(double, inputs, np.zeros(3), device=None)
    assert first.shape == (3, 1, 16, 16) and first.dtype == np.float32
    np.testing.assert_allclose(first[:, 0], 2 * inputs.mean(1), rtol=1e-5)
    np.testing.assert_allclose(explain(negative, inputs, None), -first / 2, rtol=1e-5)


def test_others_tools_become_map_functions():
    cam = CamAdapter(maps)
    assert torch.equal(maps_from_cam(cam)(X), torch.from_numpy(cam(X)))

    class InputTimesClass:
        def attribute(self, inputs, target):
            return inputs * target[:, None, None, None]

    predict = lambda x: nn.functional.one_hot(torch.tensor([2, 0, 1]), 3).float()  # noqa: E731
    values = maps_from_attribution(InputTimesClass(), predict)(X)
    torch.testing.assert_close(values, X.sum(1) * torch.tensor([2, 0, 1])[:, None, None])


def test_a_wrong_map_function_is_named():
    with pytest.raises(AibError, match="gave 2 maps for 3 images"):
        CamAdapter(lambda x: maps(x)[:2])(X)
    with pytest.raises(AibError, match=r"\[B,h,w\].*\[3, 3, 16, 16\]"):
        AttributionAdapter(lambda x: x).attribute(X)
