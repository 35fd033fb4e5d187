"""Where a masked model's map comes from: a small network of its own, or a first pass."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase

OPEN = 2.0  # bias of the last layer: sigmoid(2) = 0.88, the model starts open
MOSTLY_OPEN = 1.0  # of a copy: a sigmoid in saturation has no gradient to close by
FULLY_OPEN = 3.5  # the stretched mask is 1 everywhere


class ProposalNet(nn.Module):
    """propose="separate": an encoder-decoder from images to one score per position, [B,1,h,w].

    Down to the map's grid h, on to h/2 and h/4 with a global average, and back up to h. `strided`
    starts with the first halving, which saves time on a CPU.
    """

    def __init__(self, halvings: int, width: float = 1.0, strided: bool = False):
        super().__init__()
        c = [max(1, round(channels * width)) for channels in (32, 64, 96, 128, 192)]
        sizes = [3, *(c[min(i, 2)] for i in range(halvings + 1))]
        strides = [1, *[2] * halvings]
        if strided and halvings:
            del sizes[1], strides[0]
        steps = zip(sizes, sizes[1:], strides, strict=False)
        grid = sizes[-1]
        self.to_grid = nn.Sequential(*(_layer(*step) for step in steps))  # [B,grid,h,w]
        self.to_half = _layer(grid, c[3], stride=2)  # [B,128,h/2,w/2]
        self.to_quarter = nn.Sequential(_layer(c[3], c[4], stride=2), _layer(c[4], c[4]))
        self.up_half = _layer(c[4] + c[3], c[3])
        self.up_grid = _layer(c[3] + grid, c[1])
        self.to_score = ScoreLayer(c[1])

    def forward(self, x: Tensor) -> Tensor:
        grid = self.to_grid(x)
        half = self.to_half(grid)
        quarter = self.to_quarter(half)
        quarter = quarter + quarter.mean((2, 3), keepdim=True)
        half = self.up_half(_join(quarter, half))
        return self.to_score(self.up_grid(_join(half, grid)))  # [B,1,h,w]


class FeatureProposal(nn.Sequential):
    """propose="twice": features of a first pass [B,c,h,w] to one score per position."""

    def __init__(self, channels: int, hidden: int = 128):
        super().__init__(_layer(channels, hidden), ScoreLayer(hidden))


class CopyProposal(nn.Module):
    """propose="copy": a copy of the network's first stages, with weights and statistics of its own.

    The features at stride 16 see enough to find an object. Those at stride 8 give the map its grid;
    they are added by a layer that starts at zero. With `stride=16` they are left out. A ReLU that
    does not leak gives equal scores, the highest of a map (seen), where it closes all channels.
    """

    def __init__(self, stages: nn.Module, channels: tuple[int, int], stride: int = 8):
        super().__init__()
        fine, coarse = channels
        self.stages = stages  # x -> features at strides 8 and 16
        self.add_fine = ZeroConv(fine, coarse) if stride == 8 else None
        hidden = _layer(coarse, 64)
        hidden[-1] = nn.LeakyReLU()
        self.to_score = nn.Sequential(hidden, ScoreLayer(64, MOSTLY_OPEN))

    def copy_from(self, network: nn.Module) -> None:
        """Take the weights and statistics of the network whose stages these are."""
        theirs = network.state_dict()
        self.stages.load_state_dict({name: theirs[name] for name in self.stages.state_dict()})

    def forward(self, x: Tensor) -> Tensor:
        fine, f = self.stages(x)
        if self.add_fine is not None:
            f = F.interpolate(f, size=fine.shape[2:], mode="bilinear") + self.add_fine(fine)
        return self.to_score(f)  # [B,1,h,w]


class ZeroConv(nn.Conv2d):
    """A 1 x 1 convolution without bias that starts at zero."""

    def __init__(self, c_in: int, c_out: int):
        super().__init__(c_in, c_out, 1, bias=False)

    def reset_parameters(self) -> None:
        """Initialise; `init_weights` calls it instead of its own rule."""
        nn.init.zeros_(self.weight)


class StagesOf(nn.Sequential):
    """The layers of a sequential stem, which give the features after `fine` of them as well."""

    def __init__(self, stem: nn.Sequential, fine: int):
        super().__init__(*stem)
        self.fine = fine

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = x
        for i, layer in enumerate(self):
            x = layer(x)
            if i + 1 == self.fine:
                fine = x
        return fine, x


class FirstPass(nn.Module):
    """A first pass of a network over whole images, for the features at one of its layers.

    The second pass sees masked images, whose statistics differ. So the first pass has running
    statistics of its own for every BatchNorm: they are buffers here, and the network gets them
    for the duration of the pass. Weights are shared. One set for both passes fails in evaluation.
    """

    def __init__(self, network: nn.Module, layer: str = "", part: str = ""):
        super().__init__()
        self.part = part  # the submodule that is run; "" is the whole network
        self.layer = layer  # of the part; "" is its own output
        network = network.get_submodule(part)
        self._features: list[Tensor] = []
        self._active = False
        for name, buffer in batch_norm_buffers(network).items():
            key = name.replace(".", "/")  # a buffer's own name may not hold dots
            self.register_buffer(key, buffer.clone())
        if layer:
            network.get_submodule(layer).register_forward_hook(self._keep)

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        """The features at the layer; BatchNorm in training updates this pass's buffers."""
        own = {key.replace("/", "."): buffer for key, buffer in self.named_buffers()}
        self._active = True
        self._features.clear()  # of a pass that failed
        try:
            out = functional_call(network.get_submodule(self.part), own, (x,), tie_weights=False)
        finally:
            self._active = False
        return self._features.pop() if self.layer else out

    def reset_parameters(self) -> None:
        """Statistics as of a new network: layer randomisation calls it."""
        for key, buffer in self.named_buffers():
            buffer.fill_(float(key.endswith("running_var")))

    def statistics_in(
        self, weights: dict[str, Tensor], network: str, own: str
    ) -> dict[str, Tensor]:
        """A network's running statistics in `weights`, by this pass's names; both are prefixes."""
        prefix = f"{network}.{self.part}." if self.part else f"{network}."
        found = {key: prefix + key.replace("/", ".") for key, _ in self.named_buffers()}
        return {f"{own}.{key}": weights[name] for key, name in found.items() if name in weights}

    def _keep(self, layer: nn.Module, inputs: Any, f: Tensor) -> None:
        if self._active:
            self._features.append(f.clone())  # the network may change them in place


def batch_norm_buffers(network: nn.Module) -> dict[str, Tensor]:
    """The running statistics of every BatchNorm in a network, by name."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in network.named_modules()
        if isinstance(module, _NormBase) and module.track_running_stats
        for name, buffer in module.named_buffers(recurse=False)
    }


def _layer(c_in: int, c_out: int, stride: int = 1) -> nn.Sequential:
    """A 3 x 3 convolution, BatchNorm, ReLU."""
    conv = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), nn.ReLU())


class ScoreLayer(nn.Conv2d):
    """A 1 x 1 convolution to the score: small weights, and a bias with which the map is open."""

    def __init__(self, channels: int, bias: float = OPEN):
        self.open = bias
        super().__init__(channels, 1, 1)

    def reset_parameters(self) -> None:
        """Initialise; `init_weights` calls it instead of its own rule."""
        assert self.bias is not None
        if not self.weight.is_meta:  # there a normal draw imports the compiler, for seconds
            nn.init.normal_(self.weight, std=0.01)
        nn.init.constant_(self.bias, self.open)


def open_fully(model: nn.Module) -> None:
    """Begin with a mask that changes nothing, for a classifier that is good already.

    A map that is mostly open lays noise over the whole image: EfficientNet-Lite2 then agrees with
    itself on a third of the photographs.
    """
    for layer in model.modules():
        if isinstance(layer, ScoreLayer):
            layer.open = FULLY_OPEN
            layer.reset_parameters()


def _join(coarse: Tensor, fine: Tensor) -> Tensor:
    large = F.interpolate(coarse, size=fine.shape[2:], mode="nearest")
    return torch.cat([large, fine], dim=1)
