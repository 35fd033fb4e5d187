"""Any words at all: a command answers with 0 or with a sentence and 2, and writes where it may."""

import shutil
import types
from dataclasses import fields
from itertools import chain
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aib.settings import Settings
from tests.fuzz.harness import fuzz
from tests.fuzz.worlds import CHEAP, PHOTOS, World

ODD = [
    *(
        "nan inf -1 0 1 2 0.5 1e999 0x10 1_0 ² ٣ ½ true none [] {} -- - = , : / . .. ../.. ~ "
        "~nobody $HOME * %s {0} \\ ' é 猫 \udcff \u202e --help -h --json"
    ).split(),
    "",
    " ",
    "a b",
    "\n",
    "x" * 300,
    "x/" * 3000,
    "9" * 5000,
]
INTEGERS = "-99999999999999999999 -1 0 1 2 3 7 2147483648 9223372036854775808 1.0 1_0 ² ٣".split()
FLOATS = "nan inf -inf -1 -0.0 0 1e-320 1e-9 0.1 0.5 0.999 1 2 1e30 1e308 1e999 ½".split()
PATHS = [
    *(
        "run run/config.json run/model.safetensors nowhere nowhere/deeper . .. / ~ ../given "
        "../given/photos ../given/photos/cat/0.png /dev/null /dev/zero /proc/self/mem \udcff 猫"
    ).split(),
    "",
    "x" * 300,
    "x/" * 3000,
]
NAMES = [
    *(
        "folder: folder:. folder:.. folder:/proc folder:nowhere folder:../given/photos folder:run "
        "folder:../given/photos:image_size=1 folder:../given/photos:image_size=8,resize=crop "
        "folder:../given/photos:resize=melt folder:../given/photos:holdout=nan shapes:count=20 "
        "shapes:count=-1 shapes:count=99999999999 shapes:count=20,size=huge shapes:: shapes:,, "
        "shapes:image_size=0 shapes:count=20,image_size=99999 shapes:count=20,clutter=nan "
        "shapes:count shapes:count=20,image_size=9 shapes:count=20,image_size=512 "
        "shapes_spurious:count=20 shapes:seed=1,count=20 cifar10 cifar10:partial cifar100:labels=x "
        "svhn cub200 stl10:classes=raw"
    ).split(),
    "folder:" + "x" * 300,
    "folder:\udcff",
]
MODELS = "tiny tiny_dvib tiny_aib tiny_aib_qt vgg_aib_q ../run".split()
SPLITS = "train val test extra photos . .. ../photos ../../work".split()
SAMPLES = [*"1x1 2x3 0x1 1x 1x1x1 ²x1 ١x١ 1X2 4x-1 99999999999x99999999999".split(), "9" * 5000]
GRIDS = [
    *(
        "beta=1e-3,1 K=4,8 Q=2 = beta= =1 beta beta=, beta=1,1 beta=nan K=0.5 K=² K=99999999999 "
        "data=shapes,cifar10 data=nothing,shapes seed=1,2 workers=1 milestones=1,2 unknown=1,2"
    ).split(),
    "K=" + ",".join(map(str, range(1, 500))),
]
DEVICES = "cpu cuda cuda:9 cuda:-1 mps meta xla vulkan cpu:7 auto".split()

# No process can be given a zero byte; everything else can come from a shell.
text = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=12)
odd = st.one_of(st.sampled_from(ODD), text)
integers = st.one_of(st.sampled_from(INTEGERS), st.integers().map(str))
floats = st.one_of(st.sampled_from(FLOATS), st.floats().map(str))
# Honest values of these would rightly take for ever.
few = st.sampled_from([n for n in INTEGERS if n not in ("3", "7", "2147483648", "1_0", "٣")])
KINDS = {
    **dict.fromkeys("epochs devices nodes workers steps columns".split(), few),
    **dict.fromkeys("batch_size seed image_size num_classes images subset".split(), integers),
    **dict.fromkeys("jobs port calibrate timeout_min".split(), integers),
    **dict.fromkeys("width seconds max_megapixels".split(), floats),
    **dict.fromkeys("root run resume foreign_root csv init".split(), st.sampled_from(PATHS)),
    **dict.fromkeys("data foreign".split(), st.sampled_from(NAMES)),
    "seeds": st.sampled_from("-99999999999999999999 -1 0 1 2 1.0 ²".split()),
    "model": st.sampled_from(MODELS),
    "split": st.sampled_from(SPLITS),
    "samples": st.sampled_from(SAMPLES),
    "device": st.sampled_from(DEVICES),
    "accelerator": st.sampled_from(DEVICES),
    "method": st.sampled_from(["own", "gradcam", "input_x_gradient", "guess"]),
    "precision": st.sampled_from(["fp32", "bf16", "fp16", "fp8"]),
    "average": st.sampled_from(["probabilities", "logits", "both"]),
    "format": st.sampled_from(["onnx", "torch-export", "tflite"]),
    "engine": st.sampled_from(["local", "submitit", "steam"]),
    "grid": st.sampled_from(GRIDS),
    "milestones": st.lists(integers, max_size=3).map(" ".join),
}


def kind(hint: Any) -> st.SearchStrategy[str]:
    """Values for a setting of this type: right ones, and right ones at the edge."""
    if isinstance(hint, types.UnionType):
        return st.one_of([kind(part) for part in get_args(hint)])
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    return {int: integers, float: floats}.get(hint, odd)


HINTS = get_type_hints(Settings)


def option(name: str) -> st.SearchStrategy[list[str]]:
    """`--name VALUE`, now and then with a value of another kind or none."""
    flag = "--" + name.replace("_", "-")
    value = KINDS[name] if name in KINDS else kind(HINTS.get(name))
    given_value = value.map(lambda v: [flag, *v.split(" ")])
    switch = st.just([flag])
    if HINTS.get(name) is bool or name in SWITCHES:
        return switch
    return st.one_of(
        given_value, given_value, given_value, odd.map(lambda v: [f"{flag}={v}"]), switch
    )


SWITCHES = (
    "deterministic json strict extra stored list quick version help debug product int8 no_browser"
).split()


def words(base: list[str], names: str) -> st.SearchStrategy[list[str]]:
    """A command that would work, with a few more words."""
    extra = st.sampled_from(names.split()).flatmap(option) | odd.map(lambda v: [v])
    return st.lists(extra, min_size=1, max_size=2).map(lambda more: [*base, *chain(*more)])


SETTINGS = " ".join(f.name for f in fields(Settings) if f.name != "compile")
PLACES = st.sampled_from(["out", "out/deep", "run", "run/config.json/x", "/proc/x", "x" * 300])


@given(
    st.tuples(words(list(CHEAP), SETTINGS + " resume list unknown"), PLACES).map(
        lambda pair: [*pair[0], "--out", pair[1]]
    )
)
@fuzz
def test_train(world: World, line: list[str]) -> None:
    world.clear()
    world.aib(*line)


PNG = "../given/photos/cat/0.png"
OTHERS = {
    "eval run": "data split root samples deterministic average batch_size precision device "
    "workers seed json",
    f"explain {PNG} --run run": "run method samples deterministic seed device json",
    "interpret run --quick --images 4": "data split root foreign foreign_root images subset "
    "batch_size workers seed device json csv",
    "report run --images 4 --subset 2": "data root images subset stored seed device",
    f"data show {PHOTOS}": "split root columns seed strict",
    f"data verify {PHOTOS}": "root json",
    "data list": "root json",
    "data fetch shapes": "root source extra",
    "models tiny*": "num_classes image_size width profile json",
    "bench train --model none": "width image_size batch_size precision steps workers device json",
    "bench infer --model none": "samples width image_size batch_size precision seconds device json",
    "bench data --data none": "root batch_size workers seconds device json",
    # Refused whatever comes behind: a conversion takes seconds, and a server would not end.
    "export run --out model.safetensors": "run format int8 data root calibrate seed json",
    "view --max-megabytes 0": "run host port no_browser samples max_megapixels device",
    "results collect run --out kept.json --title some": "title note",
    "results page run --out page.md": "unknown help",
    "sweep shapes_tiny --quick --list": "grid product quick seeds jobs engine timeout_min "
    f"json {SETTINGS}",
    "": "version help debug",
}


@given(st.one_of([words(base.split(), names) for base, names in OTHERS.items()]))
@fuzz
def test_other_commands(world: World, line: list[str]) -> None:
    world.clear()
    world.aib(*line)


LONG = "x" * 300
# Lines that once ended in an error that nobody had foreseen, or not at all.
KEPT = [
    [*CHEAP, "--out", LONG],
    [*CHEAP, "--out", "out", "--data", "shapes:count=99999999999"],
    [*CHEAP, "--out", "out", "--accelerator", "mps"],
    [*CHEAP, "--out", "out", "--beta", "1e308"],
    [*CHEAP, "--out", "out", "--nodes", "2"],
    [*CHEAP, "--out", "out", "--devices", "1000", "--batch-size", "1000"],
    [*CHEAP, "--out", "out", "--latent-dim", "99999999999"],
    [*CHEAP, "--out", "out", "--num-anchors", "99999999999"],
    [*CHEAP, "--out", "out", "--workers", "99999999999"],
    ["eval", "run", "--samples", "²x1"],
    ["eval", "run", "--seed", "-99999999999999999999"],
    ["eval", "run", "--device", "meta"],
    ["eval", "run", "--data", "shapes:image_size=4096"],
    ["explain", PNG, "--run", "run", "--seed", "99999999999999999999"],
    ["interpret", "run", "--quick", "--images", "4", "--csv="],
    ["interpret", "run", "--quick", "--images", "4", "--seed", "-99999999999999999999"],
    ["interpret", "run", "--quick", "--images", "4", "--batch-size", "-1"],
    ["export", "run", "--int8", "--seed", "99999999999999999999"],
    ["models", "tiny*", "--num-classes", "9223372036854775808"],
    ["bench", "infer", "--model", "tiny", "--seconds", "-1"],
    ["bench", "train", "--model", "none", "--image-size", "-1"],
    ["bench", "train", "--model", "none", "--batch-size", "99999999999"],
]


@pytest.mark.parametrize("line", KEPT, ids=lambda line: " ".join(line)[-60:])
def test_lines_that_once_went_wrong(world: World, line: list[str]) -> None:
    world.clear()
    assert world.aib(*line).code == 2


def test_runs_of_one_name_stay_inside_the_folder_for_results(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two is called `..`, and once its results were put there."""
    world.clear()
    inner = world.work / "run" / "inner"
    shutil.copytree(world.work / "run", inner / "run")
    monkeypatch.chdir(inner)
    data = f"folder:{world.given / 'photos'}:image_size=16"
    words = ["--data", data, "--quick", "--images", "4", "--out", "out"]
    answer = world.aib("interpret", "..", "run", *words)
    assert answer.code == 0
    assert not (inner / "interpret.json").exists()
    assert len(list(inner.glob("out/*/interpret.json"))) == 2


def test_names_of_undecodable_bytes_are_printed(world: World) -> None:
    world.clear()
    (world.work / "cat\udcff.png").write_bytes((world.work / PNG).read_bytes())
    answer = world.aib("explain", "cat\udcff.png", "--run", "run")
    assert answer.code == 0 and "cat\\udcff.png" in answer.out
