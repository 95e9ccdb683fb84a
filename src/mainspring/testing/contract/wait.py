"""wait: the numbers of changes, and that none is missed between a read and the wait after it."""

from __future__ import annotations

import asyncio

import pytest

from ...records.job import Action
from ...records.outcome import Done
from ...store import Topic
from .build import Contract, act, beat, claim, finish_run, new_job, put, start
from .sentences import proves

TOPICS: list[Topic] = ["claimable", "final"]


class WaitContract(Contract):
    @proves("W3")
    async def test_wait_ends_when_a_job_is_enqueued(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            waiting = asyncio.create_task(store.wait("claimable", 50))
            while not waiting.done():
                await put(store, new_job())
                await asyncio.wait([waiting], timeout=0.02)

    @proves("W3")
    async def test_wait_ends_when_a_job_is_final(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            await put(store, *(new_job() for _ in range(20)))
            await beat(store)
            jobs = (await claim(store, limit=20)).jobs
            waiting = asyncio.create_task(store.wait("final", 50))
            for job in jobs:
                await finish_run(store, job, Done())
                await asyncio.wait([waiting], timeout=0.02)
            await waiting

    @proves("W4")
    @pytest.mark.parametrize("topic", TOPICS)
    async def test_wait_ends_at_its_timeout(self, topic: Topic) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            await store.wait(topic, 0.01)
            await store.wait(topic, 0.01, seen=await store.wait(topic, 0))

    # numbers

    @proves("W1")
    @pytest.mark.parametrize("topic", TOPICS)
    async def test_wait_returns_another_number_after_a_change(self, topic: Topic) -> None:
        async with self.opened() as store:
            seen = await store.wait(topic, 0)
            await act(store, Action.CANCEL, *await put(store, new_job()))
            assert await store.wait(topic, 0) != seen

    @proves("W2")
    async def test_a_job_that_is_enqueued_before_the_wait_begins_is_not_missed(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            seen = await store.wait("claimable", 0)
            await put(store, new_job())
            assert await store.wait("claimable", 50, seen=seen) != seen

    @proves("W2")
    async def test_a_job_that_ends_before_the_wait_begins_is_not_missed(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            job = await start(store)
            seen = await store.wait("final", 0)
            await finish_run(store, job, Done())
            assert await store.wait("final", 50, seen=seen) != seen

    @proves("W2")
    @pytest.mark.parametrize("topic", TOPICS)
    async def test_a_change_in_another_event_loop_is_not_missed(self, topic: Topic) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            other = store.clone()

            async def visit() -> None:
                await other.open()
                try:
                    await act(other, Action.CANCEL, *await put(other, new_job()))
                finally:
                    if other is not store:
                        await other.close()

            seen = await store.wait(topic, 0)
            await asyncio.to_thread(asyncio.run, visit())
            assert await store.wait(topic, 50, seen=seen) != seen

    @proves("W3")
    @pytest.mark.parametrize("topic", TOPICS)
    async def test_wait_without_a_number_waits_for_the_next_change(self, topic: Topic) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            before = await store.wait(topic, 0)
            await act(store, Action.CANCEL, *await put(store, new_job()))
            waiting = asyncio.create_task(store.wait(topic, 50))
            while not waiting.done():
                await act(store, Action.CANCEL, *await put(store, new_job()))
                await asyncio.wait([waiting], timeout=0.02)
            assert await waiting != before
