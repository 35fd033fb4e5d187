"""The world of the fuzz tests, created once per file."""

from tests.fuzz.harness import world  # noqa: F401
