"""The live view: refreshes at an interval, and handles keys meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from ...app import Mainspring
from ..messages import Failed
from .frame import Frame
from .snapshot import take_snapshot
from .terminal import QUIT, Terminal
from .view import TopView

# The pause after a snapshot is at least this many times as long: reading takes at most a tenth of the time.
PAUSE_FACTOR = 9.0


async def live(app: Mainspring, interval: float, console: Console) -> None:
    """Shows the view until q is pressed. Raises Failed if the store never answered."""
    view, quit = TopView(interval=interval), asyncio.Event()
    with quiet_log():
        await show(app, console, view, on_quit=quit.set, until=quit)
    if view.snapshot is None and view.trouble:
        raise Failed(view.trouble)


async def show(
    app: Mainspring, console: Console, view: TopView, *, on_quit: Callable[[], object], until: asyncio.Event
) -> None:
    """Takes the terminal and shows the view until the event is set. `on_quit` is called for q and for SIGTERM."""

    def draw() -> None:
        terminal.show(Frame(view))

    def pressed(key: str) -> None:
        if key == QUIT:
            on_quit()
        else:
            view.press(key)
        draw()

    terminal = Terminal(console, pressed, draw)
    with terminal:
        draw()
        await _run_until(until, refresh(app, view, draw))


async def refresh(app: Mainspring, view: TopView, draw: Callable[[], object]) -> None:
    """Takes a snapshot once per interval, but not while paused; never returns."""
    while True:
        pause = view.interval
        if not view.paused:
            started = app.clock.monotonic()
            view.update(await take_snapshot(app))
            pause = max(pause, PAUSE_FACTOR * (app.clock.monotonic() - started))
            draw()
        await app.clock.sleep(pause)


async def _run_until(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Runs the work until the event is set. Raises what the work raises."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        waiting.cancel()
        working.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Disables the log, whose lines would garble the screen."""
    logger = logging.getLogger("mainspring")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
