"""The path under which another ASGI application has mounted this one."""

from __future__ import annotations

from litestar.types import ASGIApp, Receive, Scope, Send

from .path import SLASH, path_with_escaped_slashes

# The key in an ASGI scope under which the mount path is stored.
ROOT = "mainspring.root"


class MountPath:
    """ASGI middleware that removes the mount path from the path of each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root: str = scope.get("root_path", "").rstrip("/")
        path = path_with_escaped_slashes(scope) if "path" in scope else ""
        if root:
            inside = path == root or path.startswith(f"{root}/")  # a proxy may have removed it already
            relative = (path.removeprefix(root) or "/") if inside else path
            scope = {**scope, "path": relative, "root_path": "", ROOT: root}  # type: ignore[assignment]
        elif SLASH in path:
            scope = {**scope, "path": path}  # type: ignore[assignment]
        await self._app(scope, receive, send)
