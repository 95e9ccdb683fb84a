"""A SQLite file is migrated from one schema to the next and back with all its data."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from filled import FAILURE, live

from mainspring.clock import EPOCH, micros
from mainspring.records.audit import AuditFilter
from mainspring.records.feed import Feed, FeedItem
from mainspring.records.job import FINAL, Action, Job, State
from mainspring.records.outcome import Discard, Done, Retry
from mainspring.records.query import Filter, Update
from mainspring.records.run import Ending, Items, Progress, RunNotes
from mainspring.records.schema import Schema
from mainspring.records.worker import WorkerCommands
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.audit import an_entry
from mainspring.testing.contract.build import (
    NOW,
    a_line,
    a_schedule,
    a_tick,
    act,
    all_jobs,
    claim_ids,
    claim_job,
    finish_run,
    fire,
    job_in_state,
    later,
    launch,
    next_revision,
    open_circuit,
    read_job,
    read_schedule,
    send_report,
    start,
)
from mainspring.testing.contract.documents import a_document


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def recounted(store: Store, jobs: list[Job]) -> None:
    """Every list and count agrees with these jobs."""
    assert await all_jobs(store) == jobs
    assert (await store.overview(now=NOW)).states == Counter(job.shown(NOW) for job in jobs)
    assert set(await store.finished_groups()) == {(job.state, job.task) for job in jobs if job.state.final}
    for tag in {tag for job in jobs for tag in job.tags}:
        assert await listed(store, tags=(tag,)) == [job.id for job in jobs if tag in job.tags]
    for kind in {job.failure.kind for job in jobs if job.failure}:
        failed = [job.id for job in jobs if job.failure and job.failure.kind == kind]
        assert await listed(store, errors=(kind,)) == failed
    for state in FINAL:
        old = await store.prunable(state, "task", keep=0, before=later(60), limit=99)
        assert {job.id for job in old} == {job.id for job in jobs if job.state is state}


async def listed(store: Store, **asked: Any) -> list[str]:
    return [job.id for job in await store.jobs(Filter(**asked), now=NOW, limit=99)]


async def test_jobs_of_a_sqlite_file_survive_migration_down_and_up(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    jobs = await live(store)
    runs = [await store.executions(job.id) for job in jobs]
    workers, queues = await store.workers(now=NOW), (await store.overview(now=NOW)).queues
    for _ in range(2):
        assert await store.migrate(1) == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
        assert await store.migrate() == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
        await recounted(store, jobs)
        assert [await store.executions(job.id) for job in jobs] == runs
        assert (await store.workers(now=NOW), (await store.overview(now=NOW)).queues) == (workers, queues)
    (group,) = await store.dead_groups(limit=1)
    assert (group.error, group.count) == (FAILURE.kind, 2)
    await store.close()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_sqlite_file_of_an_earlier_schema_is_migrated_when_it_is_opened(path: Path, version: int) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    jobs = await live(store)
    await store.migrate(version)
    await store.close()
    again = open_store(f"sqlite:///{path}")
    await again.open()
    assert await again.schema() == Schema(13, 13, 6)
    await recounted(again, jobs)
    assert (await fire(again, a_schedule())).stands
    assert await again.put_documents([a_document()], now=NOW) == [True]
    await again.close()


async def test_migration_down_drops_only_data_of_the_newer_schema(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    job = await start(store)
    await open_circuit(store)
    await send_report(store, job, a_line(1), progress=Progress(1, NOW, 5))
    await finish_run(store, job, Retry(0), now=NOW, account=RunNotes(Items(1)))
    await store.command_workers(["ada"], WorkerCommands(drained=True), now=NOW)
    await store.migrate(1)
    await store.migrate()
    (run,) = await store.executions(job.id)
    assert (run.ending, run.items) == (Ending.FAILED, None)
    assert ((await store.overview(now=NOW)).circuits, await store.tallies("ever", since=EPOCH)) == ([], [])
    assert [worker.orders for worker in await store.workers(now=NOW)] == [WorkerCommands(), WorkerCommands()]
    assert (await read_job(store, job.id)).progress is None
    assert await store.logs(job.id, limit=9) == []
    assert await claim_ids(store) == [job.id]
    await store.close()


async def test_migration_down_drops_schedules_ticks_and_leaders_but_not_their_jobs(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    schedule, ids = await launch(store, "naïve: 'x'", spec={"overlap": "allow"}, jobs=3)
    await fire(store, next_revision(schedule, ticks=1), ticks=(a_tick(1),))
    await store.acquire_term("reindex", "ada", until=later(60), now=NOW)
    running = await claim_job(store, ids[0])
    jobs = await all_jobs(store)
    assert await store.migrate(2) == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    assert await store.migrate() == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert (await store.schedules(limit=9), await store.ticks(schedule.name, limit=9)) == ([], [])
    assert (await store.terms(now=NOW), (await store.due(now=later(9999), limit=9)).schedules) == ([], [])
    await recounted(store, jobs)
    assert await listed(store, schedules=(schedule.name,)) == ids
    assert await finish_run(store, running, Done()) == {running.id}
    assert (await act(store, Action.CANCEL, ids[1])).done == [ids[1]]
    assert (await fire(store, a_schedule(schedule.name), ticks=(a_tick(1),))).stands
    await store.close()


async def test_migration_down_drops_documents_audit_and_feed_but_no_jobs(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    jobs, workers = await live(store), await store.workers(now=NOW)
    await store.put_documents([a_document()], now=NOW)
    await store.record([an_entry(1)])
    await store.publish(["a"], now=NOW)
    await store.news(after=0, limit=0, until=later(60))
    for _ in range(2):
        assert await store.migrate(3) == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]
        assert await store.migrate() == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
        await recounted(store, jobs)
        assert await store.workers(now=NOW) == workers
    assert (await store.documents("key", now=NOW, limit=9), await store.audit(AuditFilter(), limit=9)) == ([], [])
    assert (await store.news(after=0, limit=9), await store.publish([], now=NOW)) == (Feed([], 1, 0), None)
    await store.close()


async def test_documents_audit_and_feed_survive_reopening_a_sqlite_file(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    await store.put_documents([a_document()], now=NOW)
    await store.record([an_entry(1)])
    await store.publish(["a"], now=NOW)
    await store.news(after=0, limit=0, until=later(60))
    trail = await store.audit(AuditFilter(), limit=9)
    await store.close()
    again = open_store(f"sqlite:///{path}")
    await again.open()
    assert await again.documents("key", now=NOW, limit=9) == [a_document()]
    assert await again.audit(AuditFilter(), limit=9) == trail
    assert (await again.publish(["b"], now=NOW), (await again.news(after=1, limit=9)).news) == (
        later(60),
        [FeedItem(2, "b")],
    )
    await again.close()


async def test_schedules_ticks_and_leaders_survive_reopening_a_sqlite_file(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    schedule, _ = await launch(store)
    await fire(store, next_revision(schedule, ticks=1), ticks=(a_tick(1),))
    leader = await store.acquire_term("reindex", "ada", until=later(60), now=NOW)
    before = await read_schedule(store)
    await store.close()
    again = open_store(f"sqlite:///{path}")
    await again.open()
    assert (await read_schedule(again), await again.ticks("hourly", limit=9)) == (before, [a_tick(1)])
    assert await again.terms(now=NOW) == [leader]
    await again.close()


async def test_migration_from_the_first_schema_keeps_the_last_run_of_a_dead_job(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    job = await start(store)
    await finish_run(store, job, Discard(), now=later(1), failure=FAILURE)
    (run,) = await store.executions(job.id)
    await store.migrate(1)
    await store.close()
    # The first schema kept the run that ended a job in the job's own row, whatever its ending.
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM mainspring_executions")
        own = (run.ending, run.lease, run.worker, micros(run.finished_at), job.id)
        db.execute("UPDATE mainspring_jobs SET ending = ?, lease = ?, worker = ?, finished_at = ? WHERE id = ?", own)
    db.close()
    store = open_store(f"sqlite:///{path}")
    await store.open()
    assert await store.executions(job.id) == [run]
    await act(store, Action.RETRY, job.id, update=Update(payload='"mended"'))
    assert await store.executions(job.id) == [run]
    again = await claim_job(store, job.id)
    assert (again.payload, again.runs) == ('"mended"', 2)
    await finish_run(store, again, Done())
    assert [row.number for row in await store.executions(job.id)] == [1, 2]
    await store.close()


async def test_jobs_can_be_finished_and_retried_after_migration_down_and_up(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    running = await job_in_state(store, State.RUNNING)
    dead = await job_in_state(store, State.DEAD, tags=("x",))
    await store.migrate(1)
    await store.migrate()
    assert await finish_run(store, running, Done()) == {running.id}
    assert (await act(store, Action.RETRY, dead.id)).done == [dead.id]
    await act(store, Action.DELETE, running.id)
    assert await all_jobs(store) == [await read_job(store, dead.id)]
    assert (await store.overview(now=NOW)).states == {"pending": 1}
    assert await listed(store, tags=("x",)) == [dead.id]
    await store.close()
