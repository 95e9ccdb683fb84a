"""Middleware: layers around a run, one per module, composed into an onion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ..codec import is_async
from ..errors import BadTask
from ..task.context import Context, Middleware, Next, ThreadMiddleware, ThreadNext

__all__ = ["Middleware", "Next", "ThreadMiddleware", "ThreadNext"]


class RunLayers(Protocol):
    """The layers around the runs of an app."""

    middleware: list[Middleware]
    thread_middleware: list[ThreadMiddleware]
    child_setup: Callable[[], tuple[str, str]] | None
    """Returns the `setup` of requests to child processes."""


def onion(layers: Sequence[Middleware], core: Next) -> Next:
    """Composes the layers around `core`; the first layer is the outermost."""
    for layer in reversed(layers):
        core = _around(layer, core)
    return core


def _around(layer: Middleware, inner: Next) -> Next:
    return lambda ctx: layer(ctx, inner)


def checked_thread_middleware(layers: Sequence[ThreadMiddleware]) -> tuple[ThreadMiddleware, ...]:
    """The layers. Raises BadTask for one that is no plain function: nothing awaits it in a thread."""
    for layer in layers:
        if not callable(layer) or is_async(layer):
            raise BadTask(
                f"thread_middleware is a list of plain `def layer(ctx, call_next)` functions, got {layer!r:.80}; "
                "an `async def` one goes into middleware="
            )
    return tuple(layers)


def within_layers(layers: Sequence[ThreadMiddleware], ctx: Context, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call inside the layers, for the thread that makes it."""

    def innermost(ctx: Context) -> Any:
        return call()

    inner: ThreadNext = innermost
    for layer in reversed(layers):
        inner = partial(_call_layer, layer, inner)
    return partial(inner, ctx)


def _call_layer(layer: ThreadMiddleware, inner: ThreadNext, ctx: Context) -> Any:
    return layer(ctx, inner)
