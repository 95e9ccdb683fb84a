"""The cluster that plays a plan: workers, clients and an operator on one store, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from mainspring.app import Mainspring
from mainspring.errors import (
    BadInput,
    BatchEnded,
    InvalidTransition,
    JobExists,
    JobNotFound,
    SignalLate,
    SignalTwice,
    StoreUnavailable,
)
from mainspring.flow.builder import with_plan
from mainspring.records.flow import CLOSE_BATCH
from mainspring.records.job import NewJob
from mainspring.schedule.edit import pause
from mainspring.schedule.record import Firing

from .audited_store import AuditedStore
from .auditor import Auditor
from .host import Host
from .loop import TrueClock, VirtualLoop
from .node import Node
from .operators import arrange
from .plan import (
    QUEUES,
    AddJob,
    Arrange,
    BeginBatch,
    Create,
    EndBatch,
    Enqueue,
    EnqueueFlow,
    Fault,
    Move,
    Nap,
    Operate,
    OperateFlow,
    Plan,
    Signal,
    Start,
)
from .signal_log import SIGNAL
from .tasks import LIMITS

# A caller waits this long before it repeats a failed call.
RETRY_SECONDS = 0.7
# Time that a healthy cluster may take to end all jobs.
SETTLE_SECONDS = 400.0
# Time that a worker may take to stop.
STOP_SECONDS = 60.0
POLL_SECONDS = 2.0
# Time for which schedules go on after the faults have ceased.
CALM_SECONDS = 40.0


class Cluster:
    """Plays one plan once."""

    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        self._plan = plan
        self._clock = TrueClock(loop, plan.schedule_plan.begin)
        self.auditor = Auditor(self._clock)
        self.auditor.schedule_log.poll = plan.settings["poll_interval"]
        self.store = AuditedStore(self._clock, self.auditor)
        self._nodes: dict[str, Node] = {}
        self._callers: list[asyncio.Task[None]] = []
        loop.set_exception_handler(self._on_unhandled)

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.auditor.fail("W", None, f"{context['message']}: {context.get('exception')!r}")

    # the plan

    async def play(self) -> None:
        """Makes all moves at their times; then the faults cease, and all jobs must end."""
        for name, skew in {**self._plan.clients, "operator": 0.0}.items():
            self._add_node(name, skew, 0.0)
        for move in self._plan.moves:
            await self._until(move.at)
            self._apply(move)
        await self._until(self._plan.faults_end)
        await self._recover()
        if self._plan.schedule_plan.names:
            await self._calm()
        await self._settle()
        await self._close()

    async def _until(self, at: float) -> None:
        if (left := at - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    def _apply(self, move: Move) -> None:
        match move:
            case Start():
                self._start(move)
            case Enqueue():
                self._call(self._enqueue(move))
            case Operate():
                self._call(self._operate(move))
            case Signal():
                self._call(self._signal(move))
            case BeginBatch() | AddJob() | EndBatch():
                self._call(self._serve_batch(move))
            case EnqueueFlow():
                self._call(self._enqueue_flow(move))
            case OperateFlow():
                self._call(self._operate_flow(move))
            case Arrange() | Create():
                self._call(self._arrange(move))
            case Nap(span=span):
                for n, node in enumerate(self._nodes.values()):
                    node.freeze_for(span + n / 10)
            case Fault(host=name) if name in self._nodes:
                self._nodes[name].apply(move)

    def _start(self, move: Start) -> None:
        node = self._add_node(move.host, move.skew, move.drift, move.release)
        self.auditor.join(node.host, move.slots, LIMITS)
        node.work(move.slots)

    def _add_node(self, name: str, skew: float, drift: float, release: int = 0) -> Node:
        host = Host(name, self._clock, skew=skew, drift=drift)
        self._nodes[name] = Node(host, self._plan, self.store, self.auditor, release)
        return self._nodes[name]

    def _call(self, call: Coroutine[Any, Any, None]) -> None:
        self._callers.append(asyncio.create_task(call))

    async def _enqueue(self, move: Enqueue) -> None:
        app = self._nodes[move.client].app
        await self._insert(move, lambda: app.tasks[move.task].using(**move.options).job(move.value))

    async def _enqueue_flow(self, move: EnqueueFlow) -> None:
        engine = self._nodes[move.client].app._engine
        await self._insert(move, lambda: with_plan(engine.flow_job(move.job, move.options)[0], move.flow))

    async def _insert(self, move: Enqueue | EnqueueFlow, new_job: Callable[[], NewJob]) -> None:
        """Repeats the same request until there is a reply."""
        client = self._nodes[move.client]
        new = None
        while True:
            try:
                await client.app.connect()  # the first call sets its clock
                if new is None:
                    new = replace(new_job(), id=move.job)
                    self.auditor.request_sent(move.client, move.job)
                (handle,) = await (client.app.enqueue_many if new.plan is None else client.app.insert)([new])
            except StoreUnavailable:
                await self._clock.sleep(RETRY_SECONDS)
            except JobExists:
                return self.auditor.acknowledge(move.client, move.job, move.job, "refused")
            else:
                return self.auditor.acknowledge(move.client, move.job, handle.id, handle.status)

    async def _operate(self, move: Operate) -> None:
        app = self._nodes["operator"].app
        thing = app.queues if move.target in QUEUES else app.jobs
        while True:
            try:
                await getattr(thing, move.action)(move.target)
            except StoreUnavailable:
                await self._clock.sleep(RETRY_SECONDS)
            except (InvalidTransition, JobExists, JobNotFound):
                return  # it came too early or too late
            else:
                return

    async def _signal(self, move: Signal) -> None:
        """Repeats the same delivery until there is an answer."""
        app, answer = self._nodes[move.client].app, "given"
        while True:
            try:
                await app.connect()
                await app.flows.signal(
                    move.job, SIGNAL, move.value, delivery=f"{move.client} at {move.at}: {move.value}"
                )
            except StoreUnavailable:
                await self._clock.sleep(RETRY_SECONDS)
                continue
            except (SignalTwice, SignalLate, JobNotFound) as refused:
                if move.insists and isinstance(refused, JobNotFound):
                    await self._clock.sleep(RETRY_SECONDS)
                    continue
                answer = type(refused).__name__
            return self.auditor.signal_log.answered(move.client, move.job, move.value, answer)

    async def _serve_batch(self, move: BeginBatch | AddJob | EndBatch) -> None:
        """Repeats the same request until there is an answer."""
        client, log = self._nodes[move.client], self.auditor.batch_log
        while True:
            try:
                await client.app.connect()
                match move:
                    case BeginBatch():
                        self.auditor.request_sent(move.client, move.batch)
                        await _begin_batch(client.app, move)
                        self.auditor.acknowledge(move.client, move.batch, move.batch, "new")
                    case AddJob():
                        batch = await client.app.batches.get(move.batch)
                        new = replace(client.app.tasks[move.task].job(move.value), id=move.job)
                        handle = await batch.enqueue(new)
                        log.added(move.batch, handle.id)
                    case EndBatch():
                        log.close_sent(move.batch)
                        await (await client.app.batches.get(move.batch)).close()
            except (StoreUnavailable, JobNotFound):  # it may not have begun yet
                await self._clock.sleep(RETRY_SECONDS)
            except BatchEnded:
                return
            else:
                return

    async def _operate_flow(self, move: OperateFlow) -> None:
        app = self._nodes["operator"].app
        while True:
            try:
                await app.connect()
                job = move.flow
                if move.step is not None:
                    jobs = self.store.step_ids(move.flow)
                    if not jobs:
                        return
                    job = jobs[move.step % len(jobs)]
                await getattr(app.jobs, move.action)(job)
            except StoreUnavailable:
                await self._clock.sleep(RETRY_SECONDS)
            except (InvalidTransition, JobExists, JobNotFound, BadInput):
                return  # it came too early or too late
            else:
                return

    async def _arrange(self, move: Arrange | Create) -> None:
        app = self._nodes["operator"].app
        while True:
            try:
                return await arrange(app, move, self.auditor.schedule_log.rescheduled)
            except StoreUnavailable:
                await self._clock.sleep(RETRY_SECONDS)

    # the end

    async def _recover(self) -> None:
        for node in self._nodes.values():
            node.heal()
        if self._callers:  # a pause may still be on its way
            await asyncio.wait(self._callers, timeout=SETTLE_SECONDS)
        for queue in QUEUES:
            await self.store.pause_queue(queue, False)
        if not any(node.works for node in self._nodes.values()):
            self._start(Start(at=self._plan.faults_end, host="relief", slots=2, skew=0.0, drift=0.0))

    async def _calm(self) -> None:
        """Lets schedules run without faults; then pauses them, so that all jobs can end."""
        await self._clock.sleep(CALM_SECONDS)
        self.auditor.schedule_log.check_calm()
        now, rows = self._clock.now(), await self.store.schedules(limit=100)
        self.store.by = ("cluster", "fire")
        await self.store.fire([Firing(schedule=pause(row, "the end", now=now)) for row in rows], now=now)

    async def _settle(self) -> None:
        """Waits until every job has ended, at most SETTLE_SECONDS."""
        end = self._clock.monotonic() + SETTLE_SECONDS
        while self._clock.monotonic() < end:
            await self._clock.sleep(POLL_SECONDS)
            if all(job.state.final or job.task == CLOSE_BATCH for job in self.store.peek()):
                return

    async def _close(self) -> None:
        """Stops the workers that are left. Fails if one does not end, or has ended by an error."""
        ends: dict[str, asyncio.Task[None]] = {}
        for name, node in self._nodes.items():
            if node.main is not None and not node.host.dead:
                node.stop()
                ends[name] = node.main
        await asyncio.wait(ends.values(), timeout=STOP_SECONDS)
        for name, end in [*ends.items(), *(("a caller", call) for call in self._callers)]:
            if not end.done():
                self.auditor.fail("W", None, f"{name} does not end")
            elif end.exception() is not None:
                self.auditor.fail("W", None, f"{name} ended with {end.exception()!r}")

    def clear(self) -> None:
        """Freezes every process for good."""
        for node in self._nodes.values():
            node.host.crash()


async def _begin_batch(app: Mainspring, move: BeginBatch) -> None:
    called = app.tasks["called"]
    given = {"open_for": move.open_seconds, "queue": move.queue}
    batch = app.batches.new(move.batch, {"on_failure": called, "on_success": called, "on_complete": called, **given})
    await batch.changed(lambda new: replace(new, id=move.batch)).begin()
