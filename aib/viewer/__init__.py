"""The page of `aib view`: a model's decision and map, image by image.

`scene.py` (the picture, its blocks, the models), `examples.py` and `panels.py` (what a column
shows) do not need Gradio; `page.py` is the layout and the event handlers, `serve.py` the server.
"""
