"""The dashboard's files, and the page that begins with them."""

from __future__ import annotations

import gzip
import posixpath
import re
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from msgspec import Struct

HOME = Path(__file__).parents[2] / "dashboard"
_IMPORT = re.compile(r"""\bfrom ?"(\.[^"]+)";""")
_SERVED = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class File(Struct, frozen=True):
    media_type: str
    body: bytes
    zipped: bytes


class Site(Struct, frozen=True):
    files: dict[str, File]
    digest: str
    """Of all of them: another release has other addresses."""
    imports: dict[str, set[str]]
    """What each module needs before it runs."""

    def page(self, root: str, path: str) -> str:
        """With every module named that it begins with: found one in the other, they would be asked for by turns."""
        first = sorted(self._needed("main.js") | self._needed(self._module(path)))
        links = [_link(f"ui/{self.digest}/{name}") for name in ("style.css", "mark.svg", *first)]
        text = (HOME / "index.html").read_text(encoding="utf-8")
        return (
            text.replace("{root}", escape(root)).replace("{digest}", self.digest).replace("{links}", "\n".join(links))
        )

    def _module(self, path: str) -> str:
        """Of a page: that of /jobs is jobs.js, that of /jobs/17 job.js; an address without one is in main.js."""
        name, _, rest = path.strip("/").partition("/")
        one, many = f"pages/{name.removesuffix('s')}.js", f"pages/{name or 'overview'}.js"
        return one if rest and one in self.files else many if many in self.files else "main.js"

    def _needed(self, name: str) -> set[str]:
        found, new = set[str](), {name}
        while new:
            found |= new
            new = set[str]().union(*(self.imports[one] for one in new)) - found
        return found


def _link(address: str) -> str:
    kind = {".css": "stylesheet", ".js": "modulepreload", ".svg": "icon"}[Path(address).suffix]
    return f'<link rel="{kind}" href="{address}">'


@cache
def site() -> Site:
    paths = sorted(HOME.rglob("*"), key=lambda path: (len(path.parts), path))
    bodies = {path.relative_to(HOME).as_posix(): path.read_bytes() for path in paths if path.suffix in _SERVED}
    # One sheet, the general before the special: a browser shows nothing before it has them all.
    sheets = [name for name in bodies if name.endswith(".css")]
    bodies["style.css"] = b"\n".join([bodies.pop(name) for name in sheets])
    digest = sha256(b"".join(name.encode() + body for name, body in bodies.items())).hexdigest()[:16]
    return Site({name: _file(name, body) for name, body in bodies.items()}, digest, _imports(bodies))


def _file(name: str, body: bytes) -> File:
    return File(_SERVED[Path(name).suffix], body, gzip.compress(body, mtime=0))


def _imports(bodies: dict[str, bytes]) -> dict[str, set[str]]:
    modules = {name: body.decode() for name, body in bodies.items() if name.endswith(".js")}
    return {
        name: {posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in _IMPORT.findall(text)}
        for name, text in modules.items()
    }
