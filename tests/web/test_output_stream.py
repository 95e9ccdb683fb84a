"""The output of a job as server-sent events: readers come back, are told of retries, and are let go at the end."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from http_client import Client
from sse import TIMEOUT_SECONDS, Site, Told, serving

from mainspring import Context, Mainspring
from mainspring.api.event_stream import MAX_PRINCIPAL_STREAMS
from mainspring.api.sse import HEARTBEAT_SECONDS
from mainspring.testing import VirtualClock
from servers import Postgres, Redis

CHUNKS = 300


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in ("memory", "sqlite"):
        return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    server: Postgres | Redis = request.getfixturevalue(request.param)
    return server.fresh("output")


def shown(told: Told) -> tuple[int | None, str, Any]:
    return told.id, told.type, told.data.get("value", told.data.get("run", told.data.get("reason")))


async def test_a_reader_that_comes_and_goes_reads_each_chunk_once_in_order(store: str) -> None:
    app, chance = Mainspring(store, retry_initial_delay=0.01), random.Random(1)

    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        for n in range(CHUNKS):
            await ctx.write(n)
            await asyncio.sleep(0)
        if ctx.attempt == 1:
            raise ValueError

    async def follow(site: Site, id: str) -> list[Told]:
        """Reads a few blocks of each connection."""
        found: list[Told] = []
        last: int | None = None
        while True:
            async with site.output(id, last=last) as stream:
                for _ in range(chance.randint(1, 60)):
                    told = await stream.next()
                    if told.type == "closing":
                        return found
                    if told.type == "reset" and found and found[-1].type == "reset":
                        continue  # the connection before ended behind it
                    found.append(told)
                last = stream.last

    async with app, serving(app) as site, asyncio.timeout(TIMEOUT_SECONDS):
        handle = await work.enqueue()
        async with app.worker():
            found = await follow(site, handle.id)
        again = await site.http.get(
            f"/jobs/{handle.id}/output", headers={"Accept": "text/event-stream", "Last-Event-ID": str(2 * CHUNKS)}
        )
    assert [shown(told) for told in found] == [
        *((n + 1, "chunk", n) for n in range(CHUNKS)),
        (None, "reset", 2),
        *((CHUNKS + n + 1, "chunk", n) for n in range(CHUNKS)),
    ]
    assert again.status_code == 204


async def test_a_stream_begins_beyond_a_number_and_ends_with_its_job() -> None:
    app = Mainspring("memory://")

    @app.task
    async def work(ctx: Context) -> None:
        for value in ("one", {"password": "hush"}, "three"):
            await ctx.write(value)

    async with app, serving(app) as site:
        handle = await work.enqueue()
        await app.drain()
        async with site.output(handle.id, after=1) as stream:
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            begin, *rest = await stream.rest()
        assert (begin.id, begin.type) == (1, "heartbeat")
        assert [shown(told) for told in rest] == [
            (2, "chunk", {"password": "***"}),
            (3, "chunk", "three"),
            (None, "closing", "ended"),
        ]
        assert rest[0].data.keys() == {"n", "run", "at", "value", "full", "resumed"}


async def test_a_client_that_stopped_at_the_end_of_a_run_is_told_of_the_next() -> None:
    app = Mainspring("memory://", retry_initial_delay=0.01)

    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        await ctx.write(f"try {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError

    async with app, serving(app) as site, app.worker():
        handle = await work.enqueue()
        await handle.result()
        async with site.output(handle.id, last=1) as stream:
            _, *rest = await stream.rest()
    assert [shown(told) for told in rest] == [
        (None, "reset", 2),
        (2, "chunk", "try 2"),
        (None, "closing", "ended"),
    ]


async def test_an_idle_stream_beats_and_a_stopping_server_closes_it(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock)

    @app.task
    async def work() -> None: ...

    async with app, serving(app) as site:
        handle = await work.enqueue()
        async with site.output(handle.id) as stream:
            await stream.block()
            await clock.elapse(seconds=HEARTBEAT_SECONDS + 2)
            beat = await stream.block()
            assert beat is not None
            assert beat.type == "heartbeat"
            site.stop()
            await clock.elapse(seconds=3)
            assert (await stream.next()).data == {"type": "closing", "reason": "stopping"}


async def test_a_stream_of_a_deleted_job_ends(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock)

    @app.task
    async def work() -> None: ...

    async with app, serving(app) as site:
        handle = await work.enqueue()
        async with site.output(handle.id) as stream:
            await stream.block()
            await app.jobs.delete(handle.id)
            await clock.elapse(seconds=3)
            assert (await stream.next()).data == {"type": "closing", "reason": "deleted"}


async def test_streams_of_output_count_as_streams_of_events(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock)

    @app.task
    async def work() -> None: ...

    async with app, serving(app) as site, AsyncExitStack() as stack:
        handle = await work.enqueue()
        streams = [await stack.enter_async_context(site.output(handle.id)) for _ in range(MAX_PRINCIPAL_STREAMS)]
        refused = await site.http.get(f"/jobs/{handle.id}/output", headers={"Accept": "text/event-stream"})
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert len(streams) == MAX_PRINCIPAL_STREAMS


async def test_a_stream_of_an_unknown_job_is_404(client: Client) -> None:
    async with client("viewer") as http:
        answer = await http.get("/jobs/nope/output", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
