"""The page on a port of this machine, until Ctrl-C."""

import ipaddress
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from aib.errors import AibError, missing_extra
from aib.viewer.examples import Example
from aib.viewer.scene import Viewer
from aib.viewer.style import CSS

# The browser itself refuses whatever is not on this page's own address.
POLICY = (
    b"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'self'; "
    b"form-action 'self'"
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def prepare_gradio(folder: str) -> None:
    """Import Gradio so that it stays at home: no telemetry, its files in `folder`."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = folder
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise missing_extra("viewer", "the viewer needs Gradio") from error


def listen(host: str, port: int) -> socket.socket:
    """An open port; 0 takes any free one."""
    if not 0 <= port <= 65535:
        raise AibError(f"a port lies between 1 and 65535, not {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AibError(f"--host {host} is no address of a machine ({error.strerror})") from error
    except UnicodeError as error:  # a name that no network allows, too long for one
        raise AibError(f"--host {host[:40]}... is no address of a machine") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)  # a browser that is quicker than the server waits here
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise AibError(
            f"port {port} of {host} cannot be opened ({reason}); "
            "leave --port out to take a free one"
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """What to type into a browser on this machine."""
    host, port = listener.getsockname()[:2]
    if _is_unspecified(host):  # all addresses: any of ours will do
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    viewer: Viewer,
    examples: list[Example],
    listener: socket.socket,
    *,
    host: str,
    max_bytes: int,
) -> None:
    """Answer until Ctrl-C or SIGTERM."""
    import uvicorn

    if threading.current_thread() is threading.main_thread():
        # Through the `finally`s, so that the uploads' folder goes as well.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    config = uvicorn.Config(
        make_app(viewer, examples, host, max_bytes),
        # A page that is still shown holds a connection open: it is given a second to let go, and
        # then cut off, of which uvicorn would write a traceback.
        timeout_graceful_shutdown=1,
        log_level="critical",
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])


def make_app(viewer: Viewer, examples: list[Example], host: str, max_bytes: int) -> Any:
    """The page as an ASGI application, for requests to `host` and to loopback names."""
    import gradio as gr
    from fastapi import FastAPI

    from aib.viewer.page import build_page, theme

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(StayHome)
    app.add_middleware(OwnRequests, host=host)
    page = build_page(viewer, examples)
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        theme=theme(),
        css=CSS,
        max_file_size=max_bytes,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
    )
    # As after launch(): from here on Gradio checks the paths of the files that it is to open.
    page.has_launched = True
    return app


class OwnRequests:
    """Refuses requests that another website makes a browser send.

    A site may let its own name point at this machine (DNS rebinding); then the Host header shows
    that name. Or it may send requests from its own page; then the Origin header shows it.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Message) -> Callable[..., Awaitable[None]] | None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        headers = Headers(raw=scope["headers"])
        host, origin = headers.get("host", ""), headers.get("origin")
        if not answers_to(host, self.host, scope["server"][0]):
            sentence = f"this page is not {host}: open the address that `aib view` printed"
            return PlainTextResponse(f"{sentence}, or start it with --host\n", 400)
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse(f"this page takes no requests from {origin}\n", 403)
        if "://" in scope["path"]:  # /file=http://..., which Gradio would fetch
            return PlainTextResponse("this page fetches nothing from a network\n", 403)
        return None


def answers_to(header: str, host: str, address: str) -> bool:
    """Is a Host header one for a server that was started with `--host host`?

    Loopback names are, `host` itself, and the address that the request came to. A server on all
    addresses may be behind others: any in numbers will do, since only a name can be rebound.
    """
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if is_loopback(name) or name in (host.lower(), address):
        return True
    return _is_unspecified(host) and (_is_address(name) or name == socket.gethostname().lower())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_unspecified(host: str) -> bool:
    """All addresses of this machine?"""
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


class StayHome:
    """Adds the header by which the browser fetches nothing from anywhere else."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    (b"content-security-policy", POLICY),
                ]
            await send(message)

        await self.app(scope, receive, with_policy)


def open_browser(url: str) -> None:
    """In a thread: some browsers return only when they are closed."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def upload_folder() -> tempfile.TemporaryDirectory[str]:
    """Where Gradio keeps what it is sent; gone when the viewer ends."""
    return tempfile.TemporaryDirectory(prefix="aib-view-", ignore_cleanup_errors=True)
