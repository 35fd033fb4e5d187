"""The page of `aib view`: a model looked at image by image.

`analysis.py`, `scene.py` and `examples.py` know nothing of the page, `panels.py` writes its parts
as HTML, `page.py` lays them out with Gradio, and `serve.py` answers the browser.
"""
