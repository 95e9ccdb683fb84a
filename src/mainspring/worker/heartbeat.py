"""A worker's heartbeat, in a thread of its own, so that a busy event loop does not lose its leases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from ..clock import Alarm, StoreClock, Timer
from ..config import Settings
from ..errors import StoreUnavailable
from ..events import Bus
from ..ids import WorkerId
from ..records.flow import FLOW_TASKS
from ..records.worker import BeatReply, WorkerInfo
from ..store import Store
from ..store.retry import store_trouble
from ..survived_errors import SurvivedErrors
from .claims import ClaimLimits, with_limit
from .run import RunKey
from .runner import Runner

_last_beat_errors = SurvivedErrors("beat", "the worker has left, and counts as alive until its lease ends")
# Share of the lease after which a worker whose beats fail gives up its runs.
GIVE_UP_LEASE_SHARE = 0.8
# Real time for the last beat: a store that hangs must not keep the worker from stopping.
LAST_BEAT_SECONDS = 5.0


def worker_info(
    settings: Settings,
    limits: ClaimLimits,
    runner: Runner,
    *,
    id: WorkerId,
    host: str,
    pid: int,
    started_at: datetime,
) -> WorkerInfo:
    """What a worker's beats report about it, apart from what changes while it runs."""
    # Every worker serves the internal tasks of flows, so they are not worth a mention.
    tasks, queues = sorted(set(limits.tasks).difference(FLOW_TASKS)), limits.queues
    return WorkerInfo(
        id=id,
        host=host,
        pid=pid,
        queues=None if queues is None else tuple(queues),
        tasks=tuple(tasks),
        concurrency=settings.concurrency,
        started_at=started_at,
        lease=settings.lease,
        grace=settings.grace,
        limits=with_limit(limits.tasks),
        queue_limits=with_limit(queues),
        fingerprints=runner.fingerprints(tasks),
    )


class _NoTimer:
    def cancel(self) -> None:
        return None


class Heartbeat:
    """Sends beats until it is stopped. On a virtual clock it runs in the worker's loop, under the test's control."""

    def __init__(
        self,
        clock: StoreClock,
        bus: Bus,
        *,
        beat: float,
        lease: float,
        describe: Callable[[], tuple[WorkerInfo, set[RunKey]]],
        on_reply: Callable[[BeatReply, set[RunKey]], object],
        on_lapse: Callable[[], object],
        on_attempt: Callable[[], object],
    ) -> None:
        """`on_reply` gets each reply with the runs that were in the request; `on_lapse` is called shortly before the
        lease ends unrenewed; `on_attempt` is called after every beat, whether it succeeded or failed."""
        self._clock = clock
        self._bus = bus
        self._beat = beat
        self._lease = lease
        self._describe = describe
        self._on_reply = on_reply
        self._on_lapse = on_lapse
        self._on_attempt = on_attempt
        self._running = True
        self._beats = 0
        self._lapse_timer: Timer = _NoTimer()
        self._wake_loop: Callable[[], object] = lambda: None
        self._first_beat: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def start(self, store: Store) -> None:
        """Returns after the first beat, from which on the worker may claim."""
        loop = asyncio.get_running_loop()
        self._first_beat, self._ended = loop.create_future(), loop.create_future()

        def call_in_worker(act: Callable[..., object], *args: object) -> None:
            with suppress(RuntimeError):  # the worker's loop is closed
                loop.call_soon_threadsafe(act, *args)

        if self._clock.real:
            thread = threading.Thread(
                target=lambda: asyncio.run(self._run(store, call_in_worker)), name="mainspring-beat", daemon=True
            )
            thread.start()
        else:
            self._task = loop.create_task(self._run(store, call_in_worker))
        await self._first_beat

    async def watch(self) -> None:
        """Raises the error that ended the heartbeat, if any."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    def wake(self) -> None:
        """For a worker that begins to stop: gives up on the first beat, or sends one at once to publish the stop."""
        if self._first_beat is not None and not self._first_beat.done():
            self._running = False
        self._wake_loop()

    async def stop(self) -> None:
        """Removes the worker's row by a last beat."""
        self._running = False
        self._wake_loop()
        if self._ended is not None:
            await asyncio.wait([self._ended], timeout=LAST_BEAT_SECONDS)
            if self._ended.done():
                self._ended.exception()

    async def _run(self, store: Store, call_in_worker: Callable[..., None]) -> None:
        error: BaseException | None = None
        try:
            handle = store.clone()
            try:
                await self._loop(handle, call_in_worker)
            finally:
                if handle is not store:
                    await handle.close()
        except BaseException as raised:
            error = raised
        call_in_worker(_resolve, self._first_beat, error)
        call_in_worker(_resolve, self._ended, error)

    async def _loop(self, store: Store, call_in_worker: Callable[..., None]) -> None:
        loop, alarm = asyncio.get_running_loop(), Alarm(self._clock)
        self._wake_loop = lambda: loop.is_closed() or loop.call_soon_threadsafe(alarm.ring)
        opened, failures = False, 0
        while self._running:
            try:
                if not opened:
                    await store.open()
                    opened = True
                await self._send_beat(store, call_in_worker)
            except StoreUnavailable as error:
                failures += 1
                event = store_trouble(error, failures, doing="beating", at=self._clock.now(), most=self._beat)
                call_in_worker(self._bus.emit, event)
                wait = event.again
            else:
                failures, wait = 0, self._beat
                call_in_worker(_resolve, self._first_beat, None)
            call_in_worker(self._on_attempt)
            if self._running:
                await alarm.wait(wait)
        self._lapse_timer.cancel()
        now = self._clock.now()
        with _last_beat_errors.survive(StoreUnavailable):
            await store.beat(self._describe()[0], until=now, now=now)

    async def _send_beat(self, store: Store, call_in_worker: Callable[..., None]) -> None:
        await self._clock.learn(store.time)
        info, runs = self._describe()
        self._beats += 1
        info, now = replace(info, beats=self._beats), self._clock.now()
        # Other workers take our jobs when the lease ends. A beat that fails or hangs must not keep us from giving
        # them up before that: a timer does it, unless the next beat succeeds first.
        sent = self._clock.monotonic()
        lapse_timer = self._clock.call_later(self._lease * GIVE_UP_LEASE_SHARE, lambda: call_in_worker(self._on_lapse))
        try:
            answer = await store.beat(info, until=now + timedelta(seconds=self._lease), now=now)
            if (took := self._clock.monotonic() - sent) >= self._lease * GIVE_UP_LEASE_SHARE:
                raise StoreUnavailable(f"a beat was answered after {took:.3g} s, too late to keep the lease")
        except BaseException:
            lapse_timer.cancel()
            raise
        self._lapse_timer.cancel()
        self._lapse_timer = lapse_timer
        call_in_worker(self._on_reply, answer, runs)


def _resolve(future: asyncio.Future[None] | None, error: BaseException | None) -> None:
    if future is not None and not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
