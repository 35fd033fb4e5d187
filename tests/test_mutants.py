"""Every mistake of `tests/mutants.py` is noticed by the tests that it names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent
PASSED, FAILED = 0, 1  # of pytest's exit codes; with the others it could not run the tests
RUN = """
import shlex, sys, pytest
quick = ["-x", "-p", "no:cacheprovider"]
sys.exit(max(pytest.main([*quick, *shlex.split("tests/" + tests)]) for tests in sys.argv[1:]))
"""


def test_what_a_mutant_replaces_occurs_exactly_once() -> None:
    for mutant in MUTANTS:
        count = (ROOT / "aib" / mutant.module).read_text().count(mutant.old)
        assert count == 1, f"{mutant.old!r} occurs {count} times in aib/{mutant.module}"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_does_not_survive(mutant: Mutant, tmp_path: Path) -> None:
    copy_package(tmp_path)
    module = tmp_path / "aib" / mutant.module
    module.write_text(module.read_text().replace(mutant.old, mutant.new))
    code, output = run_tests(tmp_path, mutant.tests)
    assert code != PASSED, f"tests/{mutant.tests} passed with {mutant}"
    assert code == FAILED, output


@pytest.mark.slow
def test_in_a_copy_without_a_mutant_the_tests_pass(tmp_path: Path) -> None:
    copy_package(tmp_path)
    code, output = run_tests(tmp_path, *sorted({mutant.tests for mutant in MUTANTS}))
    assert code == PASSED, output


def copy_package(folder: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "pretrained_models")
    for part in ("aib", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", folder)


def run_tests(folder: Path, *tests: str) -> tuple[int, str]:
    """The worst of pytest's exit codes, and the output, with the package in `folder`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", RUN, *tests],  # -B: no compiled file outlives its source
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    return done.returncode, done.stdout + done.stderr
