"""The page: its handlers answer what a visitor does, and it can be served."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from aib.runs.run import Run, find_model, open_runs
from aib.viewer import panels, serve
from aib.viewer.examples import Example, find_examples, take
from aib.viewer.scene import Viewer
from aib.viewer.serve import make_app, prepare_gradio
from tests.helpers import photo, shapes, small_model
from tests.viewer.fixtures import EXAMPLES, viewer

pytest.importorskip("gradio")

from aib.viewer.page import COLUMN, thumbnail

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
    scene, *rest = act.start(55)
    picked = act.pick(55, clicked(2))
    assert 1 + len(rest) == len(picked) == parts and picked[1]["label"] == "example 2"
    assert len(act.hide(scene, 25, 55, clicked(10, 20))) == parts
    assert len(act.clear(scene, 55)) == parts and len(act.redraw(scene, 55)) == 2


def test_a_broken_upload_leaves_the_page_as_it_is_and_says_why(tmp_path, monkeypatch):
    import gradio as gr

    messages = []
    monkeypatch.setattr(gr, "Warning", lambda text, **_: messages.append(text))
    path = tmp_path / "<b>broken.png"
    path.write_bytes(b"nothing")
    act = handlers(tmp_path)
    box, *rest = act.upload(str(path), 55)
    [message] = messages
    assert message.startswith("&lt;b&gt;broken.png is not an image of any known format")
    assert box is None and not path.exists()
    assert rest == [gr.skip()] * len(act.start(55))


def test_a_click_hides_the_position_clicked_on(tmp_path):
    act = handlers(tmp_path)
    scene, before, *_ = act.start(55)
    covered, after, *parts = act.hide(scene, 25, 55, clicked(128, 384))  # of 512 x 512
    rows, columns = (before["value"] != after["value"]).any(-1).nonzero()
    assert (columns.min(), columns.max()) == (4 * 16, 12 * 16 - 1)
    assert (rows.min(), rows.max()) == (20 * 16, 28 * 16 - 1)
    column = dict(zip(COLUMN, parts, strict=True))
    assert len(covered.blocks) == 1 and "What the blocks change" in column["change"]
    assert column["change-maps"]["visible"] and len(column["change-maps"]["value"]) == 3
    again = act.hide(covered, 10, 55, clicked(500, 10))[0]
    assert len(again.blocks) == 2
    whole, picture, *parts = act.clear(again, 55)
    column = dict(zip(COLUMN, parts, strict=True))
    assert whole.blocks == () and np.array_equal(picture["value"], before["value"])
    assert column["change"] == "" and not column["change-maps"]["visible"]


def test_each_column_shows_its_own_model_with_the_blocks(tmp_path):
    act = handlers(tmp_path, "tiny_aib_qt", "tiny_aib")
    model = act.viewer.runs[1].model
    model.preprocessing = replace(model.preprocessing, mean=(0.2, 0.4, 0.6))
    covered, _, *parts = act.hide(act.start(55)[0], 25, 55, clicked(128, 384))
    shown = [dict(zip(COLUMN, parts[start:], strict=False)) for start in (0, len(COLUMN))]
    for run, colour in enumerate(((128, 128, 128), (51, 102, 153))):
        column, now = shown[run], covered.now[run]
        assert column["samples"][0][0][192, 64].tolist() == list(colour)  # its mean
        assert column["decision"] == panels.decision(now)
        assert column["details"] == panels.details(now)
        assert column["change"] == panels.change_text(covered.before[run], now)
        map, *_ = panels.maps(act.viewer.shown(covered, run), now, 0.55)
        assert np.array_equal(column["maps"]["value"][0][0], map[0])


def test_a_thumbnail_leaves_its_example_as_it_is():
    example = Example(photo(200, 100), "wide")
    assert thumbnail(example).shape == (48, 96, 3) and example.image.size == (200, 100)


def test_the_slider_redraws_the_map_without_running_a_model(tmp_path, monkeypatch):
    act = handlers(tmp_path)
    scene, _, _, _, first, *_ = act.start(55)
    monkeypatch.setattr(act.viewer, "_explain", None)
    faint = act.redraw(scene, 10)["value"]
    same = [np.array_equal(a, b) for (a, _), (b, _) in zip(first["value"], faint, strict=True)]
    assert same == [False, True, True]


def test_a_model_whose_data_is_not_on_disk_has_no_examples_and_shows_its_verdict(
    tmp_path, monkeypatch
):
    """As plain `aib view` does."""
    from aib.viewer.page import build_page

    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    runs = open_runs((find_model(None),), "cpu")
    assert find_examples(runs) == []
    page = build_page(Viewer(runs, (1, 1)), []).get_config_file()
    parts = {part["props"].get("elem_id"): part["props"] for part in page["components"]}
    assert not parts["aib-examples"]["visible"] and parts["aib-verdict-0"]["visible"]
    # its study is beside it
    assert "**Map: faithful.** The map is faithful" in parts["aib-verdict-0"]["value"]


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
    scene, picture, decision, details, *_ = act.start(55)
    changes = act.hide(scene, 25, 55, clicked(128, 384))[FIXED + COLUMN.index("change")]
    texts = [page, picture["label"], decision, details, changes]
    for text in texts:
        assert b"udce9" in json.dumps(text, ensure_ascii=False, default=str).encode()


def test_the_page_fetches_from_nowhere_else_limits_uploads_and_is_no_api(tmp_path, monkeypatch):
    from fastapi.testclient import TestClient

    monkeypatch.setattr(serve, "MAX_UPLOAD", 2_000_000)
    app = make_app(viewer(tmp_path), EXAMPLES, "gpu1")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/", headers={"host": "gpu1:7860"})
        assert answer.status_code == 200 and '"title":"aib view"' in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "text/html" in answer.headers["content-type"]
        assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?:", answer.text)
        assert "google" not in client.get("/theme.css").text
        for size, code in ((1_900_000, 200), (2_100_000, 413)):
            files = {"files": ("a.png", b"x" * size)}
            assert client.post("/gradio_api/upload", files=files).status_code == code
        info = client.get("/gradio_api/info").json()
        assert info["named_endpoints"] == {} and info["unnamed_endpoints"] == {}
