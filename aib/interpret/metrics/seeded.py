"""Random numbers that depend on a seed and an image's index, and on nothing else.

A torch generator gives numbers in sequence, so those of an image would depend on the batch size,
the device and earlier calls. Here each number is a hash of (seed, stream, index, number), computed
for a batch at once: every model sees the same blocks on the same images.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import torch
from torch import Tensor

_WORD = 0xFFFF_FFFF
IntOrTensor = TypeVar("IntOrTensor", int, Tensor)


class Stream(IntEnum):
    """One per purpose, so that two purposes never share their numbers."""

    OCCLUSION = 1
    RANDOM_MAP = 2
    SHUFFLE = 3
    PARTNER = 4
    TIES = 5
    ROAD = 6
    PROBE = 8
    TRANSPLANT = 12
    BACKGROUND = 13
    TRANSPLANT_NOISE = 14


def _mix(word: IntOrTensor) -> IntOrTensor:
    """Scramble a 32-bit word, one to one.

    Xor-shift and multiply, twice. Both multipliers are below 2^31, so that the products stay below
    2^63: int64 never overflows, and the CPU and the GPU agree to the bit.
    """
    word = word ^ (word >> 16)
    word = (word * 0x21F0_AAAD) & _WORD
    word = word ^ (word >> 15)
    word = (word * 0x735A_2D97) & _WORD
    return word ^ (word >> 15)


def random_words(seed: int, stream: Stream, index: Tensor, count: int) -> Tensor:
    """`count` uniform 32-bit words for each image."""
    key = _mix(_mix(_mix(seed & _WORD) ^ ((seed >> 32) & _WORD)) ^ int(stream))
    image = _mix((index.long() & _WORD) ^ key)  # [N]
    number = torch.arange(count, device=index.device)  # [count]
    return _mix(_mix(image[:, None] ^ number))  # [N,count]


def uniform(seed: int, stream: Stream, index: Tensor, count: int) -> Tensor:
    """`count` float32 numbers in [0, 1) for each image."""
    # float32 holds 24 bits exactly; all 32 would round up to 1.0 now and then.
    return (random_words(seed, stream, index, count) >> 8).float() * 2.0**-24  # [N,count]


def normal(seed: int, stream: Stream, index: Tensor, count: int) -> Tensor:
    """`count` standard normal float32 numbers for each image."""
    # From the middle of each of the 2^24 intervals, so that no value is infinite.
    middle = uniform(seed, stream, index, count).double() + 2.0**-25
    return torch.special.ndtri(middle).float()  # [N,count]


def integers(seed: int, stream: Stream, index: Tensor, limits: Sequence[int]) -> Tensor:
    """For each image one integer below each limit, uniform to within limit / 2^32."""
    word = random_words(seed, stream, index, len(limits))
    return (word * torch.tensor(limits, device=index.device)) >> 32  # [N,len(limits)]
