"""The ten shapes, each a function that tests whether points lie inside, at about unit radius.

They differ in topology, corners or outline under any rotation, and each is its own mirror image up
to a rotation. Only + - * / and comparisons are used on pixels, so that every CPU gives the same
bits (sines and FFTs do not).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Inside = NDArray[np.bool_]


def _half_planes(u: Points, v: Points, count: int, distance: float) -> NDArray[np.uint8]:
    """The number of half-planes, of `count` at even angles and this distance, with each point."""
    inside = np.zeros(u.shape, np.uint8)
    for angle in np.deg2rad(90.0 + 360 / count * np.arange(count)):
        x, y = (round(float(f(angle)), 6) for f in (np.cos, np.sin))  # all libraries agree on these
        inside += np.float32(x) * u + np.float32(y) * v <= np.float32(distance)
    return inside


def disc(u: Points, v: Points) -> Inside:
    return u * u + v * v <= 0.72


def ring(u: Points, v: Points) -> Inside:
    square = u * u + v * v
    return (square <= 0.90) & (square >= 0.27)


def square(u: Points, v: Points) -> Inside:
    return np.maximum(np.abs(u), np.abs(v)) <= 0.74


def triangle(u: Points, v: Points) -> Inside:
    return _half_planes(u, v, 3, 0.54) == 3


def plus(u: Points, v: Points) -> Inside:
    a, b = np.abs(u), np.abs(v)
    return (np.maximum(a, b) <= 0.95) & (np.minimum(a, b) <= 0.27)


def star(u: Points, v: Points) -> Inside:
    # A filled pentagram: the points on the inner side of at least four of its five lines.
    return _half_planes(u, v, 5, 0.37) >= 4


def crescent(u: Points, v: Points) -> Inside:
    bite = u - np.float32(0.48)
    return (u * u + v * v <= 0.92) & (bite * bite + v * v >= 0.50)


def corner(u: Points, v: Points) -> Inside:
    # Two arms of equal length along +u and +v, shifted so that the shape is centred.
    a, b = u + np.float32(0.68), v + np.float32(0.68)
    return (np.minimum(a, b) >= 0) & (np.maximum(a, b) <= 1.36) & (np.minimum(a, b) <= 0.5)


def bowtie(u: Points, v: Points) -> Inside:
    a = np.abs(u)
    return (a <= 0.90) & (np.abs(v) <= np.float32(0.85) * a)


def pill(u: Points, v: Points) -> Inside:
    # All points within 0.36 of a segment of half length 0.62.
    beyond = np.maximum(np.abs(u) - np.float32(0.62), 0)
    return beyond * beyond + v * v <= 0.13


GLYPHS: dict[str, Callable[[Points, Points], Inside]] = {
    f.__name__: f
    for f in (disc, ring, square, triangle, plus, star, crescent, corner, bowtie, pill)
}
