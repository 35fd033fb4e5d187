"""The page: its handlers answer what a visitor does, and it can be served."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from aib.runs import Run, find_model, open_runs
from aib.viewer.examples import find_examples, take
from aib.viewer.scene import Viewer
from aib.viewer.serve import make_app, prepare_gradio
from tests.helpers import shapes, small_model
from tests.viewer.fixtures import EXAMPLES, viewer

pytest.importorskip("gradio")

from aib.viewer.page import COLUMN

FIXED = 2  # the state and the picture come before the columns


@pytest.fixture(autouse=True)
def gradio_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # restored afterwards
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "")
    prepare_gradio(str(tmp_path / "gradio"))


def handlers(tmp_path, *names):
    from aib.viewer.page import Handlers

    return Handlers(viewer(tmp_path, *names), EXAMPLES)


def clicked(*index):
    return SimpleNamespace(index=index if len(index) > 1 else index[0])


def test_every_handler_answers_for_every_component(tmp_path):
    act = handlers(tmp_path, "tiny_aib_qt", "tiny_aib")
    parts = FIXED + 2 * len(COLUMN)
    scene, *rest = act.start(55, 0)
    assert 1 + len(rest) == len(act.pick(55, 0, clicked(2))) == parts
    assert len(act.hide(scene, 25, 55, 0, clicked(10, 20))) == parts
    assert len(act.place(scene, 25, 10, 20, 55, 0)) == parts
    assert len(act.clear(scene, 55, 0)) == parts and len(act.redraw(scene, 55, 0)) == 2


def test_a_broken_upload_leaves_the_page_as_it_is_and_says_why(tmp_path, monkeypatch):
    import gradio as gr

    messages = []
    monkeypatch.setattr(gr, "Warning", lambda text, **_: messages.append(text))
    path = tmp_path / "<b>broken.png"
    path.write_bytes(b"nothing")
    act = handlers(tmp_path)
    box, *rest = act.upload(str(path), 55, 0)
    [message] = messages
    assert message.startswith("&lt;b&gt;broken.png is not an image of any known format")
    assert box is None and not path.exists()
    assert rest == [gr.skip()] * len(act.start(55, 0))


def test_a_click_hides_the_position_clicked_on(tmp_path):
    act = handlers(tmp_path)
    scene, before, *_ = act.start(55, 0)
    covered, after, *parts = act.hide(scene, 25, 55, 0, clicked(128, 384))  # of 512 x 512
    rows, columns = (before["value"] != after["value"]).any(-1).nonzero()
    assert (columns.min(), columns.max()) == (4 * 16, 12 * 16 - 1)
    assert (rows.min(), rows.max()) == (20 * 16, 28 * 16 - 1)
    column = dict(zip(COLUMN, parts, strict=True))
    assert len(covered.blocks) == 1 and "What the blocks change" in column["change"]
    assert column["change-maps"]["visible"] and len(column["change-maps"]["value"]) == 3
    placed, same, *_ = act.place(scene, 25, 25, 75, 55, 0)  # by keyboard, in percent
    assert len(placed.blocks) == 1 and np.array_equal(same["value"], after["value"])
    again = act.hide(covered, 10, 55, 0, clicked(500, 10))[0]
    assert len(again.blocks) == 2
    whole, picture, *parts = act.clear(again, 55, 0)
    column = dict(zip(COLUMN, parts, strict=True))
    assert whole.blocks == () and np.array_equal(picture["value"], before["value"])
    assert column["change"] == "" and not column["change-maps"]["visible"]


def test_the_sliders_redraw_the_maps_without_running_a_model(tmp_path, monkeypatch):
    act = handlers(tmp_path)
    scene, _, _, _, first, *_ = act.start(55, 0)
    monkeypatch.setattr(act.viewer, "_explain", None)
    faint, few = act.redraw(scene, 10, 0), act.redraw(scene, 55, 19)
    changed = [
        [not np.array_equal(a, b) for (a, _), (b, _) in zip(first["value"], other, strict=True)]
        for other in (faint["value"], few["value"])
    ]
    assert changed == [[True, False, False], [False, True, False]]


def test_the_packaged_model_warns_of_classes_it_does_not_know_and_shows_its_verdict(
    tmp_path, monkeypatch
):
    """As plain `aib view` does without the data on disk."""
    from aib.viewer.page import build_page

    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    runs = open_runs((find_model(None),), "cpu")
    page = str(build_page(Viewer(runs, samples=(1, 1)), find_examples(runs)).get_config_file())
    assert "The examples show none of the classes of pets" in page
    assert "**Map: faithful.** The map is faithful" in page  # its study is beside it


def test_a_class_whose_folder_has_no_name_in_text_is_shown(tmp_path):
    """Its name cannot be sent to a browser as it is."""
    from aib.viewer.page import Handlers, build_page

    data = shapes(3)
    names = ("caf\udce9",) * 10
    data = replace(data, preprocessing=replace(data.preprocessing, class_names=names))
    model = small_model(preprocessing=data.preprocessing).eval()
    shown = Viewer([Run(folder=tmp_path, label="run", model=model, settings=None)])
    examples = take(data, 2, seed=0)
    page = build_page(shown, examples).get_config_file()
    act = Handlers(shown, examples)
    scene, picture, decision, details, *_ = act.start(55, 0)
    changes = act.place(scene, 25, 50, 50, 55, 0)[FIXED + COLUMN.index("change")]
    texts = [page, picture["label"], decision, details, changes]
    for text in texts:
        assert b"udce9" in json.dumps(text, ensure_ascii=False, default=str).encode()


def test_the_page_fetches_from_nowhere_else_limits_uploads_and_is_no_api(tmp_path):
    from fastapi.testclient import TestClient

    app = make_app(viewer(tmp_path), EXAMPLES, "127.0.0.1", max_bytes=10_000)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/")
        assert answer.status_code == 200 and '"title":"aib view"' in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?:", answer.text)
        assert "google" not in client.get("/theme.css").text
        for size, code in ((9_000, 200), (11_000, 413)):
            files = {"files": ("a.png", b"x" * size)}
            assert client.post("/gradio_api/upload", files=files).status_code == code
        info = client.get("/gradio_api/info").json()
        assert info["named_endpoints"] == {} and info["unnamed_endpoints"] == {}
