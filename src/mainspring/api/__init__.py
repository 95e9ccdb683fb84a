"""The REST API of an app, as an ASGI application."""

from __future__ import annotations

from .service import asgi

__all__ = ["asgi"]
