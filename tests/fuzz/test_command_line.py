"""Any words at all: a command exits with 0, or with 2 and a message, and writes where it may."""

import shutil
import types
from itertools import chain
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aib.config.settings import setting_types
from tests.fuzz.harness import CHEAP, PHOTOS, World, fuzz

LONG = "x" * 300
ODD = [
    *(
        "nan inf -1 0 1 2 0.5 1e999 0x10 1_0 ² ٣ ½ true none [] {} -- - = , : / . .. ../.. ~ "
        "~nobody $HOME * %s {0} \\ ' é 猫 \udcff \u202e --help -h --json"
    ).split(),
    *("", " ", "a b", "\n", LONG, "x/" * 3000, "9" * 5000),
]
FEW = "-1 0 1 2 1.0 ²".split()  # where a larger number would rightly take long
INTEGERS = [*FEW, "3", "7", "1_0", "٣"]
FLOATS = "nan inf -inf -1 -0.0 0 1e-320 1e-9 0.1 0.5 0.999 1 2 ½".split()
PATHS = [
    *(
        "run run/config.json run/model.safetensors nowhere nowhere/deeper . .. / ~ ../given "
        "../given/photos ../given/photos/cat/0.png /dev/null /dev/zero /proc/self/mem \udcff 猫"
    ).split(),
    *("", LONG, "x/" * 3000),
]
NAMES = [
    *(
        "folder: folder:. folder:.. folder:/proc folder:nowhere folder:../given/photos folder:run "
        "folder:../given/photos:image_size=1 folder:../given/photos:image_size=8,resize=crop "
        "folder:../given/photos:resize=melt folder:../given/photos:holdout=nan shapes:count=20 "
        "shapes:count=-1 shapes:count=20,size=huge shapes:: shapes:,, shapes:image_size=0 "
        "shapes:count=20,image_size=99999 shapes:count=20,clutter=nan shapes:count "
        "shapes:count=20,image_size=9 shapes_spurious:count=20 shapes:seed=1,count=20 cifar10 "
        "cifar10:partial cifar100:labels=x svhn cub200 stl10:classes=raw"
    ).split(),
    *("folder:" + LONG, "folder:\udcff"),
]
DEVICES = "cpu cuda cuda:9 cuda:-1 mps meta xla vulkan cpu:7 auto".split()

# No process can be given a zero byte; everything else can come from a shell.
text = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=12)
odd = st.one_of(st.sampled_from(ODD), text)
VALUES: dict[str, list[str]] = {
    **dict.fromkeys("epochs devices nodes workers steps columns".split(), FEW),
    **dict.fromkeys("batch_size image_size num_classes images subset".split(), INTEGERS),
    **dict.fromkeys("seeds jobs port calibrate".split(), INTEGERS),
    **dict.fromkeys("width seconds max_megapixels".split(), FLOATS),
    **dict.fromkeys("root run resume foreign_root csv init".split(), PATHS),
    **dict.fromkeys("data foreign".split(), NAMES),
    **dict.fromkeys("device accelerator".split(), DEVICES),
    "seed": [*INTEGERS, "2147483648", "-99999999999999999999"],
    "model": "tiny tiny_dvib tiny_aib tiny_aib_qt vgg_aib_q ../run".split(),
    "split": "train val test extra photos . .. ../photos ../../work".split(),
    "samples": "1x1 2x3 0x1 1x 1x1x1 ²x1 ١x١ 1X2 4x-1".split(),
    "method": "own gradcam input_x_gradient guess".split(),
    "precision": "fp32 bf16 fp16 fp8".split(),
    "average": "probabilities logits both".split(),
    "format": "onnx torch-export tflite".split(),
    "grid": (
        "beta=1e-3,1 K=4,8 Q=2 = beta= =1 beta beta=, beta=1,1 beta=nan K=0.5 K=² "
        "data=nothing,shapes seed=1,2 workers=1 milestones=1,2 unknown=1,2"
    ).split(),
    "milestones": ["", "1", "2 1", "-1", "1 ²"],
}
SWITCHES = "json strict extra stored list quick version help debug product int8 no_browser".split()


HINTS = setting_types()
SETTINGS = " ".join(name for name in HINTS if name != "compile")


def values_of(hint: Any) -> st.SearchStrategy[str]:
    """Values for a setting of this type, ordinary ones and edge cases."""
    if isinstance(hint, types.UnionType):
        return st.one_of([values_of(part) for part in get_args(hint)])
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    known = {int: INTEGERS, float: FLOATS}.get(hint)
    return odd if known is None else st.sampled_from(known)


def option(name: str) -> st.SearchStrategy[list[str]]:
    """`--name VALUE`, sometimes with a value of another kind or none."""
    flag = "--" + name.replace("_", "-")
    switch = st.just([flag])
    if HINTS.get(name) is bool or name in SWITCHES:
        return switch
    value = st.sampled_from(VALUES[name]) if name in VALUES else values_of(HINTS.get(name))
    usual = value.map(lambda v: [flag, *v.split(" ")])
    return st.one_of(usual, usual, usual, odd.map(lambda v: [f"{flag}={v}"]), switch)


def words(base: list[str], names: str) -> st.SearchStrategy[list[str]]:
    """A command that would work, with a few more words."""
    extra = st.sampled_from(names.split()).flatmap(option) | odd.map(lambda v: [v])
    return st.lists(extra, min_size=1, max_size=2).map(lambda more: [*base, *chain(*more)])


FOLDERS = st.sampled_from(["out", "out/deep", "run", "run/config.json/x", "/proc/x", LONG])


@given(words(list(CHEAP), SETTINGS + " resume list unknown"), FOLDERS)
@fuzz
def test_train(world: World, line: list[str], folder: str) -> None:
    world.clear()
    world.aib(*line, "--out", folder)


PNG = "../given/photos/cat/0.png"
OTHERS = {
    "eval run": "data split root samples deterministic average batch_size precision device "
    "workers seed json",
    f"explain {PNG} --run run": "run method expected threshold samples "
    "deterministic seed device json",
    "interpret run --quick --images 4": "data split root foreign foreign_root images subset "
    "batch_size workers seed device json csv",
    "report run --images 4 --subset 2": "data root images subset stored seed device",
    f"data show {PHOTOS}": "split root columns seed strict",
    f"data verify {PHOTOS}": "root json",
    "data list": "root json",
    "data fetch shapes": "root extra",
    "models tiny*": "num_classes image_size width profile json",
    "bench train --model none": "width image_size batch_size precision steps workers device json",
    "bench infer --model none": "samples width image_size batch_size precision seconds device json",
    "bench data --data none": "root batch_size workers seconds device json",
    # These always fail: an export takes seconds, and a server would not end.
    "export run --out model.safetensors": "run format int8 data root calibrate seed json",
    "view --max-megabytes 0": "run host port no_browser samples max_megapixels device",
    "sweep shapes_tiny --quick --list": f"grid product quick seeds jobs json {SETTINGS}",
    "": "version help debug",
}


@given(st.one_of([words(base.split(), names) for base, names in OTHERS.items()]))
@fuzz
def test_other_commands(world: World, line: list[str]) -> None:
    world.clear()
    world.aib(*line)


TRAIN = [*CHEAP, "--out", "out"]
STUDY = ["interpret", "run", "--quick", "--images", "4"]


@pytest.mark.parametrize(
    "line",
    [
        [*CHEAP, "--out", LONG],
        [*TRAIN, "--accelerator", "mps"],
        [*TRAIN, "--nodes", "2"],
        [*TRAIN, "--devices", "1000", "--batch-size", "1000"],
        ["eval", "run", "--samples", "²x1"],
        ["eval", "run", "--seed", "-99999999999999999999"],
        ["eval", "run", "--device", "meta"],
        ["explain", PNG, "--run", "run", "--seed", "99999999999999999999"],
        [*STUDY, "--csv="],
        [*STUDY, "--seed", "-99999999999999999999"],
        [*STUDY, "--batch-size", "-1"],
        ["export", "run", "--int8", "--seed", "99999999999999999999"],
        ["bench", "train", "--model", "none", "--image-size", "-1"],
    ],
    ids=lambda line: " ".join(line)[-60:],
)
def test_lines_that_once_failed_without_a_message(world: World, line: list[str]) -> None:
    world.clear()
    assert world.aib(*line).code == 2


def test_results_of_a_run_named_by_dots_stay_in_the_output_folder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clear()
    inner = world.work / "run" / "inner"
    shutil.copytree(world.work / "run", inner / "run")
    monkeypatch.chdir(inner)
    data = f"folder:{world.given / 'photos'}:image_size=16"
    options = ["--data", data, "--quick", "--images", "4", "--out", "out"]
    answer = world.aib("interpret", "..", "run", *options)
    assert answer.code == 0
    assert not (inner / "interpret.json").exists()
    assert len(list(inner.glob("out/*/interpret.json"))) == 2


def test_names_of_undecodable_bytes_are_printed(world: World) -> None:
    world.clear()
    (world.work / "cat\udcff.png").write_bytes((world.work / PNG).read_bytes())
    answer = world.aib("explain", "cat\udcff.png", "--run", "run")
    assert answer.code == 0 and "cat\\udcff.png" in answer.out
