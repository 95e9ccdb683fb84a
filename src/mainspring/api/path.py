"""Paths: a slash in a name, sent as %2F, ends no part of the path."""

from __future__ import annotations

from urllib.parse import unquote

from litestar.types import Scope

# In its place until the route is found. No path that was decoded has it, since it is no character by itself.
SLASH = "\udc2f"


def parted(scope: Scope) -> str:
    """The path, with SLASH for each slash of a name; the path as it is if the server does not say what was sent."""
    path, raw = scope["path"], scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return path
    parts = raw.decode("latin-1").partition("?")[0].split("/")
    found = "/".join(unquote(part).replace("/", SLASH) for part in parts)
    # Somebody before us may have taken a prefix away from one of them alone.
    return found[-len(path) :] if whole(found).endswith(path) else path


def whole(text: str) -> str:
    return text.replace(SLASH, "/")


def found(scope: Scope) -> None:
    """The route is known: names are themselves again."""
    if SLASH in scope["path"]:
        scope["path"] = whole(scope["path"])
        # A new one: the framework keeps that dictionary for the next request.
        scope["path_params"] = {
            name: whole(value) if isinstance(value, str) else value for name, value in scope["path_params"].items()
        }
