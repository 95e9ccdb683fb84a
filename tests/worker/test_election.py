"""Random elections: machines freeze, clocks jump, stores fail and lose replies, and at most one candidate leads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import Machine, machines

from mainspring import Leader, NotLeader, StoreUnavailable
from mainspring.events import LeaderChanged
from mainspring.testing import VirtualClock

COUNT, TTL, POLL = 3, 10.0, 1.0
STEP_SECONDS = 0.5

who = st.integers(0, COUNT - 1)
acts = st.one_of(
    st.tuples(st.sampled_from(["acquire", "keep", "wait", "renew", "release", "freeze", "thaw"]), who, st.none()),
    st.tuples(st.just("fail"), who, st.tuples(st.sampled_from(["acquire_term", "terms", "time"]), st.integers(1, 5),
                                              st.sampled_from(["before", "after"]))),
    st.tuples(st.just("jump"), who, st.sampled_from([-3600.0, -8.0, -1.0, 0.0, 1.0, 8.0, 3600.0])),
    st.tuples(st.just("elapse"), who, st.sampled_from([0.5, 2.0, 4.0, 9.0, 15.0])),
)  # fmt: skip


class Election:
    """What happens to three machines, and what must hold after each step of it."""

    def __init__(self, url: str) -> None:
        self.clock = VirtualClock()
        self.machines = machines(COUNT, url, self.clock)
        self.leaders = [machine.app.leader("it", ttl=TTL) for machine in self.machines]
        self.told: list[tuple[int, int, bool]] = []
        self.waits: list[asyncio.Task[Any]] = []
        for n, machine in enumerate(self.machines):
            machine.app.on(LeaderChanged)(lambda event, n=n: self.told.append((n, event.term, event.leading)))  # type: ignore[misc]

    async def play(self, plan: list[tuple[str, int, Any]]) -> None:
        for machine in self.machines:
            await machine.app.connect()
        try:
            for what, n, how in plan:
                await self.step(what, self.machines[n], self.leaders[n], how)
                self.check()
            await self.recover()
        finally:
            for wait in self.waits:
                wait.cancel()
            await asyncio.gather(*self.waits, return_exceptions=True)
            for leader, machine in zip(self.leaders, self.machines, strict=True):
                await leader.release()
                await machine.app.close()

    async def step(self, what: str, machine: Machine, leader: Leader, how: Any) -> None:
        match what:
            case "elapse":
                await self.elapse(how)
            case "jump":
                machine.clock.wrong = timedelta(seconds=how)
            case "fail":
                verb, times, moment = how
                machine.faults.fail(verb, times=times, moment=moment)
            case "freeze":
                machine.clock.frozen = True
            case "thaw":
                machine.clock.thaw()
                await self.clock.settle()
            case _ if not machine.clock.frozen:
                with suppress(NotLeader, StoreUnavailable):
                    await self.ask(what, leader)

    async def ask(self, what: str, leader: Leader) -> None:
        match what:
            case "acquire":
                await leader.acquire(0)
            case "keep":
                await leader.acquire(0, keep=True)
            case "wait":
                self.waits.append(asyncio.create_task(leader.acquire(timeout=20, keep=True)))
                await self.clock.settle()
            case "renew":
                await leader.renew()
            case "release":
                await leader.release()

    async def elapse(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_SECONDS)):
            await self.clock.elapse(seconds=STEP_SECONDS)
            self.check()

    async def recover(self) -> None:
        """After the faults a candidate leads within one term and one poll."""
        for machine in self.machines:
            machine.faults.clear()
            machine.clock.wrong = timedelta(0)
            machine.clock.thaw()
        asked = [asyncio.create_task(leader.acquire(keep=True)) for leader in self.leaders]
        self.waits += asked
        await self.elapse(TTL + 2 * POLL)
        assert sum(leader.is_leader for leader in self.leaders) == 1

    def check(self) -> None:
        assert sum(leader.is_leader for leader in self.leaders) <= 1, "two lead"
        begun = [term for _, term, leading in self.told if leading]
        assert begun == sorted(set(begun)), "a term was led twice, or out of order"
        for n in range(COUNT):
            mine = [(term, leading) for who, term, leading in self.told if who == n]
            assert mine == [(term, leading) for term, _ in mine[::2] for leading in (True, False)][: len(mine)]


@settings(max_examples=150, deadline=None)
@given(st.lists(acts, max_size=40))
def test_at_most_one_candidate_leads_under_random_faults(plan: list[tuple[str, int, Any]]) -> None:
    asyncio.run(Election("memory://").play(plan))


@settings(max_examples=10, deadline=None)
@given(st.lists(acts, max_size=25))
def test_at_most_one_candidate_leads_on_one_sqlite_file(plan: list[tuple[str, int, Any]]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(Election(f"sqlite:///{Path(folder) / 'jobs.db'}").play(plan))


@pytest.mark.parametrize("what", ["freeze", "fail"])
async def test_freezes_and_store_failures_change_the_leader(what: str) -> None:
    """The elections of the tests above really change leaders."""
    election = Election("memory://")
    how = {"freeze": None, "fail": ("acquire_term", 100, "before")}[what]
    plan = [("keep", 0, None), ("wait", 1, None), (what, 0, how), ("elapse", 0, 15.0)]
    await election.play(plan)
    assert [n for n, _, leading in election.told if leading][:2] == [0, 1]
