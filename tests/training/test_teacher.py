"""Distillation: a student learns from a teacher's predictions, with and without labels."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import aib
from aib.cli import main
from aib.config.settings import Settings
from aib.data import load
from aib.data.specs import imagenet_classes
from aib.errors import AibError
from aib.evaluation.calibration import fit_calibration
from aib.models.weights import WEIGHTS
from aib.system.files import sha256
from aib.training.interrupt import Interrupted
from aib.training.loop import Loop
from aib.training.step import Objective
from aib.training.teacher import Teacher
from aib.training.train import load_teacher, train
from tests.data import official
from tests.helpers import SMALL, SmallNet, eval_model, image_set, make_run, photo, small_model
from tests.models.networks import libraries

CLASSES = ("disc", "ring", "square", "triangle")


def network(num_classes: int = 4, seed: int = 1) -> SmallNet:
    torch.manual_seed(seed)
    return SmallNet(num_classes).requires_grad_(True).train()


def policy(size: int = 32, **changes) -> aib.Preprocessing:
    options = {"class_names": CLASSES, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    return aib.Preprocessing(size, **(options | changes))


def photos(folder: Path, count: int = 10, **places: str) -> str:
    """Photographs without class folders, two of them in sub-folders; the name of the data."""
    for number in range(count):
        place = folder / {0: "2019", 1: "2020/may"}.get(number, "")
        place.mkdir(parents=True, exist_ok=True)
        photo(40, 32, seed=number).save(place / f"{number}.png")
    return f"folder:{folder}:image_size=32"


def plain_run(folder: Path, data: str = "shapes") -> Path:
    """A run of a small plain network whose predictions differ between images."""
    model = small_model("tiny", preprocessing=load("shapes:count=10", "test").preprocessing)
    with torch.no_grad():
        model.head.weight.mul_(20)
    return make_run(folder, "tiny", model.eval(), data=data)


# --- the loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [0.25, 1.0])
def test_the_gradient_is_that_of_the_mixed_loss(d: float) -> None:
    """(1 - d) nll + d KL(teacher || student), written down with torch alone."""
    model, teacher = small_model("tiny", 4), Teacher(network(), d, policy())
    x, y = torch.randn(6, 3, 32, 32), torch.arange(6) % 4
    teacher.watch(policy())
    zero = torch.zeros(2)
    objective = Objective(model, replace(SMALL, beta=0.0), teacher).train()
    loss, metrics = objective(x, y, zero[0], zero[0] + 1, zero)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    log_student = model(x).logits.log_softmax(-1)
    log_teacher = network().eval()(x).log_softmax(-1)
    divergence = (log_teacher.exp() * (log_teacher - log_student)).sum(-1).mean()
    want = (1 - d) * F.nll_loss(log_student, y) + d * divergence
    expected = torch.autograd.grad(want, list(model.parameters()), allow_unused=True)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    right = y if d < 1 else log_teacher.argmax(-1)
    assert metrics[-1] == (log_student.argmax(-1) != right).sum()


def test_the_teacher_sees_the_same_crop_with_its_own_size_mean_and_std() -> None:
    net, own = network(), policy(24)
    teacher, student = Teacher(net, 1.0, own), policy(mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    teacher.watch(student)
    pixels = torch.rand(3, 3, 32, 32)
    smaller = F.interpolate(pixels, (24, 24), mode="bilinear", antialias=True)
    want = net.eval()(own.normalise(smaller.clamp(0, 1))).softmax(-1)
    y = torch.zeros(3, dtype=torch.int64)
    found, right = teacher(student.normalise(pixels), y, y)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)
    assert torch.equal(right, want.argmax(-1))


class Fields(nn.Module):
    """A network with an output of several fields, and its preprocessing as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.preprocessing = network(), policy()

    def forward(self, x: Tensor) -> object:
        return type("Fields", (), {"logits": self.network(x)})()


def test_a_teacher_is_never_trained_nor_saved() -> None:
    data, given = image_set(16, mean=(0.5,) * 3), Fields()
    teacher = Teacher(given, 0.5)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    loop = Loop(small_model("tiny", 4), data, SMALL, teacher=teacher)
    loop.take_step.objective.train()
    batches = loop.batches.epoch(0)
    loop.take_step(batches, 0)
    assert not any(layer.training for layer in teacher.network.modules())
    weights = {"network." + n: v for n, v in teacher.network.state_dict().items()}
    assert all(torch.equal(value, before[name]) for name, value in weights.items())
    assert given.network.training and given.network.fc.weight.requires_grad  # it is a copy
    saved = loop.take_step.state_dict()["model"]
    assert saved.keys() == loop.take_step.model.state_dict().keys()
    assert not any(name.startswith("teacher") for name in saved)


def test_what_cannot_teach_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AibError, match="4 classes and 3 names"):
        Teacher(network(), 1.0, policy(class_names=CLASSES[:3]))
    with pytest.raises(AibError, match="must return logits"):
        Teacher(nn.Conv2d(3, 4, 3), 1.0, policy())
    for spec, why in (
        ("vgg16:weights.npz", "no classes to teach"),
        ("lite2:missing.pth", "cannot be read as weights"),
        ("no_such_run", "no folder 'no_such_run' here"),
        ("no_module:build", "failed .ModuleNotFoundError"),
    ):
        with pytest.raises(AibError, match=why) as caught:
            load_teacher(spec)
        assert "\n" not in str(caught.value)


# --- teachers by name ---------------------------------------------------------------------------


def test_imagenets_weights_teach_and_the_masked_model_starts_from_them(tmp_path: Path) -> None:
    plain = aib.create_model("lite0", 1000, 224)
    head = {f"classifier.{n}": v for n, v in plain.head.state_dict().items()}
    torch.save(plain.stem.state_dict() | head, tmp_path / "lite0.pth")
    teacher = load_teacher(f"lite0:{tmp_path}/lite0.pth")
    names = teacher.preprocessing.class_names
    assert (names[0], names[134], names[517]) == ("tench", "crane (bird)", "crane (machine)")
    student = aib.create_model("lite0_masked", 1000, 224)
    assert "fresh weights in propose" in teacher.start(student)
    for name, value in plain.stem.state_dict().items():
        assert torch.equal(student.body[0].state_dict()[name], value), name
        copied = student.propose.trunk.stages.state_dict().get(name)
        assert copied is None or torch.equal(copied, value), name
    assert torch.equal(student.head.weight, plain.head.weight)
    new = {n for n, _ in student.named_parameters()} - student.pretrained_names
    assert new and all(name.startswith("propose.") for name in new)
    x = torch.randn(2, 3, 96, 96)  # through a mask that is open everywhere
    with torch.no_grad():
        torch.testing.assert_close(student.eval()(x).logits, plain.eval()(x).logits)


def test_a_library_s_network_teaches_its_masked_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its pretrained weights, by one download, and the same head."""
    hub = libraries.install(monkeypatch)
    teacher = load_teacher("timm:resnet18")
    assert teacher.preprocessing.mean == libraries.MEAN
    assert teacher.preprocessing.class_names == ("0", "1", "2", "3")
    student = aib.attach("timm:resnet18", num_classes=4, masked=True)
    teacher.start(student)
    assert hub.downloads == ["resnet18"]
    assert torch.equal(student.head.weight, teacher.network.fc.weight)
    assert torch.equal(student.body.conv1.weight, teacher.network.conv1.weight)
    assert torch.equal(student.propose.trunk.stages.conv1.weight, teacher.network.conv1.weight)
    assert {"body.conv1.weight", "head.weight"} <= student.pretrained_names


# --- data with and without labels ---------------------------------------------------------------


def test_classes_are_the_teacher_s_or_labels_are_left_out(tmp_path: Path) -> None:
    mine = image_set(6, 3, class_names=("Square", "DISC", "triangle"))
    assert Teacher(network(), 0.5, policy()).relabel(mine).labels.tolist() == [2, 0, 3] * 2
    other = image_set(6, 3, class_names=("disc", "ring", "cat"))
    with pytest.raises(AibError, match="not the teacher's: --distill 1"):
        Teacher(network(), 0.5, policy()).relabel(other)
    teacher = Teacher(network(), 1.0, policy())
    images, found = teacher.label(teacher.relabel(other))
    predictions = found.argmax(-1)
    assert images.class_names == CLASSES and torch.equal(images.labels, predictions)
    x = torch.stack([policy().normalise(image) for image in other.images])
    torch.testing.assert_close(found, network().eval()(x).softmax(-1))
    assert torch.equal(teacher.label(teacher.relabel(mine))[0].labels, torch.tensor([2, 0, 3] * 2))


def test_imagenet_s_classes_go_by_index_number_and_name() -> None:
    wordnet, names = zip(*imagenet_classes().items(), strict=True)
    assert len({name.lower() for name in names}) == 1000
    teacher = Teacher(network(1000), 0.5, policy(class_names=()))
    assert teacher.preprocessing.class_names == names
    chosen = [999, 5, 517, 134]
    for spelled in (names, [n.replace(" ", "_").upper() for n in names], wordnet, range(1000)):
        folders = tuple(str(spelled[i]) for i in chosen)
        found = teacher.relabel(image_set(4, 4, class_names=folders))
        assert found.labels.tolist() == chosen
    few = replace(policy(), class_names=("tench", "crane (bird)", "eel", "gar"))
    found = Teacher(network(), 0.5, few).relabel(image_set(2, 2, class_names=(wordnet[134], "Eel")))
    assert found.labels.tolist() == [1, 2]  # of another model the index means nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "without labels: --teacher, --distill 1"),
        ("--teacher TEACHER --distill 0.5", "without labels: --teacher, --distill 1"),
        ("--distill 0.5", "distill is the weight of a teacher"),
        ("--teacher TEACHER --distill 1.5", "above 0 and at most 1"),
    ],
)
def test_a_wrong_call_is_one_sentence(options, message, tmp_path, capsys):
    plain_run(tmp_path / "teacher")
    words = options.replace("TEACHER", str(tmp_path / "teacher")).split()
    base = ["train", "--data", photos(tmp_path / "photos"), "--model", "tiny_aib_masked"]
    assert main([*base, "--out", str(tmp_path / "run"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_other_classes_and_an_empty_folder_are_one_sentence(tmp_path, capsys):
    teacher = str(plain_run(tmp_path / "teacher"))
    official.write_folder(tmp_path / "animals", 2)
    (tmp_path / "empty").mkdir()
    words = ["--model", "tiny_aib_masked", "--out", str(tmp_path / "run"), "--teacher", teacher]
    for folder, message in (
        ("animals", "--distill 1 ignores them"),
        ("empty", "no readable image"),
    ):
        assert main(["train", "--data", f"folder:{tmp_path / folder}:image_size=32", *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "--data", f"folder:{tmp_path}/animals", "--teacher", teacher]) == 2
    assert "name the model that learns" in capsys.readouterr().err


# --- training and evaluation --------------------------------------------------------------------

WORDS = "--model tiny_aib_masked --width 0.25 --epochs 1 --batch-size 4 --accelerator cpu"


def test_photographs_without_labels_are_all_that_is_needed(tmp_path, capsys):
    """What is held out is labelled by the teacher, in training, `eval` and `interpret`."""
    teacher, run = plain_run(tmp_path / "teacher"), tmp_path / "run"
    data, network = photos(tmp_path / "photos"), aib.from_pretrained(teacher)
    words = ["--data", data, "--teacher", str(teacher), "--out", str(run), *WORDS.split()]
    assert main(["train", *words, "--workers", "0"]) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["settings"]["data"] == f"{data},labels=no" and config["settings"]["distill"] == 1
    assert tuple(config["preprocessing"]["class_names"]) == network.preprocessing.class_names
    held_out = json.loads((run / "split.json").read_text())["held_out"]
    assert len(held_out) == 2 and "tensors loaded" in capsys.readouterr().out
    [stored] = json.loads((run / "evaluation.json").read_text()).values()
    assert stored["agreement"] == pytest.approx(100 - stored["top1_error"])
    assert main(["eval", str(run), "--workers", "0", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["evaluations"]
    assert (found["agreement"], found["images"]) == (stored["agreement"], 2)
    assert main(["interpret", str(run), "--quick", "--workers", "0", "--json"]) == 0
    [study] = json.loads(capsys.readouterr().out)["runs"].values()
    assert study["accuracy"] in (0, 50, 100)
    shutil.rmtree(teacher)
    assert main(["eval", str(run), "--workers", "0"]) == 2
    assert "no folder" in capsys.readouterr().err


def test_with_labels_the_agreement_stands_beside_the_error(tmp_path, capsys):
    teacher, run, data = plain_run(tmp_path / "teacher"), tmp_path / "run", "shapes:count=24"
    words = ["--data", data, "--teacher", str(teacher), "--out", str(run), *WORDS.split()]
    assert main(["train", *words]) == 0
    assert json.loads((run / "config.json").read_text())["settings"]["distill"] == 0.5
    [stored] = json.loads((run / "evaluation.json").read_text()).values()
    test = load(data, "test")
    student, guide = aib.from_pretrained(run), aib.from_pretrained(teacher)
    found = aib.evaluate(student, test, reference=predictions(guide, test))
    assert (stored["top1_error"], stored["agreement"]) == (found.top1_error, found.agreement)
    assert main(["eval", str(run), "--workers", "0"]) == 0
    line = f"agreement with the teacher, %  {stored['agreement']:.2f}\n"
    assert line in capsys.readouterr().out
    other = make_run(tmp_path / "other", "tiny_aib", data=data)
    assert main(["eval", str(other), "--teacher", str(teacher), "--json", "--workers", "0"]) == 0
    [found] = json.loads(capsys.readouterr().out)["evaluations"]
    plain = aib.evaluate(aib.from_pretrained(other), test)
    assert found["agreement"] is not None and found["top1_error"] == plain.top1_error


def predictions(model: aib.Classifier, data: aib.data.ImageSet) -> Tensor:
    """The probabilities of a model without noise."""
    x = torch.stack([model.preprocessing.normalise(image) for image in data.images])
    with torch.no_grad():
        return model(x).logits.softmax(-1)


def test_a_resumed_distillation_ends_with_the_same_bits(tmp_path, monkeypatch):
    """The teacher is not in the checkpoint; another one under its name is an error."""
    teacher = plain_run(tmp_path / "teacher")
    s = Settings(
        data=photos(tmp_path / "photos"), model="tiny_aib_masked", teacher=str(teacher),
        epochs=2, batch_size=2, lr=0.02, lr_backbone=0.01, accelerator="cpu", workers=0, ema=0.9,
    ).updated(width=0.25)  # fmt: skip
    whole = train(s, tmp_path / "whole")
    original = Loop.log_metrics

    def stop(loop: Loop, epoch: int) -> None:
        original(loop, epoch)
        if loop.step == 4:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(Loop, "log_metrics", stop)
        train(s, tmp_path / "part")
    other = eval_model("tiny", preprocessing=whole.model.preprocessing, seed=3)
    weights = (teacher / WEIGHTS).read_bytes()
    other.save_pretrained(teacher)
    with pytest.raises(AibError, match="weights_sha256 was"):
        train(s, tmp_path / "part", resume=True)
    (teacher / WEIGHTS).write_bytes(weights)
    resumed = train(s, tmp_path / "part", resume=True)
    assert sha256(tmp_path / "part" / WEIGHTS) == sha256(tmp_path / "whole" / WEIGHTS)
    assert resumed.evaluation.agreement == whole.evaluation.agreement


def test_a_function_of_the_user_s_teaches_where_the_user_names_it(tmp_path, monkeypatch, capsys):
    """By default the student is the same network, masked; no file makes aib run the code."""
    (tmp_path / "my_teacher.py").write_text(
        "import aib\nfrom tests.training.test_teacher import network, policy\n\n\n"
        "def build():\n    net = network()\n    net.preprocessing = policy()\n    return net\n"
    )
    monkeypatch.chdir(tmp_path)
    data = photos(tmp_path / "photos")
    words = f"--data {data} --teacher my_teacher:build --at features --epochs 1 --batch-size 4"
    more = "--workers 0 --accelerator cpu --out run"
    assert main(["train", *words.split(), *more.split()]) == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["model"]["masked"] and config["preprocessing"]["class_names"] == list(CLASSES)
    capsys.readouterr()
    code = ["--backbone", "my_teacher:build"]
    assert main(["eval", "run", *code, "--workers", "0"]) == 2
    assert "needs labels or a --teacher" in capsys.readouterr().err
    guided = ["--teacher", "my_teacher:build", "--workers", "0"]
    assert main(["eval", "run", *code, *guided]) == 0
    assert "agreement" in capsys.readouterr().out
    assert main(["train", "--resume", "run", *code]) == 2
    assert "needs --teacher my_teacher:build" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["network", "model"])
def test_from_python_the_teacher_s_own_network_learns_to_look(kind: str, tmp_path: Path) -> None:
    data = image_set(40, class_names=CLASSES)
    if kind == "network":
        teacher, options = network(), {"at": "features", "preprocessing": policy()}
    else:
        teacher, options = small_model("tiny", 4, preprocessing=policy()), {}
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    s = replace(SMALL, lr=1e-3, epochs=1, distill=1.0)
    found = aib.distill(
        teacher, data, settings=s, validation=data, run=tmp_path / "run", progress=False, **options
    )
    assert found.model.takes_mask and found.model.recipe["area"] == 0.25
    assert found.model.preprocessing.mean == policy().mean
    assert found.validation is not None and found.validation.agreement is not None
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())
    likely = Teacher(teacher, 1.0, options.get("preprocessing")).label(data)[1]
    unlabelled = replace(data, labelled=False)
    trained = aib.distill(
        teacher, unlabelled, settings=s, validation=unlabelled, progress=False, **options
    )
    logits: list[tuple[Tensor, Tensor]] = []
    aib.evaluate(trained.model, data, logits=logits)
    assert trained.model.calibration == fit_calibration(torch.cat([v for v, _ in logits]), likely)
    student = small_model("tiny_aib", 4)
    again = aib.distill(teacher, data, student, s, preprocessing=policy(), progress=False)
    assert again.model is student and again.last["nll"] > 0
