"""Figures that stand on a page and in the code are the same."""

import json
import re
from dataclasses import replace
from statistics import mean, stdev

from aib.configs import PRESETS, get_preset
from aib.paper import paper_error
from aib.profiles import PROFILES
from aib.registry import list_models
from aib.runs import packaged_models
from aib.settings import Settings
from tests.docs.blocks import ROOT, prose
from tests.docs.kept import errors_by_name, kept, run_of

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


def test_the_readme_s_errors_are_those_of_the_results(readme):
    fast = ("cifar10_fast", "cifar10_wrn_fast", "cifar100_wrn_fast", "svhn_fast", "svhn_wrn_fast")
    vgg, wrn, wrn_100, svhn, svhn_wrn = (
        f"{preset.settings.epochs} epochs in {preset.ours.minutes:.1f} minutes, "
        for preset in map(get_preset, fast)
    )
    crops = "SVHN (crops made anew), "
    for file, preset, model, opening in (
        ("cifar10_vgg.json", "cifar10_fast", "vgg_aib_qt", vgg),
        ("cifar10_vgg.json", "cifar10_fast", "vgg_aib", "`vgg_aib` by the same recipe, "),
        ("cifar10_vgg.json", "cifar10_fast", "vgg_dvib", "`vgg_dvib` by the same recipe, "),
        ("cifar10_vgg.json", "cifar10_fast", "vgg", "10, plain `vgg` by the same recipe, "),
        ("cifar10_vgg.json", "cifar10_fast", "vgg_att3", "`vgg_att3` by the same recipe, "),
        ("cifar10_vgg_others.json", "cifar10_fast", "vgg_att2", "`vgg_att2` by the same recipe, "),
        ("cifar10_vgg_others.json", "cifar10_fast", "vgg_pan", "`vgg_pan` by the same recipe, "),
        ("cifar10_wrn.json", "cifar10_wrn_fast", "wrn_aib_qt", wrn),
        ("cifar10_wrn.json", "cifar10_wrn_fast", "wrn_abn", "`wrn_abn` by the same recipe, "),
        ("cifar10_wrn.json", "cifar10_wrn_fast", "wrn", "10, plain `wrn` by the same recipe, "),
        ("cifar100_vgg.json", "cifar100_fast", "vgg_aib_qt", "CIFAR-100, `vgg_aib_qt`, "),
        ("cifar100_vgg.json", "cifar100_fast", "vgg", "100, plain `vgg` by the same recipe, "),
        ("cifar100_wrn.json", "cifar100_wrn_fast", "wrn_aib_qt", wrn_100),
        ("cifar100_wrn.json", "cifar100_wrn_fast", "wrn", "100, plain `wrn` by the same recipe, "),
        ("svhn.json", "svhn_fast", "vgg_aib_qt", f"{crops}`vgg_aib_qt`, {svhn}"),
        ("svhn.json", "svhn_fast", "vgg_dvib", f"{crops}`vgg_dvib` by the same recipe, "),
        ("svhn.json", "svhn_fast", "vgg", f"{crops}plain `vgg` by the same recipe, "),
        ("svhn.json", "svhn_wrn_fast", "wrn_aib_qt", f"{crops}`wrn_aib_qt`, {svhn_wrn}"),
    ):
        assert opening + errors_in_a_row(file, preset, model) in readme
    small = json.loads((packaged_models()["cifar10_small"] / "evaluation.json").read_text())
    assert f"the package: error | {small['cifar10 test']['top1_error']:.2f}%" in readme
    vgg = errors_by_name("cifar10_vgg.json")["100_epochs_cutout_8"]
    wrn = errors_by_name("cifar10_wrn.json")["batch_256_dropout_0.3"]
    assert f"gave {vgg:.2f}% for `vgg_aib_qt` (100 epochs, cut-out 8)" in readme
    assert f"{wrn:.2f}% for `wrn_aib_qt` (larger batches, dropout)" in readme


def test_the_errors_on_svhn_are_those_of_the_results():
    text = prose(ROOT / "docs" / "reproduce.md")
    rows = re.findall(r"^  (\| `\w+` \| `svhn_\w+` \|.+\|)$", text, re.MULTILINE)
    runs = [
        run_of("svhn.json", f"{name}_0") for name in ("vgg", "vgg_dvib", "vgg_aib_qt", "wrn_aib_qt")
    ]
    assert rows == [
        f"| `{run['model']}` | `{'svhn_wrn_fast' if 'wrn' in run['model'] else 'svhn_fast'}` "
        f"| {run['epochs']} | {run['minutes']:.1f} "
        f"| {run['evaluations'][run['reported']]['top1_error']:.2f} "
        f"| {paper_error(run['model'], 'svhn'):.2f} |"
        for run in runs
    ]
    intervals = [run["evaluations"][run["reported"]]["top1_interval"] for run in runs]
    assert max(low for low, _ in intervals) < min(high for _, high in intervals)  # all overlap


def test_the_error_on_birds_is_that_of_the_results():
    [run] = kept("cub200_vgg19.json")["runs"]
    error, epochs = run["evaluations"][run["reported"]]["top1_error"], run["epochs"]
    text = " ".join(prose(ROOT / "docs" / "reproduce.md").split())
    assert f"the error was {error:.2f}% without attention, after {epochs} epochs;" in text


def test_calibration_and_top_5_error_in_the_readme_are_those_of_the_results(readme):
    pairs = {"calibration_error": [], "top5_error": []}
    for family in ("vgg", "wrn"):
        ours, plain = (
            run_of(f"cifar100_{family}.json", name)["evaluations"]["cifar100 test"]
            for name in (f"{family}_aib_qt_0", f"{family}_0")
        )
        assert ours["calibration_error"] < plain["calibration_error"]
        assert ours["top5_error"] > plain["top5_error"]
        for name, found in pairs.items():
            found.append(f"{ours[name]:.1f}%, against {plain[name]:.1f}%")
    assert f"networks ({'; '.join(pairs['calibration_error'])}) and a higher" in readme
    assert f"top-5 error ({'; '.join(pairs['top5_error'])})." in readme


def test_the_cut_outs_and_epochs_in_the_readme_are_the_presets(readme):
    cutouts = {
        name: get_preset(name).settings.cutout
        for name in ("cifar10_fast", "cifar10_wrn_fast", "cifar100_fast", "cifar10_small")
    }
    assert list(cutouts.values()) == [16, 16, 8, 8]
    assert "a cut-out (16 pixels; 8 on CIFAR-100 and at half width)" in readme
    ours, papers = (
        get_preset(name).settings for name in ("cifar10_wrn_fast", "cifar10_wrn_aib_qt")
    )
    assert papers.epochs == 4 * ours.epochs and ours.dropout == 0
    assert "a quarter of the paper's epochs and no dropout" in readme


def test_the_speed_in_the_docs_is_that_of_the_results(readme):
    speed = kept("bench_train_vgg_aib_qt.json")
    assert f"augmentation: images/s | {speed['images_per_second']:,.0f} |" in readme
    assert f"same run: images/s | {speed['plain_images_per_second']:,.0f} |" in readme
    cost = prose(ROOT / "docs" / "reproduce.md")
    wide = kept("bench_train_wrn_aib_qt.json")["images_per_second"]
    for rate in (speed["images_per_second"], speed["plain_images_per_second"], wide):
        assert f" {rate:,.0f} " in cost
