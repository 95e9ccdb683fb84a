"""Flows in Redis: steps in several shards, races, bounded round trips, and releases that do not know flows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
import pytest
import test_redis_batches
from msgspec.structs import replace
from test_redis_batches import LARGE_BATCH, SMALL_BATCH, Act, Counter, OnServers
from test_redis_two_phase import Deed, Died, Mortal, at_every_script, dies, opened

from books import audit
from clusters import RedisCluster
from mainspring.clock import EPOCH
from mainspring.errors import SchemaMismatch, StoreError, StoreUnavailable
from mainspring.ids import JobId
from mainspring.records.flow import FlowWithPlan
from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Done, Released, Suspend, decide
from mainspring.records.plan import Plan, StepOptions, ValueOf
from mainspring.records.query import Update
from mainspring.records.step import MAX_POSITION, StepRef, position_of
from mainspring.records.worker import WorkerCommands
from mainspring.stores.redis import enqueue, finish, plain, step_ends, two_phase
from mainspring.stores.redis.records import FLAG_SCHEDULED, flags, record_of
from mainspring.stores.redis.releases import RECORDS_VERSION
from mainspring.stores.redis.shard import Shards
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.rows import strict_job_of
from mainspring.stores.rules import to_job
from mainspring.testing.contract.build import (
    NOW,
    a_worker,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    id_made_at,
    later,
    new_job,
    put,
    read_job,
    start,
)
from mainspring.testing.contract.flow import DIAMOND, MAP, a_step, begin, chain, row_of, run_step, step_job, steps_of


def a_spread_plan(shards: Shards, order: Sequence[int] = (0, 1, 2, 3)) -> tuple[str, Plan]:
    """The queue of a flow, and a chain of three steps: all four are in other shards, those with these numbers.

    A transaction is led by the first of its shards in this order, and then written in the others in this order.
    """
    queues = {shards.all.index(shards.of(f"queue {n}")): f"queue {n}" for n in range(100)}
    flow, *others = [queues[n] for n in order]
    options = [StepOptions(queue=queue) for queue in others]
    a = a_step("a", options=options[0])
    b = a_step("b", options=options[1], args={"value": ValueOf(0)})
    c = a_step("c", options=options[2], args={"value": ValueOf(1)})
    return flow, Plan((a, b, c), result=ValueOf(2))


async def told(store: RedisStore) -> tuple[list[Job], list[FlowWithPlan]]:
    jobs = await all_jobs(store)
    return jobs, await store.flows([job.id for job in jobs])


# Operations that change a flow and jobs in several shards; repeated, they have no further effect.


async def planning(store: RedisStore) -> Deed:
    queue, plan = a_spread_plan(store._open())
    job = await start(store, queue=queue)
    return lambda store: finish_run(store, job, Suspend(plan), now=NOW)


async def ending(store: RedisStore, order: Sequence[int] = (0, 1, 2, 3)) -> Deed:
    queue, plan = a_spread_plan(store._open(), order)
    id = await begin(store, plan, queue=queue)
    job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
    return lambda store: finish_run(store, job, Done('"value"'), now=NOW)


async def adding_items(store: RedisStore, order: Sequence[int] = (0, 1, 2, 3)) -> Deed:
    """A page of a large map's items, which are in another shard than their flow."""
    queue, plan = a_spread_plan(store._open(), order)
    options = plan.steps[0].options
    a_map = a_step("item", over=ValueOf(0), item="n", options=options)
    id = await begin(store, Plan((a_step("a"), a_map)), queue=queue)
    await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
    positions = [position_of(1, n) for n in range(1, 4)]
    items = [new_job(step=StepRef(id, position, queue), queue=options.queue) for position in positions]
    return lambda store: put(store, *items)


async def ending_the_last(store: RedisStore) -> Deed:
    queue, plan = a_spread_plan(store._open())
    id = await begin(store, plan, queue=queue)
    for n in range(2):
        await run_step(store, id, n, Done("1"))
    job = await claim_job(store, (await step_job(store, id, 2)).id, tasks=["c"])
    return lambda store: finish_run(store, job, Done('"value"'), now=NOW)


async def cancelling(store: RedisStore) -> Deed:
    queue, plan = a_spread_plan(store._open())
    parallel = replace(plan, steps=tuple(replace(step, args={}) for step in plan.steps))
    id = await begin(store, parallel, queue=queue)

    async def cancel(store: RedisStore) -> None:
        if (await read_job(store, id)).state is State.WAITING:
            await act(store, Action.CANCEL, id, reason="no")

    return cancel


async def deleting(store: RedisStore) -> Deed:
    queue, plan = a_spread_plan(store._open())
    id = await begin(store, plan, queue=queue)
    await put(store, new_job(task="another"))
    return lambda store: act(store, Action.DELETE, id)


# Orders of the shards: the flow's is the first, that of the step, or that of the next step.
ORDERS = [(0, 1, 2, 3), (1, 0, 2, 3), (1, 2, 0, 3), (2, 1, 0, 3)]


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
@pytest.mark.parametrize("ready", [planning, ending, adding_items, ending_the_last, cancelling, deleting])
async def test_a_flow_moves_in_all_shards_or_in_none_wherever_its_owner_dies(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, ready: Callable[..., Awaitable[Deed]], there: bool
) -> None:
    monkeypatch.setattr(two_phase, "UNDECIDED_TIMEOUT_SECONDS", -1)
    left, died = 0, True
    while died:
        url = redis_cluster.fresh()
        async with opened(url) as store, opened(url) as other:
            deed, before = await ready(store), await told(store)
            mortal = Mortal(store, left, there)
            try:
                await deed(store)
            except Died:
                died = True
            else:
                died = False
            await beat(other)
            after = await told(other)
            await audit(other._open())
            await deed(other)
            done = await told(other)
            await audit(other._open())
            assert after in (before, done), f"at script {left}"
            assert done != before
        left += 1
    assert left > 4
    assert not mortal.died


@pytest.mark.parametrize("order", ORDERS, ids=str)
async def test_a_released_step_finds_the_values_of_a_transaction_that_was_left_behind(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, order: Sequence[int]
) -> None:
    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        deed = await ending(store, order)
        await beat(other, "bob")
        died = await dies(store, deed, left)
        for job in (await claim(other, "bob", tasks=["b"])).jobs:
            assert job.step is not None
            (before,) = await other.step_jobs(job.step.flow, first=0, last=0, limit=1)
            assert (before.state, before.result) == (State.COMPLETED, '"value"'), f"at script {left}"
        await beat(other, "bob")
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


@pytest.mark.parametrize("ready", [ending, adding_items])
@pytest.mark.parametrize("order", ORDERS, ids=str)
async def test_a_cancel_finds_the_steps_of_a_transaction_that_was_left_behind(
    redis_cluster: RedisCluster,
    monkeypatch: pytest.MonkeyPatch,
    ready: Callable[..., Awaitable[Deed]],
    order: Sequence[int],
) -> None:
    async def meet(store: RedisStore, other: RedisStore, left: int) -> bool:
        died = await dies(store, await ready(store, order), left)
        (flow,) = [job for job in await all_jobs(other) if job.state is State.WAITING]
        await act(other, Action.CANCEL, flow.id, reason="no")
        await beat(other)
        unfinished = [job for job in await steps_of(other, flow.id) if job.state is State.PENDING]
        assert unfinished == [], f"at script {left}"
        return died

    await at_every_script(redis_cluster, monkeypatch, meet)


class TestRaces(OnServers):
    async def test_two_last_steps_that_end_at_once_release_the_next_one_once(self) -> None:
        """Over two connections, 200 times."""
        async with self.opened() as store, self.opened() as other:
            await beat(store)
            for _ in range(200):
                id = await begin(store, DIAMOND)
                await run_step(store, id, 0, Done('{"part":1}'))
                b, c = [(await claim(store, tasks=[task])).jobs[0] for task in ("b", "c")]
                ends = zip((store, other), (b, c), strict=True)
                finished = [one.finish([decide(job, Done("1"), now=NOW)]) for one, job in ends]
                assert await asyncio.gather(*finished) == [{b.id}, {c.id}]
                assert [job.task for job in await steps_of(store, id)] == ["a", "b", "c", "d"]
                await act(store, Action.DELETE, id)

    async def test_finish_ends_while_another_writer_keeps_changing_the_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan(tuple(a_step(f"step {n}", task="step") for n in range(60))))
            await beat(store)
            mine, *all_others = (await claim(store, tasks=["step"], limit=60)).jobs
            others = [*all_others]

            async def end_another(other: RedisStore) -> None:
                if others:
                    await finish_run(other, others.pop(), Done(), now=NOW)

            finish = finish_run(store, mine, Done(), now=NOW)
            await test_redis_batches.TestRival.rivalled(
                cast(test_redis_batches.TestRival, self), store, lambda: finish, end_another
            )
            async with self.opened() as third:
                for job in all_others:
                    await finish_run(third, job, Done(), now=NOW)
                assert (await row_of(third, id)).statuses == "c" * 60


# Operations on a store: each prepares `count` records, and returns the call.


async def ready_to_end_one_flow(store: RedisStore, count: int) -> Act:
    await begin(store, Plan(tuple(a_step(f"step {n}", task="step") for n in range(count))))
    return await _ending(store, count)


async def ready_to_end_flows(store: RedisStore, count: int) -> Act:
    await put(store, *(new_job(plan=chain("step")) for _ in range(count)))
    return await _ending(store, count)


async def ready_to_move_flows(store: RedisStore, count: int) -> Act:
    await put(store, *(new_job(plan=chain("step", "next")) for _ in range(count)))
    return await _ending(store, count)


async def _ending(store: RedisStore, count: int) -> Act:
    await beat(store)
    outcomes = [decide(job, Done("1"), now=NOW) for job in (await claim(store, tasks=["step"], limit=count)).jobs]
    assert len(outcomes) == count

    async def call(store: RedisStore) -> None:
        assert await store.finish(outcomes) == {outcome.id for outcome in outcomes}

    return call


async def ready_to_cancel_flows(store: RedisStore, count: int) -> Act:
    ids = await put(store, *(new_job(plan=chain("step", "next")) for _ in range(count)))

    async def call(store: RedisStore) -> None:
        await act(store, Action.CANCEL, *ids)

    return call


class TestRoundTrips(OnServers):
    @pytest.mark.parametrize(
        ("ready", "bound"),
        [
            (ready_to_end_one_flow, 4),
            (ready_to_end_flows, 4),
            (ready_to_move_flows, 3),
            (ready_to_cancel_flows, 10),
        ],
    )
    async def test_a_batch_of_500_takes_as_many_round_trips_as_one_of_10(
        self, ready: Callable[..., Awaitable[Act]], bound: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """How much of a batch one script may take is another matter: those go one after the other on one way."""
        for module in (two_phase, step_ends):
            monkeypatch.setattr(module, "MAX_SCRIPT_ARGS", 10**9)
        monkeypatch.setattr(two_phase, "MAX_UNIT_ARGS", 10**9)
        monkeypatch.setattr(plain, "MAX_PLAIN", 10**9)
        trips = []
        for count in (SMALL_BATCH, LARGE_BATCH):
            async with self.opened() as store:
                await self.wipe(store)
                call = await ready(store, count)
                counter = Counter(store)
                await call(store)
                trips.append(counter.trips)
                await audit(store._open())
        shards = len(store.url.bases)
        assert trips[1] <= bound * shards + (0 if shards == 1 else 4 * shards)
        assert trips[0] == trips[1] or shards > 1


class TestPlainEnds(OnServers):
    async def test_plain_ends_of_steps_are_written_as_the_rule_writes_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Steps of several flows, queues and shards, also the last ones, an item of a map, and a flow that is gone."""
        plans = [chain("a", "b"), DIAMOND, Plan(tuple(a_step("a") for _ in range(20))), MAP]
        jobs = [new_job(plan=one, queue=f"queue {n}") for n, one in enumerate(plans)]
        jobs += [new_job(plan=chain("a"), unique_key="key"), new_job(task="a", step=StepRef("gone", 0, "default"))]

        async def play() -> list[Any]:
            async with self.opened() as store:
                await self.wipe(store)
                await put(store, *jobs)
                await beat(store)
                said: list[Any] = []
                for _ in range(3):
                    found = (await claim(store, tasks=["a", "b", "c", "d", "item"], limit=100, now=later(2))).jobs
                    ended = {"a": '{"part":[1,2]}', "item": "7"}
                    outcomes = [decide(job, Done(ended.get(job.task)), now=later(1)) for job in found]
                    assert await store.finish(outcomes) == {job.id for job in found}
                    said.append([replace(job, lease=None) for job in await all_jobs(store)])
                    said.append(await store.flows([job.id for job in jobs]))
                for job in said[-2]:
                    said.append([replace(run, lease="") for run in await store.executions(job.id)])
                said.append(await store.tallies("ever", since=EPOCH))
                await audit(store._open())
                return said

        by_the_script = await play()
        left = [0]

        async def none(*args: Any) -> set[str]:
            left[0] += 1
            return set()

        monkeypatch.setattr(finish, "finish_steps", none)
        assert await play() == by_the_script
        assert left == [3]
        assert any(job.task == "b" and job.state is State.COMPLETED for job in by_the_script[4])

    async def test_a_step_that_finishes_its_flow_cancels_those_that_end_with_it(self) -> None:
        """The move of a flow may change a job of the same batch: then the rule writes all of them."""
        async with self.opened() as store:
            steps = (a_step("a"), a_step("m", over=ValueOf(0), item="n"), a_step("b"), a_step("c", after=(2,)))
            id = await begin(store, Plan(steps, fail_fast=True))
            await beat(store)
            found = (await claim(store, tasks=["a", "b"])).jobs
            outcomes = [decide(job, Done("1"), now=NOW) for job in found]  # "a" returns no list: "m" is dead
            assert await store.finish(outcomes) == {job.id for job in found}
            assert {job.state for job in await steps_of(store, id) if job.task in ("a", "b")} == {State.COMPLETED}
            await audit(store._open())

    async def test_items_of_a_map_are_stored_as_the_rule_stores_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flow = new_job(plan=MAP, queue="queue 1")
        first = StepRef(flow.id, position_of(1, 0), "queue 1").position
        items = [
            new_job(step=StepRef(flow.id, first + n, "queue 1"), queue=f"queue {n % 3}", run_at=later(n % 2))
            for n in range(1, 40)
        ]
        far = replace(items.pop(), id=id_made_at(later(3600)))

        async def play() -> list[Any]:
            async with self.opened() as store:
                await self.wipe(store)
                await put(store, flow)
                await beat(store)
                job = (await claim(store, tasks=["a"])).jobs[0]
                await store.finish([decide(job, Done(f"[{','.join(map(str, range(300)))}]"), now=NOW)])
                said: list[Any] = []
                for some in (items[:10], items[:20], items[20:], [far]):
                    await put(store, *some)
                    said += [await all_jobs(store), await store.flows([flow.id])]
                await audit(store._open())
                return said

        by_sets = await play()
        calls = [0]

        async def none(*args: Any) -> bool:
            calls[0] += 1
            return False

        monkeypatch.setattr(enqueue, "enqueue_items", none)
        assert await play() == by_sets
        assert calls == [3]

    @pytest.mark.parametrize("spread", [False, True])
    async def test_a_step_that_was_claimed_again_meanwhile_is_not_ended(self, spread: bool) -> None:
        async with self.opened() as store, self.opened() as other:
            id = await self.begun(store, spread)
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            again: list[Job] = []

            async def claim_again() -> None:
                if not again:
                    await finish_run(other, job, Released(), now=NOW)
                    again.append(await claim_job(other, job.id, tasks=["a"]))

            test_redis_batches.Rival(store, claim_again)
            assert await finish_run(store, job, Done("1"), now=NOW) == set()
            assert [one for one in await all_jobs(other) if one.id == job.id] == again
            assert (await row_of(other, id)).statuses == "rww"

    async def begun(self, store: RedisStore, spread: bool) -> JobId:
        """A flow of three steps, in one shard or in as many as there are."""
        if not spread or len(store.url.bases) == 1:
            return await begin(store, chain("a", "b", "c"))
        queue, plan = a_spread_plan(store._open())
        return await begin(store, plan, queue=queue)

    @pytest.mark.parametrize("spread", [False, True])
    async def test_a_step_under_another_lease_is_not_ended(self, spread: bool) -> None:
        async with self.opened() as store:
            id = await self.begun(store, spread)
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            assert await finish_run(store, job, Done("1"), now=NOW, lease="another") == set()
            assert (await row_of(store, id)).statuses == "rww"

    async def test_a_flow_of_which_one_end_is_refused_moves_by_the_others(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a"), a_step("b"), a_step("c", after=(0, 1))))
            ids = [await begin(store, plan) for _ in range(3)]
            await beat(store)
            jobs = (await claim(store, tasks=["a", "b"], limit=6)).jobs
            refused = next(job for job in jobs if job.task == "b" and job.step and job.step.flow == ids[1])
            outcomes = [decide(job, Done("1"), now=NOW) for job in jobs]
            outcomes = [replace(one, lease="another") if one.id == refused.id else one for one in outcomes]
            assert await store.finish(outcomes) == {job.id for job in jobs if job is not refused}
            assert [(await row_of(store, id)).statuses for id in ids] == ["ccr", "crw", "ccr"]
            await audit(store._open())

    async def test_an_end_waits_for_a_transaction_that_changes_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            (shard,) = [one for one in store._open().all if await one.call("HEXISTS", f"{one.base}:flow", id)]
            async with two_phase.locked(store._open(), [two_phase.has(f"{shard.base}:flow", id, None)]) as lock:
                assert lock
                ending = asyncio.create_task(finish_run(store, job, Done("1"), now=NOW))
                done, _ = await asyncio.wait([ending], timeout=0.2)
                assert done == set()
                assert await shard.call("HLEN", f"{shard.base}:end") == 0
            assert await ending == {job.id}
            assert (await row_of(store, id)).statuses == "cr"
            await audit(store._open())


class TestRecords(OnServers):
    async def test_positions_of_late_lives_keep_their_order(self) -> None:
        """A score of a sorted set has 53 bits, a position 63. The very last index stands for the next one."""
        positions = [position_of(0, 1, 127), position_of(0, 2, 127), position_of(9_999, 0, 127), MAX_POSITION - 1]
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            jobs = [new_job(step=StepRef(id, position, "default")) for position in reversed(positions)]
            await put(store, *jobs)
            found = await store.step_jobs(id, first=positions[0], last=MAX_POSITION, limit=10)
            assert [job.step and job.step.position for job in found] == positions
            found = await store.step_jobs(id, first=positions[1], last=positions[1], limit=10)
            assert [job.id for job in found] == [jobs[2].id]

    async def test_a_step_that_is_moved_to_another_queue_stays_in_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            step = (await step_job(store, id, 0)).id
            for n in range(5):
                await act(store, Action.UPDATE, step, update=Update(queue=f"queue {n}"))
                assert [job.queue for job in await steps_of(store, id)] == [f"queue {n}"]
            await run_step(store, id, 0, Done("1"))
            assert (await row_of(store, id)).statuses == "cr"
            await audit(store._open())

    async def test_a_flow_whose_own_job_was_moved_before_it_concludes_is_found(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            await run_step(store, id, 0, Done("1"))
            for n in range(5):
                await act(store, Action.UPDATE, id, update=Update(queue=f"queue {n}"))
                row = await row_of(store, id)
                assert (row.queue, row.state) == ("default", "over")
            job = await claim_job(store, id)
            assert await finish_run(store, job, Done("1"), now=NOW, concludes=row.revision - 1) == set()
            job = await claim_job(store, id)
            assert await finish_run(store, job, Done("1"), now=NOW, concludes=row.revision) == {id}
            await act(store, Action.DELETE, id)
            assert await all_jobs(store) == []

    async def test_jobs_of_a_large_flow_are_committed_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(two_phase, "MAX_UNIT_ARGS", 1)
        monkeypatch.setattr(two_phase, "MAX_SCRIPT_ARGS", 16)
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":1}'))
            assert [job.task for job in await steps_of(store, id)] == ["a", "b", "c"]
            await act(store, Action.DELETE, id)
            assert await all_jobs(store) == []
            await audit(store._open())


@pytest.mark.parametrize("runs", [0, 1])
def test_a_step_cannot_be_taken_for_another_job_by_a_release_without_flows(runs: int) -> None:
    """It knows records of 5, 11 and 22 values."""
    job = replace(to_job(new_job(step=StepRef("flow", 0, "default")), NOW), runs=runs)
    values = msgspec.msgpack.decode(record_of(job)[1:])
    assert len(values) not in (5, 11, 22)
    with pytest.raises(ValueError, match="values to unpack"):
        strict_job_of([job.id, *values])
    assert len(msgspec.msgpack.decode(record_of(replace(job, step=None))[1:])) == 22


def test_the_end_of_a_step_is_not_plain_for_finish_lua() -> None:
    assert flags(new_job(step=StepRef("flow", 0, "default")))[0] & FLAG_SCHEDULED


class TestOlderReleases(OnServers):
    """A worker of a release without flows has no mark in its row, and counts its beats in the field `turns`."""

    async def live(self, store: RedisStore, name: str = "bob") -> None:
        await store.beat(a_worker(name), until=later(60), now=NOW)
        shard = store._open().first
        text = await shard.call("HGET", f"{shard.base}:worker", name)
        row = msgspec.json.decode(text)
        assert row.pop("flows")
        await shard.call("HSET", f"{shard.base}:worker", name, msgspec.json.encode(row))

    async def turn(self, store: RedisStore) -> None:
        shard = store._open().first
        await shard.multi([("HINCRBY", f"{shard.base}:meta", "turns", 1)])

    async def test_a_flow_does_not_begin_while_a_worker_of_an_older_release_lives(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await self.live(store)
            assert await finish_run(store, job, Suspend(DIAMOND), now=NOW) == set()
            waiting = await read_job(store, job.id)
            assert (waiting.state, waiting.failure and waiting.failure.type) == (State.PENDING, "OlderRelease")
            with pytest.raises(StoreUnavailable, match=r"workers of an older release are alive.*: bob;"):
                await put(store, new_job(plan=DIAMOND))
            assert await store.flows([job.id]) == []
            await self.turn(store)
            await beat(store)
            job = await claim_job(store, job.id, now=later(10))
            assert await finish_run(store, job, Suspend(DIAMOND), now=later(61)) == {job.id}
            assert len(await steps_of(store, job.id)) == 1

    async def test_older_releases_are_shut_out_once_a_flow_is_stored(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await self.turn(store)
            await begin(store, DIAMOND)
            with pytest.raises(StoreError, match="hash value is not an integer"):
                await self.turn(store)
            await beat(store)
            await beat(other)
            await put(other, new_job(plan=DIAMOND))

    async def test_a_worker_of_an_older_release_that_began_its_beat_before_is_waited_for(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            shard = store._open().first
            multi, beats = shard.multi, [lambda: self.live(store)]

            async def later_multi(commands: Any) -> Any:
                if any("oldest" in command and command[0] == "HSET" for command in commands):
                    await beats.pop()()
                return await multi(commands)

            shard.multi = later_multi  # type: ignore[method-assign]
            assert await finish_run(store, job, Suspend(DIAMOND), now=NOW) == set()
            assert await store.flows([job.id]) == []
            assert beats == []

    async def test_a_command_for_an_older_worker_does_not_make_it_one_that_knows_flows(self) -> None:
        async with self.opened() as store:
            await self.live(store)
            assert await store.command_workers(["bob"], WorkerCommands(drained=True), now=NOW) == ["bob"]
            with pytest.raises(StoreUnavailable, match="bob"):
                await put(store, new_job(plan=DIAMOND))

    async def test_a_store_of_a_later_release_refuses_the_beat_of_this_one(self) -> None:
        async with self.opened() as store:
            shard = store._open().first
            await shard.call("HSET", f"{shard.base}:meta", "oldest", RECORDS_VERSION + 1)
            with pytest.raises(
                SchemaMismatch,
                match=f"has records of version {RECORDS_VERSION + 1}, this release knows {RECORDS_VERSION}",
            ):
                await beat(store)


async def test_a_chain_in_one_shard_needs_no_two_phase_commit(redis_cluster: RedisCluster) -> None:
    async with opened(redis_cluster.fresh()) as store:
        called: list[str] = []
        id = await begin(store, chain("a", "b"))
        job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
        for shard in store._open().all:
            shard.script = _noting(shard.script, called)  # type: ignore[method-assign]
        await finish_run(store, job, Done("1"), now=NOW)
        assert called == ["finish"]


def _noting(script: Callable[..., Awaitable[Any]], called: list[str]) -> Callable[..., Awaitable[Any]]:
    async def noting(name: str, words: Any) -> Any:
        called.append(name)
        return await script(name, words)

    return noting
