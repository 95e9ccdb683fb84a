"""Durable steps: each runs once, and its value is stored as a checkpoint, which later runs of the job read."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import wait
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from ..bounds import later
from ..clock import Alarm, Clock
from ..codec import is_async
from ..errors import BadInput, LeaseLost
from ..executor.threads import Threads
from ..failpoint import failpoint
from ..ids import Lease
from ..records.job import Job
from ..records.outcome import Suspend
from ..records.run import Checkpoint
from ..span import Span, seconds
from ..store import FlowStore, Store
from ..store.retry import StoreRetry
from ..task.context import Context
from ..task.durable import Suspended
from ..task.step_values import (
    check_place,
    checked_name,
    checked_value,
    decoded,
    decoder_of,
    in_step,
    name_of,
    text_of,
)
from .report_buffer import RunReports
from .transaction import TransactionalCompletion

if TYPE_CHECKING:
    from ..task.task import Task
    from .durable_children import Child, DurableChildren
    from .durable_signals import AskedSignal, DurableSignals

# The checkpoints of one job: a run that goes on loads them all.
MAX_CHECKPOINTS_BYTES = 64 << 20
MAX_CHECKPOINTS = 10_000
# A larger result of a child is not copied to a checkpoint.
MAX_COPIED_BYTES = 1 << 16
# A shorter sleep keeps its slot: to suspend the run and to begin another one takes about as long.
MIN_SUSPENSION_SECONDS = 1.0
# How often other tasks of the run may go on before it is suspended, so that they call their next steps.
TURNS_BEFORE_SUSPENSION = 5
# A plain function that waits for the event loop can be interrupted this often.
WAIT_SECONDS = 0.25
T = TypeVar("T")
_decode_instant = msgspec.json.Decoder(datetime).decode

# To inspect a function takes longer than the rest of a step.
_is_async = lru_cache(maxsize=512)(is_async)


class _StepThread(NamedTuple):
    """What a thread that does not return is reported for, as a context of a plain task is."""

    job: Job
    lease: Lease


class DurableSteps:
    """The durable steps of one run."""

    def __init__(
        self,
        clock: Clock,
        threads: Threads,
        store_calls: Callable[[], tuple[Store, StoreRetry]],
        lose: Callable[[Context], object],
        transactions: TransactionalCompletion,
        ctx: Context,
    ) -> None:
        """`lose` ends a run because it no longer holds its job."""
        store_calls()[0].capabilities.require_flows()
        self._ctx = ctx
        self._clock = clock
        self._threads = threads
        self._store_calls = store_calls
        self._lose = lose
        self._transactions = transactions
        self._calls = Counter[str]()
        self._numbering = threading.Lock()
        self._known: dict[str, Checkpoint] | None = None if ctx.resumed else {}
        self._loading = asyncio.Lock()
        self._last = 0
        self._bytes = 0
        self._under_way = 0
        """Steps that are running, or whose checkpoints are being stored."""
        self._blocked = set[Alarm]()
        """The calls that suspend the run once no step is under way."""
        self._until: datetime | None = None
        self._signals: DurableSignals | None = None
        """Made when the task first asks for a signal."""
        self._children: DurableChildren | None = None
        """Made when the task first runs another one."""
        self.suspension: Suspend | None = None
        self.has_checkpointed = False
        self.goes_on = False

    # what a task calls

    def step(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
    ) -> Coroutine[Any, Any, Any]:
        return self._step(self.key_of(fn, name), fn, partial(fn, *args, **kwargs))

    def transaction(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
    ) -> Coroutine[Any, Any, Any]:
        return self._step_in_transaction(self.key_of(fn, name), fn, lambda db: fn(db, *args, **kwargs))

    def sleep(self, span: Span, name: str | None) -> Coroutine[Any, Any, None]:
        duration = seconds(span, "ctx.sleep()")
        return self._sleep(self.key(checked_name("sleep" if name is None else name)), duration)

    def signal(self, name: str, type: Any, timeout: Span | None, default: Any) -> Coroutine[Any, Any, Any]:
        self._check_place(f"signal {name!r:.80}")
        if self._signals is None:
            from .durable_signals import DurableSignals

            self._signals = DurableSignals(self._ctx, self._clock, self._store_calls)
        return self._signal(self._signals, self._signals.asked(name, type, timeout, default))

    def run(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        return self._child(self._started().call(task, args, kwargs))

    def map(
        self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        return self._child(self._started().map(task, items, args, kwargs))

    def blocking(self) -> BlockingSteps:
        return BlockingSteps(self, self._threads.loop)

    # what they are made of

    def key_of(self, fn: Callable[..., Any], name: str | None) -> str:
        return self.key(name_of(fn, name))

    def key(self, name: str) -> str:
        """The name of the checkpoint: the number of a repeated call is given when it is called."""
        self._check_place(f"step {name!r}")
        with self._numbering:
            self._calls[name] += 1
            return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"

    def _check_place(self, what: str) -> None:
        check_place(what)
        if self._ctx.commitment is not None:
            raise BadInput(f"{what} was called inside of ctx.transaction(): call it before the block")
        if self.suspension is not None:
            raise Suspended

    async def begin(self, key: str) -> Checkpoint | None:
        """What is stored of the step. If nothing is, it is under way until end() is called."""
        if (found := (await self._load()).get(key)) is None:
            self._under_way += 1
        return found

    def end(self) -> None:
        self._under_way -= 1
        for alarm in self._blocked:
            alarm.ring()

    async def _step(self, key: str, fn: Callable[..., Any], call: Callable[[], Any]) -> Any:
        decode = decoder_of(fn)
        if (found := await self.begin(key)) is not None:
            return decoded(key, found.value, decode)
        try:
            with in_step(key):
                value = await (call() if _is_async(fn) else self._in_thread(call))
            text = text_of(key, value)
            value = checked_value(key, text, decode)
            await self.keep(key, text)
        finally:
            self.end()
        return value

    async def _step_in_transaction(self, key: str, fn: Callable[..., Any], call: Callable[[Any], Any]) -> Any:
        """A step whose effects in the store's database and whose checkpoint are one commit."""
        decode = decoder_of(fn)

        async def act(db: Any) -> Any:
            with in_step(key):
                return await (call(db) if _is_async(fn) else self._in_thread(partial(call, db)))

        if (found := await self.begin(key)) is not None:
            return decoded(key, found.value, decode)
        try:
            async with self._transactions.step(self._ctx) as transaction:
                text = text_of(key, await transaction.call(act))
                value = checked_value(key, text, decode)
                await self._keep_failures()
                checkpoint = await self._new_checkpoint(key, text)
                await transaction.commit(checkpoint)
            self._kept(checkpoint)
        except LeaseLost:
            self._lose(self._ctx)
            raise
        finally:
            self.end()
        return value

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        # Not the context, whose `interrupt` a soft timeout would call when the step has long returned.
        value = await self._threads.call(call, _StepThread(self._ctx.job, self._ctx.lease))
        return await value if asyncio.iscoroutine(value) else value

    async def _load(self) -> dict[str, Checkpoint]:
        """The checkpoints of the job so far. A job's first run has none, and reads nothing."""
        if self._known is None:
            async with self._loading:  # several steps may be called at once
                if self._known is None:
                    self._take(await self._read())
        assert self._known is not None
        return self._known

    async def _read(self) -> list[Checkpoint]:
        store, retry = self._store_calls()
        return await retry("reading checkpoints", lambda: cast(FlowStore, store).checkpoints(self._ctx.job.id))

    def _take(self, found: Sequence[Checkpoint]) -> None:
        self._last = found[-1].n if found else 0
        self._bytes = sum(len(one.value) for one in found)
        self._known = {one.name: one for one in found}
        self.goes_on = bool(found)

    async def keep(self, key: str, text: str) -> None:
        """Stores a checkpoint. Returns when the store has accepted it; raises LeaseLost if it did not."""
        failpoint("step.returned")
        await self._keep_failures()
        await self._keep(key, text)

    async def _keep_failures(self) -> None:
        """Stores the failures of children that the task has got over, before what it does next."""
        for key, text in [] if self._children is None else self._children.new_failures():
            await self._keep(key, text)

    async def _keep(self, key: str, text: str) -> None:
        checkpoint = await self._new_checkpoint(key, text)
        if not await cast(RunReports, self._ctx.reports).keep(checkpoint):
            self._lose(self._ctx)
            raise LeaseLost(f"job {self._ctx.job.id} ({self._ctx.job.task}) was taken from this run in step {key!r}")
        self._kept(checkpoint)

    def _kept(self, checkpoint: Checkpoint) -> None:
        assert self._known is not None
        self._known[checkpoint.name] = checkpoint
        self.has_checkpointed = True
        failpoint("step.stored")

    async def _new_checkpoint(self, key: str, text: str) -> Checkpoint:
        """The next checkpoint. Raises BadInput if that is one too many, or too large."""
        await self._load()
        total = self._bytes + len(text)
        if total > MAX_CHECKPOINTS_BYTES:
            raise BadInput(
                f"step {key!r} brings the checkpoints of this job to {total:,} bytes, the limit is "
                f"{MAX_CHECKPOINTS_BYTES:,}: keep big data elsewhere"
            )
        if self._last >= MAX_CHECKPOINTS:
            raise BadInput(f"step {key!r} is one too many: a job has up to {MAX_CHECKPOINTS:,} checkpoints")
        self._last, self._bytes = self._last + 1, total
        return Checkpoint(self._last, key, self._clock.now(), text)

    # sleep

    async def _sleep(self, key: str, duration: float) -> None:
        found = (await self._load()).get(key)
        if found is None and duration < MIN_SUSPENSION_SECONDS:
            await self._clock.sleep(duration)
            return
        if found is not None:
            until: datetime = decoded(key, found.value, _decode_instant)
        else:
            until = later(self._clock.now(), duration)
            await self.keep(key, msgspec.json.encode(until).decode())
        left = self._left(until)
        if left >= MIN_SUSPENSION_SECONDS:
            await self._suspend(until)
        elif left > 0:
            await self._clock.sleep(left)

    # signals

    async def _signal(self, signals: DurableSignals, asked: AskedSignal) -> Any:
        self._under_way += 1  # a sleep beside it does not end the run while it is read
        try:
            decided = await signals.is_decided(asked)
        finally:
            self.end()
        if not decided:
            signals.wait(asked)
            await self._suspend(None)
        return signals.value(asked)

    # children

    def _started(self) -> DurableChildren:
        if self._children is None:
            from .durable_children import DurableChildren

            self._children = DurableChildren(self._ctx, self._store_calls, lambda name: self.key(checked_name(name)))
        return self._children

    async def _child(self, child: Child) -> Any:
        """The result of a job of its own."""
        children, stored = self._started(), await self._load()
        if (found := stored.get(child.key)) is not None:
            return decoded(child.key, found.value, child.decode)
        children.raise_stored(stored, child.key)
        self._under_way += 1
        try:
            if (text := await children.result(child)) is not None:
                value = decoded(child.key, text, child.decode)
                if len(text) <= MAX_COPIED_BYTES:  # else it is read again in later runs
                    await self.keep(child.key, text)
                return value
        finally:
            self.end()
        children.wait(child)
        return await self._suspend(None)

    def _left(self, until: datetime) -> float:
        return (until - self._clock.now()).total_seconds()

    async def _suspend(self, until: datetime | None) -> None:
        """Raises Suspended once no step of the run is under way. Returns if the time has come before."""
        self._under_way += 1
        try:
            await self._keep_failures()
        finally:
            self.end()
        alarm, turns = Alarm(self._clock), 0
        if until is not None:
            self._until = until if self._until is None else min(self._until, until)
        self._blocked.add(alarm)
        try:
            while turns < TURNS_BEFORE_SUSPENSION:
                if self._under_way:
                    turns = 0
                    await alarm.wait(None if until is None else self._left(until))
                    if until is not None and self._left(until) <= 0:
                        return
                else:
                    turns += 1
                    await asyncio.sleep(0)
        finally:
            self._blocked.discard(alarm)
        self.suspension = self._suspension()
        raise Suspended

    def _suspension(self) -> Suspend:
        """What the job waits for: children, and the first of its signals and the end of a sleep."""
        plan = None if self._children is None else self._children.plan()
        waits = () if self._signals is None else self._signals.waits
        if plan is None and not waits:
            return Suspend(until=self._until)
        from .durable_signals import end_of_sleep

        return Suspend(plan, waits if self._until is None else (*waits, end_of_sleep(self._until)))


class BlockingSteps:
    """The durable steps of a plain function, which runs in a thread. They wait for the worker's event loop."""

    def __init__(self, steps: DurableSteps, loop: asyncio.AbstractEventLoop) -> None:
        self._steps = steps
        self._loop = loop

    def step(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None) -> Any:
        steps = self._steps
        if _is_async(fn):
            return self._wait(steps.step(fn, args, kwargs, name))
        key, decode = steps.key_of(fn, name), decoder_of(fn)
        if (found := self._wait(steps.begin(key))) is not None:
            return decoded(key, found.value, decode)
        try:
            with in_step(key):
                text = text_of(key, fn(*args, **kwargs))
            value = checked_value(key, text, decode)
            self._wait(steps.keep(key, text))
        finally:
            self._loop.call_soon_threadsafe(steps.end)
        return value

    def sleep(self, span: Span, name: str | None) -> None:
        self._wait(self._steps.sleep(span, name))

    def signal(self, name: str, type: Any, timeout: Span | None, default: Any) -> Any:
        return self._wait(self._steps.signal(name, type, timeout, default))

    def run(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._wait(self._steps.run(task, args, kwargs))

    def map(self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._wait(self._steps.map(task, items, args, kwargs))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for work in the event loop. An interruption of this thread arrives between two looks at it."""
        ended = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while not wait([ended], WAIT_SECONDS).done:
                pass
            return ended.result()
        finally:
            ended.cancel()
