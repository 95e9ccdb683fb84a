"""A log line that tells how to sign in, once, at the first request, for applications that mount `app.asgi()`."""

from __future__ import annotations

import logging
from typing import Any

from ...app import Mainspring
from ...errors import MainspringError
from ...survived_errors import count_error
from ..mount_path import ROOT
from .first_run import create_token, is_pending, sign_in_url

_logger = logging.getLogger("mainspring")


class SignInHint:
    """Logs how to sign in, once. `mainspring server` and `mainspring dev` print it themselves, so they silence it."""

    def __init__(self, app: Mainspring, *, silent: bool) -> None:
        self._app = app
        self._done = silent

    async def __call__(self, scope: Any) -> None:
        """Logs the hint if this is the first request and there is no key."""
        if self._done or scope["type"] != "http":
            return
        self._done = True
        try:
            await self._log(_page(scope))
        except MainspringError as error:  # the request itself will fail in the same way
            _logger.warning("cannot find out whether there is an API key to sign in with: %s", error)
            count_error("greeting", error)

    async def _log(self, page: str) -> None:
        command = "mainspring keys create NAME --role admin --app MODULE:APP"
        if await is_pending(self._app):  # from another process or an earlier start: its link still works
            _logger.warning(
                "sign in at %s/ with the link that the first start logged, or create a key: %s", page, command
            )
        elif token := await create_token(self._app):
            link = sign_in_url(page, token)
            _logger.warning("open %s (it signs you in: once, within an hour), or create a key: %s", link, command)


def _page(scope: Any) -> str:
    """The URL of the dashboard, from the server's own address: a client can send any Host header."""
    host, port = scope.get("server") or ("", None)
    origin = f"{scope.get('scheme', 'http')}://{_bracketed(host)}:{port}" if host and port else ""
    return f"{origin}{scope.get(ROOT, '')}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
