"""Items of maps on PostgreSQL: their plain ends are counted beside the flow's row, which moves for the last ones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from further import MILD, REAL, Placed, after
from msgspec.structs import replace
from test_postgres_schedules import Served, statements

from mainspring.errors import SchemaMismatch
from mainspring.ids import JobId
from mainspring.records.flow import Flow
from mainspring.records.job import Action, Job
from mainspring.records.outcome import Discard, Done, RunEnd, Suspend, decide
from mainspring.records.plan import Plan, ValueOf
from mainspring.records.query import Filter
from mainspring.store import Store
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import completions, item_counts, pool
from mainspring.stores.postgres.item_counts import MIN_COUNTED_ITEMS
from mainspring.stores.postgres.pool import SEPARATOR
from mainspring.stores.postgres.script import COUNTS_VERSION
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import NOW, act, beat, claim, finish_run, new_job, put, start
from mainspring.testing.contract.flow import DEAD, MAP, begin, flows_of, row_of, run_step, step_job, steps_of

# The schema of the release before counts.
BEFORE = Migrations(REAL.text.partition(f"-- up {COUNTS_VERSION}")[0])
# A later one that the oldest releases could work on, too.
FOR_ALL = after(REAL, MILD.replace("for {newest}", "for 1"))
ITEMS = 2 * MIN_COUNTED_ITEMS
# Half of its items may be dead.
LENIENT = Plan((MAP.steps[0], replace(MAP.steps[1], failed_ratio=0.5), MAP.steps[2]), result=ValueOf(2))
TASKS = ["a", "item", "b"]


async def begin_map(store: Store, items: int = ITEMS, plan: Plan = MAP) -> JobId:
    id = await begin(store, plan)
    await run_step(store, id, 0, Done(f"[{','.join(map(str, range(items)))}]"))
    return id


async def claimed(store: Store, limit: int = ITEMS) -> list[Job]:
    await beat(store)
    return (await claim(store, tasks=["item"], limit=limit)).jobs


async def finish(store: Store, jobs: Sequence[Job], ended: RunEnd = Done("1")) -> set[JobId]:  # noqa: B008
    return await store.finish([decide(job, ended, now=NOW, policy=DEAD) for job in jobs])


class Counted(Served):
    def counts(self) -> list[tuple[int, int]]:
        return self.server.run("SELECT ended, allowed FROM fresh.mainspring_item_counts ORDER BY flow, position")

    async def ended(self, store: Store, id: JobId) -> int:
        return (await row_of(store, id)).counts[1].ended


class TestEnds(Counted):
    async def test_ends_of_items_are_one_statement_that_does_not_touch_the_flow(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            assert self.counts() == [(0, ITEMS - 1)]
            jobs, before = await claimed(store, 30), await row_of(store, id)
            with statements(monkeypatch) as sent:
                assert await finish(store, jobs) == {job.id for job in jobs}
            assert sent == [completions.COMPLETE_ITEMS]
            row = await row_of(store, id)
            assert (row.revision, row.counts[1].ended) == (before.revision, 30)
            assert self.counts() == [(30, ITEMS - 1)]
            assert self.server.run("SELECT * FROM fresh.mainspring_leases") == []

    async def test_the_last_ends_move_the_flow_which_leaves_no_counts(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            for limit in (60, 30, 10):
                await finish(store, await claimed(store, limit))
            row = await row_of(store, id)
            assert (row.statuses, row.counts[1].ended, self.counts()) == ("ccr", ITEMS, [])

    async def test_a_small_map_is_not_counted_beside_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store, MIN_COUNTED_ITEMS - 1)
            await finish(store, await claimed(store, 30))
            assert (await self.ended(store, id), self.counts()) == (30, [])

    async def test_what_else_moves_the_flow_takes_over_what_was_counted(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store, plan=LENIENT)
            await finish(store, await claimed(store, 20))
            await finish(store, await claimed(store, 5), Discard("no"))
            counts = (await row_of(store, id)).counts[1]
            assert (counts.ended, counts.dead, self.counts()) == (25, 5, [(0, ITEMS - 25 - 1)])
            await finish(store, await claimed(store))
            assert (await row_of(store, id)).statuses == "ccr"

    async def test_a_repeated_or_late_end_is_counted_once(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            first, *others = await claimed(store, 20)
            for _ in range(2):
                assert await finish(store, others) == {job.id for job in others}
                assert await self.ended(store, id) == 19
            late = replace(first, lease="stale")
            assert await finish(store, [late, *await claimed(store, 10)]) != {late.id}
            assert await self.ended(store, id) == 29

    async def test_finish_in_an_item_stops_the_flow(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            first, *others = await claimed(store, 20)
            await finish(store, others)
            await finish(store, [first], Done("7", finish=True))
            row = await row_of(store, id)
            assert (row.state, row.finish, row.counts[1].ended) == ("over", "7", ITEMS)

    async def test_another_handle_learns_that_items_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with self.opened() as one, self.opened() as other:
            id = await begin_map(one)
            await finish(other, await claimed(other, 20))
            jobs = await claimed(other, 20)
            with statements(monkeypatch) as sent:
                await finish(other, jobs)
            assert sent == [completions.COMPLETE_ITEMS]
            assert await self.ended(one, id) == 40

    async def test_items_of_two_maps_and_plain_jobs_of_one_batch_end_side_by_side(self) -> None:
        async with self.opened() as store:
            ids = [await begin_map(store) for _ in range(2)]
            await put(store, *(new_job(task="item") for _ in range(5)))
            jobs = await claimed(store, 2 * ITEMS + 5)
            assert await finish(store, jobs[:-6]) == {job.id for job in jobs[:-6]}
            assert await finish(store, jobs[-6:]) == {job.id for job in jobs[-6:]}
            assert [(await row_of(store, id)).statuses for id in ids] == ["ccr"] * 2

    async def test_pages_that_are_stored_beside_ends_raise_what_may_be_counted(self) -> None:
        from mainspring.flow import moves
        from mainspring.flow.graph import Graph

        async with self.opened() as store:
            id = await begin_map(store, 300)
            ended = 0
            for page in range(3):
                (given,) = await flows_of(store).flows([id])
                values = map(str, range(100))
                move = moves.add_items(Graph(given.plan), given.row, 1, 100 * page + 1, values, NOW, last=False)
                await put(store, *move.jobs)
                await put(store, *move.jobs)
                ended += len(await finish(store, await claimed(store, 40)))
                counts = (await row_of(store, id)).counts[1]
                assert (counts.made, counts.ended, self.counts()) == (100 * page + 100, ended, [(ended, counts.made)])
            await run_step(store, id, 1, Done())
            assert self.counts() == [(0, 300 - ended - 1)]
            await finish(store, await claimed(store, 300))
            assert (await row_of(store, id)).statuses == "ccr"

    async def test_a_flow_that_is_deleted_or_cancelled_leaves_no_counts(self) -> None:
        async with self.opened() as store:
            for action in (Action.DELETE, Action.CANCEL):
                id = await begin_map(store)
                await finish(store, await claimed(store, 20))
                await act(store, action, id)
                assert self.counts() == []


class TestAtOnce(Counted):
    @pytest.fixture(autouse=True)
    def _no_deadlock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A deadlock is an error here, instead of another try."""
        monkeypatch.setattr(pool, "RETRIED_SQLSTATES", ())
        monkeypatch.setattr(item_counts, "MIN_COUNTED_ITEMS", 1)

    async def test_two_connections_that_end_the_last_two_items_at_once_release_one_step(self) -> None:
        async with self.opened() as one, self.opened() as other:
            ids = [await begin_map(one, 4) for _ in range(40)]
            by_flow: dict[JobId, list[Job]] = {id: [] for id in ids}
            for job in await claimed(one, 160):
                assert job.step is not None
                by_flow[job.step.flow].append(job)
            for first, second, left, right in by_flow.values():
                await finish(one, [first])
                await finish(other, [second])
                assert await asyncio.gather(finish(one, [left]), finish(other, [right])) == [{left.id}, {right.id}]
            assert {(await row_of(one, id)).statuses for id in ids} == {"ccr"}

    async def test_ends_beside_cancels_deaths_and_pages_do_not_deadlock(self) -> None:
        async with self.opened() as one, self.opened() as other, self.opened() as third:
            ids = [await begin_map(one, 60, LENIENT) for _ in range(3)]
            jobs = await claimed(one, 150)
            random.Random(5).shuffle(jobs)
            for id in ids:
                await finish(one, [await step_job(one, id, 1, 60)])  # nobody runs it: refused

            async def end(store: Store, some: Sequence[Job], ended: RunEnd) -> None:
                for n in range(0, len(some), 10):
                    await finish(store, some[n : n + 10], ended)

            await asyncio.gather(
                end(one, jobs[:60], Done("1")),
                end(other, jobs[60:120], Done("1")),
                end(third, jobs[120:], Discard("no")),
                act(third, Action.CANCEL, ids[0]),
                act(other, Action.CANCEL, ids[1]),
            )
            rows = [await row_of(one, id) for id in ids]
            items = [[job for job in await steps_of(one, id) if job.step and job.step.index] for id in ids]
            unfinished = [len([job for job in some if not job.state.final]) for some in items]
            assert [row.counts[1].made - row.counts[1].ended for row in rows] == unfinished


class TestWalks(Served):
    """Random ends, cancels and retries do the same to a flow as in memory, where every end moves the row."""

    @pytest.mark.parametrize("seed", range(6))
    async def test_a_flow_is_as_in_memory(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        monkeypatch.setattr(item_counts, "MIN_COUNTED_ITEMS", 1)
        chance, memory = random.Random(seed), MemoryStore()
        await memory.open()
        async with self.opened() as store:
            id, stores = new_job().id, (memory, store)
            for one in stores:
                await begin_map_as(one, id, 12)
            for _ in range(25):
                act_on = self.choose(chance, id)
                for one in stores:
                    await act_on(one)
                seen = [await self.shown(one, id) for one in stores]
                assert seen[0] == seen[1]
        await memory.close()

    def choose(self, chance: random.Random, id: JobId) -> Any:
        kind, limit, seed = chance.random(), chance.randint(1, 4), chance.random()

        async def end(store: Store) -> None:
            await beat(store)
            jobs = (await claim(store, tasks=TASKS, limit=12)).jobs
            some = random.Random(seed).sample(sorted(jobs, key=lambda job: job.id), min(limit, len(jobs)))
            ended: RunEnd = Discard("no") if kind < 0.1 else Done("[1,2,3,4,5,6]")
            await finish(store, some, ended)
            await store.change(Action.CANCEL, Filter(ids=()), now=NOW, limit=1)
            await finish(store, [job for job in jobs if job not in some], Done("2") if kind > 0.6 else Discard("no"))

        async def change(store: Store) -> None:
            await act(store, Action.CANCEL if kind < 0.9 else Action.RETRY, id)

        return end if kind < 0.85 else change

    async def shown(self, store: Store, id: JobId) -> Flow:
        return replace(await row_of(store, id), revision=0)


async def begin_map_as(store: Store, id: JobId, items: int) -> None:
    job = await start(store, id=id)
    await finish_run(store, job, Suspend(LENIENT), now=NOW)
    await run_step(store, id, 0, Done(f"[{','.join(map(str, range(items)))}]"))


class TestPlans(Served):
    async def test_the_statement_uses_indexes_on_tables_that_were_never_analysed(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            ids = [job.id for job in await steps_of(store, id)]
            connection = await store._pool._connect(store._pool._hot)
            try:
                texts = [SEPARATOR.join(some) for some in (ids, ["1"] * len(ids), ["x"] * len(ids))]
                values = (texts[0], texts[1], [], [], [], [], "w", [], texts[2], None, id, "4294967296", "1", 1)
                sql = PostgresUrl(self.url, "").sql(completions.COMPLETE_ITEMS)
                lines = [line for (line,) in await connection.fetch(f"EXPLAIN {sql}", *values)]
            finally:
                await connection.close()
            assert not [line for line in lines if "Seq Scan" in line and "circuits" not in line], lines
            assert [line for line in lines if "mainspring_item_counts_pkey" in line], lines


class TestReleases(Placed):
    """The release before counts, and this one, on the same tables."""

    def counts(self) -> list[tuple[int]]:
        return self.server.run("SELECT ended FROM own.mainspring_item_counts")

    async def test_a_worker_of_the_release_before_is_refused_once_items_are_counted(self) -> None:
        async with self.opened() as store, self.opened(migrations=BEFORE) as old:
            await begin_map(store)
            assert self.counts() == [(0,)]
            with pytest.raises(SchemaMismatch, match="upgrade mainspring"):
                await beat(old)

    async def test_nothing_is_counted_beside_a_flow_that_the_release_before_may_still_move(self) -> None:
        async with self.opened() as store:
            id = await begin_map(store)
            self.server.run("DELETE FROM own.mainspring_item_counts")
            self.server.run(f"UPDATE own.mainspring_schema SET oldest = {BEFORE.newest}")  # as that one had left them
        async with self.opened() as store:
            await finish(store, await claimed(store, 20))
            assert ((await row_of(store, id)).counts[1].ended, self.counts()) == (20, [])
            self.server.run(f"UPDATE own.mainspring_schema SET oldest = {COUNTS_VERSION}")
            await finish(store, await claimed(store, 20))
            assert ((await row_of(store, id)).counts[1].ended, self.counts()) == (40, [(0,)])
