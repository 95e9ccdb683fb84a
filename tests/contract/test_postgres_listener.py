"""Notifications between processes on PostgreSQL: listening workers sleep, others poll, and both find every job."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import asyncpg
import pytest

from mainspring import Mainspring
from mainspring.insight.queue_depth import sample_once
from mainspring.records.outcome import Retry
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import listener as ear
from mainspring.stores.postgres import notifier as wire
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.testing.contract.build import beat, finish_run, later, new_job, put, start
from servers import Postgres

TERMINATE = "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.fresh()


def make(url: str | Store, **settings: Any) -> tuple[Mainspring, Any]:
    app = Mainspring(url, **settings)

    @app.task(name="echo")
    async def echo(text: str) -> str:
        return text

    return app, echo


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Store]:
    store = open_store(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def overheard(postgres: Postgres, url: str) -> AsyncIterator[list[str]]:
    """All notifications of the channel, as a list that grows."""
    connection, said = await asyncpg.connect(postgres.dsn), list[str]()
    await connection.add_listener(PostgresUrl(url, "").channel, lambda *call: said.append(call[3]))
    try:
        yield said
    finally:
        await connection.close()


async def listens(app: Mainspring) -> None:
    store = await app.connect()
    async with asyncio.timeout(20):
        while store.listening != "ok":
            await store.wait("claimable", 0.5)


async def silently(url: str, **fields: Any) -> str:
    """Enqueues without a notification: on a virtual clock no process waits for real time."""
    async with opened(url, clock=VirtualClock()) as store:
        (job_id,) = await put(store, new_job(task="echo", payload='{"text":"x"}', **fields))
    return job_id


# picking up


async def test_listening_worker_is_far_quicker_than_its_poll_interval(url: str) -> None:
    (client, ask), (server, _) = make(url), make(url, poll_interval=60)
    async with client, server, server.worker(), asyncio.timeout(20):
        await listens(server)
        assert await (await ask.enqueue("x")).result(timeout=9) == "x"


async def test_a_delayed_job_of_another_process_starts_at_its_time(url: str) -> None:
    (client, ask), (server, _) = make(url), make(url, poll_interval=60)
    async with client, server, server.worker(), asyncio.timeout(20):
        await listens(server)
        handle = await ask.using(delay=1).enqueue("x")
        await handle.result(timeout=9)
        job = await handle.job()
        assert job.started_at is not None
        assert timedelta(0) <= job.started_at - job.run_at < timedelta(seconds=0.5)


async def test_a_retry_starts_at_its_time(url: str) -> None:
    app = Mainspring(url, poll_interval=60)

    @app.task(max_retries=1, backoff=lambda _: 0.3)
    async def second_time_lucky() -> str:
        if not seen:
            seen.append(1)
            raise OSError
        return "lucky"

    seen: list[int] = []
    async with app, app.worker(), asyncio.timeout(20):
        await listens(app)
        assert await (await second_time_lucky.enqueue()).result(timeout=9) == "lucky"


async def test_a_worker_without_a_listener_finds_jobs_at_its_poll_interval(url: str) -> None:
    (client, ask), (server, _) = make(url), make(f"{url}&listen=off", poll_interval=0.2)
    async with client, server, server.worker() as worker, asyncio.timeout(20):
        for delay in (0, 0.5):
            assert await (await ask.using(delay=delay).enqueue("x")).result(timeout=9) == "x"
        assert not worker.deaf  # listening is off
        assert (await server.connect()).listening == "off"


async def test_a_worker_whose_listener_cannot_connect_finds_jobs_at_its_poll_interval(url: str) -> None:
    nowhere = f"{url}&listen=postgresql://ada@127.0.0.1:1/jobs"
    (client, ask), (server, _) = make(url), make(nowhere, poll_interval=0.2)
    async with client, server, server.worker() as worker, asyncio.timeout(20):
        assert await (await ask.enqueue("x")).result(timeout=9) == "x"
        while not worker.deaf:
            await (await server.connect()).wait("claimable", 0.1)


async def test_jobs_start_while_the_listener_connection_is_cut_repeatedly(postgres: Postgres, url: str) -> None:
    (client, ask), (server, _) = make(url), make(url, poll_interval=0.2)
    async with client, server, server.worker(), asyncio.timeout(30):
        for _ in range(5):
            await listens(server)
            await asyncio.to_thread(postgres.run, TERMINATE)
            assert await (await ask.enqueue("x")).result(timeout=9) == "x"
        await listens(server)


@pytest.mark.parametrize("turns", range(4))
async def test_store_can_be_closed_while_its_listener_checks_its_connection(url: str, turns: int) -> None:
    async with opened(url) as store:
        ear = cast(PostgresStore, store)._listener
        assert ear is not None
        ear.listen()
        while not ear._echo.is_set():
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)


async def test_waiters_wake_when_the_listener_fails(postgres: Postgres, url: str) -> None:
    app, _ = make(url)
    async with app, asyncio.timeout(20):
        await listens(app)
        store = await app.connect()
        waiting = asyncio.create_task(store.wait("claimable", 60))
        await asyncio.wait([waiting], timeout=0.05)
        await asyncio.to_thread(postgres.run, TERMINATE)
        await waiting


async def test_beat_finds_a_job_whose_notification_was_lost(url: str) -> None:
    app, _ = make(url, poll_interval=60, beat=0.2, lease=5)
    async with app, app.worker(), asyncio.timeout(20):
        await listens(app)
        job_id = await silently(url, run_at=app.clock.now())
        while (await app.jobs.get(job_id)).state != "completed":
            await (await app.connect()).wait("final", 0.1)


async def test_beat_finds_runs_of_silent_workers_without_a_sweep(url: str) -> None:
    app, echo = make(url, poll_interval=60, beat=0.2, lease=5, sweep=60)
    async with app, opened(url) as other, asyncio.timeout(20):
        handle, now = await echo.enqueue("x"), app.clock.now()
        await beat(other, "gone", until=now + timedelta(seconds=2), now=now)
        assert (await other.claim(None, worker="gone", tasks=["echo"], limit=1, now=now)).jobs
        async with app.worker():
            assert await handle.result(timeout=15) == "x"


# what is said


async def test_burst_of_jobs_sends_few_notifications(postgres: Postgres, url: str) -> None:
    async with opened(url) as store, overheard(postgres, url) as said:
        await asyncio.gather(*(put(store, new_job()) for _ in range(200)))
        await silence(said)
        assert 1 <= len(said) <= 40
        assert {tuple(text.split()[1:]) for text in said} == {("new",)}


async def test_job_due_much_later_sends_no_notification(postgres: Postgres, url: str) -> None:
    async with opened(url) as store, overheard(postgres, url) as said:
        await put(store, new_job(run_at=later(3600)), new_job(run_at=later(301)))
        await put(store, new_job(run_at=later(299)))
        await silence(said)
        assert len(said) == 1


async def test_retry_due_soon_sends_a_notification(postgres: Postgres, url: str) -> None:
    async with opened(url) as store:
        soon, late = await start(store), await start(store)
        async with overheard(postgres, url) as said:
            await finish_run(store, late, Retry(3600))
            await finish_run(store, soon, Retry(3))
            await silence(said)
    assert sorted(word for text in said for word in text.split()[1:] if word == "new") == ["new"]


async def silence(said: list[str]) -> None:
    """Waits until there were no notifications for a while."""
    known = -1
    async with asyncio.timeout(10):
        while known != len(said):
            known = len(said)
            await asyncio.sleep(0.2)


# rest


async def test_listening_worker_sends_no_queries(url: str) -> None:
    faults, asked = Faults(), Counter[str]()
    for verb in ("claim", "due", "orphaned", "finished_groups", "terms"):
        faults.when(verb, lambda verb=verb: bool(asked.update([verb])))  # type: ignore[misc]
    app, echo = make(cast(Store, FaultStore(open_store(url), faults)), poll_interval=0.05, beat=0.2, lease=5, sweep=0.2)
    async with app, app.worker(), asyncio.timeout(20):
        await listens(app)
        await (await echo.enqueue("x")).result(timeout=9)
        await beats(app, 3)
        asked.clear()
        await beats(app, 5)
        assert sum(asked.values()) <= 1


async def beats(app: Mainspring, count: int) -> None:
    """Waits for a number of further beats of the worker."""
    (worker,) = await app.workers.list()
    end = worker.info.beats + count
    while (await app.workers.list())[0].info.beats < end:
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_idle_worker_sends_less_than_five_queries_a_minute_beside_its_beat(postgres: Postgres, url: str) -> None:
    """Counted in the log of the server. A beat asks for the time, is one statement, and looks for due jobs.

    Another worker has counted the queues of these minutes: one of all workers does so once a minute.
    """
    asked = asyncio.run(_idle(postgres, url))
    beats = sum(text.startswith("WITH silent AS") for text in asked)
    beside = [text for text in asked if not _BEAT.match(text)]
    assert beats >= 10
    assert len(beside) < 5, beside


# The last one is how beats() of this test counts.
_BEAT = re.compile("SELECT clock_timestamp|WITH silent AS|WITH RECURSIVE groups|SELECT id, info, until, orders")


async def _idle(postgres: Postgres, url: str) -> list[str]:
    app, echo = make(url)
    postgres.run("ALTER ROLE tests SET log_statement = 'all'")
    try:
        async with app, app.worker():
            await listens(app)
            await (await echo.enqueue("x")).result(timeout=9)
            for minute in range(3):
                await sample_once(await app.connect(), app.clock.now() + timedelta(minutes=minute))
            await beats(app, 2)
            start = postgres.log.stat().st_size
            await beats(app, 12)
            text = postgres.log.read_bytes()[start:].decode()
    finally:
        postgres.run("ALTER ROLE tests RESET log_statement")
    return re.findall(r"LOG:  (?:statement|execute [^:]*): (.*)", text)


async def test_wake_ups_are_spread_by_the_number_of_workers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.listener.MAX_SPREAD_SECONDS", 0.5)
    monkeypatch.setattr("mainspring.stores.postgres.listener.random.uniform", lambda _, most: most)
    app, _ = make(url)
    async with app, opened(url) as other, asyncio.timeout(20):
        await listens(app)
        store, loop = await app.connect(), asyncio.get_running_loop()
        for crowd, least, most in ((1, 0.0, 0.4), (10_000, 0.5, 9.0)):
            cast(PostgresStore, store)._wakeups.live_workers = crowd
            waiting = asyncio.create_task(store.wait("claimable", 60))
            await asyncio.sleep(0)
            began = loop.time()
            await put(other, new_job())
            await waiting
            assert least <= loop.time() - began < most


async def test_listener_recovers_soon_after_one_lost_probe(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = ["elsewhere"]
    monkeypatch.setattr(ear, "ECHO_TIMEOUT_SECONDS", 2.0)
    monkeypatch.setattr(
        ear, "notify_alone", lambda channel, text: wire.notify_alone(lost.pop() if lost else channel, text)
    )
    async with opened(url) as store, asyncio.timeout(30):
        await store.wait("claimable", 0.01)
        assert store.listening != "ok"
        while store.listening != "ok":
            await store.wait("claimable", 0.1)
    assert not lost
