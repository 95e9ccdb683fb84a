"""Paged bulk changes and their previews, and values derived from a job's record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Filter, JobNotFound, Mainspring
from mainspring.records.job import DEFAULT_STATES, SHOWN, Action, Job, State
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW


async def work(a: int = 0) -> int:
    return a


async def fill(app: Mainspring, count: int) -> list[str]:
    task = app.tasks.get("work") or app.task(work)
    return [handle.id for handle in await app.enqueue_many(task.job(n) for n in range(count))]


# bulk pages


@pytest.mark.parametrize("act", ["pause", "cancel", "delete"])
async def test_a_bulk_page_has_limit_jobs_and_a_next(app: Mainspring, act: str) -> None:
    ids = await fill(app, 5)
    first = await getattr(app.jobs, act)(Filter(), limit=3)
    rest = await getattr(app.jobs, act)(Filter(), limit=3, after=first.next)
    assert (first.done, rest.done, rest.next) == (ids[:3], ids[3:], None)


async def test_refused_jobs_count_in_a_bulk_page(app: Mainspring) -> None:
    ids = await fill(app, 3)
    changed = await app.jobs.retry(Filter(), limit=2)
    assert (changed.done, list(changed.refused)) == ([], ids[:2])
    assert list((await app.jobs.retry(Filter(), limit=2, after=changed.next)).refused) == ids[2:]


async def test_jobs_created_between_two_bulk_pages_are_left_alone(app: Mainspring, clock: VirtualClock) -> None:
    ids = await fill(app, 2)
    first = await app.jobs.pause(Filter(), limit=1)
    clock.advance(seconds=1)
    await fill(app, 1)
    assert (await app.jobs.pause(Filter(), after=first.next)).done == ids[1:]


async def test_bulk_edits_are_paged(app: Mainspring) -> None:
    ids = await fill(app, 3)
    first = await app.jobs.update(Filter(), arguments={"a": 7}, limit=2)
    assert first.done == ids[:2]
    assert (await app.jobs.update(Filter(), arguments={"a": 7}, limit=2, after=first.next)).done == ids[2:]


async def test_redrives_are_paged(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def fail() -> None:
        raise ValueError("no")

    ids = [(await fail.enqueue()).id for _ in range(3)]
    await app.drain()
    first = await app.dead.redrive(Filter(), limit=2)
    assert len(first.done) == 2
    rest = await app.dead.redrive(Filter(), limit=2, after=first.next)
    assert sorted(first.done + rest.done) == ids


@pytest.mark.parametrize("after", ["x", "!", "\ud800", "WyIyMDMwLTAxLTAxIiwiYSJd", "WzEsMl0", 7])
async def test_an_invalid_bulk_cursor_is_refused(app: Mainspring, after: Any) -> None:
    with pytest.raises(BadInput, match="is not where a change was cut short; give its `next`"):
        await app.jobs.pause(Filter(), after=after)


@pytest.mark.parametrize("limit", [0, -1, True, "5", 2**31])
async def test_a_bulk_limit_below_one_is_refused(app: Mainspring, limit: Any) -> None:
    with pytest.raises(BadInput, match="limit must be from 1"):
        await app.jobs.pause(Filter(), limit=limit)


async def test_preview_returns_the_jobs_of_an_action_and_changes_nothing(app: Mainspring) -> None:
    first, second = await fill(app, 2)
    await app.jobs.pause(first)
    seen = await app.jobs.preview(Action.RETRY, Filter())
    assert (seen.done, {id: refusal.state for id, refusal in seen.refused.items()}) == (
        [],
        {first: State.PAUSED, second: State.PENDING},
    )
    assert (await app.jobs.preview(Action.CANCEL, Filter(), limit=1)).done == [first]
    assert [job.state for job in await app.jobs.list(newest=False)] == [State.PAUSED, State.PENDING]


async def test_preview_treats_a_job_past_its_expires_at_as_expired(app: Mainspring, clock: VirtualClock) -> None:
    id = (await app.task(work).using(expires=5).enqueue()).id
    clock.advance(seconds=6)
    assert (await app.jobs.preview(Action.RETRY, Filter())).done == [id]
    assert (await app.jobs.retry(Filter())).done == [id]


def test_every_action_has_default_states_for_a_filter() -> None:
    assert set(DEFAULT_STATES) == set(Action)
    assert DEFAULT_STATES[Action.RETRY] == ("dead",)


# one job


async def test_jobs_wait_returns_when_the_job_has_ended(app: Mainspring) -> None:
    (id,) = await fill(app, 1)
    await app.drain()
    assert (await app.jobs.wait(id, 30)).state is State.COMPLETED


async def test_jobs_wait_returns_the_job_at_its_timeout(app: Mainspring) -> None:
    (id,) = await fill(app, 1)
    assert (await app.jobs.wait(id, 0)).state is State.PENDING


async def test_jobs_wait_for_an_unknown_job_raises_job_not_found(app: Mainspring) -> None:
    with pytest.raises(JobNotFound):
        await app.jobs.wait("nope", 1)


async def test_jobs_counts_has_every_shown_state(app: Mainspring) -> None:
    await fill(app, 2)
    counts = await app.jobs.counts()
    assert tuple(counts) == SHOWN
    assert (counts["pending"], counts["dead"]) == (2, 0)


async def test_executions_stats_counts_the_runs_of_a_job(app: Mainspring) -> None:
    @app.task(max_retries=1, name="once")
    async def flaky(fails: list[int]) -> None:
        if len(await app.executions.list(job_id=id)) == 0:
            raise ValueError("no")

    id = (await flaky.enqueue([1])).id
    await app.drain()
    await app.jobs.reschedule(id, timedelta(0))
    await app.drain()
    figures = await app.executions.stats(id)
    assert (figures.runs, figures.completed, figures.failed, figures.success_rate) == (2, 1, 1, 0.5)
    assert figures.last_at == (await app.jobs.get(id)).finished_at


# app.job with options


async def test_app_job_accepts_the_options_of_using(app: Mainspring) -> None:
    app.task(work)
    job = app.job("work", {"a": 1}, queue="low", delay=60, unique_key="k")
    assert (job.queue, job.payload, job.unique_key) == ("low", '{"a":1}', "k")
    assert job.run_at == NOW + timedelta(seconds=60)


async def test_app_job_of_an_unknown_task_accepts_the_options_of_using(app: Mainspring) -> None:
    job = app.job("far", {"a": 1}, priority=3, tags=["x"], timeout=None)
    assert (job.task, job.payload, job.priority, job.tags, job.timeout) == ("far", '{"a":1}', 3, ("x",), None)


@pytest.mark.parametrize("registered", [True, False])
async def test_app_job_refuses_a_bad_option_by_name(app: Mainspring, registered: bool) -> None:
    if registered:
        app.task(work)
    with pytest.raises(BadInput, match="option priority of task 'work'"):
        app.job("work", {}, priority=10**6)


# values derived from a record


def a_job(state: State = State.PENDING, **fields: Any) -> Job:
    return Job(
        id="j",
        task="t",
        payload="{}",
        queue="q",
        priority=0,
        state=state,
        **{"run_at": NOW, "created_at": NOW} | fields,
    )


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("job", "actions"),
    [
        (a_job(), "cancel pause update delete"),
        (a_job(State.RUNNING), "cancel"),
        (a_job(State.RUNNING, cancel_reason="no"), ""),
        (a_job(State.WAITING), "cancel update delete"),
        (a_job(State.PAUSED), "cancel resume update delete"),
        (a_job(State.COMPLETED), "delete"),
        (a_job(State.DEAD), "retry delete"),
        (a_job(State.CANCELLED), "retry delete"),
        (a_job(State.EXPIRED), "retry delete"),
        (a_job(expires_at=NOW), "retry delete"),
    ],
)
def test_job_actions_lists_actions_that_have_an_effect(job: Job, actions: str) -> None:
    assert " ".join(job.actions(NOW)) == actions


@pytest.mark.parametrize(
    ("job", "since"),
    [
        (a_job(run_at=NOW - HOUR), NOW),
        (a_job(created_at=NOW - HOUR), NOW),
        (a_job(created_at=NOW - HOUR, run_at=NOW + HOUR), NOW - HOUR),
        (a_job(State.RUNNING, started_at=NOW), NOW),
        (a_job(State.DEAD, finished_at=NOW), NOW),
        (a_job(State.EXPIRED, finished_at=NOW), NOW),
        (a_job(expires_at=NOW - HOUR), NOW - HOUR),
        (a_job(attempt=1), None),
        (a_job(State.PAUSED), None),
    ],
)
def test_job_state_since_is_when_its_shown_state_began(job: Job, since: object) -> None:
    assert job.state_since(NOW) == since
