"""A cluster that plays a plan: workers, clients and an operator around one store, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from mainspring.errors import InvalidTransition, JobExists, JobNotFound, StoreUnavailable
from mainspring.schedule.edit import pause
from mainspring.schedule.record import Firing

from .auditor import Auditor
from .host import Host
from .ledger import Ledger
from .loop import TrueClock, VirtualLoop
from .node import Member
from .operators import arrange
from .plan import QUEUES, Arrange, Create, Enqueue, Fault, Move, Nap, Operate, Plan, Start
from .tasks import LIMITS

# Seconds a caller waits before it repeats a call that failed.
AGAIN = 0.7
# The longest a healthy cluster may take to end all jobs, and a worker to stop; in seconds.
SETTLE, STOP = 400.0, 60.0
LOOK = 2.0
# Seconds for which schedules go on when the faults have ceased.
CALM = 40.0


class Cluster:
    """Plays one plan, once."""

    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        self._plan = plan
        self._clock = TrueClock(loop, plan.agenda.begin)
        self.auditor = Auditor(self._clock)
        self.auditor.almanac.poll = plan.settings["poll_interval"]
        self.ledger = Ledger(self._clock, self.auditor)
        self._members: dict[str, Member] = {}
        self._callers: list[asyncio.Task[None]] = []
        loop.set_exception_handler(self._unheard)

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.auditor.fail("W", None, f"{context['message']}: {context.get('exception')!r}")

    # the plan

    async def play(self) -> None:
        """All moves at their times; then the faults cease, and everything must come to its end."""
        for name, skew in {**self._plan.clients, "operator": 0.0}.items():
            self._join(name, skew, 0.0)
        for move in self._plan.moves:
            await self._until(move.at)
            self._make(move)
        await self._until(self._plan.quiet)
        await self._recover()
        if self._plan.agenda.names:
            await self._calm()
        await self._settle()
        await self._close()

    async def _until(self, at: float) -> None:
        if (left := at - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    def _make(self, move: Move) -> None:
        match move:
            case Start():
                self._start(move)
            case Enqueue():
                self._call(self._enqueue(move))
            case Operate():
                self._call(self._operate(move))
            case Arrange() | Create():
                self._call(self._arrange(move))
            case Nap(span=span):
                for n, member in enumerate(self._members.values()):
                    member.rest(span + n / 10)
            case Fault(host=name) if name in self._members:
                self._members[name].suffer(move)

    def _start(self, move: Start) -> None:
        member = self._join(move.host, move.skew, move.drift, move.release)
        self.auditor.join(member.host, move.slots, LIMITS)
        member.work(move.slots)

    def _join(self, name: str, skew: float, drift: float, release: int = 0) -> Member:
        host = Host(name, self._clock, skew=skew, drift=drift)
        self._members[name] = Member(host, self._plan, self.ledger, self.auditor, release)
        return self._members[name]

    def _call(self, call: Coroutine[Any, Any, None]) -> None:
        self._callers.append(asyncio.create_task(call))

    async def _enqueue(self, move: Enqueue) -> None:
        """The client repeats the same request until it is answered."""
        client = self._members[move.client]
        task = client.app.tasks[move.task].using(**move.options)
        new = None
        while True:
            try:
                await client.app.opened()  # the first time, its clock is set
                if new is None:
                    new = replace(task.job(move.value), id=move.job)
                    self.auditor.ask(move.client, move.job)
                (handle,) = await client.app.enqueue_many([new])
            except StoreUnavailable:
                await self._clock.sleep(AGAIN)
            except JobExists:
                return self.auditor.acknowledge(move.client, move.job, move.job, "refused")
            else:
                return self.auditor.acknowledge(move.client, move.job, handle.id, handle.status)

    async def _operate(self, move: Operate) -> None:
        app = self._members["operator"].app
        thing = app.queues if move.target in QUEUES else app.jobs
        while True:
            try:
                await getattr(thing, move.action)(move.target)
            except StoreUnavailable:
                await self._clock.sleep(AGAIN)
            except (InvalidTransition, JobExists, JobNotFound):
                return  # it came too early or too late
            else:
                return

    async def _arrange(self, move: Arrange | Create) -> None:
        app = self._members["operator"].app
        while True:
            try:
                return await arrange(app, move, self.auditor.almanac.wished)
            except StoreUnavailable:
                await self._clock.sleep(AGAIN)

    # the end

    async def _recover(self) -> None:
        for member in self._members.values():
            member.heal()
        if self._callers:  # a pause may still be on its way
            await asyncio.wait(self._callers, timeout=SETTLE)
        for queue in QUEUES:
            await self.ledger.pause_queue(queue, False)
        if not any(member.works for member in self._members.values()):
            self._start(Start(at=self._plan.quiet, host="relief", slots=2, skew=0.0, drift=0.0))

    async def _calm(self) -> None:
        """A while in which nothing goes wrong; then the schedules are paused, so that all jobs can end."""
        await self._clock.sleep(CALM)
        self.auditor.almanac.calm()
        now, rows = self._clock.now(), await self.ledger.schedules(limit=100)
        self.ledger.by = ("cluster", "fire")
        await self.ledger.fire([Firing(schedule=pause(row, "the end", now=now)) for row in rows], now=now)

    async def _settle(self) -> None:
        """Until every job has ended, or patience has."""
        end = self._clock.monotonic() + SETTLE
        while self._clock.monotonic() < end:
            await self._clock.sleep(LOOK)
            if all(job.state.final for job in self.ledger.peek()):
                return

    async def _close(self) -> None:
        """Whoever is left is told to stop; nobody may have ended by an error."""
        ends: dict[str, asyncio.Task[None]] = {}
        for name, member in self._members.items():
            if member.main is not None and not member.host.dead:
                member.leave()
                ends[name] = member.main
        await asyncio.wait(ends.values(), timeout=STOP)
        for name, end in [*ends.items(), *(("a caller", call) for call in self._callers)]:
            if not end.done():
                self.auditor.fail("W", None, f"{name} does not end")
            elif end.exception() is not None:
                self.auditor.fail("W", None, f"{name} ended by {end.exception()!r}")

    def clear(self) -> None:
        """Nobody does anything any more."""
        for member in self._members.values():
            member.host.crash()
