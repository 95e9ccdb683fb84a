"""An error while the outcome of a run is decided ends the job, and repeated releases come to an end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Backoff, BadInput, Context, DeadLetter, Mainspring, Retry, Snooze, State
from mainspring.bounds import MAX_SPAN_SECONDS, later
from mainspring.events import JobEnded, JobStarted
from mainspring.middleware import Next
from mainspring.records.run import Ending, Execution, Failure
from mainspring.testing import VirtualClock
from mainspring.worker.judge import MAX_RELEASES, released_in_a_row

YEAR = timedelta(seconds=MAX_SPAN_SECONDS)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def test_a_job_that_is_released_too_often_dies_with_the_reason(app: Mainspring, clock: VirtualClock) -> None:
    async with app:

        @app.task(max_retries=1, timeout=None)
        async def endless() -> None:
            await asyncio.Event().wait()

        job, started, runs = await endless.enqueue(), asyncio.Event(), 0
        app.events.subscribe(JobStarted, lambda event: started.set())
        while (await app.jobs.get(job.id)).state is State.PENDING:
            started.clear()
            async with app.worker() as worker:
                async with asyncio.timeout(10):
                    await started.wait()
                await worker.stop(grace=0.0)
            runs += 1
            clock.advance(hours=1)
            assert runs <= MAX_RELEASES + 2
        dead = await job.job()
        assert (dead.state, dead.runs) == (State.DEAD, MAX_RELEASES + 2)
        assert dead.failure is not None
        assert dead.failure.type == "ReleasedTooOften"
        assert f"gave it back {MAX_RELEASES + 2} times in a row" in dead.failure.message


def an_execution(n: int, ending: Ending, failure: Failure | None = None) -> Execution:
    return Execution(job_id="j", number=n, attempt=1, ending=ending, worker="w", lease=f"l{n}", started_at=NOON,
                     finished_at=NOON, failure=failure)  # fmt: skip


@pytest.mark.parametrize(
    ("endings", "releases"),
    [
        ([], 0),
        (["released"] * 3, 3),
        (["released", "released", "snoozed"], 0),
        (["released", "snoozed", "released"], 1),
        (["released", "skewed", "released", "released"], 2),
        (["released", "too often", "released"], 3),
    ],
)
def test_releases_in_a_row_are_counted_since_the_last_other_ending(endings: list[str], releases: int) -> None:
    failures = {"skewed": Failure("VersionSkew", ""), "too often": Failure("ReleasedTooOften", "")}
    rows = [
        an_execution(n, Ending(end) if end in list(Ending) else Ending.RELEASED, failures.get(end))
        for n, end in enumerate(endings)
    ]
    assert released_in_a_row(rows) == releases


async def ended(app: Mainspring, id: str) -> Any:
    """The job after everything that is due has run."""
    await app.drain()
    return await app.jobs.get(id)


@pytest.mark.parametrize("made", [Backoff(initial=1e12, max=1e12), Backoff.linear(1e300, max=1e300)])
def test_a_backoff_of_an_earlier_release_is_clamped(made: Backoff) -> None:
    assert made.full_delay(1) == made.full_delay(10**6) == MAX_SPAN_SECONDS
    assert 0.7 * MAX_SPAN_SECONDS < made.delay(3, "job") <= MAX_SPAN_SECONDS


@pytest.mark.parametrize("wait", [1e12, 1e300, float("inf"), timedelta(days=367)])
@pytest.mark.parametrize("steer", [Retry, Snooze])
def test_retry_and_snooze_refuse_a_delay_beyond_a_year(steer: Any, wait: Any) -> None:
    with pytest.raises(BadInput, match="takes "):
        steer(wait)


def test_a_delay_is_limited_to_a_year_and_to_the_calendar() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert (later(last, 5) > last, later(NOON, -5), later(NOON, 1e300)) == (True, NOON, NOON + YEAR)


@pytest.mark.parametrize(
    "option",
    [
        {"delay": 1e9}, {"timeout": 1e9}, {"expires": 1e9}, {"debounce_limit": timedelta(days=400)},
        {"backoff": Backoff(initial=1e12, max=1e12)}, {"backoff": Backoff(initial=1e9, multiplier=1.0, max=1e9)},
    ],
)  # fmt: skip
async def test_options_refuse_spans_beyond_a_year(app: Mainspring, option: dict[str, Any]) -> None:
    @app.task
    async def task() -> None: ...

    (name,) = option
    with pytest.raises(BadInput, match=rf"option {name} of task 'task': .*at most 366 days"):
        task.using(**option)
    with pytest.raises(BadInput, match=rf"option {name} of task 'other'"):
        Mainspring("memory://").job("other", {}, **option)


async def test_an_operator_cannot_put_a_job_beyond_the_calendar(app: Mainspring) -> None:
    @app.task
    async def task() -> None: ...

    async with app:
        job = await task.enqueue()
        with pytest.raises(BadInput, match=r"reschedule\(\) takes at most 366 days"):
            await app.jobs.reschedule(job.id, timedelta.max)


async def test_a_directive_with_an_invalid_delay_ends_its_job(app: Mainspring) -> None:
    @app.task
    async def dozes() -> None:
        steer = Snooze(1)
        steer.delay = "soon"  # type: ignore[assignment]
        raise steer

    async with app:
        job = await ended(app, (await dozes.enqueue()).id)
    assert (job.state, job.runs, job.failure.type) == (State.DEAD, 1, "NotJudged")
    assert "the run ended with Snooze: snoozed, and judging that raised TypeError" in job.failure.message


async def test_a_middleware_that_raises_anything_ends_only_its_run(app: Mainspring) -> None:
    async def hook(ctx: Context, call_next: Next) -> Any:
        try:
            return await call_next(ctx)
        except ValueError:
            raise SystemExit("from the hook") from None

    @app.task(max_retries=0, middleware=[hook])
    async def fails() -> None:
        raise ValueError

    async with app:
        job = await ended(app, (await fails.enqueue()).id)
    assert (job.state, job.runs, job.failure.type, job.failure.message) == (
        State.DEAD, 1, "SystemExit", "from the hook"
    )  # fmt: skip


async def test_a_dead_letter_key_that_raises_anything_does_not_keep_the_job_alive(app: Mainspring) -> None:
    def key(letter: DeadLetter) -> str:
        raise SystemExit("no key")

    @app.task(unique_key=key)
    async def bury(letter: DeadLetter) -> None: ...

    @app.task(max_retries=0, on_failure=bury)
    async def fails() -> None:
        raise ValueError("as always")

    async with app:
        job = await ended(app, (await fails.enqueue()).id)
    assert (job.state, job.runs, job.failure.message) == (State.DEAD, 1, "as always")


async def test_a_subscriber_that_raises_anything_does_not_stop_the_worker(app: Mainspring) -> None:
    @app.task
    async def task() -> None: ...

    @app.on(JobEnded)
    def cancelled(event: JobEnded) -> None:
        raise asyncio.CancelledError

    async with app, app.worker():
        for _ in range(3):
            job = await task.enqueue()
            assert await job.result(timeout=10) is None


async def test_an_orphan_is_released_a_bounded_number_of_times(app: Mainspring, clock: VirtualClock) -> None:
    """The reply to every claim is lost: the store has the run, and its worker does not know it."""

    @app.task(max_retries=0)
    async def task() -> None: ...

    async with app:
        job = await task.enqueue()
        store, worker = await app.connect(), app.worker()
        info, runs = worker._info, 0
        while (await app.jobs.get(job.id)).state is State.PENDING:
            now = clock.now()
            await store.beat(info, until=now + timedelta(minutes=1), now=now)
            claim = await store.claim(None, worker=info.id, tasks=["task"], limit=1, now=now)
            for _ in range(2):
                worker._rescue.note_unknown_runs({(one.id, one.lease or "") for one in claim.jobs})
            await worker._rescue.sweep(store)
            clock.advance(seconds=1)
            runs += 1
            assert runs <= MAX_RELEASES + 1
        dead = await app.jobs.get(job.id)
    assert (dead.state, dead.runs) == (State.DEAD, MAX_RELEASES + 1)
    assert dead.failure is not None
    assert dead.failure.type == "ReleasedTooOften"
