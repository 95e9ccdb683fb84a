"""Under another application's path."""

from __future__ import annotations

from litestar.types import ASGIApp, Receive, Scope, Send

from .path import SLASH, parted

# Where in a scope it stands under which path of another application we are.
ROOT = "mainspring.root"


class MountPath:
    """An application that sees paths from its own root on, wherever another one has put it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root: str = scope.get("root_path", "").rstrip("/")
        path = parted(scope) if "path" in scope else ""
        if root:
            inside = path == root or path.startswith(f"{root}/")  # a proxy may have taken it away already
            seen = (path.removeprefix(root) or "/") if inside else path
            scope = {**scope, "path": seen, "root_path": "", ROOT: root}  # type: ignore[assignment]
        elif SLASH in path:
            scope = {**scope, "path": path}  # type: ignore[assignment]
        await self._app(scope, receive, send)
