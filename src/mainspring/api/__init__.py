"""REST over the app, and nothing else."""

from __future__ import annotations

from .service import asgi

__all__ = ["asgi"]
