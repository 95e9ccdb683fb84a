"""What is done with a Redis store by one who was let in, and what one reads who was not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from filled import fill, told

from mainspring.errors import StoreError
from mainspring.job import Action
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import act, beat, everything, later, new_job, put


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def whole_way(url: str) -> None:
    """Every verb, and word from one to another."""
    async with opened(url) as store, opened(url) as other, asyncio.timeout(30):
        running = await fill(store)
        assert all((await told(store)).values())
        assert (await act(store, Action.CANCEL, running.id)).done == [running.id]
        assert running.id in (await beat(store)).cancels
        await act(store, Action.DELETE, *(job.id for job in await everything(store) if job.state.final))
        await store.drop_schedules(["naïve: 'x'"])
        await store.forget({}, now=later(9))
        assert {finding.about for finding in await store.diagnose()} >= {"server", "durability", "memory", "listener"}
        assert await store.time()
        await hear(store, other)


async def hear(store: Store, other: Store) -> None:
    assert store.hears()
    waiting = asyncio.create_task(store.wait(None, 20))
    while not waiting.done():
        await put(other, new_job())
        await asyncio.wait([waiting], timeout=0.02)


async def refusal(url: str) -> StoreError:
    with pytest.raises(StoreError) as refused:
        async with opened(url):
            pass
    return refused.value
