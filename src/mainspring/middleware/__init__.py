"""Policies around a run, one a file, composed once into an onion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..context import Context

Next = Callable[[Context], Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]


def onion(layers: Sequence[Middleware], core: Next) -> Next:
    """The first layer is the outermost."""
    for layer in reversed(layers):
        core = _around(layer, core)
    return core


def _around(layer: Middleware, inner: Next) -> Next:
    return lambda ctx: layer(ctx, inner)
