"""How to sign in, in the log of a host application that serves `app.asgi()`: once, at the first request."""

from __future__ import annotations

import logging
from typing import Any

from ...app import Mainspring
from ...errors import MainspringError
from ...survived_errors import count_error
from ..mount_path import ROOT
from .first_run import address, is_pending, welcome

_logger = logging.getLogger("mainspring")


class Greeting:
    """The server of `mainspring server` and `mainspring dev` prints its own, so it has none."""

    def __init__(self, app: Mainspring, *, silent: bool) -> None:
        self._app = app
        self._done = silent

    async def __call__(self, scope: Any) -> None:
        """Logs how to sign in, if this is the first request and there is no key yet."""
        if self._done or scope["type"] != "http":
            return
        self._done = True
        try:
            await self._greet(_page(scope))
        except MainspringError as trouble:  # the request itself will meet the same trouble, and say so
            _logger.warning("whether there is an API key to sign in with is not known: %s", trouble)
            count_error("greeting", trouble)

    async def _greet(self, page: str) -> None:
        command = "mainspring keys create NAME --role admin --app MODULE:APP"
        if await is_pending(self._app):  # of another process, or of a start before: its link still opens the page
            _logger.warning("sign in at %s/ with the link of the first start, or make a key: %s", page, command)
        elif token := await welcome(self._app):
            link = address(page, token)
            _logger.warning("open %s (it signs you in: once, within an hour), or make a key: %s", link, command)


def _page(scope: Any) -> str:
    """Where the dashboard is: the server's own address, since a client may send any Host."""
    host, port = scope.get("server") or ("", None)
    origin = f"{scope.get('scheme', 'http')}://{_bracketed(host)}:{port}" if host and port else ""
    return f"{origin}{scope.get(ROOT, '')}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
