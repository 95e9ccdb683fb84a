"""The lifecycle of a store: open, close, schema, time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from ...errors import ShuttingDown
from ...records.job import Action, State
from ...records.query import Filter
from ...records.queue import Overview
from ...records.worker import WorkerCommands
from ...store import Store
from .build import NOW, Contract, a_worker, act, all_jobs, claim, new_job, put, read_job

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
    "overview": lambda store: store.overview(now=NOW),
    "workers": lambda store: store.workers(now=NOW),
    "tallies": lambda store: store.tallies("ever", since=NOW),
    "dead_groups": lambda store: store.dead_groups(limit=1),
    "finished_groups": lambda store: store.finished_groups(),
    "prunable": lambda store: store.prunable(State.DEAD, "task", keep=0, before=NOW, limit=1),
    "prune": lambda store: store.prune({}, audited_since=NOW, now=NOW),
}


class LifecycleContract(Contract):
    async def test_a_fresh_store_is_empty(self) -> None:
        async with self.opened() as store:
            assert await all_jobs(store) == []
            assert await store.overview(now=NOW) == Overview({}, [], [])
            assert await store.workers(now=NOW) == []

    async def test_opening_twice_is_no_error(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            await store.open()
            assert (await read_job(store, job_id)).id == job_id

    async def test_closing_twice_is_no_error(self) -> None:
        async with self.opened() as store:
            await store.close()
            await store.close()

    @pytest.mark.parametrize("call", CALLS)
    async def test_a_call_after_close_raises_shutting_down(self, call: str) -> None:
        async with self.opened() as store:
            await store.close()
            with pytest.raises(ShuttingDown):
                await CALLS[call](store)

    async def test_an_opened_store_has_the_newest_schema(self) -> None:
        async with self.opened() as store:
            schema = await store.schema()
            assert schema.version == schema.newest
            assert schema.usable

    async def test_a_store_opened_without_migration_can_be_opened_again(self) -> None:
        store = self.make_store()
        await store.open(migrate=False)
        assert (await store.schema()).newest == store.capabilities.newest_schema
        await store.open()
        (job_id,) = await put(store, new_job())
        assert (await read_job(store, job_id)).id == job_id
        await store.close()

    async def test_migrating_the_newest_schema_does_nothing(self) -> None:
        async with self.opened() as store:
            newest = (await store.schema()).newest
            assert await store.migrate() == []
            assert await store.migrate(newest) == []

    async def test_the_time_of_the_store_is_aware_and_utc(self) -> None:
        async with self.opened() as store:
            assert (await store.time()).utcoffset() == timedelta(0)

    async def test_diagnose_names_each_finding_once_with_a_remedy(self) -> None:
        async with self.opened() as store:
            found = await store.diagnose()
            assert len({finding.about for finding in found}) == len(found)
            assert all(finding.text for finding in found)
            assert [finding for finding in found if finding.verdict != "ok" and not finding.remedy] == []

    async def test_diagnose_changes_nothing(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            before = await read_job(store, job_id)
            await store.diagnose()
            assert await all_jobs(store) == [before]

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
