"""Any words at all: a command exits with 0, or with 2 and a message, and writes where it may."""

from itertools import chain
from typing import get_args

from hypothesis import example, given, settings, strategies as st

from aib.config.settings import setting_types
from tests.fuzz.harness import CASES, CHEAP, PHOTOS, World, fuzz

LONG = "x" * 300
PNG = "../given/photos/class_0/0.png"
ODD = "nan -1 0 0.5 1e999 0x10 ² [] - -- = , / .. ~nobody $HOME * %s {0} \\ ' \udcff --help".split()
ODD += ["", " ", "a b", "\n", LONG, "x/" * 3000, "9" * 5000]
INTEGERS = "-1 0 1 2 3 7 1.0 1_0 ² ٣".split()  # larger numbers would rightly take long
FLOATS = "nan inf -inf -1 -0.0 0 1e-320 1e-9 0.1 0.5 0.999 1 2 ½".split()
PATHS = (
    "run run/config.json nowhere/deeper . .. / ~ ../given/photos /dev/null /proc/x \udcff".split()
)
PATHS += ["", LONG, "x/" * 3000, PNG]
DATA = (
    "folder: folder:. folder:/proc folder:nowhere folder:../given/photos folder:run "
    "folder:../given/photos:image_size=8,resize=crop folder:../given/photos:resize=melt "
    "shapes:count=20 shapes:count=-1 shapes:: shapes:,, shapes:count=20,size=huge "
    "shapes:count=20,image_size=99999 shapes:count=20,clutter=nan shapes:count cifar10 "
    f"cifar100:labels=x folder:{LONG} folder:\udcff"
).split()
VALUES: dict[str, list[str]] = {
    **dict.fromkeys("batch_size images subset port max_megabytes".split(), INTEGERS),
    **dict.fromkeys("max_megapixels".split(), FLOATS),
    **dict.fromkeys("root run resume init backbone".split(), PATHS),
    **dict.fromkeys("data foreign".split(), DATA),
    **dict.fromkeys("device accelerator".split(), "cpu cuda cuda:9 cuda:-1 mps meta xla".split()),
    "out": ["out/deep", "run", "run/config.json/x", "/proc/x", LONG],
    "seed": [*INTEGERS, "2147483648", "-99999999999999999999"],
    "model": "tiny tiny_dvib tiny_aib tiny_aib_qt vgg_aib_q ../run timm:x".split(),
    "split": "train val test photos . .. ../photos".split(),
    "samples": "1x1 2x3 0x1 1x 1x1x1 ²x1 ١x١ 1X2 4x-1".split(),
    "method": "own gradcam guess".split(),
    "precision": "fp32 bf16 fp16 fp8".split(),
    "average": "probabilities logits both".split(),
    "grid": "beta=1e-3,1 latent_dim=4,8 beta= =1 beta beta=1,1 beta=nan seed=1,2 unknown=1".split(),
}
SWITCHES = "json list quick version help debug no_browser".split()
HINTS = setting_types()
SETTINGS = " ".join(name for name in HINTS if name != "compile")

# No process can be given a zero byte; everything else can come from a shell.
text = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=12)
odd = st.sampled_from(ODD) | text


def option(name: str) -> st.SearchStrategy[list[str]]:
    """`--name VALUE`, sometimes with a value of another kind or none."""
    flag, hint = "--" + name.replace("_", "-"), HINTS.get(name)
    switch = st.just([flag])
    if hint is bool or name in SWITCHES:
        return switch
    choices = [one for one in get_args(hint) if isinstance(one, str)]  # of a Literal
    value = st.sampled_from(VALUES.get(name) or choices or [*INTEGERS, *FLOATS])
    usual = value.map(lambda v: [flag, *v.split(" ")])
    return st.one_of(usual, usual, usual, odd.map(lambda v: [f"{flag}={v}"]), switch)


def words(base: list[str], names: str) -> st.SearchStrategy[list[str]]:
    """A command that would work, with a few more words."""
    extra = st.sampled_from(names.split()).flatmap(option) | odd.map(lambda v: [v])
    return st.lists(extra, min_size=1, max_size=2).map(lambda more: [*base, *chain(*more)])


# A command that would work, and the options that it is tried with.
COMMANDS = {
    " ".join([*CHEAP, "--out", "out"]): f"{SETTINGS} out resume list unknown",
    "eval run": "run data split root samples deterministic average batch_size precision device "
    "workers seed json",
    f"explain {PNG} --run run": "run method expected samples deterministic seed device",
    "interpret run --quick --images 4": "data split root foreign images subset samples seed "
    "batch_size device json",
    "report run": "run backbone out",
    "data list": "root",
    "data fetch cifar10": "root",
    "models": "num_classes image_size json",
    # These always fail: an export takes seconds, a server would not end, a sweep trains.
    "export run --out model.safetensors": "run json",
    "view --max-megabytes 0": "run host port no_browser samples max_megapixels device",
    f"sweep --data {PHOTOS} --out /proc/x": f"grid {SETTINGS}",
    "": "version help debug",
}


@given(st.one_of([words(base.split(), names) for base, names in COMMANDS.items()]))
@settings(fuzz, max_examples=2 * CASES)
@example([*CHEAP, "--out", LONG])  # these lines once failed without a message
@example([*CHEAP, "--out", "out", "--devices", "1000", "--batch-size", "1000"])
@example(["eval", "run", "--samples", "²x1"])
@example(["eval", "run", "--device", "meta"])
@example(["explain", PNG, "--run", "run", "--seed", "99999999999999999999"])
@example(["interpret", "run", "--quick", "--images", "4", "--batch-size", "-1"])
def test_any_words(world: World, line: list[str]) -> None:
    world.clear()
    world.aib(*line)
