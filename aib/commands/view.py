"""`aib view`: a local page that shows a model's decision and map, image by image."""

import sys
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from aib.commands.arguments import parse_samples


def view(
    run: Path | None = None,
    backbone: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    no_browser: bool = False,
    samples: str | None = None,
    device: str | None = None,
) -> None:
    """Open a local page: drop an image or pick an example; see the prediction, the map over the
    image, its quantised levels and its uncertainty; hide a block by a click and see what changes.

    The page fetches nothing from a network. Only this machine reaches it, unless --host says
    otherwise. Ctrl-C stops it.

    Example: aib view --run runs/cifar10

    Args:
        run: a run, a saved model, hf:owner/name, or a packaged model by name (the default).
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        host: address to listen on; others than loopback let other machines reach the page.
        port: port to listen on; 0 takes a free one.
        no_browser: print the address without opening a browser.
        samples: attention x latent samples, such as 4x12; by default as in evaluation.
        device: cpu or cuda; by default cuda if available.
    """
    from aib.interpret.stored import stored_verdict
    from aib.runs.pretrained import find_model
    from aib.runs.run import open_run
    from aib.viewer import serve
    from aib.viewer.examples import find_examples
    from aib.viewer.scene import Viewer

    sizes = parse_samples(samples) if samples else None
    # Gradio's folder for files; it is removed when the viewer ends.
    uploads = TemporaryDirectory(prefix="aib-view-", ignore_cleanup_errors=True)
    with uploads as folder, serve.listen(host, port) as listener:
        print("starting the viewer ...", flush=True)
        serve.prepare_gradio(folder)
        opened = open_run(find_model(run), device, backbone, fold=True)
        verdict = stored_verdict(opened)
        title = f"{opened.label} ({opened.name})"
        print(title + (f". {verdict.line}" if verdict else ""))
        url = serve.address_of(listener)
        print(f"{url}  (Ctrl-C stops it)", flush=True)
        if not serve.is_loopback(host):
            danger = "lets other machines use this page, without a password"
            print(f"warning: --host {host} {danger}", file=sys.stderr)
        if not no_browser:
            # In a thread: some browsers return only when they are closed.
            Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        try:
            viewer = Viewer(opened.model, title, verdict, sizes)
            serve.serve(viewer, find_examples(opened), listener, host)
        except KeyboardInterrupt:
            print("closed")


COMMAND = view
