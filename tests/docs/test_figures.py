"""Figures that stand on a page and in the code are the same."""

import json
import re
from dataclasses import replace
from statistics import mean, stdev

import pytest

from aib.configs import PRESETS, get_preset
from aib.configs.paper import paper_error
from aib.packaged import packaged_models
from aib.profiles import PROFILES
from aib.registry import list_models
from aib.settings import Settings
from tests.docs.blocks import ROOT, prose

OWN = "localisation_own_all_images"
COLUMNS = ("cifar10", "cifar100", "cub200", "svhn", "stl10 train", "stl10 test")


def test_table_one_is_the_papers_as_the_code_has_it():
    text = prose(ROOT / "docs" / "reproduce.md")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.+)\|$", text, re.MULTILINE))
    assert sorted(rows) == sorted(list_models())
    for name, cells in rows.items():
        for data, cell in zip(COLUMNS, cells.split("|"), strict=True):
            error = paper_error(name, data)
            assert cell.strip() == ("" if error is None else f"{error:.2f}"), f"{name} on {data}"


def test_the_defaults_in_the_method_are_the_code_s():
    text = prose(ROOT / "docs" / "method.md")
    [written] = re.findall(r"`beta`, `lambda_q`, `lambda_c` \| ([\d., ]+) \|", text)
    settings = Settings()
    ours = [settings.beta, settings.lambda_q, settings.lambda_c]
    assert [float(value) for value in written.split(",")] == ours
    samples = "{} x {}".format(*PROFILES["paper"].eval_samples)
    assert f"1 x 1 in training, {samples} in evaluation" in " ".join(text.split())


def kept(name: str) -> dict:
    return json.loads((ROOT / "results" / name).read_text())


def test_the_latency_in_the_docs_is_that_of_the_results():
    rows = kept("bench_infer_vgg_aib_qt_half_cpu.json")["latency"]["rows"]
    wait = {row["way"]: f"{row['median_ms']:.1f} ms" for row in rows if row["batch"] == 1}
    text = " ".join(prose(ROOT / "docs" / "export.md").split())
    ways = f"eager {wait['eager']}, compiled {wait['compiled']}, ONNX {wait['onnx']}"
    assert f"{ways}, ONNX in int8 {wait['onnx int8']}." in text


def errors_in_a_row(file: str, preset: str, model: str) -> str:
    """As the README writes them: of all seeds that were trained by a preset's recipe."""
    data = get_preset(preset).settings.data
    recipe = replace(get_preset(preset).settings, model=model).recipe()
    runs = [
        run for run in kept(file)["runs"] if without_seed(run["recipe"]) == without_seed(recipe)
    ]
    errors = [run["evaluations"][f"{data} test"]["top1_error"] for run in runs]
    assert len({run["seed"] for run in runs}) == len(runs)
    spread = f" ± {stdev(errors):.2f}" if len(errors) > 1 else ""
    seeds = f"{len(errors)} seed" + "s" * (len(errors) > 1)
    return f"{seeds}: error | {mean(errors):.2f}{spread}% | {paper_error(model, data):.2f}%"


def without_seed(recipe: dict) -> dict:
    return {key: value for key, value in recipe.items() if key != "seed"}


def test_what_presets_say_of_themselves_is_what_was_measured():
    """Of every preset that a kept run repeats, and of no other."""
    files = [kept(path.name) for path in sorted((ROOT / "results").glob("*.json"))]
    runs = [run for file in files if file.get("kind") == "runs" for run in file["runs"]]
    found: dict[str, list[dict]] = {}
    for run in runs:
        for name, preset in PRESETS.items():
            if without_seed(run["recipe"]) == without_seed(preset.settings.recipe()):
                found.setdefault(name, []).append(run)
    assert set(found) == {name for name, preset in PRESETS.items() if preset.ours}
    for name, alike in found.items():
        ours = PRESETS[name].ours
        errors = [run["evaluations"][run["reported"]]["top1_error"] for run in alike]
        assert [f"{error:.2f}" for error in errors] == [f"{error:.2f}" for error in ours.errors]
        assert f"{mean(run['minutes'] for run in alike):.1f}" == f"{ours.minutes:.1f}"
        assert {run["environment"]["device"] for run in alike} == {ours.hardware}


@pytest.fixture(scope="module")
def readme() -> str:
    return " ".join(prose(ROOT / "README.md").split())


def maps_of(file: str, run: str) -> dict:
    """What `aib interpret` found of a run that was kept."""
    [found] = [each for each in kept(file)["runs"] if each["name"] == run]
    return found["interpret"]


def test_the_readme_s_errors_are_those_of_the_results(readme):
    first = kept("cifar10_vgg.json")["runs"][0]
    assert f"{first['epochs']} epochs in {first['minutes']:.1f} minutes" in readme
    wide = get_preset("cifar10_wrn_fast")
    wide_opening = f"{wide.settings.epochs} epochs in {wide.ours.minutes:.1f} minutes, "
    for file, preset, model, opening in (
        ("cifar10_vgg.json", "cifar10_fast", "vgg_aib_qt", "minutes, "),
        ("cifar10_vgg.json", "cifar10_fast", "vgg", "by the same recipe, "),
        ("cifar10_wrn.json", "cifar10_wrn_fast", "wrn_aib_qt", wide_opening),
        ("cifar100_vgg.json", "cifar100_fast", "vgg_aib_qt", "CIFAR-100, `vgg_aib_qt`, "),
    ):
        assert opening + errors_in_a_row(file, preset, model) in readme
    small = json.loads((packaged_models()["cifar10_small"] / "evaluation.json").read_text())
    assert f"the package: error | {small['cifar10 test']['top1_error']:.2f}%" in readme


def test_the_speed_in_the_docs_is_that_of_the_results(readme):
    speed = kept("bench_train_vgg_aib_qt.json")
    assert f"augmentation: images/s | {speed['images_per_second']:,.0f} |" in readme
    assert f"same run: images/s | {speed['plain_images_per_second']:,.0f} |" in readme
    cost = prose(ROOT / "docs" / "reproduce.md")
    wide = kept("bench_train_wrn_aib_qt.json")["images_per_second"]
    for rate in (speed["images_per_second"], speed["plain_images_per_second"], wide):
        assert f" {rate:,.0f} " in cost


def test_what_the_readme_says_of_maps_on_cifar10_is_what_was_found(readme):
    maps = maps_of("cifar10_vgg.json", "vgg_aib_qt_0")
    change = 100 * abs(maps["reliance"]["replaced"]["another"]["drop"])
    assert maps["reliance"]["verdict"] == "decorative" and f"by {change:.2f} points" in readme
    assert f"contrast is {maps['information']['contrast']:.2f}," in readme
    raw, centred = (
        [figures[f"{kind}_0.9"] for figures in maps["stability"].values()]
        for kind in ("score", "centred")
    )
    assert f"({int(min(raw))} to {max(raw):.0f}%, whatever" in readme
    assert f"centred score is {min(centred):.0f} to {max(centred):.0f}%" in readme
    own, random, centre = (
        maps["faithfulness"][source]["insertion"] for source in ("own", "random", "centre")
    )
    assert f"insertion reaches {own:.2f}; random order {random:.2f}," in readme
    assert f"centre outwards {centre:.2f}" in readme
    [_, deeper] = kept("cifar10_small.json")["runs"]
    found = deeper["interpret"]["faithfulness"]["own"]
    assert f"(insertion {found['insertion']:.2f}, deletion {found['deletion']:.2f})" in readme


def errors_by_name(file: str) -> dict[str, float]:
    runs = kept(file)["runs"]
    return {run["name"]: run["evaluations"]["cifar10 test"]["top1_error"] for run in runs}


def test_what_the_readme_says_of_a_price_and_noise_is_what_was_found(readme):
    names = ("price_and_noise_0.1", "deeper_cutout_16", "price_and_noise_0.05")
    both, neither = (maps_of("cifar10_maps.json", name) for name in names[:2])
    one, other = (maps["information"]["contrast"] for maps in (both, neither))
    assert f"contrast {one:.2f} ({other:.2f} with neither)" in readme
    for curve in ("insertion", "deletion"):
        one, other = (maps["faithfulness"]["own"][curve] for maps in (both, neither))
        assert f"{curve} {one:.2f} ({other:.2f})" in readme
    centre = both["faithfulness"]["centre"]["insertion"]
    assert f"the better insertion, {centre:.2f};" in readme
    assert both["reliance"]["verdict"] == "undecided"
    one, other, half = (errors_by_name("cifar10_maps.json")[name] for name in names)
    assert f"error is {one:.2f}%, against {other:.2f}% with neither." in readme
    assert f"Half of each costs less, {half:.2f}%." in readme


def test_what_the_readme_says_of_them_in_full_training_is_what_was_found(readme):
    errors = errors_by_name("cifar10_vgg.json")
    usual = [errors[f"vgg_aib_qt_{seed}"] for seed in range(3)]
    found = f"costs nothing: {errors['price_and_noise_0.05']:.2f}%, where the paper's form has"
    assert f"{found} {min(usual):.2f} to {max(usual):.2f}%" in readme
    priced, plain = (
        maps_of("cifar10_vgg.json", name) for name in ("price_and_noise_0.05", "vgg_aib_qt_0")
    )
    one, other = (maps["stability"]["color-16"]["centred_mean"] for maps in (priced, plain))
    assert f"16 pixels {one:.2f}, against {other:.2f})" in readme
    assert f"contrast falls to {priced['information']['contrast']:.2f}" in readme
    assert priced["reliance"]["verdict"] == "decorative"


def test_what_the_readme_says_of_wrn_s_map_is_what_was_found(readme):
    maps = maps_of("cifar10_wrn.json", "wrn_aib_qt_0")
    drop = 100 * maps["reliance"]["replaced"]["another"]["drop"]
    assert maps["reliance"]["verdict"] == "used" and f"falls by {drop:.1f} points. It" in readme
    own, centre, cam = (
        maps["faithfulness"][source]["insertion"] for source in ("own", "centre", "gradcam")
    )
    assert f"insertion reaches {own:.2f} in its order" in readme
    assert f"from the centre outwards {centre:.2f}, with Grad-CAM {cam:.2f}" in readme


def test_what_the_readme_says_of_maps_on_shapes_is_what_was_found(readme):
    auroc = {run["name"]: run["interpret"][OWN]["auroc"] for run in kept("shapes_vgg.json")["runs"]}
    assert f"AUROC {auroc['deeper']:.2f}, against {auroc['ours']:.2f}" in readme
    assert f"and {auroc['released']:.2f} with the released code's" in readme
    cluttered = {
        kind: ", ".join(
            f"{maps_of('shapes_clutter.json', f'{kind}_{seed}')[OWN]['auroc']:.2f}"
            for seed in (3, 4, 5)
        )
        for kind in ("exact", "released")
    }
    assert f"every seed: AUROC {cluttered['exact']}." in readme
    assert f"modulation it is {cluttered['released']}, at a lower error" in readme
    deeper = maps_of("shapes_vgg.json", "deeper")
    centre, own = (deeper["localisation"][source]["auroc"] for source in ("centre", "own"))
    assert f"reaches {centre:.2f} on the {deeper['subset_images']} of these" in readme
    assert f"the deeper map {own:.2f} there" in readme
    drop = 100 * deeper["reliance"]["replaced"]["another"]["drop"]
    assert f"another image's map accuracy falls by {drop:.1f} points" in readme
