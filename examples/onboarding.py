"""Onboarding over three days: a welcome, a reminder if nobody has answered after a day, and a question on the third.

The task is durable: a worker may be stopped or killed at any time in these days. Its tests take no time.

Also runs under pytest.

Prints:
    test_who_confirms_is_asked_on_the_third_day: passed
    test_who_does_not_answer_is_reminded_once: passed
    test_a_mail_that_cannot_be_sent_does_not_stop_the_rest: passed
    test_a_deploy_in_between_sends_nothing_twice: passed
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mainspring import ChildFailed, Context, Mainspring

pytest_plugins = ["mainspring.testing.plugin"]  # lets pytest run coroutine tests

app = Mainspring("sqlite:///production.db")  # never touched here
outbox: list[str] = []


@app.task(queue="mail", max_retries=2)
async def mail(to: str, template: str) -> None:
    if template == "welcome" and "@" not in to:
        raise ValueError(f"{to} is no address")
    outbox.append(f"{template} to {to}")


def create_account(address: str) -> int:
    outbox.append(f"account of {address}")
    return len(address)


@app.task
async def onboard(ctx: Context, address: str) -> str:
    account = await ctx.step(create_account, address)
    try:
        await ctx.run(mail, address, "welcome")
    except ChildFailed as failed:
        return f"account {account}: {failed.reason}"
    confirmed = await ctx.signal("confirmed", bool, timeout="1d", default=False)
    if not confirmed:
        await ctx.run(mail, address, "reminder")
        confirmed = await ctx.signal("confirmed late", bool, timeout="1d", default=False)
    if not confirmed:
        return f"account {account}: never confirmed"
    await ctx.sleep(days=2)
    await ctx.run(mail, address, "how is it going")
    return f"account {account}: active"


async def test_who_confirms_is_asked_on_the_third_day() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        run = await onboard.enqueue("ada@example.org")
        await jobs.advance(hours=1)
        await jobs.signal(run, "confirmed", True)
        await jobs.advance(days=1)
        assert outbox == ["account of ada@example.org", "welcome to ada@example.org"]
        await jobs.advance(days=2)
        assert outbox[2:] == ["how is it going to ada@example.org"]
        assert await run.result() == "account 15: active"


async def test_who_does_not_answer_is_reminded_once() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        run = await onboard.enqueue("bob@example.org")
        await jobs.advance(days=3)
        assert outbox[1:] == ["welcome to bob@example.org", "reminder to bob@example.org"]
        assert await run.result() == "account 15: never confirmed"


async def test_a_mail_that_cannot_be_sent_does_not_stop_the_rest() -> None:
    async with app.testing() as jobs:
        run = await onboard.enqueue("eve")
        await jobs.advance(hours=1)
        assert await run.result() == "account 3: ValueError: eve is no address"
        assert await jobs.steps(run) == {"mail": "dead"}


async def test_a_deploy_in_between_sends_nothing_twice() -> None:
    outbox.clear()
    async with app.testing() as jobs:
        run = await onboard.enqueue("ada@example.org")
        await jobs.advance(hours=1)  # the worker of this block ends with it, and another one begins
        await jobs.signal(run, "confirmed", True)
        for _ in range(6):
            await jobs.advance(hours=12)
        assert len(outbox) == len(set(outbox)) == 3


TESTS: list[Callable[[], Any]] = [
    test_who_confirms_is_asked_on_the_third_day,
    test_who_does_not_answer_is_reminded_once,
    test_a_mail_that_cannot_be_sent_does_not_stop_the_rest,
    test_a_deploy_in_between_sends_nothing_twice,
]

if __name__ == "__main__":
    logging.disable(logging.ERROR)  # of the mail that cannot be sent
    for test in TESTS:
        asyncio.run(test())
        print(f"{test.__name__}: passed")
