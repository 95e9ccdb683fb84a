"""The dashboard: one page for every address of it, and files that never change under theirs."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from ..access.authenticate import ANYONE, may
from ..mount_path import ROOT
from ..problem import Problem, answer_of
from ..security_headers import header
from .site import site

NAMES = ("jobs", "schedules", "queues", "dead", "workers", "audit", "keys", "webhooks", "settings")
ADDRESSES = ["/", *(f"/{name}" for name in NAMES), *(f"/{name}/{{rest:path}}" for name in NAMES)]
# Nothing but what this server gives, and no text that becomes code or markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FOREVER = "public, max-age=31536000, immutable"


@get(ADDRESSES, **may(ANYONE, page=True), include_in_schema=False)
async def show_page(request: Request[Any, Any, Any]) -> Response[str]:
    """Much the same wherever it is asked for: it reads its own address, and asks the API for the rest."""
    return _page(request)


def no_such_address(request: Request[Any, Any, Any], error: NotFoundException) -> Response[Any]:
    """A browser gets the dashboard, which says so and leads on; a program gets a problem document."""
    browses = request.scope["method"] == "GET" and "text/html" in (header(request.scope, b"accept") or "")
    if browses and not request.scope["path"].startswith("/api/"):
        return _page(request, status_code=404)
    return answer_of(request, error)


def _page(request: Request[Any, Any, Any], status_code: int = 200) -> Response[str]:
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    text = site().page(str(request.scope.get(ROOT, "")), request.scope["path"])
    return Response(text, status_code=status_code, media_type="text/html", headers=headers)


@get("/ui/{digest:str}/{name:path}", **may(ANYONE, page=True), include_in_schema=False)
async def get_file(request: Request[Any, Any, Any], digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Kept by browsers for good if it is of the release that was asked for; while two are served, either may answer."""
    file = site().files.get(name.strip("/"))
    if file is None:
        raise Problem(404, "no_such_route", f"there is no {name} in the dashboard")
    headers = {"Cache-Control": _FOREVER if digest == site().digest else "no-store", "Vary": "Accept-Encoding"}
    zipped = "gzip" in (header(request.scope, b"accept-encoding") or "")
    if zipped:
        headers["Content-Encoding"] = "gzip"
    return Response(file.zipped if zipped else file.body, media_type=file.media_type, headers=headers)


BESIDE = [show_page, get_file]
