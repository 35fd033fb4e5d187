"""The start: names and commands without torch, and `aib explain` without what it does not need."""

import ast
import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest
from PIL import Image

import aib
from aib import cli
from aib.interpret import api
from tests.helpers import run_process

ROOT = Path(__file__).parent.parent


def in_new_process(code, *words, cwd=ROOT):
    """Run code in a new interpreter and return the JSON that it prints last."""
    out = run_process(sys.executable, "-c", code, *words, cwd=cwd, PYTHONPATH=str(ROOT))
    return json.loads(out.splitlines()[-1])


def test_help_and_typos_do_without_torch():
    """The first command line that imports torch is named."""
    lines = [["--help"], ["-V"], ["trian"], *([command, "--help"] for command in cli.COMMANDS)]
    lines += [["train", "--epoch", "3"], ["train", "cifar10_vgg_aib_q"], ["data", "lits"]]
    lines += [["train", "--batch-size", "0"], ["train", "--list"], ["eval", "r", "--samples"]]
    code = """
import json, sys
import aib
dir(aib), aib.AibError, aib.Settings, aib.ModelOptions
from aib.cli import main
guilty = ["import aib"] if "torch" in sys.modules else []
for line in json.loads(sys.argv[1]):
    main(line)
    if "torch" in sys.modules:
        guilty.append(line)
        break
print("\\n" + json.dumps(guilty))
"""
    assert in_new_process(code, json.dumps(lines)) == []


def test_public_names_are_the_same_with_and_without_lazy_import():
    """mypy reads the imports, the interpreter the table."""
    tree = ast.parse(inspect.getsource(aib))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {one.name: node.module for node in typed.body for one in node.names}
    assert imported == aib._LAZY
    assert {*imported, "AibError", "__version__"} == set(aib.__all__) <= set(dir(aib))
    for name, module in imported.items():
        assert getattr(aib, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    ("package", "names"), [("aib", aib.__all__), ("aib/interpret", api.__all__)]
)
def test_no_public_name_is_a_submodule_too(package, names):
    """Importing such a submodule would replace the name."""
    assert not set(names) & {path.stem for path in (ROOT / package).iterdir()}
    assert set(names) <= set(dir(importlib.import_module(package.replace("/", "."))))


def test_explain_imports_only_what_it_needs(tmp_path):
    """Each of these takes seconds, and torch alone does not import them."""
    Image.new("RGB", (50, 40), "green").save(tmp_path / "photo.png")
    code = """
import json, sys, torch
before = set(sys.modules)
from aib.cli import main
assert main(["explain", "photo.png"]) == 0
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    imported = set(in_new_process(code, cwd=tmp_path))
    assert "aib.figures.picture" in imported
    heavy = {"matplotlib", "torchmetrics", "lightning", "scipy", "torch._dynamo", "captum"}
    heavy |= {"huggingface_hub", "pooch", "rich", "filelock", "aib.config.presets"}
    assert not imported & heavy
