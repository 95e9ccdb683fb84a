"""Leader election: one leader at a time, in increasing terms, whatever stores, clocks and processes do."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from machines import Machine, machines

from mainspring import BadInput, BadSetting, Leader, Mainspring, NotLeader, StoreUnavailable
from mainspring.events import LeaderChanged, StoreTrouble
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, VirtualClock

TTL, POLL = 15.0, 1.0
BELIEF = 0.8 * TTL


class Pair:
    """Two candidates for the same leadership, on two machines."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.here, self.there = machines(2, url, clock)
        self.first, self.second = (machine.app.leader("reindex", ttl=TTL) for machine in (self.here, self.there))

    def leading(self) -> tuple[bool, bool]:
        return self.first.is_leader, self.second.is_leader


@pytest.fixture
def pair(url: str, clock: VirtualClock) -> Pair:
    return Pair(url, clock)


@asynccontextmanager
async def waiting(leader: Leader) -> AsyncIterator[asyncio.Task[int]]:
    task = asyncio.create_task(leader.acquire(keep=True))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await leader.release()


def changes(machine: Machine) -> list[tuple[int, bool]]:
    return [(event.term, event.leading) for event in machine.recorder.of(LeaderChanged)]


# taking turns


async def test_the_first_candidate_leads_and_the_second_waits(pair: Pair, clock: VirtualClock) -> None:
    assert await pair.first.acquire(keep=True) == 1
    async with waiting(pair.second):
        await clock.elapse(minutes=10)
        assert pair.leading() == (True, False)
        assert (pair.first.term, pair.second.term) == (1, None)
    await pair.first.release()


async def test_after_a_release_the_next_candidate_leads_at_its_next_poll(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire(keep=True)
    async with waiting(pair.second) as turn:
        await clock.elapse(seconds=5)
        await pair.first.release()
        assert pair.leading() == (False, False)
        await clock.elapse(seconds=POLL)
        assert pair.leading() == (False, True)
        assert turn.result() == 2


async def test_after_a_release_in_the_same_process_the_next_candidate_leads_at_once(
    app: Mainspring, clock: VirtualClock
) -> None:
    first, second = app.leader("reindex"), app.leader("reindex")
    await first.acquire()
    async with waiting(second):
        await clock.elapse(seconds=5.5)
        await first.release()
        await clock.settle()
        assert (first.is_leader, second.is_leader) == (False, True)


async def test_every_term_is_greater_than_the_one_before(pair: Pair) -> None:
    terms = []
    for leader in (pair.first, pair.first, pair.second, pair.first):
        terms.append(await leader.acquire())
        await leader.release()
    assert terms == [1, 2, 3, 4]


async def test_leaders_of_different_names_are_independent(app: Mainspring) -> None:
    one, other = app.leader("reindex"), app.leader("mail")
    assert (await one.acquire(), await other.acquire()) == (1, 1)
    assert one.is_leader
    assert other.is_leader


async def test_two_candidates_of_one_app_are_rivals(app: Mainspring) -> None:
    first, second = app.leader("reindex"), app.leader("reindex")
    await first.acquire()
    with pytest.raises(NotLeader):
        await second.acquire(0)
    assert first.holder != second.holder


async def test_acquire_of_the_leader_returns_the_same_term(pair: Pair) -> None:
    assert [await pair.first.acquire() for _ in range(3)] == [1, 1, 1]
    assert changes(pair.here) == [(1, True)]


async def test_a_cancelled_acquire_does_not_block_other_candidates(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    waiter = asyncio.create_task(pair.second.acquire())
    await clock.elapse(seconds=2)
    waiter.cancel()
    await asyncio.wait([waiter])
    await clock.elapse(seconds=TTL)
    assert pair.leading() == (False, False)
    assert await pair.first.acquire(0) == 2


# saying no


async def test_check_raises_not_leader_elsewhere(pair: Pair) -> None:
    await pair.first.acquire()
    assert pair.first.check() == 1
    with pytest.raises(NotLeader, match=r"'reindex' is not led from here \(.+\): acquire\(\) waits for its turn"):
        pair.second.check()
    with pytest.raises(NotLeader):
        await pair.second.renew()


async def test_a_timeout_of_acquire_names_the_present_leader(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire(keep=True)
    asked = asyncio.create_task(pair.second.acquire(timeout=20))
    await clock.elapse(seconds=19.9)
    assert not asked.done()
    await clock.elapse(seconds=0.2)
    with pytest.raises(NotLeader, match=rf"{pair.first.holder} leads in term 1, until 2030-01-01 00:00:3"):
        asked.result()
    await pair.first.release()


async def test_acquire_with_a_timeout_of_zero_asks_once(pair: Pair) -> None:
    assert await pair.first.acquire(0) == 1
    with pytest.raises(NotLeader):
        await pair.second.acquire(0)


async def test_a_timeout_of_acquire_while_the_store_is_away_names_the_reason(pair: Pair, clock: VirtualClock) -> None:
    pair.here.faults.fail("acquire_term", times=1000)
    asked = asyncio.create_task(pair.first.acquire(timeout=5))
    await clock.elapse(seconds=8)
    with pytest.raises(NotLeader, match="the store does not answer: injected into acquire_term"):
        asked.result()


@pytest.mark.parametrize("name", ["", " x", 5, "mainspring.fire"])
def test_a_bad_name_is_refused(app: Mainspring, name: Any) -> None:
    with pytest.raises(BadInput, match="leader"):
        app.leader(name)


@pytest.mark.parametrize("ttl", [0.5, 0, -1, "soon"])
def test_a_bad_ttl_is_refused(app: Mainspring, ttl: Any) -> None:
    with pytest.raises(BadSetting, match="leader 'reindex': ttl must be"):
        app.leader("reindex", ttl=ttl)


@pytest.mark.parametrize("act", [None, 5, asyncio.sleep])
def test_on_change_refuses_anything_but_a_plain_function(app: Mainspring, act: Any) -> None:
    with pytest.raises(BadInput, match="on_change takes a plain function"):
        app.leader("reindex").on_change(act)


# how long it lasts


async def test_a_term_that_is_not_renewed_ends_before_the_next_begins(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    async with waiting(pair.second):
        await clock.elapse(seconds=BELIEF - 0.001)
        assert pair.leading() == (True, False)
        await clock.elapse(seconds=0.001)
        assert pair.leading() == (False, False)
        await clock.elapse(seconds=TTL - BELIEF)
        assert pair.leading() == (False, True)


async def test_renew_extends_the_term(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    for _ in range(10):
        await clock.elapse(seconds=BELIEF - 1)
        assert await pair.first.renew() == 1
    assert changes(pair.here) == [(1, True)]


async def test_a_leader_block_holds_and_releases_the_term(pair: Pair, clock: VirtualClock) -> None:
    async with pair.first as leader:
        assert leader is pair.first
        await clock.elapse(minutes=5)
        assert pair.first.term == 1
    assert not pair.first.is_leader
    assert await pair.second.acquire(0) == 2


async def test_a_dead_leader_is_replaced_within_its_ttl(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire(keep=True)
    async with waiting(pair.second):
        await clock.elapse(seconds=7)  # renewed at 5
        pair.here.clock.frozen = True
        await clock.elapse(seconds=5 + TTL - 7 - 0.001)
        assert not pair.second.is_leader
        await clock.elapse(seconds=0.001)
        assert pair.second.term == 2


async def test_a_frozen_leader_notices_its_lost_term_before_it_acts(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire(keep=True)
    pair.here.clock.frozen = True  # none of its timers fires, none of its loops turns
    await clock.elapse(seconds=TTL)
    assert not pair.first.is_leader
    with pytest.raises(NotLeader):
        pair.first.check()
    assert await pair.second.acquire(0) == 2
    pair.here.clock.thaw()
    await clock.settle()
    assert pair.leading() == (False, True)
    assert changes(pair.here) == [(1, True), (1, False)]


async def test_acquire_after_a_freeze_announces_the_loss_first(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    pair.here.clock.frozen = True
    await clock.elapse(seconds=TTL)
    assert await pair.first.acquire(0) == 2
    assert changes(pair.here) == [(1, True), (1, False), (2, True)]
    await clock.elapse(seconds=TTL)
    await pair.second.acquire(0)
    with pytest.raises(NotLeader):
        await pair.first.acquire(0)
    assert changes(pair.here)[3:] == [(2, False)]


async def test_a_leader_whose_machine_slept_notices_its_lost_term_by_the_wall_clock(pair: Pair) -> None:
    await pair.first.acquire()
    pair.here.clock.wrong = timedelta(seconds=BELIEF)  # its monotonic clock does not count the sleep
    assert not pair.first.is_leader


async def test_a_clock_that_is_set_back_does_not_make_a_term_longer(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    pair.here.clock.wrong = timedelta(hours=-1)
    pair.here.clock.frozen = True
    await clock.elapse(seconds=BELIEF)
    assert not pair.first.is_leader


@pytest.mark.parametrize("hours", [-1, 1])
async def test_terms_follow_the_clock_of_the_store(pair: Pair, clock: VirtualClock, hours: int) -> None:
    pair.here.clock.wrong = timedelta(hours=hours)
    await pair.first.acquire(keep=True)
    async with waiting(pair.second):
        await clock.elapse(minutes=1)
        assert pair.leading() == (True, False)
        pair.there.clock.wrong = timedelta(hours=-hours)
        await clock.elapse(minutes=1)
        assert pair.leading() == (True, False)
        pair.here.clock.frozen = True
        await clock.elapse(seconds=TTL)
        assert pair.leading() == (False, True)


# a store that fails


async def test_a_short_store_failure_does_not_end_the_term(pair: Pair, clock: VirtualClock) -> None:
    async with pair.first:
        pair.here.faults.when("acquire_term", lambda: clock.monotonic() < BELIEF - 2.5)
        await clock.elapse(minutes=1)
        assert pair.first.term == 1
        assert changes(pair.here) == [(1, True)]
        assert {event.doing for event in pair.here.recorder.of(StoreTrouble)} == {"electing the leader of 'reindex'"}


async def test_a_long_store_failure_ends_the_term_and_announces_it(pair: Pair, clock: VirtualClock) -> None:
    async with pair.first:
        pair.here.faults.fail("acquire_term", times=1000)
        await clock.elapse(seconds=BELIEF - 0.001)
        assert pair.first.is_leader
        await clock.elapse(seconds=0.001)
        assert not pair.first.is_leader
        assert changes(pair.here) == [(1, True), (1, False)]


async def test_a_leader_block_that_lost_its_term_does_not_lead_again(pair: Pair, clock: VirtualClock) -> None:
    async with pair.first:
        pair.here.faults.fail("acquire_term", times=1000)
        await clock.elapse(seconds=BELIEF)
        pair.here.faults.clear()
        await clock.elapse(minutes=5)
        assert not pair.first.is_leader


async def test_a_term_ends_even_if_the_store_hangs(clock: VirtualClock, url: str) -> None:
    store = SlowStore(open_store(url, clock=clock), clock)
    leader = Mainspring(store, clock=clock).leader("reindex", ttl=TTL)  # type: ignore[arg-type]
    told: list[bool] = []
    leader.on_change(told.append)
    await leader.acquire(keep=True)
    store.delays.append(3600)
    await clock.elapse(seconds=BELIEF)
    assert told == [True, False]
    assert not leader.is_leader
    await leader.release()


class SlowStore(FaultStore):
    """Answers `acquire_term` late: the work is done, and then time passes."""

    def __init__(self, store: Any, clock: VirtualClock) -> None:
        super().__init__(store, Faults())
        self._clock = clock
        self.delays: list[float] = []
        self.time_takes = 0.0

    async def acquire_term(self, *args: Any, **kwargs: Any) -> Any:
        answer = await self._store.acquire_term(*args, **kwargs)
        if self.delays:
            await self._clock.sleep(self.delays.pop())
        return answer

    async def time(self) -> datetime:
        if self.time_takes:
            await self._clock.sleep(self.time_takes)
        return await self._store.time()


async def test_an_answer_that_arrives_too_late_begins_no_term(clock: VirtualClock, url: str) -> None:
    store = SlowStore(open_store(url, clock=clock), clock)
    leader = Mainspring(store, clock=clock).leader("reindex", ttl=TTL)  # type: ignore[arg-type]
    store.delays.append(BELIEF)
    asked = asyncio.create_task(leader.acquire(timeout=BELIEF))
    await clock.elapse(seconds=BELIEF)
    with pytest.raises(NotLeader, match="too late"):
        asked.result()
    assert not leader.is_leader


async def test_a_term_counts_from_the_request_and_not_from_the_answer(clock: VirtualClock, url: str) -> None:
    store = SlowStore(open_store(url, clock=clock), clock)
    machine = Machine(store, clock)
    leader = machine.app.leader("reindex", ttl=TTL)
    store.delays.append(BELIEF - 1)
    asked = asyncio.create_task(leader.acquire())
    await clock.elapse(seconds=BELIEF - 1)
    assert asked.result() == 1
    machine.clock.wrong = timedelta(hours=-1)
    await clock.elapse(seconds=1)
    assert not leader.is_leader


async def test_no_leader_is_elected_if_clocks_cannot_be_compared(clock: VirtualClock, url: str) -> None:
    store = SlowStore(open_store(url, clock=clock), clock)
    leader = Mainspring(store, clock=clock).leader("reindex", ttl=TTL)  # type: ignore[arg-type]
    store.time_takes = 2.0
    asked = asyncio.create_task(leader.acquire(0))
    await clock.elapse(seconds=10)
    with pytest.raises(NotLeader, match="the store took 2 s to return its time, too long to compare clocks"):
        asked.result()


async def test_an_acquire_whose_reply_is_lost_leads_anyway(pair: Pair, clock: VirtualClock) -> None:
    pair.here.faults.fail("acquire_term", moment="after")
    asked = asyncio.create_task(pair.first.acquire())
    await clock.elapse(seconds=1)
    assert asked.result() == 1
    assert pair.first.is_leader


async def test_an_abandoned_acquire_does_not_lead(pair: Pair) -> None:
    pair.here.faults.fail("acquire_term", moment="after")
    with pytest.raises(NotLeader):
        await pair.first.acquire(0)
    assert await pair.second.acquire(0) == 2


async def test_a_term_whose_release_fails_expires(
    pair: Pair, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await pair.first.acquire()
    pair.here.faults.fail("acquire_term")
    await pair.first.release()
    assert not pair.first.is_leader
    assert "it expires within 15 s" in caplog.text
    await clock.elapse(seconds=TTL)
    assert await pair.second.acquire(0) == 2


async def test_no_term_is_led_twice_even_if_the_store_still_has_it(pair: Pair) -> None:
    await pair.first.acquire()
    pair.here.faults.fail("acquire_term")
    await pair.first.release()
    assert await pair.first.acquire(0) == 2


async def test_a_term_that_was_taken_away_is_lost_at_the_next_renewal(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    store, now = await pair.there.app.connect(), clock.now()
    await store.acquire_term("reindex", pair.first.holder, until=now, now=now)
    assert await pair.second.acquire(0) == 2
    with pytest.raises(NotLeader, match="ended when it was to be renewed"):
        await pair.first.renew()
    assert changes(pair.here) == [(1, True), (1, False)]
    assert pair.leading() == (False, True)


async def test_a_renewal_does_not_begin_another_term(pair: Pair, clock: VirtualClock) -> None:
    await pair.first.acquire()
    store, now = await pair.there.app.connect(), clock.now()
    await store.acquire_term("reindex", pair.first.holder, until=now, now=now)
    with pytest.raises(NotLeader):
        await pair.first.renew()
    assert await store.terms(now=now) == []


async def test_a_renewal_that_fails_changes_nothing(pair: Pair) -> None:
    await pair.first.acquire()
    pair.here.faults.fail("acquire_term")
    with pytest.raises(StoreUnavailable):
        await pair.first.renew()
    assert pair.first.term == 1


# listeners


async def test_changes_of_leadership_are_announced_in_order_with_their_terms(pair: Pair, clock: VirtualClock) -> None:
    told: list[bool] = []
    assert pair.first.on_change(told.append) is not None
    await pair.first.acquire()
    await pair.first.renew()
    await pair.first.release()
    await pair.first.release()
    await pair.first.acquire()
    await clock.elapse(seconds=BELIEF)
    assert told == [True, False, True, False]
    assert changes(pair.here) == [(1, True), (1, False), (2, True), (2, False)]
    assert {(event.name, event.holder) for event in pair.here.recorder.of(LeaderChanged)} == {
        ("reindex", pair.first.holder)
    }


async def test_a_listener_that_raises_does_not_affect_others(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[bool, bool]] = []
    pair.first.on_change(lambda leading: 1 / 0)
    pair.first.on_change(lambda leading: seen.append((leading, pair.first.is_leader)))
    async with pair.first:
        pass
    assert seen == [(True, True), (False, False)]
    assert caplog.text.count("ZeroDivisionError") == 2


async def test_changes_of_leadership_are_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring")
    async with pair.first:
        pass
    who = pair.first.holder
    assert [record.getMessage() for record in caplog.records] == [
        f"{who} leads 'reindex', term 1", f"{who} no longer leads 'reindex', term 1",
    ]  # fmt: skip


# running while it leads


async def test_work_runs_while_it_leads_and_its_value_is_returned(pair: Pair) -> None:
    async def work() -> tuple[int, str]:
        return pair.first.check(), "done"

    assert await pair.first.run(work) == (1, "done")
    assert await pair.second.acquire(0) == 2


async def test_work_that_fails_releases_the_term(pair: Pair) -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await pair.first.run(work)
    assert await pair.second.acquire(0) == 2


class Work:
    """Runs until it is cancelled; records the time."""

    def __init__(self, term: Callable[[], int]) -> None:
        self._term = term
        self.said: list[str] = []

    async def __call__(self) -> None:
        self.said.append(f"began {self._term()}")
        try:
            await asyncio.Event().wait()
        finally:
            self.said.append("ended")


async def test_work_is_cancelled_when_leadership_is_lost_and_runs_again(pair: Pair, clock: VirtualClock) -> None:
    work = Work(pair.first.check)
    running = asyncio.create_task(pair.first.run(work))
    await clock.elapse(seconds=1)
    pair.here.faults.fail("acquire_term", times=1000)
    await clock.elapse(seconds=BELIEF)
    assert work.said == ["began 1", "ended"]
    pair.here.faults.clear()
    await clock.elapse(seconds=TTL)
    assert work.said == ["began 1", "ended", "began 2"]
    running.cancel()
    await asyncio.wait([running])
    assert work.said[3:] == ["ended"]
    assert await pair.second.acquire(0) == 3


async def test_work_that_fails_while_it_is_cancelled_is_not_run_again(pair: Pair, clock: VirtualClock) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("could not tidy up")

    running = asyncio.create_task(pair.first.run(work))
    await clock.elapse(seconds=1)
    pair.here.faults.fail("acquire_term", times=1000)
    await clock.elapse(seconds=BELIEF)
    with pytest.raises(ValueError, match="tidy up"):
        await running


async def test_work_that_is_slow_to_end_does_not_run_twice_at_a_time(pair: Pair, clock: VirtualClock) -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await clock.sleep(60)
            raise
        finally:
            running -= 1

    task = asyncio.create_task(pair.first.run(work))
    await clock.elapse(seconds=1)
    pair.here.faults.when("acquire_term", lambda: clock.monotonic() < 30)
    await clock.elapse(seconds=40)
    assert (running, pair.first.is_leader) == (1, False)
    await clock.elapse(seconds=60)
    assert (running, most, pair.first.term) == (1, 1, 2)
    task.cancel()
    await clock.elapse(seconds=60)
    with suppress(asyncio.CancelledError):
        await task


# other ways in


async def test_a_forked_process_is_another_candidate_and_does_not_lead(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pair.first.acquire()
    parent, pid = pair.first.holder, os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert not pair.first.is_leader
    with pytest.raises(NotLeader, match=f"{parent} leads in term 1"):
        await pair.first.acquire(0)
    assert pair.first.holder != parent


def test_synchronous_code_can_lead(url: str) -> None:
    app = Mainspring(url)
    leader = app.leader("reindex").sync
    assert leader.acquire(keep=True) == 1
    assert (leader.is_leader, leader.term, leader.check(), leader.renew()) == (True, 1, 1, 1)
    with pytest.raises(NotLeader):
        app.leader("reindex").sync.acquire(0)
    leader.release()
    assert not leader.is_leader
    app.sync.close()


async def test_a_closed_app_ends_the_renewal_with_a_log_line(
    pair: Pair, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair.first:
        await pair.here.app.close()
        await clock.elapse(seconds=TTL)
        assert not pair.first.is_leader
    assert "the term is no longer renewed: ShuttingDown" in caplog.text
