"""Tests of your own tasks on a clock that the test owns: hours pass at once. Also runs under pytest.

Prints:
    test_a_reminder_is_sent_after_an_hour_and_not_before: passed
    test_a_failing_reminder_is_tried_again_after_ten_minutes: passed
    test_a_lost_reply_of_the_store_does_not_make_a_second_job: passed
"""

import asyncio
from datetime import timedelta

from mainspring import Backoff, Mainspring
from mainspring.events import JobEnded
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, Recorder, VirtualClock

pytest_plugins = ["mainspring.testing.plugin"]  # lets pytest run coroutine tests
outbox: list[str] = []


def make_app(clock: VirtualClock, faults: Faults) -> Mainspring:
    """Your own application would have a function like this one."""
    store = FaultStore(open_store("memory://", clock=clock), faults)
    app = Mainspring(store, clock=clock, middleware=[faults.middleware])

    @app.task(max_retries=1, backoff=Backoff.constant(600, jitter=0))
    async def remind(customer: int) -> None:
        outbox.append(f"reminder for {customer}")

    return app


async def test_a_reminder_is_sent_after_an_hour_and_not_before() -> None:
    outbox.clear()
    clock = VirtualClock()
    app = make_app(clock, Faults())
    async with app, app.worker():
        await app.tasks["remind"].using(delay=timedelta(hours=1)).enqueue(7)
        await clock.elapse(minutes=59)
        assert outbox == []
        await clock.elapse(minutes=1)
        assert outbox == ["reminder for 7"]


async def test_a_failing_reminder_is_tried_again_after_ten_minutes() -> None:
    outbox.clear()
    clock, faults = VirtualClock(), Faults()
    app = make_app(clock, faults)
    told = Recorder(app)
    faults.fail("remind", error=lambda: ConnectionError("smtp is down"))
    async with app, app.worker():
        await app.tasks["remind"].enqueue(7)
        await clock.elapse(minutes=9)
        assert outbox == []
        await clock.elapse(minutes=1)
        assert outbox == ["reminder for 7"]
    assert [event.outcome.ending for event in told.of(JobEnded)] == ["failed", "completed"]


async def test_a_lost_reply_of_the_store_does_not_make_a_second_job() -> None:
    outbox.clear()
    clock, faults = VirtualClock(), Faults()
    app = make_app(clock, faults)
    faults.fail("finish", moment="after")  # the outcome is stored, the reply is lost
    async with app, app.worker():
        await app.tasks["remind"].enqueue(7)
        await clock.elapse(minutes=5)
    assert outbox == ["reminder for 7"]
    assert faults.injected == ["finish"]


if __name__ == "__main__":
    for test in (
        test_a_reminder_is_sent_after_an_hour_and_not_before,
        test_a_failing_reminder_is_tried_again_after_ten_minutes,
        test_a_lost_reply_of_the_store_does_not_make_a_second_job,
    ):
        asyncio.run(test())
        print(f"{test.__name__}: passed")
