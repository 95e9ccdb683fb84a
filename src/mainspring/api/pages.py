"""The dashboard: one page for every address of it, and files that never change under theirs."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath
from msgspec import Struct

from .door import ANYONE, may
from .header import header
from .mounted import ROOT
from .problem import Problem

HOME = Path(__file__).parent.parent / "dashboard"
NAMES = ("jobs", "schedules", "queues", "dead", "workers", "audit", "keys", "webhooks")
ADDRESSES = ["/", *(f"/{name}" for name in NAMES), *(f"/{name}/{{rest:path}}" for name in NAMES)]
# Nothing but what this server gives, and no text that becomes code or markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FOREVER = "public, max-age=31536000, immutable"
_SERVED = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class File(Struct, frozen=True):
    media_type: str
    body: bytes
    zipped: bytes


class Site(Struct, frozen=True):
    files: dict[str, File]
    digest: str
    """Of all of them: another release has other addresses."""

    def page(self, root: str) -> str:
        """With every module named at once: found one in the other, they would be a request after the other."""
        named = sorted(self.files, key=lambda name: name.endswith(".js"))  # what is to be seen before what is to be run
        links = "\n".join(_link(f"ui/{self.digest}/{name}") for name in named)
        text = (HOME / "index.html").read_text(encoding="utf-8")
        return text.replace("{root}", escape(root)).replace("{digest}", self.digest).replace("{links}", links)


def _link(address: str) -> str:
    kind = {".css": "stylesheet", ".js": "modulepreload", ".svg": "icon"}[Path(address).suffix]
    return f'<link rel="{kind}" href="{address}">'


@cache
def site() -> Site:
    files = {}
    for path in sorted(HOME.rglob("*"), key=lambda path: (len(path.parts), path)):
        if path.suffix in _SERVED:
            body = path.read_bytes()
            files[path.relative_to(HOME).as_posix()] = File(_SERVED[path.suffix], body, gzip.compress(body, mtime=0))
    digest = sha256(b"".join(name.encode() + file.body for name, file in files.items())).hexdigest()[:16]
    return Site(files, digest)


@get(ADDRESSES, **may(ANYONE, page=True), include_in_schema=False)
async def show_page(request: Request[Any, Any, Any]) -> Response[str]:
    """The same one wherever it is asked for: it reads its own address, and asks the API for the rest."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(site().page(str(request.scope.get(ROOT, ""))), media_type="text/html", headers=headers)


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
