"""The server of the page: its port, whose requests it answers, and its end."""

import ipaddress
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aib.errors import AibError, missing_extra
from aib.viewer.scene import Example, Viewer

# The browser refuses everything that is not on the page's own address.
POLICY = (
    b"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'self'; "
    b"form-action 'self'"
)
MAX_UPLOAD = 20 * 2**20  # bytes of an image file
HOST = re.compile(r"(?:\[([\da-f:.]+)\]|([^\s:/?#@\[\]]+))(?::\d+)?", re.IGNORECASE)
# Of the system: Gradio's own would be fetched.
FONT, MONOSPACE = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def prepare_gradio(folder: str) -> None:
    """Import Gradio without telemetry and with its files in `folder`."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = folder
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise missing_extra("viewer", "the viewer needs Gradio") from error


def listen(host: str, port: int) -> socket.socket:
    """Open a port, 0 for any free one; requests wait there until the server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise AibError(f"--host {host} --port {port} cannot be opened ({error})") from error


def address_of(listener: socket.socket) -> str:
    """The URL for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(viewer: Viewer, examples: list[Example], listener: socket.socket, host: str) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    import uvicorn

    # Through the `finally` clauses, so that the upload folder is removed as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    config = uvicorn.Config(
        make_app(viewer, examples, host),
        timeout_graceful_shutdown=1,  # cuts the connection of an open page,
        log_level="critical",  # which would be logged with a traceback
        ws="none",
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


def make_app(viewer: Viewer, examples: list[Example], host: str) -> Any:
    """Make the ASGI application, for requests to `host` and to loopback names."""
    import gradio as gr
    from fastapi import FastAPI

    from aib.viewer.page import build_page

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, host=host)
    page = build_page(viewer, examples)
    gr.mount_gradio_app(app, page, path="/", **page_options())
    # As after launch(): from now on Gradio checks the paths of files before it opens them.
    page.has_launched = True
    return app


def page_options() -> dict[str, Any]:
    """How Gradio serves the page, mounted here or launched elsewhere."""
    import gradio as gr

    from aib.viewer.page import CSS

    off = dict.fromkeys(
        ("run_history", "enable_monitoring", "ssr_mode", "pwa", "mcp_server"), False
    )
    theme = gr.themes.Default(font=FONT, font_mono=MONOSPACE)
    kept = {"theme": theme, "css": CSS, "max_file_size": MAX_UPLOAD, "footer_links": []}
    return kept | dict.fromkeys(off, False)


class Guard:
    """Refuses requests that another website makes a browser send, and keeps the page local.

    A site may let its own name point at this machine (DNS rebinding); then the Host header shows
    that name. Or it may send requests from its own page; then the Origin header shows it. Every
    response tells the browser to fetch nothing from other addresses.
    """

    def __init__(self, app: App, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = (b"content-security-policy", POLICY)
                message["headers"] = [*message.get("headers", []), policy]
            await send(message)

        refusal = None
        if scope["type"] == "http":
            # Gradio would write an X-Forwarded-Host into the addresses of its page.
            kept = [one for one in scope["headers"] if not one[0].startswith(b"x-forwarded")]
            scope = {**scope, "headers": kept}
            refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_with_policy)

    def _refusal(self, scope: Message) -> App | None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        headers = Headers(raw=scope["headers"])
        host, origin = headers.get("host", ""), headers.get("origin")
        if not answers_to(host, self.host, scope["server"][0]):
            text = f"this page is not {host}: open the address that `aib view` printed\n"
            return PlainTextResponse(text, 400)
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse(f"this page takes no requests from {origin}\n", 403)
        if "://" in scope["path"]:  # /file=http://..., which Gradio would fetch
            return PlainTextResponse("this page fetches nothing from a network\n", 403)
        return None


def answers_to(header: str, host: str, address: str) -> bool:
    """Whether a Host header belongs to a server that was started with `--host host`.

    Loopback names, `host` itself and the address of the connection do. A server on all addresses
    may be behind a proxy: it accepts any numeric address, since only a name can be rebound.
    """
    match = HOST.fullmatch(header)
    if match is None:
        return False
    name = (match[1] or match[2]).lower()
    if is_loopback(name) or name in (host.lower(), address):
        return True
    this_machine = _ip(name) is not None or name == socket.gethostname().lower()
    return host in ("0.0.0.0", "::") and this_machine


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    ip = _ip(host)
    return host == "localhost" if ip is None else ip.is_loopback


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A numeric address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
