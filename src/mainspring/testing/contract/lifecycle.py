"""The lifecycle of a store: open, close, schema, time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from ...errors import SchemaMismatch, ShuttingDown, StoreUnavailable
from ...records.job import Action, State
from ...records.query import Filter
from ...records.queue import Overview
from ...records.worker import WorkerCommands
from ...store import Store
from .build import A_MINUTE_LATER, NOW, Contract, a_worker, act, all_jobs, beat, claim, new_job, put, read_job
from .sentences import proves

CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "schema": lambda store: store.schema(),
    "migrate": lambda store: store.migrate(),
    "time": lambda store: store.time(),
    "diagnose": lambda store: store.diagnose(),
    "wait": lambda store: store.wait("claimable", 0.01),
    "wait for an end": lambda store: store.wait("final", 0.01),
    "enqueue": lambda store: store.enqueue([new_job()], now=NOW),
    "claim": lambda store: claim(store),
    "beat": lambda store: store.beat(a_worker(), until=NOW + timedelta(seconds=9), now=NOW),
    "orphaned": lambda store: store.orphaned(now=NOW, limit=1),
    "finish": lambda store: store.finish([]),
    "report": lambda store: store.report([]),
    "change": lambda store: act(store, Action.CANCEL, "unknown"),
    "pause_queue": lambda store: store.pause_queue("default", True),
    "command_workers": lambda store: store.command_workers(None, WorkerCommands(), now=NOW),
    "jobs": lambda store: store.jobs(Filter(), now=NOW, limit=1),
    "executions": lambda store: store.executions("unknown"),
    "logs": lambda store: store.logs("unknown", limit=1),
    "output": lambda store: store.output("unknown", limit=1),
    "overview": lambda store: store.overview(now=NOW),
    "workers": lambda store: store.workers(now=NOW),
    "tallies": lambda store: store.tallies("ever", since=NOW),
    "dead_groups": lambda store: store.dead_groups(limit=1),
    "finished_groups": lambda store: store.finished_groups(),
    "prunable": lambda store: store.prunable(State.DEAD, "task", keep=0, before=NOW, limit=1),
    "prune": lambda store: store.prune({}, audited_since=NOW, now=NOW),
}


class LifecycleContract(Contract):
    @proves("O4")
    async def test_a_fresh_store_is_empty(self) -> None:
        async with self.opened() as store:
            assert await all_jobs(store) == []
            assert await store.overview(now=NOW) == Overview({}, [], [])
            assert await store.workers(now=NOW) == []

    @proves("O1")
    async def test_opening_twice_is_no_error(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            await store.open()
            assert (await read_job(store, job_id)).id == job_id

    @proves("O2")
    async def test_closing_twice_is_no_error(self) -> None:
        async with self.opened() as store:
            await store.close()
            await store.close()

    @proves("O3")
    @pytest.mark.parametrize("call", CALLS)
    async def test_a_call_after_close_raises_shutting_down(self, call: str) -> None:
        async with self.opened() as store:
            await store.close()
            with pytest.raises(ShuttingDown):
                await CALLS[call](store)

    @proves("O4")
    async def test_an_opened_store_has_the_newest_schema(self) -> None:
        async with self.opened() as store:
            schema = await store.schema()
            assert schema.version == schema.newest
            assert schema.usable

    @proves("O4")
    async def test_a_store_opened_without_migration_can_be_opened_again(self) -> None:
        store = self.make_store()
        await store.open(migrate=False)
        assert (await store.schema()).newest == store.capabilities.newest_schema
        await store.open()
        (job_id,) = await put(store, new_job())
        assert (await read_job(store, job_id)).id == job_id
        await store.close()

    @proves("M4")
    async def test_migrating_the_newest_schema_does_nothing(self) -> None:
        async with self.opened() as store:
            newest = (await store.schema()).newest
            assert await store.migrate() == []
            assert await store.migrate(newest) == []

    @proves("TI1")
    async def test_the_time_of_the_store_is_aware_and_utc(self) -> None:
        async with self.opened() as store:
            assert (await store.time()).utcoffset() == timedelta(0)

    @proves("DI1")
    async def test_diagnose_names_each_finding_once_with_a_remedy(self) -> None:
        async with self.opened() as store:
            found = await store.diagnose()
            assert len({finding.about for finding in found}) == len(found)
            assert all(finding.text for finding in found)
            assert [finding for finding in found if finding.verdict != "ok" and not finding.remedy] == []

    @proves("V12")
    async def test_diagnose_changes_nothing(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            before = await read_job(store, job_id)
            await store.diagnose()
            assert await all_jobs(store) == [before]

    @proves("CL1")
    async def test_a_cloned_handle_serves_another_event_loop_with_the_same_data(self) -> None:
        async with self.opened() as store:
            handle, job = store.clone(), new_job()

            async def visit() -> None:
                await handle.open()
                await handle.enqueue([job], now=NOW)
                if handle is not store:
                    await handle.close()

            await asyncio.to_thread(asyncio.run, visit())
            assert (await read_job(store, job.id)).id == job.id

    @proves("M1")
    async def test_concurrent_migrations_run_once(self) -> None:
        async with self.opened() as store:
            newest = store.capabilities.newest_schema
            steps = newest if newest > 1 else 0  # a store with one schema has nothing to migrate
            if steps:
                await store.migrate(0)
            passed = await asyncio.gather(*(store.migrate() for _ in range(5)))
            assert sorted(map(len, passed)) == [0, 0, 0, 0, steps]
            assert (await store.schema()).usable

    @proves("M2")
    async def test_a_live_worker_prevents_a_migration_that_it_cannot_work_with(self) -> None:
        async with self.opened() as store:
            newest = store.capabilities.newest_schema
            if newest == 1:
                return
            await store.beat(a_worker(schema=newest), until=A_MINUTE_LATER, now=NOW)
            with pytest.raises(StoreUnavailable, match="ada"):
                await store.migrate(0)
            assert (await store.schema()).version == newest
            await beat(store, until=NOW)  # it leaves
            await store.migrate(0)
            assert (await store.schema()).version == 0
            await store.migrate()

    @proves("M3")
    async def test_a_worker_whose_schema_was_changed_gets_schema_mismatch_from_its_next_beat(self) -> None:
        async with self.opened() as store:
            if store.capabilities.newest_schema == 1:
                return
            await beat(store)  # a worker that does not send its schema prevents no migration
            await store.migrate(0)
            with pytest.raises(SchemaMismatch):
                await beat(store)
            await store.migrate()
            assert (await beat(store)).holds == {}
