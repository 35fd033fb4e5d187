"""A training step as one CUDA graph: recorded once, then replayed with a single launch.

A step of a small model is some five hundred kernels, and the host needs longer to launch them than
the GPU to run them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3  # steps taken as they are first: compiling and choosing algorithms cannot be recorded

Step = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


class Replay:
    """Calls `step(x, y)`; from the fourth call on by replaying what it did.

    `step` must neither wait for the device nor read a number that changes from call to call from
    anywhere but a tensor that stays in its place. Its results are overwritten by the next call.
    Random numbers follow the seed that is set before each call, as they do without a recording.
    """

    def __init__(self, step: Step):
        self.step = step
        self.left = WARM_UP
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        if self.left:
            self.left -= 1
            return self.aside(x, y)
        if self.graph is None:
            self.record(x, y)
        assert self.graph is not None
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.results

    def aside(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """On a stream of its own, which a recording needs: nothing may remember the usual one."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            results = self.step(x, y)
        torch.cuda.current_stream().wait_stream(self.stream)
        return results

    def record(self, x: Tensor, y: Tensor) -> None:
        """Note down the kernels of a step without running them."""
        self.x, self.y = x.clone(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: a loader's thread may pin memory meanwhile, which would break a recording.
        mode = "thread_local"
        with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode=mode):
            self.results = self.step(self.x, self.y)
