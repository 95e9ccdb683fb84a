"""Request paths: a slash in a name, sent as %2F, does not separate parts of the path."""

from __future__ import annotations

from urllib.parse import unquote

from litestar.types import Scope

# Stands for such a slash until the route is found. A decoded path never contains it: it is a lone surrogate.
SLASH = "\udc2f"


def path_with_escaped_slashes(scope: Scope) -> str:
    """The path with SLASH for each slash in a name. The plain path if the server passes no raw path."""
    path, raw = scope["path"], scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return path
    parts = raw.decode("latin-1").partition("?")[0].split("/")
    found = "/".join(unquote(part).replace("/", SLASH) for part in parts)
    # An outer application may have removed a prefix from the path, but not from the raw path.
    return found[-len(path) :] if unescape_slashes(found).endswith(path) else path


def unescape_slashes(text: str) -> str:
    return text.replace(SLASH, "/")


def unescape_path(scope: Scope) -> None:
    """Restores the slashes in names, once the route is found."""
    if SLASH in scope["path"]:
        scope["path"] = unescape_slashes(scope["path"])
        # A new dictionary: Litestar reuses the old one for the next request.
        scope["path_params"] = {
            name: unescape_slashes(value) if isinstance(value, str) else value
            for name, value in scope["path_params"].items()
        }
