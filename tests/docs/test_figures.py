"""Figures that stand on a page and in the code are the same."""

import re

from aib.configs import PRESETS
from aib.profiles import PROFILES
from aib.registry import list_models
from aib.settings import Settings
from tests.docs.blocks import ROOT, prose

COLUMNS = ("cifar10", "cifar100", "cub200", "svhn")


def test_table_one_agrees_with_the_presets():
    text = prose(ROOT / "docs" / "reproduce.md")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.+)\|$", text, re.MULTILINE))
    assert sorted(rows) == sorted(list_models())
    for name, cells in rows.items():
        for data, cell in zip(COLUMNS, cells.split("|"), strict=False):
            preset = PRESETS.get(f"{data}_{name}")
            if preset is not None:
                assert float(cell) == preset.paper_error, f"{name} on {data}"


def test_the_defaults_in_the_method_are_the_code_s():
    text = prose(ROOT / "docs" / "method.md")
    [written] = re.findall(r"`beta`, `lambda_q`, `lambda_c` \| ([\d., ]+) \|", text)
    settings = Settings()
    ours = [settings.beta, settings.lambda_q, settings.lambda_c]
    assert [float(value) for value in written.split(",")] == ours
    samples = "{} x {}".format(*PROFILES["paper"].eval_samples)
    assert f"1 x 1 in training, {samples} in evaluation" in " ".join(text.split())
