"""What `mainspring worker --metrics PORT` serves: the figures of its processes, and how they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import click

from ..app import Mainspring
from ..counters import CounterSnapshot
from ..health import Health
from ..supervisor.channel import StatusMessage, SupervisorChannel
from ..supervisor.supervisor import Supervisor

# Seconds between two words of a supervised process about what it has counted: what a kill takes along.
PERIOD = 2.0
# A host and a port.
Address = tuple[str, int]


class ProcessFigures:
    """What a worker counts; a supervised one tells its supervisor, any other serves it."""

    def __init__(self, app: Mainspring) -> None:
        from ..metrics.timed_store import measure

        self._app = app
        self._meter = measure(app)

    def take(self) -> CounterSnapshot:
        """What its supervisor does not know yet."""
        return self._meter.take()

    @asynccontextmanager
    async def kept(self, line: SupervisorChannel | None, host: str, port: int) -> AsyncIterator[None]:
        """While the worker works."""
        from ..metrics.process import watch_loop

        tasks = [asyncio.create_task(watch_loop(self._meter, self._app.clock))]
        if line is not None:
            tasks.append(asyncio.create_task(self._tell(line)))
        try:
            if line is not None:
                yield
            else:
                async with _served(self._app, host, port, self._meter.whole, self._health):
                    yield
        finally:
            for task in tasks:
                task.cancel()

    async def _health(self, store: bool) -> Health:
        return await self._app.health(store=store)

    async def _tell(self, line: SupervisorChannel) -> None:
        while True:
            await self._app.clock.sleep(PERIOD)
            if not line.has_unsent:
                line.send(StatusMessage(counts=self.take()))


async def supervise(app: Mainspring, supervisor: Supervisor, host: str, port: int) -> None:
    """Serves what all processes have counted together, those that are gone as well: no sum ever goes back."""
    from ..metrics.process import STARTS

    def counts() -> CounterSnapshot:
        whole = supervisor.counters.whole()
        whole.count(STARTS, "", supervisor.started)
        return whole

    async def health(store: bool) -> Health:
        missing = supervisor.missing()
        found = await app.health(store=store)
        return Health(found.live, found.ready and not missing, found.reasons + missing, found.notes)

    try:
        async with _served(app, host, port, counts, health):
            await supervisor.run()
    finally:
        await app.close()  # opened by the first who asked, if somebody did


@asynccontextmanager
async def _served(
    app: Mainspring,
    host: str,
    port: int,
    counts: Callable[[], CounterSnapshot],
    health: Callable[[bool], Awaitable[Health]],
) -> AsyncIterator[None]:
    from ..metrics.endpoint import Endpoint
    from ..metrics.pages import pages

    async with Endpoint(pages(app, counts, health)).serving(host, port) as endpoint:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"metrics at http://{shown}:{endpoint.port}/metrics")
        yield
