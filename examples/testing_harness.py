"""Tests of an app as it is, made once with its real store: app.testing() puts memory and a virtual clock in its place.

Also runs under pytest.

Prints:
    test_a_signup_asks_for_two_mails: passed
    test_a_mail_is_sent: passed
    test_a_mail_to_nobody_is_tried_again_after_a_minute: passed
    test_a_signup_in_code_that_does_not_await: passed
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from mainspring import Backoff, Mainspring, State

pytest_plugins = ["mainspring.testing.plugin"]  # lets pytest run coroutine tests

app = Mainspring("sqlite:///production.db")  # never touched here
outbox: list[str] = []


@app.task(queue="mail", max_retries=1, backoff=Backoff.constant(60, jitter=0))
async def send(to: str, template: str) -> None:
    if not to:
        raise ValueError("a mail needs an address")
    outbox.append(f"{template} to {to}")


async def sign_up(address: str) -> None:
    """Code of yours that enqueues."""
    await send.enqueue(address, "welcome")
    await send.using(delay=24 * 3600).enqueue(address, "how is it going")


async def test_a_signup_asks_for_two_mails() -> None:
    async with app.testing() as jobs:
        await sign_up("ada@example.org")
        jobs.assert_enqueued(send, "ada@example.org", "welcome", queue="mail", delay=0)
        jobs.assert_enqueued(send, template="how is it going", delay=24 * 3600)
        jobs.assert_not_enqueued(send, template="invoice")


async def test_a_mail_is_sent() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        await sign_up("ada@example.org")
        await jobs.drain(with_scheduled=True)  # a day passes
    assert outbox == ["welcome to ada@example.org", "how is it going to ada@example.org"]


async def test_a_mail_to_nobody_is_tried_again_after_a_minute() -> None:
    async with app.testing() as jobs:
        await send.enqueue("", "welcome")
        first = await jobs.process_one()
        assert first is not None
        assert first.failure is not None
        assert first.failure.message == "a mail needs an address"
        assert await jobs.process_one() is None
        jobs.clock.advance(minutes=1)
        second = await jobs.process_one()
        assert second is not None
        assert second.state is State.DEAD


def test_a_signup_in_code_that_does_not_await() -> None:
    outbox.clear()
    with app.testing("inline"):  # enqueue runs the job, and raises if it fails
        send.sync.enqueue("ada@example.org", "welcome")
    assert outbox == ["welcome to ada@example.org"]


TESTS: list[Callable[[], Any]] = [
    test_a_signup_asks_for_two_mails,
    test_a_mail_is_sent,
    test_a_mail_to_nobody_is_tried_again_after_a_minute,
    test_a_signup_in_code_that_does_not_await,
]

if __name__ == "__main__":
    for test in TESTS:
        if inspect.iscoroutinefunction(test):
            asyncio.run(test())
        else:
            test()
        print(f"{test.__name__}: passed")
