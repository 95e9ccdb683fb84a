"""A session of the demo: store, shop, worker and customers in this process, and a view of them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from tempfile import TemporaryDirectory

from rich.console import Console

from ...app import Mainspring
from ...clock import Alarm
from ...demo.app import shop
from ...demo.feeder import feed
from ...demo.tally import DemoTally
from ...errors import StoreUnavailable
from ...supervisor.signals import on_stop
from ...survived_errors import SurvivedErrors
from .. import render
from ..app_loader import store_name
from ..top.live import quiet_log, show
from ..top.view import TopView
from .summary import summary

_line_failed = SurvivedErrors("demo", "a line of figures is left out")
SLOTS = 20
LINE_SECONDS = 1.0
VIEW_SECONDS = 0.5


async def play(store: str | None, *, seconds: float | None, plain: bool) -> None:
    """Runs the demo and prints its summary."""
    console = render.console(plain=plain)
    with ExitStack() as stack:
        stack.enter_context(quiet_log())
        url = store or f"sqlite:///{stack.enter_context(TemporaryDirectory(prefix='mainspring-demo-'))}/demo.db"
        app = shop(url)
        tally = DemoTally(app)
        async with app:
            session = DemoSession(app, tally)
            await session.run(seconds, console, plain=plain)
            left, schedules = await app.stats(), await app.schedules.list()
    console.print(*summary(tally, left, schedules, kept=store), sep="\n")


class DemoSession:
    """A worker and a feeder, until stop(); then the worker drains."""

    def __init__(self, app: Mainspring, tally: DemoTally) -> None:
        self._app = app
        self._tally = tally
        self._worker = app.worker(concurrency=SLOTS)
        self._view = TopView(interval=VIEW_SECONDS, title="mainspring demo")
        self._alarm = Alarm(app.clock)
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._released: asyncio.Task[None] | None = None

    async def run(self, seconds: float | None, console: Console, *, plain: bool) -> None:
        """Works and shows it until `seconds` have passed or stop() is called, and until the worker has drained."""
        working = asyncio.create_task(self._work(seconds))
        working.add_done_callback(lambda _: self._end())
        try:
            if plain:
                await self._print_lines(console)
            else:
                await show(self._app, console, self._view, on_quit=self.stop, until=self._ended)
        except BaseException:
            working.cancel()
            raise
        await working

    def stop(self) -> None:
        """Stops the feeder and drains the worker. A second call releases the jobs that still run."""
        if self._stopping.is_set():
            self._released = asyncio.create_task(self._worker.stop(grace=0))
        self._stopping.set()
        self._view.note = "draining: Ctrl-C again ends it at once"
        self._alarm.ring()

    def _end(self) -> None:
        self._ended.set()
        self._alarm.ring()

    async def _work(self, seconds: float | None) -> None:
        timer = None if seconds is None else self._app.clock.call_later(seconds, self.stop)
        with on_stop(self.stop):
            async with self._worker:
                await self._feed()
                if timer is not None:
                    timer.cancel()
                await self._worker.stop()

    async def _feed(self) -> None:
        """Feeds the shop until stop(). Raises what the feeder raises."""
        feeding = asyncio.create_task(feed(self._app))
        feeding.add_done_callback(lambda _: self._stopping.set())
        try:
            await self._stopping.wait()
        finally:
            feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding

    # plain lines

    async def _print_lines(self, console: Console) -> None:
        """Prints a line a second, for pipes, logs and --plain."""
        draining = False
        _print(console, f"worker {self._worker.id} on {store_name(self._app)}, {SLOTS} slots; Ctrl-C ends it")
        while not self._ended.is_set():
            await self._alarm.wait(LINE_SECONDS)
            with _line_failed.survive(StoreUnavailable):
                if self._stopping.is_set() and not draining:
                    draining = True
                    running = (await self._app.stats()).running
                    _print(console, f"draining: {running} running may finish, nothing new is started")
                else:
                    _print(console, await self._line())

    async def _line(self) -> str:
        stats, total = await self._app.stats(), self._tally.total
        return (
            f"{self._tally.elapsed:3.0f}s {self._tally.rate():5.1f} jobs/s | done {total.completed} "
            f"retried {total.retried} dead {total.dead} | pending {stats.pending} scheduled {stats.scheduled} "
            f"running {stats.running}"
        )


def _print(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)
    console.file.flush()
