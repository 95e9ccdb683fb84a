"""Puts on the demo: a store, the shop, its worker and customers, until somebody ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory

from ..app import Mainspring
from ..cli import render
from ..clock import Alarm
from ..errors import StoreUnavailable
from ..supervisor.signals import on_stop
from ..survived_errors import SurvivedErrors
from .app import shop
from .feeder import feed
from .scene import look
from .summary import summary
from .tally import DemoTally
from .view import LiveView, PlainView, View

_unseen = SurvivedErrors("demo", "the screen shows what was there before")
SLOTS = 20


async def play(store: str | None, *, seconds: float | None, plain: bool) -> None:
    """Runs the demo and prints its summary."""
    console = render.console(plain=plain)
    view = PlainView(console) if plain else LiveView(console)
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        url = store or f"sqlite:///{stack.enter_context(TemporaryDirectory(prefix='mainspring-demo-'))}/demo.db"
        app = shop(url)
        tally = DemoTally(app)
        async with app:
            with view:
                await Stage(app, tally, view).run(seconds)
            left, schedules = await app.stats(), await app.schedules.list()
    console.print(*summary(tally, left, schedules, kept=store), sep="\n")


class Stage:
    """A worker and a feeder in one process, and a view of them."""

    def __init__(self, app: Mainspring, tally: DemoTally, view: View) -> None:
        self._app = app
        self._tally = tally
        self._view = view
        self._worker = app.worker(concurrency=SLOTS)
        self._alarm = Alarm(app.clock)
        self._ending = False
        self._hurry: asyncio.Task[None] | None = None

    async def run(self, seconds: float | None) -> None:
        """Until `seconds` are over or a signal comes; then drains. A second signal does not wait for jobs."""
        timer = None if seconds is None else self._app.clock.call_later(seconds, self._end)
        with on_stop(self._on_signal):
            async with self._worker:
                await self._feed()
                if timer is not None:
                    timer.cancel()
                stopping = asyncio.create_task(self._worker.stop())
                stopping.add_done_callback(lambda _: self._alarm.ring())
                await self._watch(stopping.done, draining=True)

    async def _feed(self) -> None:
        feeding = asyncio.create_task(feed(self._app))
        feeding.add_done_callback(lambda _: self._alarm.ring())
        try:
            await self._watch(lambda: self._ending or feeding.done(), draining=False)
        finally:
            feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding

    async def _watch(self, over: Callable[[], bool], *, draining: bool) -> None:
        while not over():
            with _unseen.survive(StoreUnavailable):
                self._view.show(await look(self._app, self._worker, SLOTS, self._tally, draining=draining))
            await self._alarm.wait(self._view.every)

    def _end(self) -> None:
        self._ending = True
        self._alarm.ring()

    def _on_signal(self) -> None:
        if self._ending:
            self._hurry = asyncio.create_task(self._worker.stop(grace=0))
        self._end()


@contextmanager
def _quiet() -> Iterator[None]:
    """Failures are part of the view; as log lines they would tear it."""
    logger = logging.getLogger("mainspring")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
