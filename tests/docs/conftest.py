"""The README as one line of text."""

import pytest

from tests.docs.blocks import ROOT, prose


@pytest.fixture(scope="session")
def readme() -> str:
    return " ".join(prose(ROOT / "README.md").split())
