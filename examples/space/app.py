"""`aib view` as a Hugging Face Space; README.md beside this file says how."""

import os
from pathlib import Path
from tempfile import mkdtemp

from aib.interpret.stored import stored_verdict
from aib.runs.pretrained import find_model
from aib.runs.run import open_run
from aib.viewer.examples import find_examples
from aib.viewer.scene import Viewer
from aib.viewer.serve import page_options, prepare_gradio


def make_page():
    """The page of the model that AIB_RUN names; by default the packaged one."""
    prepare_gradio(mkdtemp(prefix="aib-view-"))
    from aib.viewer.page import build_page

    name = os.environ.get("AIB_RUN")
    run = open_run(find_model(Path(name) if name else None))
    viewer = Viewer(run.model, run.label, stored_verdict(run))
    return build_page(viewer, find_examples(run))


demo = make_page()

if __name__ == "__main__":
    demo.launch(**page_options())
