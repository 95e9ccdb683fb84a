"""What `server` and `dev` have in common: an address, who may come in, and the words about it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click
import msgspec

from ..app import Mainspring
from .failure import Failed, hint
from .filters import options

where = options(
    click.option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1, this machine only."),
    click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Default: 8765; 0: any free port."),
    click.option("--no-auth", is_flag=True, help="Let anyone on this machine in, as an admin."),
)


def described() -> bytes:
    """The OpenAPI document, for generators of clients."""
    try:
        from ..api.document import document
        from ..api.service import litestar
    except ImportError as missing:
        raise _without(missing) from None
    return msgspec.json.encode(document(litestar()))


def check_parts() -> None:
    """Before a process is made that would fail for the lack of them, again and again."""
    if find_spec("litestar") is None:
        raise _without("litestar is not installed")


def _without(missing: object) -> Failed:
    return Failed(f"this needs the server's parts: pip install 'mainspring[server]' ({missing})")


class Service:
    """The API of an app at an address, before it is served."""

    def __init__(self, app: Mainspring, host: str | None, port: int | None, no_auth: bool) -> None:
        try:
            from ..api import server
            from ..api.access.loopback import check_bind
            from ..metrics.timed_store import measure
        except ImportError as missing:
            raise _without(missing) from None
        host = host or app.settings.host
        check_bind(host, not no_auth)
        self._app, self._auth, self._meter = app, not no_auth, measure(app)
        self._server = server
        self.listener: socket.socket = server.listen(host, app.settings.port if port is None else port)
        self.address = server.address(self.listener)

    async def run(self, ready: Callable[[], object]) -> None:
        """Until it is told to stop; what has begun is answered."""
        from ..api.service import asgi
        from ..metrics.process import watch_loop

        made: Any = asgi(self._app, auth=self._auth, greets=False)
        serving = self._server.Server(made, grace=self._app.settings.grace, ready=ready)
        self.stop = serving.stop
        watch = asyncio.create_task(watch_loop(self._meter, self._app.clock))
        try:
            await serving.run(self.listener)
        finally:
            watch.cancel()

    async def greet(self, *, opens: bool = False) -> str:
        """Says how to get in; where the dashboard is. `opens`: also if no sign-in is needed, or a key exists."""
        if not self._auth:
            hint("anyone on this machine can open it, as an admin (--no-auth)")
            return self._open(self.address) if opens else self.address
        from ..api.access.first_run import address, welcome

        if not (token := await welcome(self._app)):
            return self._open(self.address) if opens else self.address
        page = address(self.address, token)
        if opens:
            return self._open(page, " (it signs you in: once, within an hour)")
        click.echo(f"first start: sign in once, within an hour, at {page}")
        hint("then create keys: mainspring keys create NAME --role operator")
        return page

    def _open(self, page: str, note: str = "") -> str:
        click.echo(f"Open {page}{note}")
        return page
