"""Dead letters: one job each, enqueued in the step that ends the dead job; and the redrive of dead jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring import (
    BadInput,
    BadPayload,
    BadTask,
    Context,
    DeadLetter,
    Discard,
    Filter,
    Job,
    JobExists,
    Mainspring,
    State,
)
from mainspring.events import JobDied, JobEnqueued
from mainspring.testing import Faults, FaultStore, Recorder, VirtualClock


async def mourners(app: Mainspring, task: str) -> list[Job]:
    return list(await app.jobs.list(Filter(tasks=(task,)), newest=False))


def listen(app: Mainspring) -> list[DeadLetter]:
    """The dead letters that the app's handler receives."""
    heard: list[DeadLetter] = []

    @app.dead_letter
    async def bury(letter: DeadLetter) -> None:
        heard.append(letter)

    return heard


async def test_the_dead_letter_handler_is_called_once_with_arguments_error_and_attempts(
    app: Mainspring, clock: VirtualClock
) -> None:
    heard = listen(app)

    @app.task(max_retries=2)
    async def charge(customer: int, amount: str) -> None:
        raise ValueError(f"card of {customer} refused")

    async with app:
        created = clock.now()
        charging = charge.using(queue="money", tags=["eu"], metadata={"order": 7})
        handle = await charging.enqueue(42, amount="9.99")
        async with app.worker():
            await clock.elapse(seconds=30)
        job = await handle.job()
        (notice,) = await mourners(app, "bury")
    (letter,) = heard
    assert (letter.job_id, letter.task, letter.queue) == (handle.id, "charge", "money")
    assert letter.arguments == {"customer": 42, "amount": "9.99"}
    assert (letter.failure.type, letter.failure.message) == ("ValueError", "card of 42 refused")
    assert "raise ValueError" in letter.failure.stack
    assert (letter.attempts, letter.crashes) == (3, 0)
    assert (letter.created_at, letter.died_at) == (created, job.finished_at)
    assert (letter.tags, letter.metadata) == (("eu",), {"order": 7})
    assert (notice.queue, notice.metadata) == ("dead", {"dead_letter_of": handle.id})


async def test_a_completed_or_cancelled_job_sends_no_dead_letter(app: Mainspring, clock: VirtualClock) -> None:
    heard = listen(app)

    @app.task(max_retries=1)
    async def second_time(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError

    async with app:
        await second_time.enqueue()
        cancelled = await second_time.using(delay=60).enqueue()
        await app.jobs.cancel(cancelled.id)
        async with app.worker():
            await clock.elapse(seconds=30)
    assert heard == []


async def test_on_failure_of_a_task_is_called_beside_the_dead_letter_handler_of_the_app(
    app: Mainspring, clock: VirtualClock
) -> None:
    heard = listen(app)
    own: list[str] = []

    @app.task
    def undo(letter: DeadLetter) -> None:
        own.append(letter.job_id)

    @app.task(max_retries=0, on_failure=undo)
    async def failing() -> None:
        raise ValueError

    async with app:
        handle = await failing.enqueue()
        await app.drain()
    assert (own, [letter.job_id for letter in heard]) == ([handle.id], [handle.id])


async def test_a_function_that_is_on_failure_and_dead_letter_handler_is_called_once(
    app: Mainspring, clock: VirtualClock
) -> None:
    heard: list[str] = []

    @app.dead_letter
    async def bury(letter: DeadLetter) -> None:
        heard.append(letter.job_id)

    @app.task(max_retries=0, on_failure=bury)
    async def failing() -> None:
        raise ValueError

    async with app:
        handle = await failing.enqueue()
        await app.drain()
    assert heard == [handle.id]


async def test_the_dead_letter_is_enqueued_in_the_step_that_ends_the_job(app: Mainspring, clock: VirtualClock) -> None:
    """So it survives a process that dies right after it: its job is stored, and any worker can run it."""
    heard, go = listen(app), asyncio.Event()

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    @app.on(JobDied)
    def look(event: JobDied) -> None:
        go.set()

    async with app:
        await failing.enqueue()
        async with app.worker(queues=["default"]):
            await clock.elapse(seconds=1)
            assert go.is_set()
        (notice,) = await mourners(app, "bury")
        assert (notice.state, heard) == (State.PENDING, [])
        await app.drain()
    assert len(heard) == 1


async def test_a_lost_reply_to_finish_sends_one_dead_letter(app: Mainspring, clock: VirtualClock) -> None:
    faults = Faults()
    shaky = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]
    heard = listen(shaky)

    @shaky.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with shaky:
        await failing.enqueue()
        faults.fail("finish", times=3, moment="after")
        async with shaky.worker():
            await clock.elapse(seconds=20)
        assert len(await mourners(shaky, "bury")) == 1
    assert len(faults.injected) == 3
    assert len(heard) == 1


async def test_a_dead_letter_handler_that_fails_is_retried_and_sends_no_dead_letter(
    app: Mainspring, clock: VirtualClock
) -> None:
    tries: list[int] = []

    @app.dead_letter
    async def bury(letter: DeadLetter) -> None:
        tries.append(1)
        raise RuntimeError("the mail server is down as well")

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with app:
        await failing.enqueue()
        async with app.worker():
            await clock.elapse(seconds=30)
        (notice,) = await mourners(app, "bury")
    assert notice.state is State.DEAD
    assert len(tries) == 4


async def test_a_discarded_job_sends_a_dead_letter(app: Mainspring, clock: VirtualClock) -> None:
    heard = listen(app)

    @app.task
    async def picky() -> None:
        raise Discard("no such customer")

    async with app:
        await picky.enqueue()
        await app.drain()
    assert [(letter.failure.message, letter.attempts) for letter in heard] == [("no such customer", 1)]


async def test_a_job_with_unreadable_arguments_sends_a_dead_letter(app: Mainspring, clock: VirtualClock) -> None:
    heard = listen(app)

    async with app:
        before = Mainspring(await app.connect(), clock=clock)
        await before.enqueue("typed", n="seven")

        @app.task
        async def typed(n: int) -> None: ...

        await app.drain()
        assert heard == []  # another version of the task may still read it
        clock.advance(timedelta(seconds=app.settings.skew))
        await app.drain()
    (letter,) = heard
    assert (letter.arguments, letter.failure.type) == ({"n": "seven"}, "VersionSkew")


async def test_a_poison_pill_sends_a_dead_letter(app: Mainspring, clock: VirtualClock) -> None:
    heard = listen(app)

    @app.task
    async def pill() -> None:
        raise AssertionError("never gets that far")

    async with app:
        handle = await pill.enqueue()
        store = await app.connect()
        for _ in range(3):
            dead = app.worker()
            now = clock.now()
            await store.beat(dead._info, until=now + timedelta(seconds=1), now=now)
            await store.claim(None, worker=dead.id, tasks=["pill"], limit=1, now=now)
            clock.advance(seconds=2)
            await app.worker(queues=["elsewhere"]).drain()
        assert (await handle.job()).state is State.DEAD
        await app.drain()
    (letter,) = heard
    assert (letter.failure.type, letter.crashes) == ("PoisonPill", 3)


async def test_a_dead_letter_that_is_too_large_leaves_out_arguments_and_cuts_the_error(
    url: str, clock: VirtualClock
) -> None:
    app = Mainspring(url, clock=clock, payload_limit=6000)
    heard = listen(app)

    @app.task(max_retries=0)
    async def failing(text: str) -> None:
        raise ValueError("x" * 4000)

    async with app:
        handle = await failing.enqueue("y" * 5000)
        await app.drain()
        job = await handle.job()
    (letter,) = heard
    assert (letter.job_id, letter.attempts) == (handle.id, 1)
    assert letter.arguments == "(left out: too long for a letter; see the job)"
    assert letter.failure.message == "x" * 1000
    assert job.failure is not None
    assert len(job.failure.message) == 4000


async def test_a_job_dies_even_if_its_dead_letter_cannot_be_made(
    url: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = Mainspring(url, clock=clock, payload_limit=600)

    def key(letter: DeadLetter) -> str:
        raise LookupError("no key for this one")

    @app.task(unique_key=key)
    async def bury(letter: DeadLetter) -> None: ...

    app.dead_letter(bury)  # type: ignore[call-overload]

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with app:
        handle = await failing.enqueue()
        await app.drain()
        assert (await handle.job()).state is State.DEAD
        assert await mourners(app, "bury") == []
    assert f"job {handle.id} died, and its dead-letter handler 'bury' could not be enqueued" in caplog.text


async def test_the_queue_of_the_dead_letter_handler_is_a_setting(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, dead_queue="graves")
    listen(app)

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with app:
        await failing.enqueue()
        await app.drain(queues=["default"])
        (notice,) = await mourners(app, "bury")
    assert notice.queue == "graves"


async def test_a_dead_letter_emits_a_job_enqueued_event(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    listen(app)

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with app:
        await failing.enqueue()
        await app.drain()
        (notice,) = await mourners(app, "bury")
    assert [(event.task, event.status) for event in recorder.of(JobEnqueued)] == [("failing", "new"), ("bury", "new")]
    assert recorder.of(JobEnqueued)[1].id == notice.id


# registration


def no_argument() -> None: ...
def two_arguments(letter: DeadLetter, more: int) -> None: ...
def wrong_type(letter: int) -> None: ...


@pytest.mark.parametrize("fn", [no_argument, two_arguments, wrong_type])
def test_a_dead_letter_handler_with_a_wrong_signature_is_refused_when_registered(
    app: Mainspring, fn: Callable[..., Any]
) -> None:
    fits = rf"dead-letter handler '{fn.__name__}' must take one DeadLetter: def {fn.__name__}\(letter: DeadLetter\)"
    with pytest.raises(BadTask, match=fits):
        app.dead_letter(fn)
    assert app.tasks == {}
    task = app.task(fn)
    with pytest.raises(BadTask, match=fits):

        @app.task(on_failure=task)
        async def work() -> None: ...


def test_a_dead_letter_handler_may_be_untyped_or_take_a_context(app: Mainspring) -> None:
    @app.task
    def untyped(letter): ...  # type: ignore[no-untyped-def]

    @app.task
    def with_context(ctx: Context, letter: DeadLetter) -> None: ...

    for handler in (untyped, with_context):
        app.task(name=f"for {handler.name}", on_failure=handler)(no_argument)


def test_an_app_has_one_dead_letter_handler(app: Mainspring) -> None:
    listen(app)
    with pytest.raises(BadTask, match="the dead-letter handler is 'bury' already; an app has one"):
        app.dead_letter(wrong_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", ["undo", no_argument, 5])
def test_on_failure_takes_a_task(app: Mainspring, handler: Any) -> None:
    with pytest.raises(BadInput, match="option on_failure of task 'work': takes a task of this app, got"):

        @app.task(on_failure=handler)
        async def work() -> None: ...


def test_on_failure_takes_a_task_of_this_app(app: Mainspring) -> None:
    other = Mainspring("memory://")

    @other.task
    async def undo(letter: DeadLetter) -> None: ...

    with pytest.raises(BadTask, match="task 'work': on_failure is task 'undo' of another app"):

        @app.task(on_failure=undo)
        async def work() -> None: ...


# the way back


async def three_dead(app: Mainspring, clock: VirtualClock) -> list[str]:
    """Four dead jobs: two with the same kind of failure, two with others; returns their ids."""

    @app.task(max_retries=0)
    async def charge(customer: int, fail: str = "") -> int:
        if fail:
            raise ValueError(f"{fail} {customer}")
        return customer

    @app.task(max_retries=0)
    async def other() -> None:
        raise KeyError("x")

    jobs = [charge.job(1, fail="refused"), charge.job(2, fail="refused"), charge.job(3, fail="expired"), other.job()]
    handles = await app.enqueue_many(jobs)
    await app.drain()
    return [handle.id for handle in handles]


async def states(app: Mainspring, ids: list[str]) -> list[str]:
    return [str((await app.jobs.get(id)).state) for id in ids]


async def test_dead_jobs_are_grouped_by_how_they_failed(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        groups = await app.dead.groups()
        page = await app.dead.list()
    assert [(group.task, group.error, group.count) for group in groups] == [
        ("charge", "ValueError: refused …", 2),
        ("charge", "ValueError: expired …", 1),
        ("other", "KeyError: …", 1),
    ]
    assert (groups[0].newest, groups[0].last_at) == (ids[1], clock.now())
    assert {job.id for job in page} == set(ids)


async def test_a_dead_job_is_redriven_with_all_its_retries(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        assert (await app.dead.redrive(ids[0])).done == [ids[0]]
        job = await app.jobs.get(ids[0])
        assert (job.state, job.attempt, job.run_at) == (State.PENDING, 0, clock.now())
        assert await states(app, ids[1:]) == ["dead", "dead", "dead"]


async def test_a_dead_group_is_redriven_with_other_arguments(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        group = (await app.dead.groups())[0]
        changed = await app.dead.redrive(group, arguments={"fail": ""})
        assert changed.done == ids[:2]
        await app.drain()
        assert await states(app, ids) == ["completed", "completed", "dead", "dead"]
        assert [(await app.jobs.get(id)).result for id in ids[:2]] == ["1", "2"]


async def test_dead_jobs_that_match_a_filter_are_redriven(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        changed = await app.dead.redrive(Filter(tasks=("charge",)))
        assert sorted(changed.done) == sorted(ids[:3])
        assert await states(app, ids) == ["pending", "pending", "pending", "dead"]


async def test_an_empty_filter_redrives_all_dead_jobs_and_no_others(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        gone = await app.tasks["other"].using(delay=60).enqueue()
        await app.jobs.cancel(gone.id)
        assert sorted((await app.dead.redrive(Filter())).done) == sorted(ids)
        assert await states(app, [gone.id]) == ["cancelled"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [({"customer": "many"}, "Expected `int`, got `str`"), ({"colour": "red"}, "unknown field `colour`")],
)
async def test_redrive_with_arguments_that_do_not_fit_is_refused(
    app: Mainspring, clock: VirtualClock, arguments: dict[str, Any], why: str
) -> None:
    async with app:
        ids = await three_dead(app, clock)
        with pytest.raises(BadPayload, match=why):
            await app.dead.redrive(ids[0], arguments=arguments)
        for which in (Filter(tasks=("charge",)), (await app.dead.groups())[0]):
            changed = await app.dead.redrive(which, arguments=arguments)
            assert changed.done == []
            assert all(why in (refusal.error or "") for refusal in changed.refused.values())
        assert set(await states(app, ids)) == {"dead"}


async def test_redrive_refuses_only_the_jobs_that_the_arguments_do_not_fit(
    app: Mainspring, clock: VirtualClock
) -> None:
    async with app:
        await three_dead(app, clock)
        changed = await app.dead.redrive(Filter(), arguments={"customer": 5})
        (refusal,) = changed.refused.values()
        assert len(changed.done) == 3
        assert "arguments of task 'other' do not fit" in (refusal.error or "")


async def test_redrive_refuses_a_filter_for_other_states(app: Mainspring) -> None:
    with pytest.raises(BadInput, match="dead letters are in state dead; leave states out of the filter"):
        await app.dead.redrive(Filter(states=("cancelled",)))


async def test_a_redrive_is_refused_while_another_job_has_the_key(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0, unique_key="the one")
    async def failing() -> None:
        raise ValueError

    async with app:
        dead = await failing.enqueue()
        await app.drain()
        holder = await failing.enqueue()
        with pytest.raises(JobExists) as refused:
            await app.dead.redrive(dead.id)
        bulk = await app.dead.redrive(Filter())
    assert refused.value.job_id == holder.id
    assert (bulk.done, bulk.refused[dead.id].holder) == ([], holder.id)


async def test_dead_jobs_are_pruned_after_seven_days(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        ids = await three_dead(app, clock)
        clock.advance(days=7)
        assert await app.prune() == 0
        clock.advance(seconds=1)
        assert await app.prune() == 4
        assert await app.jobs.list(Filter(ids=tuple(ids))) == []
