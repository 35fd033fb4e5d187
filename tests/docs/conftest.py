"""Pages as one line of text each."""

import pytest

from tests.docs.blocks import ROOT, prose


def line(page: str) -> str:
    return " ".join(prose(ROOT / page).split())


@pytest.fixture(scope="session")
def readme() -> str:
    return line("README.md")


@pytest.fixture(scope="session")
def findings() -> str:
    return line("docs/findings.md")
