"""Models on the Hub: uploaded with a card, loaded by their address, opened by commands."""

import json
import pickle
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import ModelCard

import aib
from aib import cli
from aib.interpret.stored import stored_verdict
from aib.report.card import NO_TRUST, TRUST
from aib.runs.pretrained import packaged_models
from aib.runs.run import open_run
from aib.system.files import read_json, sha256, write_json
from tests.helpers import images, make_run, photo, same_weights, small_model
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
    packaged = packaged_models()["lite2_masked"]
    of_these = {"weights_sha256": sha256(folder / "model.safetensors")}
    study = read_json(packaged / "interpret.json") | of_these | {"run": str(folder)}
    write_json(folder / "interpret.json", study)
    evaluation = next(iter(read_json(packaged / "evaluation.json").values()))
    evaluation |= {"top1_error": 12.5, "split": "test", "classes": "own"} | of_these
    write_json(folder / "evaluation.json", {"shapes test": evaluation})
    (folder / "figures").mkdir()
    photo().save(folder / "figures" / "modified.png")
    (folder / "checkpoint.pt").write_bytes(b"resume")
    return folder


def test_a_model_comes_back_as_it_was_and_its_card_says_what_is_not_known(hub):
    model = small_model().eval()
    aib.push_to_hub(model, "me/mine")
    assert set(hub.files("me/mine")) == {"model.safetensors", "config.json", "README.md"}
    loaded, x = aib.from_pretrained("me/mine"), images()
    assert set(hub.asked) == {"config.json", "model.safetensors"}
    assert torch.equal(loaded(x, deterministic=True).logits, model(x, deterministic=True).logits)
    card = hub.files("me/mine")["README.md"].decode()
    assert 'aib.from_pretrained("me/mine")' in card
    assert "Not known: it was not measured" in card and "without an evaluation" in card
    assert "trained on: not known" in card and "their names are not known" in card
    assert NO_TRUST in card
    head = ModelCard(card).data
    assert head.library_name == "aib" and head.license is None


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
    name = stored_verdict(open_run(run, "cpu")).verdict.name
    assert f"**{name}**: " in card and TRUST[name] in card
    [evaluation] = read_json(run / "evaluation.json").values()
    assert f"| shapes test | {evaluation['images']:,} | 12.50 (" in card
    assert "![Images and their maps](maps.png)" in card
    assert "trained on: shapes." in card and "- Classes: disc, " in card
    head = ModelCard(card).data
    assert head.license == "mit"


def test_results_of_other_weights_are_not_uploaded_and_earlier_ones_are_removed(hub, run):
    known = read_json(run / "evaluation.json")
    old = {"old test": known["shapes test"] | {"weights_sha256": "0" * 64}}
    write_json(run / "evaluation.json", known | old)
    aib.push_to_hub(run, "me/mine")
    assert list(json.loads(hub.files("me/mine")["evaluation.json"])) == ["shapes test"]
    assert b"old test" not in hub.files("me/mine")["README.md"]
    hub.commit("me/mine", {"NOTES.md": b"of the owner"})
    aib.push_to_hub(small_model(), "me/mine")
    expected = {"model.safetensors", "config.json", "README.md", "NOTES.md"}
    assert set(hub.files("me/mine")) == expected


def test_an_upload_without_permission_or_owner_is_a_sentence(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(aib.AibError, match="me/mine"):
        aib.push_to_hub(small_model(), "me/mine")
    with pytest.raises(aib.AibError, match="as in owner/name, not 'mine'"):
        aib.push_to_hub(small_model(), "mine")


def test_a_revision_pins_the_weights_and_the_cache_is_used_offline(hub, tmp_path, monkeypatch):
    first, second = small_model(seed=1), small_model(seed=2)
    first.save_pretrained(tmp_path / "1")
    second.save_pretrained(tmp_path / "2")
    commit = hub.upload("me/mine", tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1", "v1")
    hub.upload("me/mine", tmp_path / "2")
    assert same_weights(open_run(Path("hf:me/mine"), "cpu").model, second)
    for model in (
        aib.from_pretrained("me/mine@v1"),
        aib.from_pretrained(f"hf:me/mine@{commit}"),
        open_run(Path("hf:me/mine@v1"), "cpu").model,
    ):
        assert same_weights(model, first)
    hub.asked.clear()
    be_offline(monkeypatch)
    assert same_weights(open_run(Path("hf:me/mine"), "cpu").model, second)
    assert not hub.asked
    with pytest.raises(aib.AibError, match="me/other could not be downloaded: the Hub cannot"):
        aib.from_pretrained("hf:me/other")


def test_all_files_are_of_one_commit(hub, tmp_path, monkeypatch):
    """The branch moves between the download of the config and that of the weights."""
    first = small_model(seed=1)
    first.save_pretrained(tmp_path / "1")
    small_model(seed=2).save_pretrained(tmp_path / "2")
    hub.upload("me/mine", tmp_path / "1")
    download = huggingface_hub.hf_hub_download

    def download_and_move(*args, **kwargs):
        path = download(*args, **kwargs)
        hub.upload("me/mine", tmp_path / "2")
        return path

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download_and_move)
    assert same_weights(aib.from_pretrained("me/mine"), first)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("hf:nobody/nothing", "the Hub has no model nobody/nothing"),
        ("nobody/nothing", "no folder 'nobody/nothing' here, and the Hub has no model"),
        ("hf:me/mine@v9", "me/mine has no revision 'v9'"),
        ("hf:me/other", "me/other on the Hub is not an aib model"),
        ("hf:me/mine/too/long", "the Hub could not be used for me/mine/too/long: Repo id must be"),
    ],
)
def test_what_is_not_on_the_hub_is_a_sentence(hub, tmp_path, address, words):
    small_model().save_pretrained(tmp_path / "1")
    hub.upload("me/mine", tmp_path / "1")
    hub.commit("me/other", {"config.json": b"{}", "pytorch_model.bin": b""})
    with pytest.raises(aib.AibError) as caught:
        aib.from_pretrained(address)
    assert str(caught.value).startswith(words) and "\n" not in str(caught.value)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_are_not_even_downloaded(hub, run):
    aib.push_to_hub(run, "me/mine")
    bomb = pickle.dumps(Bomb())
    names = ("checkpoint.pt", "pytorch_model.bin", "model.pkl", "training_args.bin")
    hub.commit("me/mine", dict.fromkeys(names, bomb))
    open_run(Path("hf:me/mine"), "cpu")
    assert not {*hub.asked} & {*names} and "model.safetensors" in hub.asked
    hub.commit("me/mine", {"model.safetensors": bomb})
    with pytest.raises(aib.AibError, match="truncated or not a safetensors file"):
        open_run(Path("hf:me/mine"), "cpu")


def test_a_run_of_the_hub_keeps_settings_and_verdict(hub, run):
    aib.push_to_hub(run, "me/mine")
    opened, mine = open_run(Path("hf:me/mine"), "cpu"), open_run(run, "cpu")
    assert (opened.label, opened.checksum) == ("mine", mine.checksum)
    assert opened.settings == mine.settings.updated(root=None)
    assert opened.source == f"hf:me/mine@{hub.branches['me/mine']['main']}"
    assert stored_verdict(opened).verdict == stored_verdict(mine).verdict
    assert stored_verdict(opened).measured.endswith(", as its repository says")


def test_commands_write_about_a_packaged_model_into_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", tmp_path / "package")
    make_run(tmp_path / "package" / "small")
    make_run(tmp_path / "runs" / "small")  # another model of this name
    assert open_run(Path("runs/small"), "cpu").output == Path("runs/small")
    for words in ("eval small --data shapes:count=8", "report small", "export"):
        assert cli.main(words.split()) == 0
    opened = open_run(Path("small"), "cpu")
    assert opened.folder == tmp_path / "package" / "small" and opened.evaluations()
    written = {"evaluation.json", "report.html", "model.onnx"}
    assert {p.name for p in (tmp_path / "small").iterdir() if p.suffix != ".lock"} == written
    assert not written & {path.name for path in opened.folder.iterdir()}


def test_commands_write_beside_the_cache_and_read_what_they_wrote(hub, run, tmp_path, capsys):
    aib.push_to_hub(run, "me/mine")
    opened = open_run(Path("hf:me/mine"), "cpu")
    before = {path: path.read_bytes() for path in opened.folder.iterdir()}
    for words in ("eval hf:me/mine --data shapes:count=8", "report hf:me/mine"):
        assert cli.main(words.split()) == 0, capsys.readouterr().err
    commit = hub.branches["me/mine"]["main"]
    assert opened.output == Path("hub") / "me" / "mine" / commit
    assert {path.name for path in opened.output.iterdir()} >= {"evaluation.json", "report.html"}
    assert {path: path.read_bytes() for path in opened.folder.iterdir()} == before
    assert len(opened.evaluations()) == 2
    small_model(seed=5).save_pretrained(tmp_path / "5")
    hub.upload("me/mine", tmp_path / "5")  # results of one commit are not those of another
    assert not open_run(Path("hf:me/mine"), "cpu").evaluations()
