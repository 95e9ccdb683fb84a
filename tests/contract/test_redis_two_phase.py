"""The two-phase commit: a transaction whose owner dies is written in all shards or in none."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from books import audit
from clusters import RedisCluster
from mainspring.clock import EPOCH
from mainspring.records.job import Action, Job, NewJob, State
from mainspring.records.outcome import Done
from mainspring.records.query import Update
from mainspring.stores import open_store
from mainspring.stores.redis import two_phase
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.redis.tally import fold
from mainspring.testing.contract.build import (
    a_schedule,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    fire,
    new_job,
    put,
    read_job,
    start,
    tick_job,
)

Deed = Callable[[RedisStore], Awaitable[object]]


class Died(BaseException):
    """The process is dead: not even its error handling runs."""


class Mortal:
    """Dies at its n-th script: on the way there, or on the way back."""

    def __init__(self, store: RedisStore, left: int, there: bool) -> None:
        self._left, self._there, self.died = left, there, False
        for shard in store._shards.all:  # type: ignore[union-attr]
            shard.script = self._bound(shard.script)  # type: ignore[method-assign]

    def _bound(self, script: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def bound(*args: Any) -> Any:
            self._left -= 1
            self.died = self.died or self._left < 0
            if self.died and (self._there or self._left < -1):
                raise Died
            answer = await script(*args)
            if self.died:
                raise Died
            return answer

        return bound


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    store = cast(RedisStore, open_store(url))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# Each prepares a store, and returns an operation over several shards; repeated, it has no further effect.


async def enqueue(store: RedisStore) -> Deed:
    jobs = [new_job(queue=f"queue {n}", unique_key=f"unique {n}", idempotency_key=f"ever {n}") for n in range(3)]
    return lambda store: put(store, *jobs)


async def bulk(store: RedisStore) -> Deed:
    """Plain jobs of several queues, in several pieces each."""
    jobs = [new_job(queue=f"queue {n % 3}") for n in range(9)]
    return lambda store: put(store, *jobs)


async def finish(store: RedisStore) -> Deed:
    (job_id,) = await put(store, new_job(queue="queue", unique_key="unique"))
    job = await claim_job(store, job_id)
    return lambda store: finish_run(store, job, Done())


async def move(store: RedisStore) -> Deed:
    (job_id,) = await put(store, new_job(queue="queue", unique_key="unique", tags=("tag",)))
    return lambda store: act(store, Action.UPDATE, job_id, update=Update(queue="another"))


async def tick(store: RedisStore) -> Deed:
    new = a_schedule()
    job = tick_job(new, queue="queue")
    return lambda store: fire(store, replace(new, active=(job.id,), fired=1), jobs=(job,))


async def delete(store: RedisStore) -> Deed:
    (job_id,) = await put(store, new_job(queue="queue", idempotency_key="ever"))
    return lambda store: act(store, Action.DELETE, job_id)


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
@pytest.mark.parametrize("ready", [enqueue, bulk, finish, move, tick, delete])
async def test_a_transaction_is_written_or_not_at_all_wherever_its_owner_dies(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, ready: Callable[..., Awaitable[Deed]], there: bool
) -> None:
    monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
    if ready is bulk:
        monkeypatch.setattr(two_phase, "MAX_UNIT_ARGS", 1)
        monkeypatch.setattr(two_phase, "MAX_SCRIPT_ARGS", 16)
    left, died = 0, True
    while died:
        url = redis_cluster.fresh()
        async with opened(url) as store, opened(url) as other:
            deed, before = await ready(store), await all_jobs(store)
            mortal = Mortal(store, left, there)
            try:
                await deed(store)
            except Died:
                died = True
            else:
                died = False
            await beat(other)
            after = await all_jobs(other)
            await audit(other._shards)
            await deed(other)
            done = await all_jobs(other)
            await audit(other._shards)
            assert after in (before, done), f"at script {left}"
            assert done != before
        left += 1
    assert left > 4
    assert not mortal.died


# A process that meets a transaction resolves it first: else it would overwrite what was written meanwhile.


async def at_every_script(
    cluster: RedisCluster,
    monkeypatch: pytest.MonkeyPatch,
    meet: Callable[[RedisStore, RedisStore, int], Awaitable[bool]],
) -> None:
    """`meet` returns whether a transaction of the first store died after that many scripts."""
    monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
    left, died = 0, True
    while died:
        url = cluster.fresh()
        async with opened(url) as store, opened(url) as other:
            died = await meet(store, other, left)
            await audit(other._shards)
        left += 1
    assert left > 4


async def dies(store: RedisStore, deed: Deed, left: int) -> bool:
    Mortal(store, left, there=True)
    try:
        await deed(store)
    except Died:
        return True
    return False


def before_it_writes(store: RedisStore, queue: str, deed: Callable[[], Awaitable[object]]) -> None:
    """Runs `deed` once, when the store has read everything and is about to write to the shard of this queue."""
    shard = store._open().of(queue)
    script, deeds = shard.script, [deed]

    async def later(name: str, words: Any) -> Any:
        if name == "commit" and deeds:
            await deeds.pop()()
        return await script(name, words)

    shard.script = later  # type: ignore[method-assign]


async def test_a_run_claimed_during_a_transaction_goes_on(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        await beat(other)
        died = await dies(store, await move(store), left)
        (run,) = (await claim(other)).jobs
        await beat(other)
        assert await all_jobs(other) == [run], f"at script {left}"
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


async def test_an_end_written_during_a_transaction_is_kept(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        ids = await put(store, *(new_job(queue=f"queue {n}") for n in range(5)))
        await beat(store)
        runs = (await claim(store)).jobs
        died = await dies(store, lambda store: act(store, Action.CANCEL, *ids), left)
        assert [await finish_run(other, run, Done()) for run in runs] == [{run.id} for run in runs]
        await beat(other)
        assert {job.state for job in await all_jobs(other)} == {State.COMPLETED}, f"at script {left}"
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


async def test_a_change_decided_before_a_transaction_is_decided_again(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        (job_id,), died = await put(store, new_job(queue="queue")), list[bool]()

        async def begin() -> None:
            update = Update(queue="another")
            died.append(await dies(store, lambda store: act(store, Action.UPDATE, job_id, update=update), left))

        before_it_writes(other, "queue", begin)
        assert (await act(other, Action.PAUSE, job_id)).done == [job_id]
        await beat(other)
        assert (await read_job(other, job_id)).state is State.PAUSED, f"at script {left}"
        return died[0]

    await at_every_script(redis_cluster, monkeypatch, meet)


async def test_a_job_created_by_a_rival_is_not_changed_by_enqueue(redis_cluster: RedisCluster) -> None:
    url, job = redis_cluster.fresh(), new_job(tags=("tag",))
    async with opened(url) as store, opened(url) as other:
        runs = list[Job]()

        async def quicker() -> None:
            await put(other, job)
            runs.append(await claim_job(other, job.id))

        before_it_writes(store, job.queue, quicker)
        assert await put(store, job) == [job.id]
        assert await all_jobs(store) == runs
        await audit(store._shards)


async def test_a_key_requested_during_a_transaction_has_one_holder(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jobs(where: str) -> list[NewJob]:
        return [new_job(queue=f"{where} {n}", unique_key=f"unique {n}") for n in range(5)]

    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        died = await dies(store, lambda store: put(store, *jobs("here")), left)
        answers = [await put(other, job) for job in jobs("there")]
        await beat(other)
        assert sorted([job.id] for job in await all_jobs(other)) == sorted(answers), f"at script {left}"
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


async def test_runs_folded_by_two_workers_are_counted_once(redis_cluster: RedisCluster) -> None:
    url = redis_cluster.fresh()
    async with opened(url) as store, opened(url) as other:

        async def quicker() -> None:
            await finish_run(other, await start(other), Done())
            await fold(other._open())

        await finish_run(store, await start(store), Done())
        before_it_writes(store, "default", quicker)
        await fold(store._open())
        await fold(store._open())
        (tally,) = await store.tallies("ever", since=EPOCH)
        assert tally.sums.endings == {"completed": 2}


OWN_FILES = {"two_phase.py", "prelude.lua", "locks.lua", "prepare.lua", "resolve.lua", "lock.lua"}


def test_no_other_file_names_the_keys_of_the_two_phase_commit() -> None:
    key = re.compile(r"""(:|base \.\. ')(lock|promised?|decided)(?![\w:])""")
    files = [path for path in Path(two_phase.__file__).parent.iterdir() if path.suffix in (".py", ".lua")]
    found = {path.name for path in files if key.search(path.read_text(encoding="utf-8"))}
    assert found - OWN_FILES == set()
    assert {"two_phase.py", "locks.lua", "prepare.lua"} <= found
