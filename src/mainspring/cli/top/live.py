"""The live view: looks at intervals, draws, and obeys keys meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from ...app import Mainspring
from ..failure import Failed
from .frame import Frame
from .scene import look
from .terminal import QUIT, Terminal
from .view import TopView

# A look that takes long is followed by a pause this many times as long: looking costs the store a tenth at most.
EASE = 9.0


async def live(app: Mainspring, interval: float, console: Console) -> None:
    """Until q is pressed."""
    view, quit = TopView(interval=interval), asyncio.Event()

    def draw() -> None:
        terminal.show(Frame(view))

    def pressed(key: str) -> None:
        if key == QUIT:
            quit.set()
        else:
            view.press(key)
            draw()

    terminal = Terminal(console, pressed, draw)
    with _quiet(), terminal:
        draw()
        await _until(quit, refresh(app, view, draw))
    if view.scene is None and view.trouble:
        raise Failed(view.trouble)


async def refresh(app: Mainspring, view: TopView, draw: Callable[[], object]) -> None:
    """Looks, one round each interval and none while paused; never ends by itself."""
    while True:
        pause = view.interval
        if not view.paused:
            began = app.clock.monotonic()
            view.see(await look(app))
            pause = max(pause, EASE * (app.clock.monotonic() - began))
            draw()
        await app.clock.sleep(pause)


async def _until(over: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Works until it is over; an error of the work ends it too, and is raised."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        waiting.cancel()
        working.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Log lines would tear the picture."""
    logger = logging.getLogger("mainspring")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
