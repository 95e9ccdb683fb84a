"""Limits: how many jobs of a group run at once, how many start in a time, and whose turn it is."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from ...ids import JobId
from ...records.job import Action, State
from ...records.limit import LimitGroup, StoredLimit, limit_key_of
from ...records.outcome import Cancel, Crashed, Discard, Done, Released, Retry, RunEnd, Snooze
from ...store import LimitStore, Store
from .build import (
    NOW,
    Contract,
    act,
    beat,
    claim,
    claim_ids,
    claim_job,
    finish_run,
    later,
    make_suspect,
    new_job,
    open_circuit,
    put,
    read_circuit,
    read_job,
)
from .sentences import proves

NAME = "task:task"
A_MICROSECOND = timedelta(microseconds=1)


def limits_of(store: Store) -> LimitStore:
    assert store.capabilities.limits
    return cast(LimitStore, store)


async def set_limit(store: Store, name: str = NAME, **numbers: Any) -> None:
    await limits_of(store).set_limits([StoredLimit(name=name, **numbers)], now=NOW)


async def put_limited(store: Store, *keys: str, name: str = NAME, **fields: Any) -> list[JobId]:
    """Enqueues one job for each key, in order."""
    return await put(store, *(new_job(limit_key=limit_key_of(name, key), **fields) for key in keys))


async def names_claimed(store: Store, jobs: dict[JobId, str], **query: Any) -> str:
    """The names of the jobs that one claim takes, sorted."""
    return "".join(sorted(jobs[id] for id in await claim_ids(store, **query)))


async def groups(store: Store, name: str = NAME, **query: Any) -> list[LimitGroup]:
    return await limits_of(store).limit_groups(name, **{"limit": 100, **query})


async def remembered(store: Store) -> int:
    """The groups that the store knows of NAME."""
    (use,) = await limits_of(store).limits()
    return use.groups


async def claim_of(store: Store, id: JobId) -> Any:
    """The job as it runs; claims it if it does not."""
    job = await read_job(store, id)
    return job if job.state is State.RUNNING else await claim_job(store, id)


class LimitContract(Contract):
    # what counts

    @proves("LM2")
    async def test_no_more_jobs_of_a_group_run_at_once_than_its_limit_says(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=2)
            ids = await put_limited(store, "a", "a", "a", "b", "a")
            assert await claim_ids(store) == [ids[0], ids[1], ids[3]]
            assert await claim_ids(store, "bob") == []

    @proves("LM2")
    async def test_no_more_jobs_of_a_limit_run_at_once_than_its_total(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=2, total=3)
            ids = await put_limited(store, "a", "a", "a", "b", "b", "c")
            taken = await claim_ids(store)
            assert len(taken) == 3
            assert await claim_ids(store, "bob") == []
            assert (await limits_of(store).limits())[0].running == 3
            assert set(taken) < set(ids)

    @proves("LM2")
    @pytest.mark.parametrize("numbers", [{"running": 0}, {"total": 0}])
    async def test_a_limit_of_none_lets_no_job_start(self, numbers: dict[str, Any]) -> None:
        async with self.opened() as store:
            await set_limit(store, **numbers)
            await put_limited(store, "a")
            (plain,) = await put(store, new_job())
            assert await claim_ids(store) == [plain]

    @proves("LM1")
    @pytest.mark.parametrize(
        "ended",
        [Done("1"), Discard(), Cancel(), ValueError("no"), Retry(after=9), Snooze(9), Released()],
        ids=lambda ended: type(ended).__name__,
    )
    async def test_a_run_gives_its_place_back_however_it_ends(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            run = await claim_job(store, first)
            assert await claim_ids(store) == []
            await finish_run(store, run, ended, now=NOW)
            again = await claim_ids(store, limit=1)
            assert again in ([first], [second])
            assert [group.holders for group in await groups(store)] == [tuple(again)]

    @proves("LM1")
    async def test_an_outcome_of_another_lease_gives_no_place_back(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, _ = await put_limited(store, "a", "a")
            run = await claim_job(store, first)
            await finish_run(store, run, Done(), lease="another")
            assert await claim_ids(store) == []
            await finish_run(store, run, Done())
            await finish_run(store, run, Done())
            assert len(await claim_ids(store, limit=5)) == 1

    @proves("LM1")
    async def test_a_rescued_run_gives_its_place_back_and_its_own_outcome_does_not(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            zombie = await claim_job(store, first)
            silent = later(61)
            await finish_run(store, zombie, Crashed("ada", 3), now=silent, silent=True)
            await beat(store, "bob", until=later(99), now=silent)
            (taken,) = (await claim(store, "bob", now=later(90))).jobs
            assert await finish_run(store, zombie, Done()) == set()
            assert (await claim(store, "bob", now=later(90))).jobs == []
            assert taken.id in (first, second)

    @proves("LM1")
    async def test_a_cancelled_run_keeps_its_place_until_it_has_ended(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            run = await claim_job(store, first)
            await act(store, Action.CANCEL, first)
            assert await claim_ids(store) == []
            await finish_run(store, run, Cancel())
            assert await claim_ids(store) == [second]

    @proves("LM1", "LM15")
    async def test_jobs_that_do_not_run_hold_no_place(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            cancelled, paused, deleted = await put_limited(store, "a", "a", "a")
            (future,) = await put_limited(store, "a", run_at=later(60))
            await act(store, Action.CANCEL, cancelled)
            await act(store, Action.PAUSE, paused)
            await act(store, Action.DELETE, deleted)
            (group,) = await groups(store)
            assert (group.running, group.waiting, group.holders) == (0, 1, ())
            await act(store, Action.RETRY, cancelled)
            assert await claim_ids(store) == [cancelled]
            await act(store, Action.RESUME, paused)
            assert await claim_ids(store, now=later(1)) == []
            (group,) = await groups(store)
            assert (group.limit_key, group.running, group.waiting) == (limit_key_of(NAME, "a"), 1, 2)
            assert (await read_job(store, future)).state is State.PENDING

    @proves("LM2")
    async def test_a_poison_suspect_waits_for_a_place(self) -> None:
        async with self.opened() as store:
            key = limit_key_of(NAME, "a")
            suspect = await make_suspect(store, limit_key=key)
            await set_limit(store, running=1)
            (first,) = await put_limited(store, "a", priority=5)
            taken = await claim_ids(store)
            assert taken == [suspect]
            await finish_run(store, (await claim_of(store, suspect)), Done())
            assert await claim_ids(store) == [first]

    @proves("LM2")
    async def test_the_probe_of_a_circuit_waits_for_a_place(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await set_limit(store, "queue:slow", running=1)
            (other,) = await put_limited(store, "", name="queue:slow", task="other")
            run = await claim_job(store, other, tasks=["other"])
            (probe,) = await put_limited(store, "", name="queue:slow")
            assert (await claim(store, now=later(11))).jobs == []
            circuit = await read_circuit(store)
            assert circuit is not None
            assert circuit.probe is None
            await finish_run(store, run, Done())
            assert [job.id for job in (await claim(store, now=later(11))).jobs] == [probe]

    # rates

    @proves("LM3")
    async def test_no_more_jobs_start_in_any_span_than_the_rate_allows(self) -> None:
        async with self.opened() as store:
            await set_limit(store, rate=2, per=10.0, burst=3)
            await put_limited(store, *"aaaaaaaaa")
            started = [len(await claim_ids(store, now=later(second))) for second in range(16)]
            assert started == [3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]

    @proves("LM3", "LM6")
    async def test_the_next_job_of_a_rate_starts_at_the_instant_of_its_token(self) -> None:
        async with self.opened() as store:
            await set_limit(store, rate=3, per=1.0)
            await put_limited(store, "a", "a")
            await beat(store)
            first = await claim(store)
            token = NOW + timedelta(microseconds=333_334)
            assert (len(first.jobs), first.next_at) == (1, token)
            assert (await claim(store, now=token - A_MICROSECOND)).jobs == []
            assert len((await claim(store, now=token)).jobs) == 1

    @proves("LM3")
    async def test_a_run_that_ends_gives_no_token_back(self) -> None:
        async with self.opened() as store:
            await set_limit(store, rate=1, per=60.0)
            first, _ = await put_limited(store, "a", "a")
            await finish_run(store, await claim_job(store, first), Released(), now=NOW)
            assert await claim_ids(store) == []
            assert len(await claim_ids(store, now=later(60) - A_MICROSECOND)) == 0

    # turns

    @proves("LM4", "LM8")
    async def test_a_group_with_many_jobs_does_not_delay_one_with_few(self) -> None:
        async with self.opened() as store:
            many = await put_limited(store, *["many"] * 50)
            few = await put_limited(store, "few", "few")
            assert set(await claim_ids(store, limit=4)) == {*many[:2], *few}

    @proves("LM4")
    async def test_claims_of_one_job_take_the_jobs_that_one_claim_takes(self) -> None:
        async with self.opened() as store:
            ids = await put_limited(store, *"aaabbca")
            taken = [(await claim_ids(store, limit=1))[0] for _ in ids]
            assert [ids.index(id) for id in taken] == [0, 3, 5, 1, 4, 2, 6]

    @proves("LM4")
    async def test_a_group_that_was_served_stands_behind_jobs_that_wait_since_before(self) -> None:
        async with self.opened() as store:
            first, second = await put_limited(store, "a", "a", run_at=later(-60))
            old, young = await put(store, new_job(run_at=later(-30)), new_job(run_at=later(5)))
            taken = [await claim_ids(store, limit=1, now=later(n)) for n in (0, 1, 9, 10)]
            assert taken == [[first], [old], [second], [young]]

    @proves("LM4")
    async def test_a_higher_priority_comes_before_the_turn_of_a_group(self) -> None:
        async with self.opened() as store:
            low = await put_limited(store, "a", "a", "b")
            high = await put_limited(store, "a", "a", priority=1)
            taken = [(await claim_ids(store, limit=1))[0] for _ in range(5)]
            assert taken == [*high, low[2], low[0], low[1]]

    @proves("LM4")
    async def test_a_worker_gets_the_jobs_of_a_group_that_it_serves(self) -> None:
        async with self.opened() as store:
            await set_limit(store, "queue:default", running=1)
            first, second = await put_limited(store, "", name="queue:default", task="first"), []
            second = await put_limited(store, "", name="queue:default", task="second")
            assert await claim_ids(store, tasks=["second"]) == second
            assert await claim_ids(store, tasks=["first", "second"]) == []
            await finish_run(store, await claim_of(store, second[0]), Done())
            assert await claim_ids(store, tasks=["first"]) == first

    # waiting

    @proves("LM5")
    async def test_a_job_that_waits_for_its_limit_stays_as_it_is(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            _, waiting = await put_limited(store, "a", "a")
            before = await read_job(store, waiting)
            (behind,) = await put_limited(store, "b", priority=-1)
            assert behind in await claim_ids(store)
            for second in range(5):
                assert await claim_ids(store, now=later(second)) == []
            assert await read_job(store, waiting) == before

    @proves("LM6")
    async def test_a_full_group_is_no_reason_to_claim_again(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            await put_limited(store, "a", "a")
            (far,) = await put_limited(store, "b", run_at=later(60))
            await beat(store)
            assert (await claim(store)).next_at == later(60)
            assert (await claim(store, queues=["other"])).next_at is None
            await act(store, Action.DELETE, far)
            assert (await claim(store)).next_at is None

    @proves("LM7")
    async def test_the_end_of_a_run_wakes_who_waits_for_jobs(self) -> None:
        async with self.opened() as store, asyncio.timeout(5):
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            run = await claim_job(store, first)
            seen = await store.wait("claimable", 0)
            await finish_run(store, run, Done())
            while await store.wait("claimable", 5, seen=seen) == seen:
                pass
            assert await claim_ids(store) == [second]
