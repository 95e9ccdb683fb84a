"""app.jobs, app.queues, app.executions and app.workers: reading and changing, and their errors."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import (
    BadInput,
    Filter,
    InvalidTransition,
    Job,
    JobExists,
    JobNotFound,
    Mainspring,
    State,
    act_as,
    every,
)
from mainspring.records.job import ALLOWED, SHOWN, Action
from mainspring.records.query import Changed
from mainspring.store import Store
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW, REACHABLE, job_in_state

NOBODY = "0190a5c0-0000-7000-8000-000000000000"
MISSING = f"there is no job '{NOBODY}' in the store (never enqueued, or deleted)"


async def work(a: int = 0) -> int:
    if a < 0:
        raise ValueError("negative")
    return a


async def in_state(app: Mainspring, store: Store, state: State, **fields: Any) -> Job:
    await app.connect()
    return await job_in_state(store, state, **fields)


async def do(app: Mainspring, action: Action, id: str) -> Changed:
    """Calls the action, with a value if it needs one."""
    values = {"priority": 1} if action is Action.UPDATE else {}
    changed: Changed = await getattr(app.jobs, action)(id, **values)
    return changed


# every action from every state

PAIRS = [(action, state) for action in Action for state in REACHABLE]


@pytest.mark.parametrize(
    ("action", "state"), [(action, state) for action, state in PAIRS if state not in ALLOWED[action]]
)
async def test_a_forbidden_action_raises_invalid_transition_with_state_and_action(
    app: Mainspring, store: Store, action: Action, state: State
) -> None:
    job = await in_state(app, store, state)
    with pytest.raises(InvalidTransition) as refused:
        await do(app, action, job.id)
    needs = ", ".join(sorted(ALLOWED[action]))
    assert str(refused.value) == f"cannot {action} job {job.id}: it is {state}, {action} needs {needs}"
    assert (refused.value.job_id, refused.value.state, refused.value.action) == (job.id, state, action)
    assert await app.jobs.get(job.id) == job


@pytest.mark.parametrize(("action", "state"), [(action, state) for action, state in PAIRS if state in ALLOWED[action]])
async def test_an_allowed_action_reports_the_job_as_done(
    app: Mainspring, store: Store, action: Action, state: State
) -> None:
    job = await in_state(app, store, state)
    changed = await do(app, action, job.id)
    assert (changed.done, changed.refused) == ([job.id], {})


@pytest.mark.parametrize("action", Action)
async def test_an_action_on_an_unknown_job_raises_job_not_found(app: Mainspring, action: Action) -> None:
    with pytest.raises(JobNotFound) as missing:
        await do(app, action, NOBODY)
    assert str(missing.value) == MISSING
    assert isinstance(missing.value, LookupError)


# effects of actions


async def test_a_cancelled_job_never_runs_and_keeps_its_reason(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    await app.jobs.cancel(job.id, "changed my mind")
    assert await app.drain() == 0
    record = await job.job()
    assert (record.state, record.cancel_reason, record.finished_at) == (State.CANCELLED, "changed my mind", NOW)


async def test_a_repeated_cancel_keeps_the_first_reason(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    await app.jobs.cancel(job.id, "first")
    await app.jobs.cancel(job.id, "second")
    assert (await job.job()).cancel_reason == "first"


async def test_a_paused_job_waits_until_it_is_resumed(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    await app.jobs.pause(job.id)
    assert await app.drain() == 0
    await app.jobs.resume(job.id)
    assert await app.drain() == 1


async def test_a_dead_job_is_retried_with_all_its_retries_and_its_history(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(max_retries=0)(work)
    job = await task.enqueue(-1)
    await app.drain()
    clock.advance(minutes=1)
    await app.jobs.retry(job.id)
    record = await job.job()
    assert (record.state, record.attempt, record.run_at) == (State.PENDING, 0, NOW + timedelta(minutes=1))
    await app.drain()
    assert [run.number for run in await app.executions.list(job_id=job.id)] == [1, 2]


async def test_a_retry_is_refused_while_another_job_holds_the_key(app: Mainspring) -> None:
    task = app.task(max_retries=0)(work).using(unique_key="one")
    dead = await task.enqueue(-1)
    await app.drain()
    holder = await task.enqueue()
    with pytest.raises(JobExists) as refused:
        await app.jobs.retry(dead.id)
    assert (refused.value.key, refused.value.job_id) == ("one", holder.id)


async def test_a_deleted_job_is_gone_with_its_history(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    await app.drain()
    await app.jobs.delete(job.id)
    with pytest.raises(JobNotFound):
        await app.jobs.get(job.id)
    assert list(await app.executions.list(job_id=job.id)) == []


# by filter


async def test_a_change_by_filter_reports_done_and_refused_jobs(app: Mainspring) -> None:
    task = app.task(work)
    done = await task.enqueue()
    await app.drain()
    waiting = await task.enqueue()
    other = await task.using(queue="mail").enqueue()
    changed = await app.jobs.cancel(Filter(queues=("default",)), "enough")
    assert changed.done == [waiting.id]
    assert {id: refusal.state for id, refusal in changed.refused.items()} == {done.id: State.COMPLETED}
    assert (await other.job()).state is State.PENDING


async def test_a_filter_that_matches_nothing_changes_nothing(app: Mainspring) -> None:
    changed = await app.jobs.cancel(Filter(tags=("nobody",)))
    assert (changed.done, changed.refused) == ([], {})


@pytest.mark.parametrize("call", ["list", "cancel"])
async def test_an_unknown_state_in_a_filter_is_refused(app: Mainspring, call: str) -> None:
    with pytest.raises(BadInput) as refused:
        await getattr(app.jobs, call)(Filter(states=("finished",)))  # type: ignore[arg-type]
    assert str(refused.value) == f"unknown state 'finished'; known: {', '.join(sorted(SHOWN))}"


# reading


async def test_get_of_an_unknown_job_raises_job_not_found(app: Mainspring) -> None:
    with pytest.raises(JobNotFound) as missing:
        await app.jobs.get(NOBODY)
    assert str(missing.value) == MISSING


@pytest.mark.parametrize("id", ["", "no uuid", "\ud800", "a\x00b", 5, None])
async def test_get_refuses_a_malformed_job_id(app: Mainspring, id: Any) -> None:
    with pytest.raises((JobNotFound, BadInput)):
        await app.jobs.get(id)


async def test_cancel_refuses_a_handle_in_place_of_a_job_id(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    with pytest.raises((JobNotFound, BadInput)):
        await app.jobs.cancel(job)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["\ud800", "a\x00b"])
async def test_a_cancel_reason_that_cannot_be_stored_is_refused_or_cleaned(app: Mainspring, reason: str) -> None:
    job = await app.task(work).enqueue()
    try:
        await app.jobs.cancel(job.id, reason)
    except BadInput:
        return
    kept = (await job.job()).cancel_reason or ""
    assert "\x00" not in kept
    assert kept.encode()


async def test_jobs_are_listed_newest_first(app: Mainspring) -> None:
    task = app.task(work)
    ids = [(await task.enqueue(n)).id for n in range(5)]
    assert [job.id for job in await app.jobs.list()] == ids[::-1]
    assert [job.id for job in await app.jobs.list(newest=False)] == ids


@pytest.mark.parametrize("newest", [True, False])
async def test_pages_of_jobs_have_no_gap_or_overlap(app: Mainspring, newest: bool) -> None:
    task = app.task(work)
    ids = sorted([handle.id for handle in await app.enqueue_many(task.job(n) for n in range(25))], reverse=newest)
    seen: list[str] = []
    while page := await app.jobs.list(limit=10, newest=newest, after=seen[-1] if seen else None):
        seen += [job.id for job in page]
    assert seen == ids


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_an_invalid_page_limit_is_refused(app: Mainspring, limit: int) -> None:
    with pytest.raises(BadInput) as refused:
        await app.jobs.list(limit=limit)
    assert str(refused.value) == f"limit must be from 1 to 1000, got {limit}; page on with after="


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        (Filter(), {"plain", "mail", "later", "done"}),
        (Filter(queues=("mail",)), {"mail"}),
        (Filter(queues=("mail", "default")), {"plain", "mail", "later", "done"}),
        (Filter(states=("scheduled",)), {"later"}),
        (Filter(states=("pending", "completed")), {"plain", "mail", "done"}),
        (Filter(tags=("red",)), {"mail", "later"}),
        (Filter(tags=("red",), states=("scheduled",)), {"later"}),
        (Filter(tasks=("nobody's",)), set()),
        (Filter(ids=()), set()),
    ],
    ids=repr,
)
async def test_jobs_list_returns_jobs_that_match_all_parts_of_a_filter(
    app: Mainspring, filter: Filter, found: set[str]
) -> None:
    task = app.task(work)
    names = {(await task.enqueue()).id: "done"}
    await app.drain()
    names[(await task.enqueue()).id] = "plain"
    names[(await task.using(queue="mail", tags=["red", "big"]).enqueue()).id] = "mail"
    names[(await task.using(delay=60, tags=["red"]).enqueue()).id] = "later"
    assert {names[job.id] for job in await app.jobs.list(filter)} == found


async def test_executions_are_listed_oldest_first(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(max_retries=2)(work).enqueue(-1)
    for _ in range(3):
        await app.drain()
        clock.advance(hours=1)
    runs = await app.executions.list(job_id=job.id)
    assert [(run.number, run.attempt, run.ending) for run in runs] == [(n, n, "failed") for n in (1, 2, 3)]
    assert {run.failure.message for run in runs if run.failure} == {"negative"}


async def test_an_execution_is_found_by_its_number(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    await app.drain()
    assert (await app.executions.get(job.id, 1)).ending == "completed"


async def test_an_unknown_execution_raises_job_not_found(app: Mainspring) -> None:
    job = await app.task(work).enqueue()
    with pytest.raises(JobNotFound, match=f"{job.id}.* run 7"):
        await app.executions.get(job.id, 7)


# run again


async def test_run_again_makes_a_new_job_with_the_same_call(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    options: dict[str, Any] = {
        "queue": "mail", "priority": 7, "tags": ["a", "b"], "metadata": {"customer": 42, "traceparent": "00-1-2-01"},
        "max_retries": 3, "timeout": 9, "unique_key": "one", "expires": 3600,
    }  # fmt: skip
    first = await task.using(**options).enqueue(4)
    await app.drain()
    clock.advance(days=1)
    again = await app.jobs.run_again(first.id)
    old, new = await first.job(), await again.job()
    assert again.id != first.id
    assert (old.state, new.state, new.expires_at, new.run_at) == (State.COMPLETED, State.PENDING, None, clock.now())
    same = ("task", "payload", "queue", "priority", "tags", "max_retries", "timeout", "unique_key", "fingerprint")
    assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
    assert new.metadata == {"customer": 42}
    with pytest.raises(JobExists):  # the new one holds the key
        await app.jobs.run_again(first.id)
    await app.drain()
    assert (await again.job()).state is State.COMPLETED


async def test_run_again_does_not_copy_the_schedule_or_idempotency_key(app: Mainspring) -> None:
    app.task(work)
    await app.schedules.create("often", every(1).hours, "work")
    (made,) = [await app.schedules.trigger("often")]
    keyed = await app.tasks["work"].using(idempotency_key="once").enqueue()
    await app.drain()
    for id in (made.id, keyed.id):
        new = await (await app.jobs.run_again(id)).job()
        assert (new.schedule, new.scheduled_at, new.idempotency_key) == (None, None, None)


async def test_run_again_refuses_unfinished_and_unknown_jobs(app: Mainspring) -> None:
    task = app.task(max_retries=0)(work)
    waits, dies = await task.using(delay=60).enqueue(), await task.enqueue(-1)
    with pytest.raises(InvalidTransition, match="it is scheduled, run again needs completed, dead, cancelled, expired"):
        await app.jobs.run_again(waits.id)
    with pytest.raises(JobNotFound):
        await app.jobs.run_again("nope")
    await app.drain()
    assert (await dies.job()).state is State.DEAD
    assert (await (await app.jobs.run_again(dies.id)).job()).state is State.PENDING


async def test_run_again_refuses_jobs_of_internal_tasks(app: Mainspring) -> None:
    app.task(work)
    await app.webhooks.create("pager", "https://example.org/", events=["job.completed"])
    await app.jobs.cancel((await app.webhooks.test("pager")).id)
    (delivery,) = await app.jobs.list(Filter(tasks=("mainspring.webhook",)))
    with pytest.raises(BadInput, match="is of an internal task"):
        await app.jobs.run_again(delivery.id)


# redrive with other arguments


async def test_redrive_preview_refuses_arguments_that_do_not_fit_the_task(app: Mainspring) -> None:
    task = app.task(max_retries=0)(work)
    await app.enqueue_many(task.job(-n) for n in range(1, 4))
    await app.drain()
    (group,) = [one for one in await app.dead.groups() if one.task == "work"][:1]
    assert len((await app.dead.preview(group)).done) == group.count
    assert len((await app.dead.preview(group, arguments={"a": 5})).done) == group.count
    refused = (await app.dead.preview(group, arguments={"a": "five"})).refused
    assert len(refused) == group.count
    assert all("do not fit" in (one.error or "") for one in refused.values())
    assert {job.state for job in await app.jobs.list()} == {State.DEAD}


# counts of a filter


async def test_filtered_counts_are_capped(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    await app.enqueue_many(task.using(tags=["a"]).job() for _ in range(150))
    await app.enqueue_many(task.using(tags=["b"], queue="mail").job() for _ in range(7))
    await app.enqueue_many(task.using(tags=["b"], delay=60, queue="mail").job() for _ in range(3))
    for_a = await app.jobs.filtered_counts(Filter(tags=("a",), states=("dead",)))
    assert (for_a.counts["pending"], for_a.up_to, for_a.counts["dead"]) == (100, 100, 0)
    for_b = (await app.jobs.filtered_counts(Filter(tags=("b",)))).counts
    assert (for_b["pending"], for_b["scheduled"], sum(for_b.values())) == (7, 3, 10)
    of_queue = (await app.jobs.filtered_counts(Filter(queues=("default",)))).counts
    assert (of_queue["pending"], of_queue["scheduled"]) == (150, 0)


# queues


async def test_a_paused_queue_accepts_jobs_but_does_not_run_them(app: Mainspring) -> None:
    task = app.task(work)
    await app.queues.pause("default")
    await task.enqueue()
    assert await app.drain() == 0
    assert [(queue.name, queue.paused, queue.pending) for queue in await app.queues.list()] == [("default", True, 1)]
    await app.queues.resume("default")
    assert await app.drain() == 1


async def test_queues_are_listed_by_name_with_their_jobs(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    await task.using(queue="b", delay=60).enqueue()
    await task.using(queue="a").enqueue(-1)
    await task.using(queue="c").enqueue()
    await app.drain()
    await task.using(queue="b").enqueue()
    queues = await app.queues.list()
    assert [(q.name, q.pending, q.scheduled, q.retrying, q.running) for q in queues] == [
        ("a", 0, 0, 1, 0),
        ("b", 1, 1, 0, 0),
    ]


async def test_a_pause_keeps_who_paused_the_queue_when_and_why(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    job = await task.enqueue()
    began = clock.now()
    with act_as("ada"):
        await app.queues.pause("default", "the provider is down")
    clock.advance(minutes=5)
    (queue,) = await app.queues.list()
    assert (queue.paused_at, queue.paused_by, queue.note) == (began, "ada", "the provider is down")
    assert (await app.stats()).queues == [queue]
    said = [reason.text for reason in await app.jobs.why(job.id) if reason.code == "queue_paused"]
    assert said[0].startswith("queue 'default' was paused by ada 5 min ago (")
    assert said[0].endswith("): the provider is down; resume it to go on")
    ended = clock.now()
    await app.queues.resume("default")
    assert [(one.paused, one.paused_at, one.note) for one in await app.queues.list()] == [(False, None, "")]
    clock.advance(minutes=1)
    await app.queues.pause("default")
    again, first = await app.queues.pauses("default")
    assert (first.at, first.until, first.who, first.note) == (began, ended, "ada", "the provider is down")
    assert (again.at, again.until, again.who, again.note) == (clock.now(), None, None, "")


async def test_pausing_a_paused_queue_changes_only_its_note(app: Mainspring, clock: VirtualClock) -> None:
    began = clock.now()
    await app.queues.pause("mail", "first")
    clock.advance(minutes=1)
    await app.queues.pause("mail")
    with act_as("eve"):
        await app.queues.pause("mail", "second")
    (pause,) = await app.queues.pauses("mail")
    assert (pause.at, pause.who, pause.note) == (began, "eve", "second")


async def test_a_queue_pause_by_an_earlier_release_has_no_actor_or_note(app: Mainspring, clock: VirtualClock) -> None:
    store = await app.connect()
    await app.queues.pause("mail", "ours")
    await store.pause_queue("mail", False)
    assert await app.queues.list() == []
    await app.queues.pause("mail", "ours again")
    assert [(one.note, one.until) for one in await app.queues.pauses("mail")] == [("ours again", None)]
    await app.queues.resume("mail")
    await store.pause_queue("mail", True)
    assert [(one.paused, one.paused_by, one.note) for one in await app.queues.list()] == [(True, None, "")]


async def test_the_newest_twenty_pauses_of_a_queue_are_kept_for_90_days(app: Mainspring, clock: VirtualClock) -> None:
    for n in range(25):
        await app.queues.pause("mail", f"{n}")
        await app.queues.resume("mail")
    assert [one.note for one in await app.queues.pauses("mail")] == [f"{n}" for n in range(24, 4, -1)]
    clock.advance(days=91)
    assert await app.queues.pauses("mail") == ()


@pytest.mark.parametrize("note", ["x" * 1001, None, 5])
async def test_a_queue_pause_with_an_invalid_note_is_refused(app: Mainspring, note: Any) -> None:
    with pytest.raises(BadInput, match="a note is text of at most 1,000 characters"):
        await app.queues.pause("mail", note)
    assert await app.queues.list() == []


async def test_concurrent_pauses_of_a_queue_leave_one_open_record(app: Mainspring) -> None:
    await asyncio.gather(*(app.queues.pause("mail", f"{n}") for n in range(30)))
    (queue,) = await app.queues.list()
    assert queue.note in {f"{n}" for n in range(30)}
    assert len([one for one in await app.queues.pauses("mail") if one.until is None]) == 1


@pytest.mark.parametrize("call", ["pause", "resume"])
@pytest.mark.parametrize("name", ["", " mail", 5, None])
async def test_an_invalid_queue_name_is_refused(app: Mainspring, call: str, name: Any) -> None:
    with pytest.raises(BadInput, match="a queue name is 1 to 200 printable characters without spaces around"):
        await getattr(app.queues, call)(name)


# workers and figures


async def test_a_live_worker_is_listed(app: Mainspring, clock: VirtualClock) -> None:
    app.task(work)
    async with app.worker(queues=["mail"], concurrency=7) as worker:
        (live,) = await app.workers.list()
        assert (live.info.id, live.info.queues, live.info.tasks) == (worker.id, ("mail",), ("work",))
        assert (live.info.concurrency, live.until) == (7, clock.now() + timedelta(seconds=app.settings.lease))
    assert list(await app.workers.list()) == []


async def test_stats_count_jobs_of_each_shown_state(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    await task.enqueue()
    await task.using(max_retries=0).enqueue(-1)
    await task.enqueue(-1)
    await app.drain()
    await app.jobs.cancel((await task.enqueue()).id)
    await app.jobs.pause((await task.enqueue()).id)
    await task.using(delay=60).enqueue()
    await task.using(expires=1, delay=1).enqueue()
    await task.enqueue()
    clock.advance(seconds=2)
    stats = await app.stats()
    counts = {state: getattr(stats, state) for state in SHOWN}
    assert counts == {
        "pending": 1, "scheduled": 1, "retrying": 1, "running": 0, "waiting": 0, "paused": 1,
        "completed": 1, "dead": 1, "cancelled": 1, "expired": 1,
    }  # fmt: skip
    assert [queue.name for queue in stats.queues] == ["default"]
