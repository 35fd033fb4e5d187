"""The world of the fuzz tests, made once a file: thousands of cases share it."""

from collections.abc import Iterator

import pytest

from tests.fuzz.worlds import World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    import matplotlib.font_manager  # noqa: F401 (writes its own cache when first imported)

    with pytest.MonkeyPatch.context() as patch:
        yield make_world(tmp_path_factory.mktemp("world").resolve(), patch)
