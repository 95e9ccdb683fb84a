"""Middleware: layers around a run, one per module, composed into an onion."""

from __future__ import annotations

from collections.abc import Sequence

from ..task.context import Middleware, Next

__all__ = ["Middleware", "Next"]


def onion(layers: Sequence[Middleware], core: Next) -> Next:
    """Composes the layers around `core`; the first layer is the outermost."""
    for layer in reversed(layers):
        core = _around(layer, core)
    return core


def _around(layer: Middleware, inner: Next) -> Next:
    return lambda ctx: layer(ctx, inner)
