"""Durable jobs over a deploy: two releases of one task, whose steps were moved, renamed, added and taken away."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from mainspring import Context, Mainspring, Retry, State
from mainspring.records.job import Job
from mainspring.testing import VirtualClock

Body = Callable[[Context], Awaitable[Any]]


class Old(Struct):
    name: str


class New(Struct):
    name: str
    age: int


class Deploys:
    """Releases of one task on one store, each an app of its own."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self._url, self._clock = url, clock
        self.calls = Counter[str]()

    def step(self, name: str) -> Callable[[], str]:
        def call() -> str:
            self.calls[name] += 1
            return name

        call.__name__ = name
        return call

    def release(self, body: Body) -> Mainspring:
        app = Mainspring(self._url, clock=self._clock)
        app.task(name="work", max_retries=3, backoff=lambda _: 60.0)(body)
        return app

    async def run(self, body: Body, id: str | None = None) -> Job:
        """The job after a worker of this release has run it once; a new job without an id."""
        self._clock.advance(minutes=1)
        async with self.release(body) as app:
            id = id or (await app.tasks["work"].enqueue()).id
            await app.drain()
            return await app.jobs.get(id)


@pytest.fixture
def deploys(tmp_path: Path, empty_file: Path, clock: VirtualClock) -> Deploys:
    return Deploys(f"sqlite:///{shutil.copy(empty_file, tmp_path)}", clock)


async def test_steps_that_are_reordered_added_and_taken_away_do_no_harm(deploys: Deploys) -> None:
    a, b, c, d = map(deploys.step, "abcd")

    async def before(ctx: Context) -> None:
        await asyncio.gather(ctx.step(a), ctx.step(b), ctx.step(c))
        raise Retry

    async def after(ctx: Context) -> list[str]:
        first = await ctx.step(d)
        return [first, *await asyncio.gather(ctx.step(c), ctx.step(a))]

    job = await deploys.run(before)
    job = await deploys.run(after, job.id)
    assert (job.state, job.result) == (State.COMPLETED, '["d","c","a"]')
    assert deploys.calls == dict.fromkeys("abcd", 1)


async def test_a_step_that_was_renamed_runs_anew_and_the_others_do_not(deploys: Deploys) -> None:
    a, b, c = map(deploys.step, "abc")

    async def before(ctx: Context) -> None:
        await ctx.step(a)
        await ctx.step(b)
        raise Retry

    async def after(ctx: Context) -> list[str]:
        return [await ctx.step(a), await ctx.step(b, name="other"), await ctx.step(c, name="b")]

    job = await deploys.run(before)
    job = await deploys.run(after, job.id)
    assert job.result == '["a","b","b"]'  # the name is the identity, whatever the function
    assert deploys.calls == {"a": 1, "b": 2}


async def test_a_value_that_does_not_fit_any_more_is_accepted_by_the_release_after_that(deploys: Deploys) -> None:
    def old() -> Old:
        deploys.calls["user"] += 1
        return Old("Ada")

    def new() -> New:
        raise AssertionError

    def either() -> New | dict[str, str]:
        raise AssertionError

    async def before(ctx: Context) -> None:
        await ctx.step(old, name="user")
        raise Retry

    async def after(ctx: Context) -> int:
        return (await ctx.step(new, name="user")).age

    async def mended(ctx: Context) -> str:
        user = await ctx.step(either, name="user")
        return user["name"] if isinstance(user, dict) else user.name

    job = await deploys.run(before)
    job = await deploys.run(after, job.id)
    assert job.failure is not None
    assert (job.state, job.failure.type) == (State.DEAD, "CheckpointMismatch")
    assert "checkpoint 'user' of the run before does not fit" in job.failure.message
    async with deploys.release(mended) as app:
        await app.jobs.retry(job.id)
    job = await deploys.run(mended, job.id)
    assert (job.result, deploys.calls) == ('"Ada"', {"user": 1})


async def test_a_sleep_ends_at_its_instant_in_another_release(deploys: Deploys, clock: VirtualClock) -> None:
    a, b = map(deploys.step, "ab")

    async def before(ctx: Context) -> None:
        await ctx.step(a)
        await ctx.sleep(hours=2)

    async def after(ctx: Context) -> str:
        await ctx.step(b)
        await ctx.sleep(hours=48)
        return await ctx.step(a)

    job = await deploys.run(before)
    clock.advance(hours=2)
    job = await deploys.run(after, job.id)
    assert (job.state, job.result, deploys.calls) == (State.COMPLETED, '"a"', {"a": 1, "b": 1})


async def test_two_releases_may_take_turns_with_one_job(deploys: Deploys) -> None:
    steps = {name: deploys.step(name) for name in "abc"}

    def release(order: str, last: bool = False) -> Body:
        async def work(ctx: Context) -> str:
            found = [await ctx.step(steps[name]) for name in order]
            if not last:
                raise Retry
            return "".join(found)

        return work

    job = await deploys.run(release("ab"))
    job = await deploys.run(release("ca"), job.id)
    job = await deploys.run(release("ab"), job.id)
    job = await deploys.run(release("cba", last=True), job.id)
    assert (job.result, deploys.calls) == ('"cba"', dict.fromkeys("abc", 1))
