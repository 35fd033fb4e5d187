"""A training step as one CUDA graph: captured once, then replayed with a single launch.

A step of a small model is some five hundred kernels, and the host needs longer to launch them than
the GPU to run them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3  # ordinary steps first: compiling and choosing algorithms cannot be captured

Step = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


class CapturedStep:
    """Calls `step(x, y)`; from the fourth call on by replaying its CUDA graph.

    `step` must not synchronise with the host, and must read values that change between calls from
    tensors that keep their memory. Its results are overwritten by the next call. Random numbers
    follow the seed set before each call, as they do without a graph.
    """

    def __init__(self, step: Step):
        self.step = step
        self.warm_up_left = WARM_UP
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        if self.warm_up_left:
            self.warm_up_left -= 1
            return self.warm_up(x, y)
        if self.graph is None:
            self.capture(x, y)
        assert self.graph is not None
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.results

    def warm_up(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Run the step on a side stream, as capturing requires."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            results = self.step(x, y)
        torch.cuda.current_stream().wait_stream(self.stream)
        return results

    def capture(self, x: Tensor, y: Tensor) -> None:
        """Record the kernels of a step without running them."""
        self.x, self.y = x.clone(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: a loader's thread may pin memory meanwhile, which would break the capture.
        mode = "thread_local"
        with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode=mode):
            self.results = self.step(self.x, self.y)
