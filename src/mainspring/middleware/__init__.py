"""Policies around a run, one a file, composed once into an onion."""

from __future__ import annotations

from collections.abc import Sequence

from ..task.context import Middleware, Next

__all__ = ["Middleware", "Next"]


def onion(layers: Sequence[Middleware], core: Next) -> Next:
    """The first layer is the outermost."""
    for layer in reversed(layers):
        core = _around(layer, core)
    return core


def _around(layer: Middleware, inner: Next) -> Next:
    return lambda ctx: layer(ctx, inner)
