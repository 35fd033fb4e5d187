"""Models on the Hub: uploaded with a card, loaded by their address, opened by every command."""

import json
import os
import pickle
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard, constants, hf_hub_download

import aib
from aib import cli
from aib.errors import AibWarning
from aib.interpret.stored import stored_verdict
from aib.report.card import NO_TRUST, Card, card_of, code, plain
from aib.report.gather import gather
from aib.report.push import write_upload
from aib.report.run_page import run_page
from aib.runs.pretrained import packaged_models
from aib.runs.run import open_run
from aib.system.files import read_json, sha256, without_folders, write_json
from tests.helpers import SmallNet, images, make_run, photo, same_weights, shapes, small_model
from tests.runs.server import be_offline, serving


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serving(monkeypatch, tmp_path / "cache") as served:
        yield served


@pytest.fixture
def run(tmp_path):
    """A run with results: an error of its own and the packaged model's study, of these weights."""
    folder = make_run(tmp_path / "runs" / "mine", root="/home/me/data")
    packaged = packaged_models()["pets_masked"]
    study = read_json(packaged / "interpret.json")
    study |= {"weights_sha256": sha256(folder / "model.safetensors"), "run": str(folder)}
    write_json(folder / "interpret.json", study)
    evaluation = next(iter(read_json(packaged / "evaluation.json").values()))
    write_json(folder / "evaluation.json", {"shapes test": evaluation | {"top1_error": 12.5}})
    (folder / "figures").mkdir()
    photo().save(folder / "figures" / "modified.png")
    (folder / "checkpoint.pt").write_bytes(b"resume")
    return folder


def test_a_model_comes_back_as_it_was_and_its_card_says_what_is_not_known(hub):
    model = small_model().eval()
    url = aib.push_to_hub(model, "me/mine")
    assert re.search("/me/mine/(commit|tree)/", url)  # a commit, with older versions a branch
    assert set(hub.files("me/mine")) == {"model.safetensors", "config.json", "README.md"}
    loaded = aib.from_pretrained("me/mine")
    x = images()
    assert torch.equal(loaded(x, deterministic=True).logits, model(x, deterministic=True).logits)
    card = hub.files("me/mine")["README.md"].decode()
    assert 'aib.from_pretrained("me/mine")' in card
    assert "Not known: it was not measured" in card and "without an evaluation" in card
    assert "trained on: not known" in card and "their names are not known" in card
    head = ModelCard(card).data
    assert head.library_name == "aib" and head.license is None and head.eval_results is None


@pytest.mark.parametrize("name", ["my_module:build", None, "timm:resnet18"])
def test_the_card_says_that_a_network_of_its_author_has_to_be_given(name):
    model = aib.attach(SmallNet(), "features", 4, latent_dim=8, image_size=32)
    model.recipe |= {"backbone": name} if name else {}
    card = str(card_of(model, "me/mine"))
    own = name or "my_module:build"
    needed = f'aib.from_pretrained("me/mine", backbone="{own}")', f"hf:me/mine --backbone {own}`"
    assert [words in card for words in needed] == [not own.startswith("timm:")] * 2


def test_markdown_shows_the_cards_texts_as_they_are():
    assert plain("a|b *c* _d_ e_f\n[g] #h") == r"a\|b \*c\* \_d\_ e_f \[g\] \#h"
    card = Card(
        "m", 2, 32, ("a|b", "c"), "me/m", verdict="decorative", reasons="*no*", rows=[["d|e"] * 5]
    )
    assert r"a\|b, c." in str(card) and r"| d\|e |" in str(card)
    assert r"**decorative**: \*no\*" in str(card) and NO_TRUST in str(card)
    assert "## How it was made" not in str(card)
    assert "- Notes" in str(replace(card, notes=["Notes"]))
    assert [code("a\nb"), code("a`b"), code("`a``b")] == ["`a b`", "`` a`b ``", "``` `a``b ```"]


def test_a_class_whose_folder_has_no_name_in_text_is_saved(tmp_path):
    names = ("caf\udce9", "b", "c")  # é as an old zip file has it
    model = small_model(num_classes=3, preprocessing=aib.Preprocessing(class_names=names))
    model.save_pretrained(tmp_path)
    assert r"caf\\udce9, b, c" in str(card_of(model, "me/mine"))
    assert aib.from_pretrained(tmp_path).preprocessing.class_names == names


def test_a_run_is_uploaded_with_its_results_and_a_card(hub, run):
    (run / "metrics.jsonl").touch()
    aib.push_to_hub(run, "me/mine", license="mit")
    files = hub.files("me/mine")
    assert set(files) == {
        "model.safetensors", "config.json", "README.md", "interpret.json", "evaluation.json",
        "metrics.jsonl", "maps.png",
    }  # fmt: skip
    assert files["model.safetensors"] == (run / "model.safetensors").read_bytes()
    assert files["maps.png"] == (run / "figures" / "modified.png").read_bytes()
    card = files["README.md"].decode()
    assert "**faithful**: The map is faithful" in card
    assert "The map may be shown as the evidence" in card
    assert "| shapes test | 3,669 | 12.50 (" in card
    assert "![Images and their maps](maps.png)" in card
    assert "trained on: shapes." in card and "- Classes: disc, " in card
    head = ModelCard(card).data
    assert head.license == "mit"
    assert [(e.metric_type, e.metric_value) for e in head.eval_results] == [("accuracy", 0.875)]


@pytest.mark.parametrize("folder", ["", "/home/me/"])
def test_the_card_publishes_one_accuracy_per_data_set_and_none_on_training_images(
    run, tmp_path, folder
):
    [found] = read_json(run / "evaluation.json").values()
    found |= {"data": "shapes"}
    config, own = read_json(run / "config.json"), f"folder:{folder}photos"
    config["settings"]["data"] = own
    write_json(run / "config.json", config)
    others = {
        f"{own} test own 1x1": found | {"top1_error": 30.0},
        f"{own} test": found,
        f"{own} train": found | {"split": "train", "top1_error": 0.5},
        "shapes:clutter=2 test own 4x12": found | {"top1_error": 50.0},
        "cifar10 test": found | {"data": "cifar10", "top1_error": 40.0},
        "stl10 test matched 4x12": found | {"data": "stl10", "classes": "matched"},
    }
    write_json(run / "evaluation.json", others)
    (tmp_path / "upload").mkdir()
    write_upload(open_run(run, "cpu"), tmp_path / "upload", "me/mine")
    head = ModelCard((tmp_path / "upload" / "README.md").read_text()).data
    shown = [(e.dataset_name, e.dataset_split, e.metric_value) for e in head.eval_results]
    assert shown == [
        ("folder:photos", "test", 0.875),
        ("shapes:clutter=2", "test", 0.5),
        ("cifar10", "test", 0.6),
    ]


def test_the_cards_rows_keep_the_options_of_the_data(run, tmp_path):
    [found] = read_json(run / "evaluation.json").values()
    how, names = "over probabilities, fp32, seed 0", {}
    for data, split in (
        ("folder:/home/me/photos:holdout=0.2", "val"),
        ("cifar100:labels=coarse", "test"),
    ):
        names[f"{data} {split} own 4x1 {how}"] = found | {"split": split}
    write_json(run / "evaluation.json", names)
    (tmp_path / "upload").mkdir()
    write_upload(open_run(run, "cpu"), tmp_path / "upload", "me/mine")
    card = (tmp_path / "upload" / "README.md").read_text()
    assert f"\n| folder:photos:holdout=0.2 val, {how} |" in card
    assert f"\n| cifar100:labels=coarse test, {how} |" in card


def test_no_folder_of_this_machine_is_uploaded(hub, run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    config["data_files"] = {"folder": str(tmp_path / "photos")}
    config["settings"]["data"] = "folder:/home/me/photos"
    (run / "config.json").write_text(json.dumps(config))
    aib.push_to_hub(run, "me/mine")
    for name, content in hub.files("me/mine").items():
        assert str(tmp_path).encode() not in content and b"/home/me" not in content, name
    uploaded = json.loads(hub.files("me/mine")["config.json"])
    settings = uploaded["settings"]
    assert "data_files" not in uploaded
    assert settings["data"] == "folder:photos" and "root" not in settings


def test_names_of_classes_are_no_paths(tmp_path, run):
    """Open Images names its classes so."""
    model, names = small_model(), [f"/m/01g31{i}" for i in range(10)]
    rows = [{"class": name, "images": 1} for name in names]
    study = read_json(run / "interpret.json") | {"classes": rows, "run": "/home/me/saved"}
    model.preprocessing = replace(model.preprocessing, class_names=tuple(names))
    model.save_pretrained(tmp_path / "saved")
    (tmp_path / "upload").mkdir()
    write_json(tmp_path / "saved" / "interpret.json", study)
    write_upload(open_run(tmp_path / "saved", "cpu"), tmp_path / "upload", "me/mine")
    assert read_json(tmp_path / "upload" / "config.json")["preprocessing"]["class_names"] == names
    uploaded = read_json(tmp_path / "upload" / "interpret.json")
    assert uploaded["classes"] == rows and uploaded["run"] == "saved"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("folder:/home/me/photos:test=0.2 val own", "folder:photos:test=0.2 val own"),
        ("aib train --data folder:/a/b --out=/c/d/e", "aib train --data folder:b --out=e"),
        ("aib report '/a/b/c'", "aib report 'c'"),
        ("folder:/home/my name/photos", "folder:photos"),
        ("https://huggingface.co/me/mine", "https://huggingface.co/me/mine"),
        ("runs/a and/or b", "runs/a and/or b"),
    ],
)
def test_absolute_paths_are_cut(text, expected):
    assert without_folders({text: [text, 1, None]}) == {expected: [expected, 1, None]}


def test_maps_of_other_weights_are_not_shown(hub, run):
    study = read_json(run / "interpret.json")
    write_json(run / "interpret.json", study | {"weights_sha256": "0"})
    aib.push_to_hub(run, "me/mine")
    assert "maps.png" not in hub.files("me/mine")
    assert b"with other weights than these" in hub.files("me/mine")["README.md"]


def test_results_of_an_earlier_upload_are_not_left_beside_other_weights(hub, run, tmp_path):
    model, alone = small_model(), {"model.safetensors", "config.json", "README.md"}
    model.save_pretrained(tmp_path / "saved")
    (run / "metrics.jsonl").touch()
    for source in (tmp_path / "saved", model):
        aib.push_to_hub(run, "me/mine")
        hub.commit("me/mine", {"NOTES.md": b"of the owner"})
        aib.push_to_hub(source, "me/mine")
        assert set(hub.files("me/mine")) == {*alone, "NOTES.md"}


def test_evaluations_of_replaced_weights_are_not_uploaded(hub, run):
    known = read_json(run / "evaluation.json")
    old = {"old test": known["shapes test"] | {"weights_sha256": "0" * 64}}
    write_json(run / "evaluation.json", known | old)
    aib.push_to_hub(run, "me/mine")
    assert list(json.loads(hub.files("me/mine")["evaluation.json"])) == ["shapes test"]
    assert b"old test" not in hub.files("me/mine")["README.md"]


def test_an_upload_can_be_private_on_a_branch_and_without_images_of_the_data(hub, run, monkeypatch):
    token = os.environ["HF_TOKEN"]
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    push = partial(aib.push_to_hub, run, "me/mine", picture=False, token=token)
    push(private=True)
    found = hub.files("me/mine")
    assert hub.private == {"me/mine"}
    assert "maps.png" not in found and b"maps.png" not in found["README.md"]
    hub.commit("me/mine", {}, "next")
    push(branch="next")
    assert hub.files("me/mine", "next") == found


def test_a_model_of_an_own_network_is_uploaded(hub):
    model = aib.attach(SmallNet(), "features", 4, latent_dim=8, image_size=32)
    model.save_pretrained("saved")
    aib.push_to_hub("saved", "me/mine", backbone="tests.helpers:SmallNet")
    assert same_weights(aib.from_pretrained("me/mine", backbone=SmallNet()), model)


def test_an_upload_without_permission_or_owner_is_a_sentence(hub, run, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    for source in (small_model(), run):
        with pytest.raises(aib.AibError, match="me/mine") as caught:
            aib.push_to_hub(source, "me/mine")
        assert "\n" not in str(caught.value)
    assert not hub.commits
    with pytest.raises(aib.AibError, match="as in owner/name, not 'mine'"):
        aib.push_to_hub(run, "mine")


def test_a_revision_pins_the_weights_and_the_cache_is_used_offline(hub, tmp_path, monkeypatch):
    first, second = small_model(seed=1), small_model(seed=2)
    first.save_pretrained(tmp_path / "1")
    second.save_pretrained(tmp_path / "2")
    commit = hub.upload("me/mine", tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1", "v1")
    hub.upload("me/mine", tmp_path / "2")
    assert same_weights(open_run(Path("hf:me/mine"), "cpu").model, second)
    for model in (
        aib.from_pretrained("me/mine", revision="v1"),
        aib.from_pretrained(f"hf:me/mine@{commit}"),
        open_run(Path("hf:me/mine@v1"), "cpu").model,
    ):
        assert same_weights(model, first)
    with pytest.raises(aib.AibError, match="me/mine has no revision 'v9'"):
        aib.from_pretrained("me/mine", revision="v9")
    be_offline(monkeypatch)
    for model in (
        aib.from_pretrained("me/mine"),
        aib.from_pretrained("me/mine", local_files_only=True),
        open_run(Path("hf:me/mine"), "cpu").model,
    ):
        assert same_weights(model, second)


def test_local_files_only_asks_the_hub_for_nothing(hub, tmp_path):
    first = small_model(seed=1)
    first.save_pretrained(tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1")
    hf_hub_download("me/mine", "config.json")
    with pytest.raises(aib.AibError, match="not in the local cache"):
        aib.from_pretrained("me/mine", local_files_only=True)
    aib.from_pretrained("me/mine")
    small_model(seed=2).save_pretrained(tmp_path / "2")
    hub.upload("me/mine", tmp_path / "2")
    hub.asked.clear()
    assert same_weights(aib.from_pretrained("me/mine", local_files_only=True), first)
    assert not hub.asked


def test_all_files_are_of_one_commit(hub, tmp_path, monkeypatch):
    """The branch moves between the download of the config and that of the weights."""
    first = small_model(seed=1)
    first.save_pretrained(tmp_path / "1")
    small_model(seed=2).save_pretrained(tmp_path / "2")
    hub.upload("me/mine", tmp_path / "1")
    download = aib.runs.download.hf_hub_download

    def download_and_move(*args, **kwargs):
        path = download(*args, **kwargs)
        hub.upload("me/mine", tmp_path / "2")
        return path

    monkeypatch.setattr(aib.runs.download, "hf_hub_download", download_and_move)
    assert same_weights(aib.from_pretrained("me/mine"), first)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("hf:nobody/nothing", "the Hub has no model nobody/nothing"),
        ("hf:me/mine@v9", "me/mine has no revision 'v9'"),
        ("hf:me/other", "me/other on the Hub is not an aib model"),
        ("hf:me/mine/too/long", "'me/mine/too/long' is no name of a model"),
        ("hf:", "'' is no name of a model"),
        ("hf:me/mine@", "hf:me/mine@: name a branch"),
    ],
)
def test_what_is_not_on_the_hub_is_a_sentence(hub, tmp_path, capsys, address, words):
    small_model().save_pretrained(tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1")
    hub.commit("me/other", {"config.json": b"{}", "pytorch_model.bin": b""})
    for load in (aib.from_pretrained, lambda one: open_run(Path(one), "cpu")):
        with pytest.raises(aib.AibError) as caught:
            load(address)
        assert str(caught.value).startswith(words) and "\n" not in str(caught.value)
    assert cli.main(["eval", address]) == 2
    assert words in capsys.readouterr().err


UNREACHABLE = pytest.param("unreachable", marks=pytest.mark.slow)  # it tries again for a while


@pytest.mark.parametrize("how", ["offline", UNREACHABLE])
def test_without_a_network_there_is_one_sentence(hub, monkeypatch, how):
    if how == "offline":
        be_offline(monkeypatch)
    else:
        template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(aib.AibError, match="me/mine could not be downloaded: the Hub cannot"):
        aib.from_pretrained("hf:me/mine")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_a_model_alone_needs_two_files(hub, run):
    aib.push_to_hub(run, "me/mine")
    aib.from_pretrained("me/mine")
    assert set(hub.asked) == {"config.json", "model.safetensors"}
    with pytest.raises(aib.AibError, match="no folder 'me/none' here, and the Hub has no model"):
        aib.from_pretrained("me/none")


def test_pickles_are_not_even_downloaded(hub, run):
    aib.push_to_hub(run, "me/mine")
    bomb = pickle.dumps(Bomb())
    names = ("checkpoint.pt", "pytorch_model.bin", "model.pkl", "training_args.bin")
    hub.commit("me/mine", dict.fromkeys(names, bomb))
    open_run(Path("hf:me/mine"), "cpu")
    assert set(hub.asked) == {
        "config.json", "model.safetensors", "evaluation.json", "interpret.json", "metrics.jsonl",
    }  # fmt: skip
    hub.commit("me/mine", {"model.safetensors": bomb})
    with pytest.raises(aib.AibError, match="truncated or not a safetensors file"):
        open_run(Path("hf:me/mine"), "cpu")


def test_a_run_of_the_hub_keeps_settings_and_verdict(hub, run):
    aib.push_to_hub(run, "me/mine")
    opened, mine = open_run(Path("hf:me/mine"), "cpu"), open_run(run, "cpu")
    assert (opened.label, opened.checksum) == ("mine", mine.checksum)
    assert opened.settings == mine.settings.updated(root=None)
    [commit] = set(hub.branches["me/mine"].values())
    assert opened.source == f"hf:me/mine@{commit}"
    assert torch.equal(opened.images().images, mine.images(root=None).images)


def test_explain_shows_the_verdict_of_the_repository(hub, run, tmp_path, capsys):
    aib.push_to_hub(run, "me/mine")
    photo().save(tmp_path / "photo.png")
    assert cli.main(["explain", "photo.png", "--run", "hf:me/mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["name"] == "faithful"
    assert found["verdict"]["measured"].endswith(", as its repository says")
    assert found["run"] == f"hf:me/mine@{hub.branches['me/mine']['main']}"


def test_a_report_shows_what_was_measured_here_with_the_same_weights(hub, run, tmp_path):
    aib.push_to_hub(run, "me/mine")
    data = "--data shapes:count=8"
    for words in (f"eval {{}} {data}", f"interpret {{}} {data} --quick --workers 0"):
        assert cli.main(words.format("hf:me/mine").split()) == 0
    opened = open_run(Path("hf:me/mine"), "cpu")
    [test] = read_json(opened.output / "evaluation.json")
    content = gather(opened, stored=True)
    assert set(content.evaluations) == {"shapes test", test}
    assert content.study.data == "shapes:count=8" and content.notes == ()
    [picture] = content.pictures
    assert picture == opened.output / "figures" / "modified.png"
    assert stored_verdict(opened).measured.endswith("images of shapes:count=8")
    small_model(seed=5).save_pretrained(tmp_path / "5")
    hub.upload("me/mine", tmp_path / "5")
    opened = open_run(Path("hf:me/mine"), "cpu")
    content = gather(opened, stored=True)
    assert not content.evaluations.keys() & {test} and content.study is None
    assert "images of pets" in stored_verdict(opened).measured  # the repository's own


def test_results_of_one_revision_are_not_those_of_another(hub, tmp_path):
    """Also with the same weights: here the images are normalised differently."""
    model = small_model(preprocessing=shapes(2).preprocessing)
    for branch in ("v1", "main"):
        model.save_pretrained(tmp_path / branch)
        hub.upload("me/mine", tmp_path / branch, branch)
        model.preprocessing = replace(model.preprocessing, mean=(0.1, 0.2, 0.3))
    both, data = ["hf:me/mine@v1", "hf:me/mine"], ["--data", "shapes:count=8"]
    assert cli.main(["eval", both[0], *data]) == 0
    first, second = (open_run(Path(one), "cpu") for one in both)
    assert first.checksum == second.checksum
    assert len(first.evaluations()) == 1 and not second.evaluations()
    words = ["interpret", *both, *data, "--quick", "--workers", "0"]
    for out in ([], ["--out", "compared"]):
        assert cli.main([*words, *out]) == 0
    for pattern in ("hub/**/interpret.json", "compared/**/interpret.json"):
        found = [read_json(path) for path in tmp_path.glob(pattern)]
        assert {one["run"] for one in found} == {first.source, second.source}


def test_a_quick_study_made_here_does_not_hide_a_full_one_of_the_repository(hub, run, tmp_path):
    study = read_json(run / "interpret.json")
    full = study | {"data": "shapes:count=8", "split": "test", "images": 8}
    write_json(run / "interpret.json", full)
    aib.push_to_hub(run, "me/mine")
    words = ["interpret", "hf:me/mine", "--data", "shapes:count=8", "--quick", "--workers", "0"]
    assert cli.main(words) == 0
    opened = open_run(Path("hf:me/mine"), "cpu")
    assert (opened.output / "interpret.json").is_file()
    assert stored_verdict(opened).verdict.name == "faithful"
    content = gather(opened, stored=True)
    assert content.study.evaluator is not None
    assert "the study of the maps are those of the repository me/mine" in run_page([content])


def test_results_that_could_not_be_downloaded_are_a_warning(hub, run, monkeypatch):
    aib.push_to_hub(run, "me/mine")
    aib.from_pretrained("me/mine")
    be_offline(monkeypatch)
    with pytest.warns(AibWarning, match="cannot be reached, and .*interpret.json.* of me/mine"):
        opened = open_run(Path("hf:me/mine"), "cpu")
    assert stored_verdict(opened) is None


@pytest.mark.parametrize("branch", ["main", "v1"])
def test_results_that_the_repository_lacks_are_no_warning(
    hub, tmp_path, monkeypatch, recwarn, branch
):
    small_model().save_pretrained(tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1", branch)
    open_run(Path(f"hf:me/mine@{branch}"), "cpu")
    be_offline(monkeypatch)
    open_run(Path(f"hf:me/mine@{branch}"), "cpu")
    assert not [one for one in recwarn if issubclass(one.category, AibWarning)]


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("eval hf:me/mine --data shapes:count=8", "evaluation.json"),
        ("interpret hf:me/mine --data shapes:count=8 --quick --workers 0", "interpret.json"),
        ("report hf:me/mine --stored", "report.html"),
        ("export hf:me/mine --format torch-export", "model.pt2"),
    ],
)
def test_commands_write_beside_the_cache(hub, run, tmp_path, capsys, words, written):
    aib.push_to_hub(run, "me/mine")
    folder = open_run(Path("hf:me/mine"), "cpu").folder
    [commit] = set(hub.branches["me/mine"].values())
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert cli.main(words.split()) == 0, capsys.readouterr().err
    assert (tmp_path / "hub" / "me" / "mine" / commit / written).is_file()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
