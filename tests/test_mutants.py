"""Every mistake of `tests/mutants.py` is noticed by the tests that it names."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent
PASSED, FAILED = 0, 1  # of pytest's exit codes; others say that it could not run the tests


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
    code, said = run_tests(tmp_path, mutant.tests)
    assert code != PASSED, f"tests/{mutant.tests} passed with {mutant}"
    assert code == FAILED, said


@pytest.mark.slow
@pytest.mark.parametrize("tests", sorted({mutant.tests for mutant in MUTANTS}))
def test_in_the_copy_the_same_tests_pass_without_a_mutant(tests: str, tmp_path: Path) -> None:
    copy_package(tmp_path)
    code, said = run_tests(tmp_path, tests)
    assert code == PASSED, said


def copy_package(folder: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "pretrained_models")
    for part in ("aib", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", folder)


def run_tests(folder: Path, tests: str) -> tuple[int, str]:
    """pytest's exit code and output for `tests`, run in a copy and on its package."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    file, *which = shlex.split(tests)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-x", "-p", "no:cacheprovider"]
        + [f"tests/{file}", *which],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr
