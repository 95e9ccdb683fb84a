"""Calls of a Redis store with access, and the errors without it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from filled import fill, told

from mainspring.errors import StoreError
from mainspring.records.audit import AuditEntry, AuditFilter
from mainspring.records.document import Document, DocumentDrop
from mainspring.records.job import Action
from mainspring.records.outcome import Done
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import NOW, act, all_jobs, beat, later, new_job, put
from mainspring.testing.contract.flow import begin, chain, run_step, steps_of


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def whole_way(url: str) -> None:
    """Calls every verb, and checks notifications between two handles."""
    async with opened(url) as store, opened(url) as other, asyncio.timeout(30):
        running = await fill(store)
        assert all((await told(store)).values())
        assert (await act(store, Action.CANCEL, running.id)).done == [running.id]
        assert running.id in (await beat(store)).cancels
        await act(store, Action.DELETE, *(job.id for job in await all_jobs(store) if job.state.final))
        await store.drop_schedules(["naïve: 'x'"])
        await store.prune({}, audited_since=NOW, now=later(9))
        await keep(store)
        await flow(store)
        assert {finding.about for finding in await store.diagnose()} >= {"server", "durability", "memory", "listener"}
        assert await store.time()
        await hear(store, other)


async def flow(store: Store) -> None:
    """Begins a flow, ends a step of it, and deletes it."""
    id = await begin(store, chain("a", "b"))
    await run_step(store, id, 0, Done("1"))
    assert [job.task for job in await steps_of(store, id)] == ["a", "b"]
    assert (await act(store, Action.DELETE, id)).done == [id]


async def keep(store: Store) -> None:
    """Writes documents, an audit entry and feed items, and prunes them."""
    one, other = (Document(kind="key", name=name, text="text", expires_at=later(9)) for name in ("one", "other"))
    assert await store.put_documents([one, other], now=NOW) == [True, True]
    assert await store.documents("key", now=NOW, limit=9) == [one, other]
    assert await store.put_documents([DocumentDrop("key", "one")], now=NOW) == [True]
    await store.record([entry := AuditEntry(id="1", at=NOW, who="ada", action="keys.create", target="one")])
    assert await store.audit(AuditFilter(since=NOW), limit=9) == await store.audit(AuditFilter(), limit=9) == [entry]
    await store.news(after=0, limit=0, until=later(9))
    assert await store.publish(["news"], now=NOW) == await store.publish([], now=NOW) == later(9)
    assert (await store.news(after=0, limit=9)).last == 1
    assert (await store.prune({}, audited_since=later(9), now=later(9))).rows == 2


async def hear(store: Store, other: Store) -> None:
    assert store.listening == "ok"
    waiting = asyncio.create_task(store.wait("claimable", 20))
    while not waiting.done():
        await put(other, new_job())
        await asyncio.wait([waiting], timeout=0.02)


async def refusal(url: str) -> StoreError:
    with pytest.raises(StoreError) as refused:
        async with opened(url):
            pass
    return refused.value
