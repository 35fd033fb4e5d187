"""The page with Gradio: it can be built and served, and answers what a visitor does."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from aib.runs import find_model, open_runs
from aib.viewer.examples import Example, find_examples
from aib.viewer.panels import PANELS
from aib.viewer.scene import Viewer
from aib.viewer.serve import make_app, prepare_gradio
from tests.viewer.small import photo, viewer, write_cifar10_test

pytest.importorskip("gradio")

EXAMPLES = [Example(photo(32, 32, seed), f"example {seed}") for seed in range(3)]
FIXED = 4  # the state, the sentence, the picture and the slider stand before the panels


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # restored afterwards
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "")
    prepare_gradio(str(tmp_path / "gradio"))


def handlers(tmp_path, *names):
    from aib.viewer.page import Handlers

    return Handlers(viewer(tmp_path, *names), EXAMPLES)


def clicked(*index):
    return SimpleNamespace(index=index if len(index) > 1 else index[0])


def test_every_handler_answers_for_every_part(tmp_path):
    act = handlers(tmp_path, "tiny_aib_qt", "tiny_aib")
    parts = FIXED + 2 * len(PANELS)
    drawn = act.start()
    assert len(drawn) == len(act.pick(clicked(2))) == parts
    assert len(act.hide(drawn[0], 25, 1, clicked(10, 20))) == len(act.clear(drawn[0], 1)) == parts
    assert len(act.show_levels(drawn[0], 1)) == 2
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"nothing")
    assert len(act.upload(str(broken))) == 1 + parts


def test_an_upload_is_shown_and_the_file_is_gone(tmp_path):
    path = tmp_path / "photo.png"
    photo(60, 40).save(path)
    dropped, scene, sentence, picture, *_ = handlers(tmp_path).upload(str(path))
    assert dropped is None and "photo.png" in sentence and not path.exists()
    assert picture.shape == (40 * 8, 60 * 8, 3)  # enlarged by whole pixels
    assert np.array_equal(picture[::8, ::8], np.asarray(photo(60, 40)))
    assert scene.picture.name == "photo.png"


def test_a_broken_upload_leaves_the_page_as_it_is_and_says_why(tmp_path):
    import gradio as gr

    path = tmp_path / "broken.png"
    path.write_bytes(b"nothing")
    dropped, scene, sentence, *rest = handlers(tmp_path).upload(str(path))
    assert "broken.png is not an image" in sentence and 'role="alert"' in sentence
    assert dropped is None and not path.exists()
    assert all(value == gr.skip() for value in (scene, *rest))


def test_a_click_hides_the_place_clicked_on(tmp_path):
    act = handlers(tmp_path)
    scene, _, before, *_ = act.start()
    covered, _, after, *parts = act.hide(scene, 25, 20, clicked(128, 384))  # of 512 x 512
    rows, columns = (before != after).any(-1).nonzero()
    assert (columns.min(), columns.max()) == (4 * 16, 12 * 16 - 1)
    assert (rows.min(), rows.max()) == (20 * 16, 28 * 16 - 1)
    assert len(covered.blocks) == 1 and "What the blocks change" in parts[-1]
    again = act.hide(covered, 10, 20, clicked(500, 10))[0]
    assert len(again.blocks) == 2
    assert np.array_equal(act.clear(again, 20)[2], before)


def test_the_number_of_levels_shown_survives_a_click(tmp_path):
    act = handlers(tmp_path)
    scene, _, _, slider, *_ = act.start()
    used = scene.used_levels
    assert slider.maximum == slider.value == used > 1
    assert act.hide(scene, 25, 1, clicked(9, 9))[3].value == 1
    covered, _, _, slider, *_ = act.hide(scene, 50, used, clicked(256, 256))
    assert slider.value == covered.used_levels  # who saw all goes on seeing all


def test_a_page_from_before_a_restart_is_told_to_reload(tmp_path):
    import gradio as gr

    from aib.viewer.page import spoken

    act = handlers(tmp_path)
    for call in (
        lambda: spoken(act.hide)(None, 25, 1, clicked(9, 9)),
        lambda: spoken(act.clear)(None, 1),
        lambda: spoken(act.show_levels)(None, 1),
    ):
        with pytest.raises(gr.Error, match="reload the page"):
            call()


def test_the_packaged_model_opens_with_pictures_of_its_classes(tmp_path, monkeypatch):
    """As plain `aib view` does, with the data on disk and without."""
    page, act = packaged_page(tmp_path, monkeypatch)
    assert "not pictures of the classes of cifar10_small" in page
    assert act.start()[0].picture.name.startswith("shapes, test")
    write_cifar10_test(tmp_path)
    page, act = packaged_page(tmp_path, monkeypatch)
    assert "not pictures of the classes" not in page
    scene, _, _, _, decision, *_ = act.start()
    assert scene.picture.name.startswith("cifar10, test")
    assert scene.now[0].names[scene.now[0].top(1)[0]] in decision


def packaged_page(data, monkeypatch):
    """What the page consists of, and its handlers."""
    from aib.viewer.page import Handlers, build_page

    monkeypatch.setenv("AIB_DATA", str(data))
    runs = open_runs((find_model(None),), "cpu")
    looked, examples = Viewer(runs, samples=(1, 1)), find_examples(runs)
    return str(build_page(looked, examples).get_config_file()), Handlers(looked, examples)


@pytest.fixture
def client(tmp_path):
    from fastapi.testclient import TestClient

    looked = viewer(tmp_path, "tiny_aib_qt", "tiny_aib")
    app = make_app(looked, EXAMPLES, "127.0.0.1", max_bytes=10_000)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def test_the_page_fetches_from_nowhere_else(client):
    answer = client.get("/")
    assert answer.status_code == 200 and '"title":"aib view"' in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    fetched = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", answer.text)
    assert fetched == []
    assert "google" not in client.get("/theme.css").text


def test_uploads_are_limited_in_size(client):
    def send(size):
        return client.post("/gradio_api/upload", files={"files": ("a.png", b"x" * size)})

    assert send(9_000).status_code == 200
    assert send(11_000).status_code == 413


def test_nothing_of_the_page_is_an_api(client):
    info = client.get("/gradio_api/info").json()
    assert info["named_endpoints"] == {} and info["unnamed_endpoints"] == {}
