"""The pages of the dashboard: one HTML page for all of its paths, and its static files."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from ..access.authenticate import ANYONE, allow
from ..mount_path import ROOT
from ..problem import Problem, http_exception
from ..security_headers import header
from .dashboard_files import site

PAGE_NAMES = ("jobs", "flows", "schedules", "queues", "dead", "workers", "audit", "keys", "webhooks", "settings")
PAGE_PATHS = ["/", *(f"/{name}" for name in PAGE_NAMES), *(f"/{name}/{{rest:path}}" for name in PAGE_NAMES)]
# Only resources of this server, and no strings that become code or markup.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_CACHE_FOREVER = "public, max-age=31536000, immutable"


@get(PAGE_PATHS, **allow(ANYONE, page=True), include_in_schema=False)
async def show_page(request: Request[Any, Any, Any]) -> Response[str]:
    """The HTML page. Its scripts read the path and load the data from the API."""
    return _page(request)


def not_found(request: Request[Any, Any, Any], error: NotFoundException) -> Response[Any]:
    """404: the dashboard's own page for a browser, a problem document for a program."""
    is_browser = request.scope["method"] == "GET" and "text/html" in (header(request.scope, b"accept") or "")
    if is_browser and not request.scope["path"].startswith("/api/"):
        return _page(request, status_code=404)
    return http_exception(request, error)


def _page(request: Request[Any, Any, Any], status_code: int = 200) -> Response[str]:
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"}
    text = site().page(str(request.scope.get(ROOT, "")), request.scope["path"])
    return Response(text, status_code=status_code, media_type="text/html", headers=headers)


@get("/ui/{digest:str}/{name:path}", **allow(ANYONE, page=True), include_in_schema=False)
async def get_file(request: Request[Any, Any, Any], digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """A static file. Browsers cache it forever if the digest is that of this release; during a deploy another release
    may serve the request."""
    file = site().files.get(name.strip("/"))
    if file is None:
        raise Problem(404, "no_such_route", f"there is no {name} in the dashboard")
    headers = {"Cache-Control": _CACHE_FOREVER if digest == site().digest else "no-store", "Vary": "Accept-Encoding"}
    gzipped = "gzip" in (header(request.scope, b"accept-encoding") or "")
    if gzipped:
        headers["Content-Encoding"] = "gzip"
    return Response(file.gzipped if gzipped else file.body, media_type=file.media_type, headers=headers)


ROOT_ROUTES = [show_page, get_file]
