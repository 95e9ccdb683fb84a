"""The PostgreSQL store on every release it is for: a handful of each verb; the whole contract runs on a chosen one."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from filled import fill, told
from further import MILD, after

from mainspring.records.job import Action, State
from mainspring.records.outcome import Done
from mainspring.records.query import Filter
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres.doctor import MIN_SERVER_VERSION
from mainspring.stores.postgres.schema import MIGRATIONS
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    a_schedule,
    act,
    all_jobs,
    beat,
    claim,
    finish_run,
    fire,
    job_in_state,
    later,
    new_job,
    put,
    read_schedule,
    start,
    tick_job,
)
from servers import RELEASES, Postgres


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Iterator[tuple[str, Postgres]]:
    server = Postgres(request.param)
    try:
        yield request.param, server
    finally:
        server.close()


def test_the_oldest_tested_release_is_the_minimum_of_the_doctor() -> None:
    assert int(min(RELEASES)) * 10_000 == MIN_SERVER_VERSION


class TestReleases(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, release: tuple[str, Postgres]) -> None:
        self.release, self.server = release
        self.url = self.server.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    async def test_doctor_reports_the_release_of_the_server(self) -> None:
        async with self.opened() as store:
            found = next(finding for finding in await store.diagnose() if finding.about == "PostgreSQL")
            assert (found.verdict, found.text.split(".")[0]) == ("ok", self.release)

    async def test_live_rows_survive_migration_down_and_up(self) -> None:
        url = self.server.own("own")
        store = PostgresStore(PostgresUrl(url, url), migrations=after(MIGRATIONS, MILD))
        await store.open()
        running = await fill(store)
        before = await told(store)
        await store.migrate(1)
        await store.migrate()
        assert await told(store) == before
        assert await finish_run(store, running, Done()) == {running.id}
        await store.migrate(0)
        await store.close()

    async def test_concurrent_enqueues_with_one_unique_key_make_one_job(self) -> None:
        async with self.opened() as store:
            answers = await asyncio.gather(*(put(store, new_job(unique_key="key")) for _ in range(20)))
            assert len({id for ids in answers for id in ids}) == len(await all_jobs(store)) == 1

    async def test_claims_share_no_job_and_follow_the_priority(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(priority=n % 3) for n in range(30)))
            await beat(store)
            first = [job.id for job in (await claim(store, limit=10)).jobs]
            assert first == ids[2::3]
            rest = await asyncio.gather(*(claim(store, limit=5) for _ in range(4)))
            assert sorted(first + [job.id for taken in rest for job in taken.jobs]) == sorted(ids)

    async def test_a_late_outcome_of_a_finished_run_is_refused(self) -> None:
        async with self.opened() as store:
            job = await start(store, tags=("x",))
            assert await finish_run(store, job, Done('"yes"')) == {job.id}
            assert await finish_run(store, job, ValueError("late"), now=later(9)) == set()
            (only,) = await store.jobs(Filter(tags=("x",)), now=NOW, limit=9)
            assert (only.state, only.result) == (State.COMPLETED, '"yes"')

    async def test_concurrent_fires_of_a_schedule_fire_it_once(self) -> None:
        async with self.opened() as store:
            new = a_schedule()
            fired = await asyncio.gather(*(fire(store, new, jobs=(tick_job(new),)) for _ in range(5)))
            assert sum(one.stands for one in fired) == 1
            assert ((await read_schedule(store)).name, len(await all_jobs(store))) == ("hourly", 1)

    async def test_retry_and_cancel_change_the_state_of_jobs(self) -> None:
        async with self.opened() as store:
            dead, waiting = await job_in_state(store, State.DEAD), await job_in_state(store, State.PENDING)
            assert (await act(store, Action.RETRY, dead.id)).done == [dead.id]
            assert (await act(store, Action.CANCEL, waiting.id)).done == [waiting.id]
            assert {job.id: job.state for job in await all_jobs(store)} == {
                dead.id: State.PENDING,
                waiting.id: State.CANCELLED,
            }

    async def test_finished_jobs_beyond_the_number_to_keep_are_found_and_deleted(self) -> None:
        async with self.opened() as store:
            done = [await job_in_state(store, State.COMPLETED) for _ in range(3)]
            old = await store.prunable(State.COMPLETED, "task", keep=1, before=NOW + timedelta(days=1), limit=9)
            await act(store, Action.DELETE, *(job.id for job in old))
            assert [job.id for job in await all_jobs(store)] == [done[-1].id]

    async def test_wait_ends_when_another_handle_enqueues(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(10):
            await left.wait("claimable", 50)  # ends when it begins to listen
            waiting = asyncio.create_task(left.wait("claimable", 50))
            while not waiting.done():
                await put(right, new_job())
                await asyncio.wait([waiting], timeout=0.02)
