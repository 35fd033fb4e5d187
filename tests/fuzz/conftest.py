"""The world of the fuzz tests, created once per file."""

from collections.abc import Iterator

import pytest

from tests.fuzz.harness import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    import matplotlib.font_manager  # noqa: F401 (writes its own cache when first imported)

    with pytest.MonkeyPatch.context() as patch:
        yield World(tmp_path_factory.mktemp("world").resolve(), patch)
