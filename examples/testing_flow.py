"""Tests of a flow that takes three days: app.testing() lets them pass in milliseconds.

Also runs under pytest.

Prints:
    test_the_plan_for_a_customer_who_pays: passed
    test_the_course_of_three_days: passed
    test_a_bill_that_is_not_paid: passed
    test_a_mail_server_that_is_down_for_an_hour: passed
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Backoff, FlowFailed, Mainspring, State, first, not_

pytest_plugins = ["mainspring.testing.plugin"]  # lets pytest run coroutine tests

app = Mainspring("sqlite:///production.db")  # never touched here
outbox: list[str] = []
down = False


@app.task(max_retries=10, backoff=Backoff.constant(1800, jitter=0))
async def mail(to: str, text: str) -> str:
    if down:
        raise ConnectionError("the mail server is down")
    outbox.append(f"{text} to {to}")
    return text


@app.task(max_retries=0)
async def paid(to: str) -> bool:
    if "@" not in to:
        raise ValueError(f"{to!r} is no customer")
    return to.startswith("ada")


@app.flow
def welcome(to: str) -> str:
    greeted = mail.using(step="greet").step(to, "welcome")
    settled = paid.using(delay="2d", after=greeted).step(to)
    thanked = mail.using(step="thank", delay="1d", when=settled).step(to, "thank you")
    reminded = mail.using(step="remind", delay="1d", when=not_(settled)).step(to, "your bill")
    return first(thanked, reminded)


async def test_the_plan_for_a_customer_who_pays() -> None:
    with app.testing() as jobs:
        plan = jobs.plan(welcome, "ada@example.org")
        assert [step.name for step in plan.steps] == ["greet", "paid", "thank", "remind"]
        jobs.assert_not_enqueued()


async def test_the_course_of_three_days() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        run = await welcome.enqueue("ada@example.org")
        await jobs.advance(days=1)
        assert await jobs.steps(run) == {
            "greet": "completed",
            "paid": "scheduled",
            "thank": "waiting",
            "remind": "waiting",
        }
        await jobs.advance(days=2)
        assert (await run.job()).state is State.COMPLETED
        jobs.assert_step(run, "thank", "ada@example.org", "thank you")
    assert outbox == ["welcome to ada@example.org", "thank you to ada@example.org"]


async def test_a_bill_that_is_not_paid() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        run = await welcome.enqueue("bob@example.org")
        await jobs.advance(days=3)
        assert (await jobs.steps(run))["thank"] == "skipped"
        assert await run.result() == "your bill"
        stranger = await welcome.enqueue("nobody")
        await jobs.advance(days=3)
        with pytest.raises(FlowFailed, match="'nobody' is no customer"):
            await stranger.result()


async def test_a_mail_server_that_is_down_for_an_hour() -> None:
    global down
    down = True
    async with app.testing() as jobs:
        run = await welcome.enqueue("ada@example.org")
        await jobs.advance(hours=1)
        assert (await jobs.steps(run))["greet"] == "retrying"
        down = False
        await jobs.advance(days=3, hours=1)
        assert (await run.job()).state is State.COMPLETED


TESTS: list[Callable[[], Any]] = [
    test_the_plan_for_a_customer_who_pays,
    test_the_course_of_three_days,
    test_a_bill_that_is_not_paid,
    test_a_mail_server_that_is_down_for_an_hour,
]

if __name__ == "__main__":
    for test in TESTS:
        if inspect.iscoroutinefunction(test):
            asyncio.run(test())
        else:
            test()
        print(f"{test.__name__}: passed")
