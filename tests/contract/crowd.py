"""Jobs of many kinds, and the expected contents of every list: for the search strategies of a store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mainspring.records.job import Job, State
from mainspring.records.outcome import Policy
from mainspring.records.query import Cursor, Filter, Sort
from mainspring.store import Store
from mainspring.stores.rules import matches_filter
from mainspring.testing.contract.build import NOW, finish_run, job_in_state, later, new_job, put, start

FILTERS = {
    "any": Filter(),
    "queue": Filter(queues=("mail",)),
    "task": Filter(tasks=("report",)),
    "tags": Filter(tags=("red",)),
    "schedule": Filter(schedules=("daily",)),
    "error": Filter(errors=("ValueError: no",)),
    "key": Filter(key_prefix="order:"),
    "running": Filter(states=("running",)),
    "worker": Filter(workers=("ada",)),
    "retrying": Filter(states=("retrying",)),
    "paused": Filter(states=("paused",)),
    "scheduled": Filter(states=("scheduled",)),
    "expired": Filter(states=("expired",)),
    "dead": Filter(states=("dead",)),
    "time": Filter(created_after=NOW, created_before=later(60)),
    "queue and state": Filter(queues=("mail",), states=("pending", "completed")),
    "queues": Filter(queues=("default", "mail")),
    "tasks": Filter(tasks=("report", "another"), queues=("default",)),
    "tag and state": Filter(tags=("red",), states=("pending", "dead")),
    "key and time": Filter(key_prefix="order:", created_after=NOW),
    "error and state": Filter(errors=("ValueError: no",), states=("dead", "retrying")),
    "expired and paused": Filter(states=("expired", "paused")),
    "what waits": Filter(states=("pending", "scheduled", "retrying")),
}
SORTS: tuple[Sort, ...] = ("created", "due", "finished")


async def gather(store: Store) -> list[Job]:
    """Jobs of each kind, stored at some distance in time."""
    for state in (State.DEAD, State.COMPLETED, State.PAUSED, State.CANCELLED, State.EXPIRED, State.RUNNING):
        await job_in_state(store, state, queue="mail")
    await finish_run(store, await start(store), ValueError("no"), now=NOW, policy=Policy(max_retries=1))
    kinds: list[dict[str, Any]] = [
        {}, {"queue": "mail"}, {"task": "report"}, {"tags": ("red", "blue")},
        {"schedule": "daily", "idempotency_key": "schedule:daily:{n}"}, {"run_at": later(3600)},
        {"unique_key": "order:{n}"}, {"idempotency_key": "order:i{n}"},
    ]  # fmt: skip
    for n in range(40):
        kind = {key: value.format(n=n) if isinstance(value, str) else value for key, value in kinds[n % 8].items()}
        await store.enqueue([new_job(**kind)], now=NOW + timedelta(seconds=10 * n - 200))
    await put(store, new_job(expires_at=later(0.5)), new_job(id="by-hand"))
    everything = await store.jobs(Filter(), now=later(1), limit=999)
    assert len(everything) == 49
    return everything


async def check(store: Store, everything: list[Job], newest: bool) -> None:
    """The whole of each list, its first page and the next one."""
    for sort in SORTS:
        for which in FILTERS.values():
            expected = _expected(everything, which, newest, sort)
            listed = await store.jobs(which, now=later(1), limit=999, newest=newest, sort=sort)
            assert [job.id for job in listed] == expected
            first = await store.jobs(which, now=later(1), limit=3, newest=newest, sort=sort)
            assert [job.id for job in first] == expected[:3]
            if first:
                after = Cursor(first[-1].id, _at(first[-1], sort))
                rest = await store.jobs(which, now=later(1), limit=4, newest=newest, sort=sort, after=after)
                assert [job.id for job in rest] == expected[3:7]


def _at(job: Job, sort: Sort) -> datetime | None:
    return {"created": None, "due": job.run_at, "finished": job.finished_at}[sort]


def _expected(jobs: list[Job], which: Filter, newest: bool, sort: Sort) -> list[str]:
    chosen = [job for job in jobs if matches_filter(job, which, later(1))]
    if sort != "created":
        chosen = [job for job in chosen if job.state is State.PENDING or sort == "finished"]
        chosen = [job for job in chosen if job.state.final or sort == "due"]
    return [job.id for job in sorted(chosen, key=lambda job: (_at(job, sort) or NOW, job.id), reverse=newest)]
