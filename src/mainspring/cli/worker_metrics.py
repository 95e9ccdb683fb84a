"""The metrics and health that `mainspring worker --metrics PORT` serves for its processes."""

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

# How often a supervised process sends its counters; a kill loses the counts since then.
REPORT_SECONDS = 2.0
# Host and port.
Address = tuple[str, int]


class ProcessCounters:
    """The counters of a worker: sent to the supervisor if there is one, else served."""

    def __init__(self, app: Mainspring) -> None:
        from ..metrics.timed_store import measure

        self._app = app
        self._counters = measure(app)

    def take(self) -> CounterSnapshot:
        """The counts since the last take, for the supervisor."""
        return self._counters.take()

    @asynccontextmanager
    async def reported(self, channel: SupervisorChannel | None, host: str, port: int) -> AsyncIterator[None]:
        """Sends or serves the counters during the block."""
        from ..metrics.process import watch_loop

        tasks = [asyncio.create_task(watch_loop(self._counters, self._app.clock))]
        if channel is not None:
            tasks.append(asyncio.create_task(self._send(channel)))
        try:
            if channel is not None:
                yield
            else:
                async with _served(self._app, host, port, self._counters.whole, self._health):
                    yield
        finally:
            for task in tasks:
                task.cancel()

    async def _health(self, store: bool) -> Health:
        return await self._app.health(store=store)

    async def _send(self, channel: SupervisorChannel) -> None:
        while True:
            await self._app.clock.sleep(REPORT_SECONDS)
            if not channel.has_unsent:
                channel.send(StatusMessage(counts=self.take()))


async def supervise_with_metrics(app: Mainspring, supervisor: Supervisor, host: str, port: int) -> None:
    """Runs the supervisor and serves the sum of all processes, dead ones included, so that no counter decreases."""
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
        await app.close()  # the first request has opened it, if there was one


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
