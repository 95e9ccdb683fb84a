"""Limits on Redis: several claimers at once, recounts that find a fault, and older releases."""

import asyncio

import pytest

from books import audit
from mainspring.errors import StoreUnavailable
from mainspring.records.job import State
from mainspring.records.limit import StoredLimit, limit_key_of
from mainspring.records.outcome import Done, decide
from mainspring.records.worker import WorkerRow
from mainspring.stores import open_store
from mainspring.stores.redis.index import RUNNING_OF, limited_entry
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.releases import LIMITS_VERSION
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.redis.worker_rows import NOTHING_KNOWN, worker_text
from mainspring.testing.contract.build import (
    NOW,
    a_worker,
    beat,
    claim_ids,
    claim_job,
    finish_run,
    id_made_at,
    later,
    new_job,
    put,
    read_job,
)
from mainspring.testing.contract.limit import NAME, groups, limits_of, put_limited, set_limit
from servers import Redis

KEYS_OF_LIMITS = ("turn:", "turns:", "rates:", "served:", "blocked:", "running:", "limited", "idle", "starts")


def redis_store(url: str) -> RedisStore:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    return store


async def kinds_left(store: RedisStore) -> list[str]:
    """The keys of limits that the server has."""
    shard = store._open().first
    names = [key.decode().removeprefix(f"{shard.base}:") for key in await shard.call("KEYS", "*")]
    return [name for name in names if name.startswith(KEYS_OF_LIMITS)]


async def test_several_claimers_at_once_never_pass_a_limit(redis: Redis) -> None:
    url, running = redis.fresh(), dict[str, str]()
    stores = [redis_store(url) for _ in range(4)]
    for store in stores:
        await store.open()
    try:
        await set_limit(stores[0], running=2, total=5)
        for _ in range(10):
            await put_limited(stores[0], *"aaaaaabbbbbbccccccdddd")
        most = 0

        async def work(n: int) -> int:
            nonlocal most
            await beat(stores[n], f"worker {n}", until=later(9999))
            done = 0
            for step in range(400):
                now = later(step)
                jobs = (await stores[n].claim(None, worker=f"worker {n}", tasks=["task"], limit=3, now=now)).jobs
                running.update({job.id: job.limit_key or "" for job in jobs})
                held = list(running.values())
                most = max(most, len(held))
                assert len(held) <= 5
                assert all(held.count(key) <= 2 for key in held)
                await asyncio.sleep(0)
                for job in jobs:
                    del running[job.id]  # from here on its place may be another's
                    await stores[n].finish([decide(job, Done(), now=now)])
                done += len(jobs)
                if not jobs and not running:
                    break
            return done

        assert sum(await asyncio.gather(*(work(n) for n in range(4)))) == 220
        assert most > 2
        await audit(stores[0]._open())
        assert await limits_of(stores[0]).limit_groups(NAME, limit=9) == []
    finally:
        for store in stores:
            await store.close()


async def test_thousands_of_keys_leave_nothing_behind(redis: Redis) -> None:
    store = redis_store(redis.fresh())
    await store.open()
    try:
        await set_limit(store, rate=1, per=1.0)
        for start in range(0, 3000, 1000):
            await put_limited(store, *(f"key {n}" for n in range(start, start + 1000)))
        await beat(store, until=later(9999))
        left, now = 3000, NOW
        while left:
            jobs = (await store.claim(None, worker="ada", tasks=["task"], limit=500, now=now)).jobs
            await store.finish([decide(job, Done(), now=now) for job in jobs])
            left -= len(jobs)
        for second in range(2, 20):
            await store.claim(None, worker="ada", tasks=["task"], limit=500, now=later(second))
        assert await kinds_left(store) == []
    finally:
        await store.close()


async def test_a_recount_finds_and_corrects_what_differs(redis: Redis) -> None:
    store = redis_store(redis.fresh())
    await store.open()
    try:
        await set_limit(store, running=1)
        a, b, *_ = await put_limited(store, "a", "b", "a", "b", "c")
        assert len(await claim_ids(store)) == 3
        shard, key_a = store._open().first, limit_key_of(NAME, "a")
        running = f"{shard.base}:{RUNNING_OF}{NAME}"
        await shard.call("ZREM", running, limited_entry(key_a, packed(a)))
        await shard.call("ZADD", running, 0, limited_entry(limit_key_of(NAME, "c"), packed(id_made_at(NOW))))
        found = await store.recount_limits(limit=2, now=NOW)
        assert found.wrong == (key_a,)
        assert found.after == limit_key_of(NAME, "b")
        found = await store.recount_limits(after=found.after, limit=2, now=NOW)
        assert (found.wrong, found.after) == ((limit_key_of(NAME, "c"),), None)
        assert (await store.recount_limits(limit=9, now=NOW)).wrong == ()
        assert [group.holders for group in await groups(store)][:2] == [(a,), (b,)]
        assert await claim_ids(store) == []
        await audit(store._open())
    finally:
        await store.close()


async def test_a_recount_gives_keys_their_lost_turns_again(redis: Redis) -> None:
    store = redis_store(redis.fresh())
    await store.open()
    try:
        ids = await put_limited(store, "a", "b")
        shard = store._open().first
        names = await kinds_left(store)
        await shard.call("DEL", *(f"{shard.base}:{name}" for name in names if name.startswith(("turn:", "turns:"))))
        assert await claim_ids(store) == []
        await put_limited(store, "c")  # the group is known again
        await store.recount_limits(limit=9, now=NOW)
        assert set(ids) < set(await claim_ids(store))
    finally:
        await store.close()


async def test_a_job_with_a_limit_waits_for_workers_of_older_releases_and_shuts_them_out(redis: Redis) -> None:
    store = redis_store(redis.fresh())
    await store.open()
    try:
        shard = store._open().first
        row = worker_text(WorkerRow(a_worker("old"), later(60)), NOTHING_KNOWN)
        await shard.call("HSET", f"{shard.base}:worker", "old", row)
        await limits_of(store).set_limits([StoredLimit(name=NAME, running=1)], now=NOW)
        with pytest.raises(StoreUnavailable, match="do not know limits: old"):
            await put_limited(store, "a")
        await put(store, new_job())
        assert await shard.call("HGET", f"{shard.base}:meta", "oldest") is None
        (id,) = await put(store, new_job(limit_key=limit_key_of(NAME, "a"), id=id_made_at(later(61))), now=later(61))
        assert (await read_job(store, id)).state is State.PENDING
        assert int(await shard.call("HGET", f"{shard.base}:meta", "oldest")) == LIMITS_VERSION
    finally:
        await store.close()


async def test_a_job_with_a_limit_that_another_one_made_shuts_older_releases_out(redis: Redis) -> None:
    store = redis_store(redis.fresh())
    await store.open()
    try:
        (id,) = await put(store, new_job())
        then = new_job(limit_key=limit_key_of(NAME, "a"))
        await finish_run(store, await claim_job(store, id), Done(), now=NOW, then=(then,))
        shard = store._open().first
        assert int(await shard.call("HGET", f"{shard.base}:meta", "oldest")) == LIMITS_VERSION
        assert await claim_ids(store) == [then.id]
    finally:
        await store.close()
