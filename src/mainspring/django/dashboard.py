"""The dashboard and its API beside a Django project, behind the project's own login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings as project
from django.contrib.auth import get_user
from django.db import connections
from django.http import HttpRequest, parse_cookie
from django.shortcuts import resolve_url

from ..records.principal import HostLogin, Principal
from .project_app import get_app

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[Any]]


async def staff(scope: Mapping[str, Any]) -> Principal | None:
    """The user of Django's session cookie: a superuser is an admin, other staff are operators; None for others."""
    async with ThreadSensitiveContext():
        return await sync_to_async(_staff)(_header(scope, b"cookie"))


def with_dashboard(application: Application, path: str = "/ops", *, auth: HostLogin = staff) -> Application:
    """An ASGI application that serves the dashboard and the API under `path`, and Django everywhere else.

    A browser that opens a page there without a login is sent to LOGIN_URL.
    """
    ours = get_app().asgi(auth=auth)
    path = f"/{path.strip('/')}"

    async def route(scope: Any, receive: Receive, send: Send) -> None:
        root = f"{scope.get('root_path', '').rstrip('/')}{path}"
        if scope["type"] != "http" or not f"{scope['path']}/".startswith(f"{root}/"):
            await application(scope, receive, send)
        elif _is_navigation(scope) and await auth(scope) is None:
            await _redirect(send, f"{resolve_url(project.LOGIN_URL)}?next={quote(scope['path'])}")
        else:
            await ours({**scope, "root_path": root}, receive, send)

    return route


def _staff(cookies: str) -> Principal | None:
    request: Any = HttpRequest()
    session = import_module(project.SESSION_ENGINE).SessionStore
    request.session = session(parse_cookie(cookies).get(project.SESSION_COOKIE_NAME))
    try:
        user: Any = get_user(request)
    finally:
        connections.close_all()  # this thread ends
    if not (user.is_active and user.is_staff):
        return None
    return Principal(name=user.get_username(), role="admin" if user.is_superuser else "operator")


def _is_navigation(scope: Any) -> bool:
    """Whether a browser opens a page, rather than a page its data."""
    return scope["method"] == "GET" and _header(scope, b"accept").startswith("text/html")


def _header(scope: Mapping[str, Any], name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _redirect(send: Send, to: str) -> None:
    headers = [(b"location", to.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
