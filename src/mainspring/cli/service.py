"""Service: the API of an app at an address, for `server` and `dev`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click
import msgspec

from ..app import Mainspring
from .filters import combine_options
from .messages import Failed, hint

address_options = combine_options(
    click.option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1, this machine only."),
    click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Default: 8765; 0: any free port."),
    click.option("--no-auth", is_flag=True, help="Let anyone on this machine in, as an admin."),
)


def openapi_json() -> bytes:
    """The OpenAPI document. Raises Failed if the server's parts are not installed."""
    try:
        from ..api.openapi import openapi_document
        from ..api.service import litestar_app
    except ImportError as missing:
        raise _not_installed(missing) from None
    return msgspec.json.encode(openapi_document(litestar_app()))


def check_installed() -> None:
    """Raises Failed if the server's parts are not installed, before a reloader restarts a process that cannot work."""
    if find_spec("litestar") is None:
        raise _not_installed("litestar is not installed")


def _not_installed(missing: object) -> Failed:
    return Failed(f"this needs the server's parts: pip install 'mainspring[server]' ({missing})")


class Service:
    """The API of an app, bound to an address; run() serves it."""

    def __init__(self, app: Mainspring, host: str | None, port: int | None, no_auth: bool) -> None:
        try:
            from ..api import server
            from ..api.access.loopback import check_bind
            from ..metrics.timed_store import measure
        except ImportError as missing:
            raise _not_installed(missing) from None
        host = host or app.settings.host
        check_bind(host, not no_auth)
        self._app, self._auth, self._meter = app, not no_auth, measure(app)
        self._server = server
        self.listener: socket.socket = server.listen(host, app.settings.port if port is None else port)
        self.address = server.url_of(self.listener)

    async def run(self, ready: Callable[[], object]) -> None:
        """Serves until a signal, and finishes open requests. Calls `ready` when it accepts connections."""
        from ..api.service import asgi
        from ..metrics.process import watch_loop

        application: Any = asgi(self._app, auth=self._auth, sign_in_hint=False)
        serving = self._server.Server(application, grace=self._app.settings.grace, ready=ready)
        self.stop = serving.stop
        watch = asyncio.create_task(watch_loop(self._meter, self._app.clock))
        try:
            await serving.run(self.listener)
        finally:
            watch.cancel()

    async def greet(self, *, opens: bool = False) -> str:
        """Prints how to sign in, and returns the URL of the dashboard. `opens`: prints the URL in any case."""
        if not self._auth:
            hint("anyone on this machine can open it, as an admin (--no-auth)")
            return self._print_url(self.address) if opens else self.address
        from ..api.access.first_run import create_token, sign_in_url

        if not (token := await create_token(self._app)):
            return self._print_url(self.address) if opens else self.address
        page = sign_in_url(self.address, token)
        if opens:
            return self._print_url(page, " (it signs you in: once, within an hour)")
        click.echo(f"first start: sign in once, within an hour, at {page}")
        hint("then create keys: mainspring keys create NAME --role operator")
        return page

    def _print_url(self, page: str, note: str = "") -> str:
        click.echo(f"Open {page}{note}")
        return page
