"""Live events over HTTP: reconnecting readers miss nothing, slow readers are disconnected, limits hold."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import foreign
import httpx
import laborer
import pytest
from http_client import Client
from sse import TIMEOUT_SECONDS, Site, Stream, Told, serving

from mainspring import Mainspring
from mainspring.api.event_stream import MAX_PRINCIPAL_STREAMS, Streams
from mainspring.api.problem import Problem
from mainspring.api.sse import HEARTBEAT_SECONDS, MAX_STREAM_SECONDS, SEND_TIMEOUT_SECONDS
from mainspring.feed.event import FeedEvent, Summary, encode
from mainspring.feed.hub import MAX_BUFFERED_EVENTS
from mainspring.records.feed import MIN_FEED_ITEMS
from mainspring.testing import VirtualClock
from servers import Postgres, Redis

JOBS = 400


# reconnecting


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: Postgres | Redis = request.getfixturevalue(request.param)
    return server.fresh("feed")


@asynccontextmanager
async def another_process(store: str) -> AsyncIterator[None]:
    """A worker in the other process."""
    command = [sys.executable, laborer.__file__, store]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await process.wait() == 0


@asynccontextmanager
async def this_process(app: Mainspring) -> AsyncIterator[None]:
    async with app.worker():
        yield


async def test_a_reconnecting_reader_misses_no_event_of_another_process(store: str) -> None:
    await comes_and_goes(laborer.make(store), lambda: another_process(store))


async def test_a_reconnecting_reader_misses_no_event_of_this_process() -> None:
    app = laborer.make("memory://")
    await comes_and_goes(app, lambda: this_process(app))


async def comes_and_goes(app: Mainspring, working: Callable[[], Any]) -> None:
    """A reader disconnects now and then while jobs are enqueued and run; it sees each number and each run once."""
    seen: list[Told] = []
    async with serving(app) as site, AsyncExitStack() as stack:
        async with site.events(type="worker") as first:
            await stack.enter_async_context(working())
            seen.append(await first.next("worker.started"))
            last = first.last
        enqueueing = asyncio.ensure_future(enqueue(app))
        visits = 0
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not complete(seen):
                visits += 1
                async with site.events(last=last, type="job") as stream:
                    for _ in range(random.Random(visits).randint(1, 200)):
                        if not complete(seen):
                            seen.append(await stream.next())
                    last = stream.last
        await enqueueing
    numbers = [told.id for told in seen]
    assert numbers == sorted(set(numbers), key=lambda n: n or 0)
    assert {told.data["reason"] for told in seen if told.type == "reset"} <= {"settled"}
    assert visits > 5
    for type in LIFE_OF_A_JOB:
        runs = Counter(told.data["job"]["id"] for told in seen if told.type == type)
        assert (len(runs), set(runs.values())) == (JOBS, {1}), type


LIFE_OF_A_JOB = ("job.enqueued", "job.started", "job.completed")


def complete(seen: list[Told]) -> bool:
    counts = Counter(told.type for told in seen)
    return all(counts[type] >= JOBS for type in LIFE_OF_A_JOB)


async def enqueue(app: Mainspring) -> None:
    work = app.tasks["work"]
    for n in range(0, JOBS, 20):
        await app.enqueue_many(work.job(n + i) for i in range(20))
        await asyncio.sleep(0)


# with a virtual clock


async def publish(app: Mainspring, *notices: FeedEvent) -> None:
    await (await app.connect()).publish([encode(notice) for notice in notices], now=app.clock.now())


def about(app: Mainspring, type: str, n: int = 1, **more: Any) -> FeedEvent:
    return FeedEvent(type=type, at=app.clock.now(), queue=f"q{n}", **more)


@asynccontextmanager
async def passing(clock: VirtualClock) -> AsyncIterator[None]:
    """Advances the clock by a tenth of a second at a time until the block ends."""

    async def pass_on() -> None:
        while True:
            await clock.elapse(seconds=0.1)
            await asyncio.sleep(0)

    going = asyncio.ensure_future(pass_on())
    try:
        yield
    finally:
        going.cancel()


async def test_the_event_stream_is_not_cached(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        first = await stream.block()
        assert first is not None
        assert (first.type, first.id, stream.last) == ("heartbeat", 1, 1)


async def test_an_event_has_its_number_its_type_and_its_data(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as stream, passing(clock), spring.worker():
        handle = await spring.tasks["send"].enqueue("ada", token="hunter2")
        told = [await stream.next() for _ in range(5)]
        assert [one.type for one in told] == [
            "worker.started",
            "job.enqueued",
            "job.started",
            "job.log",
            "job.completed",
        ]
        assert [one.id for one in told] == [2, 3, 4, 5, 6]
        assert [one.data["type"] for one in told] == [one.type for one in told]
        assert {one.data["job"]["id"] for one in told[1:]} == {handle.id}
        assert told[3].data["line"]["text"] == "sending to ada"
        assert "hunter2" not in str(told)


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4]),
    ({"type": "job"}, [2, 3]),
    ({"type": ["job.dead", "queue"]}, [1, 3]),
    ({"type": "job.failed"}, [3]),
    ({"job": "j2"}, [2]),
    ({"queue": ["q1", "mail"]}, [1, 2]),
    ({"task": "send"}, [2, 3]),
    ({"schedule": "daily"}, [4]),
    ({"state": "dead"}, [3]),
    ({"task": "send", "state": ["running", "pending"]}, [2]),
]


async def test_event_filters(spring: Mainspring, clock: VirtualClock) -> None:
    now = clock.now()
    some = [
        about(spring, "queue.paused", 1),
        FeedEvent(type="job.started", at=now, job=Summary(id="j2", task="send", queue="mail", state="running")),
        FeedEvent(type="job.dead", at=now, job=Summary(id="j3", task="send", queue="slow", state="dead")),
        FeedEvent(type="schedule.fired", at=now, schedule="daily"),
        FeedEvent(type="dropped", at=now, count=1),
    ]
    async with serving(spring) as site, site.events() as first:
        await first.block()
        await publish(spring, *some)
        await clock.elapse(seconds=1)
        for filters, wanted in FILTERS:
            async with site.events(last=1, **filters) as stream:
                found = []
                while (told := await stream.next()).type != "dropped":
                    found.append((told.id or 0) - 1)
                assert found == wanted, filters


REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({"type": "job.strated"}, 400, "there is no event type 'job.strated'; did you mean 'job.started'?"),
    ({"types": "job"}, 400, "has no parameter 'types'"),
    ({"state": "done"}, 400, "Invalid enum value 'done'"),
    ({"last_event_id": "-1"}, 400, ">= 0"),
]


async def test_an_invalid_event_filter_is_refused(client: Client) -> None:
    async with client("viewer") as http:
        for filters, status, words in REFUSED:
            answer = await http.get("/events", params=filters)
            assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
        answer = await http.get("/events", headers={"Last-Event-ID": "seven"})
        assert answer.status_code == 400


async def test_events_need_the_scope_events_read(client: Client) -> None:
    async with client(None) as http:
        assert (await http.get("/events")).status_code == 401
    async with client("admin", scopes=["jobs:read"]) as http:
        assert (await http.get("/events")).status_code == 403


async def test_last_event_id_as_a_query_parameter(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as first:
        await first.block()
        await publish(spring, about(spring, "queue.paused", 1), about(spring, "queue.paused", 2))
        await clock.elapse(seconds=1)
        async with site.events(last_event_id=2) as stream:
            assert (await stream.next()).id == 3
        async with site.events(last_event_id=2, last=1) as stream:
            assert (await stream.next()).id == 2


async def test_a_reader_that_was_away_too_long_gets_a_reset(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as first:
        await first.block()
        await publish(spring, *[about(spring, "queue.paused")] * (MIN_FEED_ITEMS + 5))
        async with site.events(last=2) as stream:
            reset = await stream.next()
            assert (reset.type, reset.data["reason"], reset.id) == ("reset", "too_old", MIN_FEED_ITEMS + 6)
        async with site.events(last=10**9) as stream:
            reset = await stream.next()
            assert (reset.type, reset.data["reason"]) == ("reset", "began_anew")


async def test_a_reader_gets_a_reset_if_the_feed_was_unwatched_meanwhile(
    spring: Mainspring, clock: VirtualClock
) -> None:
    async with serving(spring) as site:
        async with site.events() as stream:
            await stream.block()
            last = stream.last
        await clock.elapse(minutes=5)
        await spring.queues.pause("mail")
        async with site.events(last=last) as stream:
            reset = await stream.next()
            assert (reset.type, reset.data["reason"]) == ("reset", "unwatched")


async def test_no_event_is_published_without_a_reader(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring), spring.worker():
        await spring.tasks["send"].enqueue("ada")
        await clock.elapse(seconds=30)
        assert (await (await spring.connect()).news(after=0, limit=1)).last == 0


async def test_heartbeats_of_a_quiet_stream_carry_the_last_event_number(
    spring: Mainspring, clock: VirtualClock
) -> None:
    async with serving(spring) as site, site.events(type="worker") as stream:
        await stream.block()
        await clock.elapse(seconds=8)  # the last reset of a watch that has just begun
        assert (await stream.next()).type == "reset"
        await publish(spring, *[about(spring, "queue.paused")] * 3)
        for _ in range(2):
            await clock.elapse(seconds=HEARTBEAT_SECONDS)
            beat = await stream.block()
            assert beat is not None
            assert (beat.type, beat.data, beat.id, stream.last) == (
                "heartbeat", {"type": "heartbeat", "seconds": HEARTBEAT_SECONDS}, 5, 5,
            )  # fmt: skip


async def test_a_stream_ends_after_its_maximum_age(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as stream:
        await stream.block()
        await clock.elapse(seconds=MAX_STREAM_SECONDS + 1)
        *_, closing = await stream.rest()
        assert (closing.type, closing.data["reason"]) == ("closing", "age")


# limits


async def test_streams_of_one_principal_are_limited(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(site.events()) for _ in range(MAX_PRINCIPAL_STREAMS)]
        answer = await site.http.get("/events")
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
        assert answer.headers["retry-after"] == "2"
        other = {"Authorization": f"Bearer {await spring.keys.create('other', 'viewer')}"}
        async with site.http.stream("GET", "/events", headers=other) as response:
            assert response.status_code == 200
        assert len(streams) == MAX_PRINCIPAL_STREAMS


async def test_an_ended_stream_no_longer_counts_toward_the_limit(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site:
        async with AsyncExitStack() as stack:
            for _ in range(MAX_PRINCIPAL_STREAMS):
                await (await stack.enter_async_context(site.events())).block()
        status = 429
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while status == 429:  # until the server has noticed that they are closed
                async with site.http.stream("GET", "/events") as response:
                    status = response.status_code
        assert status == 200


def test_streams_of_a_process_are_limited(spring: Mainspring) -> None:
    streams = Streams(spring, max_total=2)
    with streams.counted("ada"), streams.counted("bob"):
        with pytest.raises(Problem) as full, streams.counted("eve"):
            pass
        assert (full.value.status, full.value.code) == (503, "streams_full")
    with streams.counted("eve"), streams.counted("eve"):
        pass


# slow readers

END = b"\r\n0\r\n\r\n"


async def unread(site: Site) -> socket.socket:
    """A client that has requested events, has received the start of the stream, and then stops reading."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", site.port))
    headers = "".join(f"{name}: {value}\r\n" for name, value in site.headers.items())
    await loop.sock_sendall(client, f"GET /api/v1/events HTTP/1.1\r\nHost: here\r\n{headers}\r\n".encode())
    begun = b""
    while b"retry: " not in begun:
        begun += await loop.sock_recv(client, 100)
    return client


async def swallow(client: socket.socket) -> bytes:
    """All bytes that the client was sent, until the response is complete or the server closes."""
    found, some = b"", b"-"
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while some and not found.endswith(END):
            found += (some := await asyncio.get_running_loop().sock_recv(client, 1 << 20))
    return found


def long(app: Mainspring) -> list[FeedEvent]:
    return [about(app, "queue.paused", n, reason="x" * 200) for n in range(1000)]


async def test_a_reader_that_does_not_read_is_disconnected(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring, buffer=32768) as site, site.events(type="job") as other:
        await other.block()
        slow = await unread(site)
        await clock.elapse(seconds=1)
        await publish(spring, *long(spring))
        await clock.elapse(seconds=1)
        async with spring.worker():
            handle = await spring.tasks["send"].enqueue("ada")
            await clock.elapse(seconds=1)
            assert (await handle.job()).state == "completed"
        assert (await other.next("job.completed")).data["job"]["id"] == handle.id
        await clock.elapse(seconds=2 * SEND_TIMEOUT_SECONDS)
        taken = await swallow(slow)
        assert not taken.endswith(END)
        assert taken.count(b"queue.paused") < 1000
        slow.close()
        await publish(spring, about(spring, "job.pruned"))
        await clock.elapse(seconds=1)
        assert (await other.next("job.pruned")).type == "job.pruned"


async def test_a_lagging_reader_is_disconnected_and_may_reconnect(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring, buffer=32768) as site, site.events() as quick:
        slow = await unread(site)
        await clock.elapse(seconds=0.5)
        for _ in range(MAX_BUFFERED_EVENTS // 1000 + 2):
            await publish(spring, *long(spring))
            await clock.elapse(seconds=0.5)
            await quick.next()
        taken = await swallow(slow)
        assert taken.endswith(END)
        assert b'event: closing\ndata: {"type": "closing", "reason": "too_slow"}' in taken[-200:]
        slow.close()
        async with site.events(last=MAX_BUFFERED_EVENTS) as returned:
            assert (await returned.next()).id == MAX_BUFFERED_EVENTS + 1


# shutdown


async def test_a_server_that_stops_does_not_wait_for_its_streams(spring: Mainspring, clock: VirtualClock) -> None:
    async with serving(spring) as site, site.events() as stream:
        await stream.block()
        site.stop()
        async with passing(clock):
            *_, closing = await stream.rest()
        assert (closing.type, closing.data["reason"]) == ("closing", "stopping")


async def test_a_server_that_stops_does_not_wait_for_a_reader_that_does_not_read(
    spring: Mainspring, clock: VirtualClock
) -> None:
    async with serving(spring, buffer=32768) as site:
        slow = await unread(site)
        await publish(spring, *long(spring))
        await clock.elapse(seconds=1)
        site.stop()
        await clock.elapse(seconds=1)
    slow.close()


async def test_another_asgi_server_that_stops_does_not_wait_for_streams() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, foreign.__file__, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        async with (
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=TIMEOUT_SECONDS) as http,
            http.stream("GET", "/events") as response,
        ):
            stream = Stream(response)
            await stream.block()
            process.send_signal(signal.SIGTERM)
            *_, closing = await stream.rest()
            assert (closing.type, closing.data["reason"]) == ("closing", "stopping")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
