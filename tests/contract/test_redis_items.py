"""Items of maps in Redis: finish.lua counts their ends beside the flow's row, and only the last one is played."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from test_redis_batches import OnServers, Rival
from test_redis_two_phase import Deed, Died, Mortal, at_every_script, dies, opened

from books import audit
from clusters import RedisCluster
from mainspring.ids import JobId
from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Discard, Done, Policy, RunEnd, Skip, decide
from mainspring.records.plan import Plan, StepOptions, ValueOf
from mainspring.records.query import Update
from mainspring.records.step import StepRef, position_of
from mainspring.stores.redis import enqueue, finish, two_phase
from mainspring.stores.redis.shard import Shard
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import (
    NOW,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    later,
    new_job,
    put,
    read_job,
)
from mainspring.testing.contract.flow import MAP, a_step, begin, row_of, run_step, step_job, steps_of

DEAD = Policy(max_retries=0)


def listed(count: int) -> Done:
    return Done(msgspec.json.encode(list(range(count))).decode())


async def a_map(store: RedisStore, count: int, plan: Plan = MAP, **fields: Any) -> JobId:
    """A flow whose map has so many items, which can be claimed."""
    id = await begin(store, plan, **fields)
    await run_step(store, id, 0, listed(count))
    return id


async def an_open_map(store: RedisStore, count: int) -> JobId:
    """A flow whose map is still being made, by a job of its own."""
    id = await a_map(store, 300)
    await put(store, *items(id, range(1, count + 1)))
    return id


def items(flow: JobId, indexes: Sequence[int], queue: str = "default") -> list[Any]:
    refs = [StepRef(flow, position_of(1, n), "default") for n in indexes]
    return [new_job(task="item", step=ref, queue=queue) for ref in refs]


async def claimed(store: RedisStore, limit: int, task: str = "item") -> list[Job]:
    await beat(store)
    return (await claim(store, tasks=[task], limit=limit)).jobs


async def end(store: RedisStore, jobs: Sequence[Job], ended: RunEnd | None = None) -> None:
    outcomes = [decide(job, ended or Done("1"), now=NOW, policy=DEAD) for job in jobs]
    assert await store.finish(outcomes) == {job.id for job in jobs}


async def close(store: RedisStore, id: JobId) -> None:
    """Ends the job that makes the items."""
    await run_step(store, id, 1, Done())


async def stored(store: RedisStore, name: str, id: JobId) -> list[bytes]:
    """What the shards have in the hash of this name about a flow."""
    found = [await shard.call("HGET", f"{shard.base}:{name}", id) for shard in store._open().all]
    return [text for text in found if text is not None]


class TestCounts(OnServers):
    async def test_ends_of_items_do_not_touch_the_row_but_the_last_one(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 50)
            jobs, before = await claimed(store, 50), await stored(store, "flow", id)
            for start_at, stop in ((0, 1), (1, 20), (20, 49)):
                await end(store, jobs[start_at:stop])
                assert await stored(store, "flow", id) == before
                assert (await row_of(store, id)).counts[1].ended == stop
                assert await stored(store, "items", id) == [msgspec.json.encode({str(position_of(1)): [stop, 50]})]
                await audit(store._open())
            await end(store, jobs[49:])
            row = await row_of(store, id)
            assert (row.statuses, row.counts[1].ended) == ("ccr", 50)
            assert await stored(store, "items", id) == []
            await audit(store._open())

    async def test_a_whole_map_that_ends_at_once_has_one_end_that_is_played(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 50)
            jobs, played = await claimed(store, 50), list[int]()
            finish_steps = finish.finish_steps

            async def noting(shards: Any, outcomes: Any, others: Any) -> Any:
                played.append(len(outcomes))
                return await finish_steps(shards, outcomes, others)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(finish, "finish_steps", noting)
                await end(store, jobs)
            assert played == [1]
            assert (await row_of(store, id)).statuses == "ccr"
            await audit(store._open())

    async def test_a_map_that_is_still_made_has_no_last_item(self) -> None:
        async with self.opened() as store:
            id = await an_open_map(store, 3)
            await end(store, await claimed(store, 3))
            row = await row_of(store, id)
            assert (row.statuses, row.counts[1].made, row.counts[1].ended, row.counts[1].closed) == ("crw", 3, 3, False)
            await put(store, *items(id, range(4, 6)))
            assert (await row_of(store, id)).counts[1].made == 5
            await end(store, await claimed(store, 1))
            await audit(store._open())
            await close(store, id)
            assert (await row_of(store, id)).counts[1].ended == 4
            await end(store, await claimed(store, 1))
            assert (await row_of(store, id)).statuses == "ccr"
            await audit(store._open())

    async def test_a_map_whose_items_have_all_ended_ends_when_it_is_closed(self) -> None:
        async with self.opened() as store:
            id = await an_open_map(store, 3)
            await end(store, await claimed(store, 3))
            await close(store, id)
            assert (await row_of(store, id)).statuses == "ccr"
            assert await stored(store, "items", id) == []
            await audit(store._open())

    async def test_they_are_written_as_the_rule_writes_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """But for revisions. Of two flows, with items that die, are skipped, deleted or retried, and a second life."""
        tolerant = replace(MAP.steps[1], failed_ratio=0.5, options=StepOptions(queue="queue 7"))
        plans = [MAP, replace(MAP, steps=(MAP.steps[0], tolerant, MAP.steps[2]))]
        flows = [new_job(plan=plan, queue=f"queue {n}") for n, plan in enumerate(plans)]

        async def play() -> list[Any]:
            async with self.opened() as store:
                await self.wipe(store)
                await put(store, *flows)
                await end(store, await claimed(store, 2, "a"), listed(30))
                said: list[Any] = []

                async def tell() -> None:
                    said.append([replace(job, lease=None) for job in await all_jobs(store)])
                    found = await store.flows([job.id for job in flows])
                    said.append([replace(one.row, revision=0) for one in found])
                    await audit(store._open())

                for ended in (Done("1"), Skip("no"), Discard("never"), Done()):
                    await end(store, await claimed(store, 10), ended)
                    await tell()
                (job,) = await claimed(store, 1)
                await act(store, Action.DELETE, job.id)
                await act(store, Action.DELETE, (await claimed(store, 1))[0].id)
                dead = [job.id for job in await all_jobs(store) if job.state is State.DEAD]
                await act(store, Action.RETRY, dead[0])
                await tell()
                while jobs := await claimed(store, 7):
                    await end(store, jobs)
                    await tell()
                await end(store, await claimed(store, 2, "b"))
                await act(store, Action.RETRY, *(job.id for job in flows))
                await tell()
                return said

        counted = await play()
        monkeypatch.setattr(finish, "is_plain_item", lambda outcome: False)
        assert await play() == counted

    async def test_items_in_another_queue_than_that_of_their_step_count(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 6)
            for n, job in enumerate([job for job in await steps_of(store, id) if job.task == "item"]):
                await act(store, Action.UPDATE, job.id, update=Update(queue=f"queue {n}"))
            jobs = await claimed(store, 6)
            await end(store, jobs[:3])
            assert (await row_of(store, id)).counts[1].ended == 3
            await end(store, jobs[3:])
            assert (await row_of(store, id)).statuses == "ccr"
            await audit(store._open())

    async def test_an_outcome_that_does_not_name_its_step_ends_it_by_the_rule(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 6)
            (job,) = await claimed(store, 1)
            assert await store.finish([replace(decide(job, Done("1"), now=NOW), step=None)]) == {job.id}
            assert (await row_of(store, id)).counts[1].ended == 1
            await audit(store._open())

    async def test_a_deleted_flow_leaves_no_counts(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 6)
            jobs = await claimed(store, 3)
            await end(store, jobs[:2])
            await act(store, Action.DELETE, id)
            assert await stored(store, "items", id) == []
            await end(store, jobs[2:])
            assert await stored(store, "items", id) == []
            await audit(store._open())

    async def test_counts_that_cannot_be_decoded_hide_the_flow_only(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 6)
            (other,) = await put(store, new_job(task="another"))
            for shard in store._open().all:
                if await shard.call("HEXISTS", f"{shard.base}:items", id):
                    await shard.call("HSET", f"{shard.base}:items", id, "{")
            assert await store.flows([id]) == []
            await end(store, await claimed(store, 1, "another"))
            assert (await read_job(store, other)).state is State.COMPLETED


class TestPages(OnServers):
    """Pages of items that are alike are added by a script of their own."""

    async def test_they_are_stored_as_the_rule_stores_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Due at once and later, also pages that repeat some of the items, or all, and items that were moved away."""
        flow = new_job(plan=MAP)
        made = items(flow.id, range(1, 60))
        late = [replace(job, run_at=later(60)) for job in items(flow.id, range(60, 70))]

        async def play() -> list[Any]:
            async with self.opened() as store:
                await self.wipe(store)
                await put(store, flow)
                await end(store, await claimed(store, 1, "a"), listed(300))
                said: list[Any] = []
                for page in (made[:20], made[:20], made[10:40], late, made[40:50]):
                    await put(store, *page)
                    said += [await all_jobs(store), (await row_of(store, flow.id)).counts]
                    await audit(store._open())
                for n in range(5):
                    await act(store, Action.UPDATE, made[45].id, update=Update(queue=f"queue {n}"))
                await put(store, made[45], *made[50:])
                said += [await all_jobs(store), (await row_of(store, flow.id)).counts]
                await audit(store._open())
                return said

        by_pages = await play()
        monkeypatch.setattr(enqueue, "plain_items", lambda jobs, now: None)
        assert await play() == by_pages

    async def test_a_page_is_one_script_in_the_shard_of_its_flow(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 300)
            called: list[str] = []
            for shard in store._open().all:
                shard.script = _noting(shard.script, called)  # type: ignore[method-assign]
            await put(store, *items(id, range(1, 20)))
            assert called == ["add_items"]

    async def test_a_page_that_lost_a_race_is_counted_once(self) -> None:
        async with self.opened() as store, self.opened() as other:
            id = await a_map(store, 300)
            pages = [items(id, range(n, n + 10)) for n in (101, 111)]

            async def add_another() -> None:
                if pages:
                    await put(other, *pages.pop())

            Rival(store, add_another, ("add_items",))
            await put(store, *items(id, range(1, 11)))
            counts = (await row_of(other, id)).counts[1]
            assert (counts.made, len(pages)) == (20, 1)
            await audit(other._open())

    async def test_a_page_waits_for_a_transaction_that_changes_its_flow(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 300)
            (shard,) = [one for one in store._open().all if await one.call("HEXISTS", f"{one.base}:flow", id)]
            async with two_phase.locked(store._open(), [two_phase.has(f"{shard.base}:flow", id, None)]) as lock:
                assert lock
                adding = asyncio.create_task(put(store, *items(id, range(1, 11))))
                done, _ = await asyncio.wait([adding], timeout=0.2)
                assert done == set()
                assert len(await steps_of_map(shard, id)) == 1  # the job that makes the items
            await adding
            assert (await row_of(store, id)).counts[1].made == 10
            await audit(store._open())


async def steps_of_map(shard: Shard, id: JobId) -> list[bytes]:
    return list(await shard.call("ZRANGE", f"{shard.base}:steps:open:{id}", 0, -1))


class TestRaces(OnServers):
    async def test_two_workers_end_the_last_two_items_at_once(self) -> None:
        """Over two connections, 200 times: one step behind the map each."""
        async with self.opened() as store, self.opened() as other:
            for _ in range(200):
                id = await a_map(store, 3)
                first, second, third = await claimed(store, 3)
                await end(store, [first])
                await asyncio.gather(end(store, [second]), end(other, [third]))
                assert [job.task for job in await steps_of(store, id)] == ["a", "item", "item", "item", "b"]
                await act(store, Action.DELETE, id)

    async def test_items_that_end_while_their_map_is_closed(self) -> None:
        """Each item ends between the read and the write of the end that closes the map."""
        async with self.opened() as store, self.opened() as other:
            id = await an_open_map(store, 40)
            left = await claimed(store, 40)

            async def end_one() -> None:
                if left:  # it may have to wait for a lock, and is tried again
                    await end(other, left[-1:])
                    left.pop()

            Rival(store, end_one)
            await close(store, id)
            while left:
                await end_one()
            row = await row_of(other, id)
            assert (row.statuses, row.counts[1].ended) == ("ccr", 40)
            await audit(other._open())

    async def test_the_last_item_ends_while_its_map_is_closed(self) -> None:
        async with self.opened() as store, self.opened() as other:
            id = await an_open_map(store, 2)
            left = await claimed(store, 2)

            async def end_both() -> None:
                some, left[:] = left[:], []
                if some:
                    await end(other, some)

            Rival(store, end_both)
            await close(store, id)
            assert (await row_of(other, id)).statuses == "ccr"
            await audit(other._open())

    async def test_items_that_end_while_a_page_is_added_do_not_delay_it(self) -> None:
        async with self.opened() as store, self.opened() as other:
            id = await an_open_map(store, 40)
            left = await claimed(store, 40)
            rival = Rival(store, lambda: end(other, [left.pop()]), ("add_items",))
            await put(store, *items(id, range(41, 60)))
            assert rival.commits == 1
            counts = (await row_of(other, id)).counts[1]
            assert (counts.made, counts.ended) == (59, 40 - len(left))
            await audit(other._open())

    async def test_an_item_that_dies_while_others_end(self) -> None:
        async with self.opened() as store, self.opened() as other:
            id = await a_map(store, 40)
            dying, *left = await claimed(store, 40)

            async def end_one() -> None:
                if left:  # it may have to wait for a lock, and is tried again
                    await end(other, left[-1:])
                    left.pop()

            Rival(store, end_one)
            await end(store, [dying], Discard("no"))
            while left:
                await end_one()
            counts = (await row_of(other, id)).counts[1]
            assert (counts.ended, counts.dead) == (40, 1)
            assert (await row_of(other, id)).statuses == "cdu"
            await audit(other._open())

    async def test_counts_under_a_lock_are_left_to_the_rule(self) -> None:
        async with self.opened() as store:
            id = await a_map(store, 10)
            jobs, scripts = await claimed(store, 3), list[str]()
            (shard,) = [one for one in store._open().all if await one.call("HEXISTS", f"{one.base}:items", id)]
            script = shard.script

            async def noting(name: str, words: Any) -> Any:
                scripts.append(name)
                return await script(name, words)

            async with two_phase.locked(store._open(), [two_phase.has(f"{shard.base}:items", id, None)]) as lock:
                assert lock
                shard.script = noting  # type: ignore[method-assign]
                ending = asyncio.create_task(end(store, jobs))
                while not ending.done() and {"commit", "write", "prepare"}.isdisjoint(scripts):
                    await asyncio.sleep(0)
                assert await shard.call("HGET", f"{shard.base}:items", id) == msgspec.json.encode(
                    {str(position_of(1)): [0, 10]}
                )
            await ending
            assert (await row_of(store, id)).counts[1].ended == 3
            await audit(store._open())


def a_spread_map(store: RedisStore) -> tuple[str, Plan]:
    """The queue of a flow, and a map: the flow, the items and what comes behind them are in three shards."""
    shards = store._open()
    queues = {shards.all.index(shards.of(f"queue {n}")): f"queue {n}" for n in range(100)}
    first, mapped, last = MAP.steps
    options = StepOptions(queue=queues[1])
    last = a_step("b", args={"all": ValueOf(1)}, options=StepOptions(queue=queues[2]))
    return queues[0], replace(MAP, steps=(first, replace(mapped, options=options), last))


async def test_items_of_a_cluster_are_counted_in_their_own_shard_by_one_script(redis_cluster: RedisCluster) -> None:
    async with opened(redis_cluster.fresh()) as store:
        queue, plan = a_spread_map(store)
        id = await a_map(store, 20, plan, queue=queue)
        jobs, called = await claimed(store, 19), list[str]()
        for shard in store._open().all:
            shard.script = _noting(shard.script, called)  # type: ignore[method-assign]
        await end(store, jobs)
        assert called == ["finish"]
        assert (await row_of(store, id)).counts[1].ended == 19
        await audit(store._open())


def _noting(script: Callable[..., Awaitable[Any]], called: list[str]) -> Callable[..., Awaitable[Any]]:
    async def noting(name: str, words: Any) -> Any:
        called.append(name)
        return await script(name, words)

    return noting


async def test_a_reader_does_not_count_twice_what_a_transaction_moves_into_the_row(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last item was moved to another shard than those whose counts the row takes over."""

    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        queue, plan = a_spread_map(store)
        id = await a_map(store, 5, plan, queue=queue)
        moved = await step_job(store, id, 1, 5)
        await act(store, Action.UPDATE, moved.id, update=Update(queue=plan.steps[2].options.queue))
        *others, last = sorted(await claimed(store, 5), key=lambda job: job.id == moved.id)
        await end(store, others)
        died = await dies(store, lambda store: finish_run(store, last, Done("1"), now=NOW), left)
        assert (await row_of(other, id)).counts[1].ended in (4, 5), f"at script {left}"
        await beat(other)
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


async def making(store: RedisStore) -> Deed:
    queue, plan = a_spread_map(store)
    id = await begin(store, plan, queue=queue)
    job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
    return lambda store: finish_run(store, job, listed(5), now=NOW)


async def ending_the_last(store: RedisStore) -> Deed:
    queue, plan = a_spread_map(store)
    await a_map(store, 5, plan, queue=queue)
    jobs = await claimed(store, 5)
    await end(store, jobs[:3])
    outcomes = [decide(job, Done("1"), now=NOW) for job in jobs[3:]]
    return lambda store: store.finish(outcomes)


async def dying(store: RedisStore) -> Deed:
    queue, plan = a_spread_map(store)
    await a_map(store, 5, plan, queue=queue)
    jobs = await claimed(store, 5)
    await end(store, jobs[:2])
    return lambda store: finish_run(store, jobs[2], Discard("no"), now=NOW)


async def closing(store: RedisStore) -> Deed:
    queue, plan = a_spread_map(store)
    id = await a_map(store, 300, plan, queue=queue)
    its = plan.steps[1].options.queue
    refs = [StepRef(id, position_of(1, n), queue) for n in range(1, 4)]
    await put(store, *(new_job(task="item", step=ref, queue=its) for ref in refs))
    await end(store, await claimed(store, 2))
    job = await claim_job(store, (await step_job(store, id, 1)).id, tasks=["mainspring.fan_out"])
    return lambda store: finish_run(store, job, Done(), now=NOW)


async def deleting(store: RedisStore) -> Deed:
    queue, plan = a_spread_map(store)
    id = await a_map(store, 5, plan, queue=queue)
    await end(store, await claimed(store, 2))
    await put(store, new_job(task="another"))
    return lambda store: act(store, Action.DELETE, id)


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
@pytest.mark.parametrize("ready", [making, ending_the_last, dying, closing, deleting])
async def test_counts_and_row_change_together_wherever_their_owner_dies(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, ready: Callable[..., Awaitable[Deed]], there: bool
) -> None:
    """A batch of the last ends may be half done, since the others are counted before: each end is, with all of it."""
    monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
    left, died = 0, True
    while died:
        url = redis_cluster.fresh()
        async with opened(url) as store, opened(url) as other:
            deed = await ready(store)
            mortal = Mortal(store, left, there)
            try:
                await deed(store)
            except Died:
                died = True
            else:
                died = False
            await beat(other)
            await audit(other._open())
            await deed(other)
            await audit(other._open())
            jobs = await all_jobs(other)
            flows = await other.flows([job.id for job in jobs])
            for found in flows:
                made = [job for job in jobs if job.step is not None and job.step.flow == found.row.id]
                ended = [job for job in made if job.task == "item" and job.state.final]
                assert found.row.counts[1].ended == len(ended), f"at script {left}"
        left += 1
    assert left > 3
    assert not mortal.died
