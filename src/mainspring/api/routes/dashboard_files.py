"""The static files of the dashboard, and the HTML page that loads them."""

from __future__ import annotations

import gzip
import posixpath
import re
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from msgspec import Struct

DASHBOARD = Path(__file__).parents[2] / "dashboard"
_IMPORT = re.compile(r"""\bfrom ?"(\.[^"]+)";""")
# Comments that fill their lines: a fifth of what a browser would have to load.
_COMMENTS = re.compile(rb"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)$", re.MULTILINE | re.DOTALL)
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(Struct, frozen=True):
    media_type: str
    body: bytes
    gzipped: bytes


class Site(Struct, frozen=True):
    files: dict[str, StaticFile]
    digest: str
    """Digest of all files. It is part of their paths, so each release has other paths."""
    imports: dict[str, set[str]]
    """The modules that each module imports."""

    def page(self, root: str, path: str) -> str:
        """The HTML page. It names every module that is loaded first, so that the browser requests them all at once."""
        first = sorted(self._all_imports("main.js") | self._all_imports(self._module(path)))
        links = [_link(f"ui/{self.digest}/{name}") for name in ("style.css", "mark.svg", *first)]
        text = (DASHBOARD / "index.html").read_text(encoding="utf-8")
        return (
            text.replace("{root}", escape(root)).replace("{digest}", self.digest).replace("{links}", "\n".join(links))
        )

    def _module(self, path: str) -> str:
        """The module of a page: jobs.js for /jobs, job.js for /jobs/17, main.js for a path without its own."""
        name, _, rest = path.strip("/").partition("/")
        one, many = f"pages/{name.removesuffix('s')}.js", f"pages/{name or 'overview'}.js"
        return one if rest and one in self.files else many if many in self.files else "main.js"

    def _all_imports(self, name: str) -> set[str]:
        """The module and all that it imports, directly or not."""
        found, new = set[str](), {name}
        while new:
            found |= new
            new = set[str]().union(*(self.imports[one] for one in new)) - found
        return found


def _link(path: str) -> str:
    kind = {".css": "stylesheet", ".js": "modulepreload", ".svg": "icon"}[Path(path).suffix]
    return f'<link rel="{kind}" href="{path}">'


@cache
def site() -> Site:
    paths = sorted(DASHBOARD.rglob("*"), key=lambda path: (len(path.parts), path))
    bodies = {path.relative_to(DASHBOARD).as_posix(): _served(path) for path in paths if path.suffix in _MEDIA_TYPES}
    # One style sheet, general rules before special ones: a browser renders nothing until it has all of them.
    sheets = [name for name in bodies if name.endswith(".css")]
    bodies["style.css"] = b"\n".join([bodies.pop(name) for name in sheets])
    digest = sha256(b"".join(name.encode() + body for name, body in bodies.items())).hexdigest()[:16]
    return Site({name: _file(name, body) for name, body in bodies.items()}, digest, _imports(bodies))


def _served(path: Path) -> bytes:
    """Our own files without comments. Lines keep their numbers."""
    body = path.read_bytes()
    if path.parent.name == "vendor":
        return body
    return _COMMENTS.sub(lambda comment: b"\n" * comment[0].count(b"\n"), body)


def _file(name: str, body: bytes) -> StaticFile:
    return StaticFile(_MEDIA_TYPES[Path(name).suffix], body, gzip.compress(body, mtime=0))


def _imports(bodies: dict[str, bytes]) -> dict[str, set[str]]:
    modules = {name: body.decode() for name, body in bodies.items() if name.endswith(".js")}
    return {
        name: {posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in _IMPORT.findall(text)}
        for name, text in modules.items()
    }
