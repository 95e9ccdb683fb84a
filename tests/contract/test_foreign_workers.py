"""Workers of another app on the same store neither prune nor end jobs of tasks that they do not know."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Archived, Context, DeadLetter, Filter, Handle, Mainspring, Retention, State
from mainspring.testing import VirtualClock
from servers import Postgres, Redis


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: Postgres | Redis = request.getfixturevalue(request.param)
    return server.fresh()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime.now(UTC))


def webhook_only(url: str, clock: VirtualClock) -> Mainspring:
    """The worker of docs/webhooks.md that stands in another network: it keeps no history of its own."""
    return Mainspring(url, clock=clock, history_keep=0, history_days=0)


async def test_a_worker_prunes_only_jobs_of_its_own_tasks(url: str, clock: VirtualClock) -> None:
    archived: list[str] = []
    shop = Mainspring(url, clock=clock)

    @shop.task(retention=Retention(keep=0, age=timedelta(seconds=90)))
    async def work() -> None: ...

    @shop.archive
    def keep(leaving: Sequence[Archived]) -> None:
        archived.extend(one.job.id for one in leaving)

    other = webhook_only(url, clock)
    async with shop, other:
        handle = await work.enqueue()
        await shop.drain()
        async with other.worker(queues=["webhooks"]):
            await clock.elapse(minutes=3)
        assert [job.id for job in await shop.jobs.list()] == [handle.id]
        assert archived == []
        async with shop.worker():
            await clock.elapse(minutes=3)
        assert archived == [handle.id]
        assert list(await shop.jobs.list()) == []


async def test_prune_on_postgres_keeps_jobs_of_tasks_that_the_app_does_not_know(
    postgres: Postgres, clock: VirtualClock
) -> None:
    url = postgres.fresh()
    shop, other = Mainspring(url, clock=clock), Mainspring(url, clock=clock, history_keep=0, history_days=0)

    @shop.task
    async def work() -> None: ...

    @other.task
    async def rest() -> None: ...

    async with shop, other:
        kept = [handle.id for handle in await shop.enqueue_many(work.job() for _ in range(50))]
        await other.enqueue_many(rest.job() for _ in range(50))
        await shop.drain()
        await other.drain()
        clock.advance(days=40)
        assert await other.prune() == 50
        assert sorted(job.id for job in await shop.jobs.list(limit=100)) == sorted(kept)


async def crashed(app: Mainspring, task: str, clock: VirtualClock, times: int) -> str:
    """A job whose workers have crashed `times` times, the last one just now."""
    handle = await app.tasks[task].enqueue()
    store = await app.connect()
    for n in range(times):
        worker = app.worker()
        info = worker._info
        await store.beat(info, until=clock.now() + timedelta(seconds=30), now=clock.now())
        claim = await store.claim(None, worker=worker.id, tasks=[task], limit=1, now=clock.now())
        assert [job.id for job in claim.jobs] == [handle.id]
        clock.advance(seconds=31)
        if n < times - 1:
            await app.worker()._rescue.sweep(store)
    return handle.id


async def test_a_worker_ends_only_poison_pills_of_its_own_tasks(url: str, clock: VirtualClock) -> None:
    ran: list[str] = []
    letters: list[DeadLetter] = []
    shop = Mainspring(url, clock=clock, max_crashes=2)

    @shop.task
    async def poison(ctx: Context) -> None:
        ran.append(ctx.job.id)

    @shop.dead_letter
    async def bury(letter: DeadLetter) -> None:
        letters.append(letter)

    other = Mainspring(url, clock=clock, max_crashes=2)
    async with shop, other:
        job_id = await crashed(shop, "poison", clock, 2)
        async with other.worker(queues=["webhooks"]):
            await clock.elapse(minutes=1)
            job = await shop.jobs.get(job_id)
            assert (job.state, job.crashes) == (State.PENDING, 2)
            (reason,) = await shop.jobs.why(job_id)
            assert reason.code == "unknown_task"
        async with shop.worker():
            await clock.elapse(minutes=1)
        job = await shop.jobs.get(job_id)
        assert (job.state, job.crashes) == (State.DEAD, 2)
        assert job.failure is not None
        assert job.failure.type == "PoisonPill"
    assert ran == []
    assert [letter.job_id for letter in letters] == [job_id]


async def test_many_crashed_jobs_of_unknown_tasks_do_not_prevent_the_rescue_of_others(
    url: str, clock: VirtualClock
) -> None:
    shop, other = Mainspring(url, clock=clock, max_crashes=1), Mainspring(url, clock=clock, max_crashes=1)

    @shop.task
    async def unknown() -> None: ...

    @other.task
    async def known() -> None: ...

    async with shop, other:
        await shop.enqueue_many(unknown.job() for _ in range(300))
        store = await shop.connect()
        doomed = shop.worker()
        await store.beat(doomed._info, until=clock.now() + timedelta(seconds=30), now=clock.now())
        assert (
            len((await store.claim(None, worker=doomed.id, tasks=["unknown"], limit=300, now=clock.now())).jobs) == 300
        )
        await crashed(other, "known", clock, 1)
        async with other.worker():
            await clock.elapse(minutes=2)
        assert len(await shop.jobs.list(Filter(tasks=("known",), states=("dead",)))) == 1
        assert len(await shop.jobs.list(Filter(tasks=("unknown",), states=("retrying",)), limit=500)) == 300


async def test_prune_by_name_removes_jobs_of_a_task_that_no_app_knows(url: str, clock: VirtualClock) -> None:
    gone, shop = Mainspring(url, clock=clock), Mainspring(url, clock=clock, history_keep=0, history_days=1)

    @gone.task
    async def former() -> None: ...

    @shop.task
    async def present() -> None: ...

    async with gone, shop:
        await former.enqueue()
        await gone.drain()
        clock.advance(days=2)
        assert await shop.prune() == 0
        assert await shop.prune(["former"]) == 1


SHOP = """
import os
from mainspring import DeadLetter, Mainspring
app = Mainspring({url!r}, lease=2, beat=0.5, sweep=0.5, max_crashes=1)

@app.task
def poison() -> None:
    os.kill(os.getpid(), 9)

@app.dead_letter
async def bury(letter: DeadLetter) -> None:
    open({letters!r}, "a").write(letter.job_id + chr(10))
"""
BELLS = "from mainspring import Mainspring\napp = Mainspring({url!r}, lease=2, beat=0.5, sweep=0.5, max_crashes=1)\n"


async def test_processes_of_two_apps_send_one_dead_letter_for_a_job_that_kills_its_worker(tmp_path: Path) -> None:
    url, letters = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "letters"
    tmp_path.joinpath("shop.py").write_text(SHOP.format(url=url, letters=str(letters)))
    tmp_path.joinpath("bells.py").write_text(BELLS.format(url=url))
    app = Mainspring(url)

    def worker(of: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mainspring.cli", "worker", f"{of}:app", *options]
        return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "."})

    async def until(handle: Handle[object], state: State) -> None:
        while (await handle.job()).state is not state:
            await (await app.connect()).wait("final", 0.1)

    async with app, asyncio.timeout(60):
        (handle,) = await app.enqueue_many([app.job("poison", {})])
        bells, shop = worker("bells", "--queues", "webhooks"), worker("shop")
        try:
            assert await asyncio.to_thread(shop.wait) == -signal.SIGKILL
            await until(handle, State.PENDING)  # the other app has released it
            assert not letters.exists()
            shop = worker("shop")
            await until(handle, State.DEAD)
            while not letters.exists() or not letters.read_text():  # the file is there before its line is
                await (await app.connect()).wait("final", 0.1)
            assert letters.read_text() == f"{handle.id}\n"
        finally:
            for process in (bells, shop):
                process.kill()
                process.wait()
