"""The page: its handlers answer what a visitor does, and it can be served."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from aib.interpret.stored import stored_verdict
from aib.runs.pretrained import find_model
from aib.runs.run import open_run
from aib.viewer import panels, serve
from aib.viewer.examples import find_examples
from aib.viewer.scene import Viewer
from aib.viewer.serve import make_app, prepare_gradio
from tests.viewer.fixtures import EXAMPLES, viewer

pytest.importorskip("gradio")

from aib.viewer.page import PARTS, Handlers, build_page, thumbnail

FIXED = 2  # the state and the picture come before the parts


@pytest.fixture(autouse=True)
def gradio_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # restored afterwards
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "")
    prepare_gradio(str(tmp_path / "gradio"))


def handlers(tmp_path):
    made = viewer(tmp_path)
    return Handlers(made, [made.show(*example) for example in EXAMPLES])


def parts_of(answer):
    return dict(zip(PARTS, answer[FIXED:], strict=True))


def clicked(*index):
    return SimpleNamespace(index=index if len(index) > 1 else index[0])


def test_a_broken_upload_leaves_the_page_as_it_is_and_says_why(tmp_path, monkeypatch):
    import gradio as gr

    messages = []
    monkeypatch.setattr(gr, "Warning", lambda text, **_: messages.append(text))
    path = tmp_path / "<b>broken.png"
    path.write_bytes(b"nothing")
    act = handlers(tmp_path)
    box, *rest = act.upload(str(path), 55)
    [message] = messages
    assert "&lt;b&gt;broken.png is not an image" in message and box is None
    assert rest == [gr.skip()] * len(act.start(55))


def test_a_click_hides_the_position_clicked_on(tmp_path):
    act = handlers(tmp_path)
    scene, before, *_ = act.start(55)
    answer = act.hide(scene, 25, 55, clicked(128, 384))  # of 512 x 512
    covered, after, *_ = answer
    rows, columns = (before["value"] != after["value"]).any(-1).nonzero()
    assert (columns.min(), columns.max()) == (4 * 16, 12 * 16 - 1)
    assert (rows.min(), rows.max()) == (20 * 16, 28 * 16 - 1)
    parts, now = parts_of(answer), covered.now
    assert len(covered.blocks) == 1 and "What the blocks change" in parts["change"]
    assert parts["change-maps"]["visible"] and len(parts["change-maps"]["value"]) == 3
    assert parts["decision"] == dict(now.top(0)) and parts["details"] == panels.details(now)
    map, *_ = panels.maps(act.viewer.picture(covered), now, 0.55)
    assert np.array_equal(parts["maps"]["value"][0][0], map[0])
    again = act.hide(covered, 10, 55, clicked(500, 10))[0]
    assert len(again.blocks) == 2
    answer = act.clear(again, 55)
    assert answer[0].blocks == () and np.array_equal(answer[1]["value"], before["value"])
    assert parts_of(answer)["change"] == "" and not parts_of(answer)["change-maps"]["visible"]


def test_the_slider_redraws_the_map_without_running_a_model(tmp_path, monkeypatch):
    act = handlers(tmp_path)
    scene, *_, first, _, _ = act.start(55)
    monkeypatch.setattr(act.viewer, "_explain", None)
    faint = act.redraw(scene, 10)["value"]
    same = [np.array_equal(a, b) for (a, _), (b, _) in zip(first["value"], faint, strict=True)]
    assert same == [False, True, True]


def test_the_packaged_model_shows_photographs_with_their_source_and_its_verdict():
    run = open_run(find_model(None), "cpu")
    examples = find_examples(run)
    assert len(examples) == 6 and all("CC BY" in name for _, name in examples)
    made = Viewer(run.model, run.label, stored_verdict(run))
    page = build_page(made, examples[:1]).get_config_file()
    parts = {part["props"].get("elem_id"): part["props"] for part in page["components"]}
    [drawn] = parts["aib-examples"]["value"]
    assert drawn["caption"] == examples[0][1] and parts["aib-verdict"]["visible"]
    # its study is beside it
    assert "**Map: used.** The decision uses the map" in parts["aib-verdict"]["value"]


def test_thumbnails_have_the_map_over_the_picture(tmp_path):
    scene = viewer(tmp_path).show(*EXAMPLES[0])
    corner = torch.zeros(1, 8, 8)
    corner[0, 0, 0] = 1
    scene = replace(scene, now=replace(scene.now, map=corner))
    colours = np.asarray(thumbnail(np.zeros((64, 64, 3), np.uint8), scene)) / 0.55
    low, high = (68, 1, 84), (253, 231, 37)  # the ends of viridis
    assert colours[0, 0] == pytest.approx(high, abs=2) and colours[-1, -1] == pytest.approx(
        low, abs=2
    )


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
