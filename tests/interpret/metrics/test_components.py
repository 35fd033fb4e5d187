"""Components and their boxes, against a flood fill in plain Python."""

from collections.abc import Iterable

import pytest
import torch

from aib.interpret.metrics.components import connected_components

SPIRAL = """
#######
......#
#####.#
#...#.#
#.#.#.#
#.###.#
#.....#
#######
"""


def picture(text: str) -> torch.Tensor:
    return torch.tensor([[c == "#" for c in line] for line in text.split()])


def flood_fills(image: torch.Tensor) -> list[set[tuple[int, int]]]:
    """The pixels of each component, in the order of their first pixels."""
    left_over = {(r, c) for r, c in image.nonzero().tolist()}
    found = []
    for start in sorted(left_over):
        stack, component = [start], set()
        while stack:
            r, c = stack.pop()
            if (r, c) not in left_over:
                continue
            left_over.remove((r, c))
            component.add((r, c))
            stack += [(r + down, c + across) for down in (-1, 0, 1) for across in (-1, 0, 1)]
        if component:
            found.append(component)
    return found


def box(component: Iterable[tuple[int, int]]) -> list[int]:
    """Left, top, right, bottom."""
    rows, columns = zip(*component, strict=True)
    return [min(columns), min(rows), max(columns) + 1, max(rows) + 1]


def flood_fill(image: torch.Tensor) -> list[int]:
    """The box of the largest component; the first one found if several are."""
    found = flood_fills(image)
    return box(max(found, key=len)) if found else [0, 0, 0, 0]


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (7, 12)])
def test_random_images_have_the_components_that_a_flood_fill_finds(size):
    generator = torch.Generator().manual_seed(0)
    share = torch.linspace(0, 1, 60)[:, None, None]
    images = torch.rand(60, *size, generator=generator) < share
    every = [
        (box(part), len(part), i) for i, image in enumerate(images) for part in flood_fills(image)
    ]
    found = connected_components(images)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == every


def test_a_spiral_is_one_component_and_corners_connect():
    spiral = picture(SPIRAL)
    diagonal = torch.eye(7, dtype=torch.bool)[[0, 1, 2, 3, 4, 5, 6, 6]]
    diagonal[7] = False
    full, empty = torch.ones_like(spiral), torch.zeros_like(spiral)
    found = connected_components(torch.stack([full, spiral, empty, diagonal, full]))
    assert found.boxes.tolist() == [[0, 0, 7, 8], [0, 0, 7, 8], [0, 0, 7, 7], [0, 0, 7, 8]]
    assert found.image.tolist() == [0, 1, 3, 4]
