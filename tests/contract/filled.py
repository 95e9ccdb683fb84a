"""A store with live rows of every kind, and everything its reading verbs return of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring.clock import EPOCH
from mainspring.records.job import FINAL, Job
from mainspring.records.outcome import Discard, Done, Retry
from mainspring.records.query import Filter
from mainspring.records.run import Failure, Items, Progress, RunNotes
from mainspring.records.worker import WorkerCommands
from mainspring.store import Store
from mainspring.testing.contract.build import (
    NOW,
    REACHABLE,
    a_line,
    a_tick,
    a_worker,
    all_jobs,
    claim_job,
    finish_run,
    fire,
    job_in_state,
    later,
    launch,
    make_suspect,
    new_job,
    next_revision,
    open_circuit,
    put,
    send_report,
    start,
)

FAILURE = Failure("OSError", "böse 'x' 17: it can't \"be\"", "Traceback")


async def live(store: Store) -> list[Job]:
    """Jobs in every state, with tags, keys, failures, runs and crashes."""
    await make_suspect(store, tags=("s",))
    for n, state in enumerate(REACHABLE):
        await job_in_state(
            store, state, tags=("x", f"it's {n}", "x"), unique_key=f"k{n}", metadata={"é": n}, priority=n
        )
    failed = await start(store, idempotency_key="i", tags=("é",))
    await finish_run(store, failed, Retry(30), now=NOW, failure=FAILURE)
    for at in (1, 2):
        await finish_run(store, await start(store), Discard(), now=later(at), failure=FAILURE)
    await finish_run(store, await start(store, tags=("y",)), Done('"x"'), now=later(3))
    await put(store, new_job(run_at=later(40)), new_job(expires_at=later(50), tags=("x", "y")))
    return await all_jobs(store)


async def fill(store: Store) -> Job:
    """Everything a store can hold; returns a job that runs, with log lines and progress."""
    await live(store)
    schedule, ids = await launch(store, "naïve: 'x'", spec={"overlap": "allow"}, jobs=3)
    await fire(store, next_revision(schedule, ticks=1), ticks=(a_tick(1),))
    await finish_run(store, await claim_job(store, ids[0]), Done(), now=later(4))
    await store.acquire_term("reindex", "ada", until=later(60), now=NOW)
    await open_circuit(store, "frail")
    await store.pause_queue("mail", True)
    await put(store, new_job(queue="mail"))
    await store.beat(a_worker("bob", queues=("mail",), memory=7), until=later(60), now=NOW)
    await store.command_workers(["bob"], WorkerCommands(concurrency=3), now=NOW)
    failed = await start(store, task="told")
    await send_report(store, failed, a_line(1, "at first"), a_line(2, "ü\n"))
    await finish_run(store, failed, Retry(0), now=NOW, account=RunNotes(Items(1, 2)), failure=FAILURE)
    running = await claim_job(store, failed.id, tasks=["told"])
    await send_report(store, running, a_line(1, "again", run=2), progress=Progress(2, NOW, 5, 10, "rows"))
    return running


async def told(store: Store) -> dict[str, Any]:
    """The answers of all reading verbs."""
    jobs, year = await all_jobs(store), NOW + timedelta(days=365)
    names = [schedule.name for schedule in await store.schedules(limit=99)]
    return {
        "jobs": jobs,
        "newest": await store.jobs(Filter(), now=NOW, limit=99, newest=True),
        "due first": await store.jobs(Filter(states=("pending", "scheduled")), now=NOW, limit=99, sort="due"),
        "finished": await store.jobs(Filter(states=FINAL), now=NOW, limit=99, sort="finished"),
        "tags": [await store.jobs(Filter(tags=(tag,)), now=NOW, limit=99) for tag in ("x", "y", "é", "s")],
        "errors": await store.jobs(Filter(errors=(FAILURE.kind,)), now=NOW, limit=99),
        "of schedules": await store.jobs(Filter(schedules=tuple(names)), now=NOW, limit=99),
        "executions": [await store.executions(job.id) for job in jobs],
        "logs": [await store.logs(job.id, limit=99) for job in jobs],
        "queues": (await store.overview(now=NOW)).queues,
        "workers": await store.workers(now=NOW),
        "expired": await store.orphaned(now=year, limit=99),
        "counts": (await store.overview(now=NOW)).states,
        "tallies": [await store.tallies(span, since=EPOCH) for span in ("minute", "hour", "day", "ever")],
        "circuits": (await store.overview(now=NOW)).circuits,
        "dead": await store.dead_groups(limit=99),
        "finished_groups": sorted(await store.finished_groups()),
        "prunable": [await store.prunable(state, "task", keep=0, before=year, limit=99) for state in FINAL],
        "schedules": await store.schedules(limit=99),
        "ticks": [await store.ticks(name, limit=99) for name in names],
        "due": await store.due(now=year, limit=99),
        "terms": await store.terms(now=NOW),
    }
