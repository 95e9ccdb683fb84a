"""A worker's beat, from a thread of its own, so that a busy event loop cannot lose its leases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from msgspec.structs import replace

from ..clock import Alarm, StoreClock, Timer
from ..errors import StoreUnavailable
from ..events import Bus
from ..records.worker import BeatReply, WorkerInfo
from ..store import Store
from ..store_retry import store_trouble
from ..survived_errors import SurvivedErrors
from .slots import RunKey

_unsaid = SurvivedErrors("beat", "the worker has left, and counts as alive until its lease ends")
# The share of a lease after which a worker whose beats fail lets go of its runs.
LET_GO = 0.8
# Real seconds for a last beat; a store that hangs does not keep the worker from stopping.
LEAVE = 5.0


class _NoTimer:
    def cancel(self) -> None:
        return None


class Heartbeat:
    """Beats until stopped. On a virtual clock it runs in the worker's own loop, where tests can see it."""

    def __init__(
        self,
        clock: StoreClock,
        bus: Bus,
        *,
        beat: float,
        lease: float,
        describe: Callable[[], tuple[WorkerInfo, set[RunKey]]],
        heard: Callable[[BeatReply, set[RunKey]], object],
        silent: Callable[[], object],
        turned: Callable[[], object],
    ) -> None:
        """`heard` gets each answer with the runs there were when it was asked for; `silent` comes when the
        lease is about to end unrenewed; `turned` after every try, whether the store answered or failed."""
        self._clock = clock
        self._bus = bus
        self._beat = beat
        self._lease = lease
        self._describe = describe
        self._heard = heard
        self._silent = silent
        self._turned = turned
        self._going = True
        self._beats = 0
        self._guard: Timer = _NoTimer()
        self._nudge: Callable[[], object] = lambda: None
        self._first: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def start(self, store: Store) -> None:
        """Returns after the first beat, so that the worker may claim."""
        loop = asyncio.get_running_loop()
        self._first, self._ended = loop.create_future(), loop.create_future()

        def tell(act: Callable[..., object], *args: object) -> None:
            with suppress(RuntimeError):  # the worker's loop is closed: nobody is there to be told
                loop.call_soon_threadsafe(act, *args)

        if self._clock.real:
            thread = threading.Thread(
                target=lambda: asyncio.run(self._live(store, tell)), name="mainspring-beat", daemon=True
            )
            thread.start()
        else:
            self._task = loop.create_task(self._live(store, tell))
        await self._first

    async def watch(self) -> None:
        """Raises what ended the beat, if something did."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    def hurry(self) -> None:
        """The worker is stopping: do not wait for a first beat any longer; or say so at once by another beat."""
        if self._first is not None and not self._first.done():
            self._going = False
        self._nudge()

    async def stop(self) -> None:
        """The worker leaves: its row goes."""
        self._going = False
        self._nudge()
        if self._ended is not None:
            await asyncio.wait([self._ended], timeout=LEAVE)
            if self._ended.done():
                self._ended.exception()

    async def _live(self, store: Store, tell: Callable[..., None]) -> None:
        error: BaseException | None = None
        try:
            handle = store.beside()
            try:
                await self._loop(handle, tell)
            finally:
                if handle is not store:
                    await handle.close()
        except BaseException as raised:
            error = raised
        tell(_settle, self._first, error)
        tell(_settle, self._ended, error)

    async def _loop(self, store: Store, tell: Callable[..., None]) -> None:
        loop, alarm = asyncio.get_running_loop(), Alarm(self._clock)
        self._nudge = lambda: loop.is_closed() or loop.call_soon_threadsafe(alarm.ring)
        opened, failures = False, 0
        while self._going:
            try:
                if not opened:
                    await store.open()
                    opened = True
                await self._one(store, tell)
            except StoreUnavailable as error:
                failures += 1
                told = store_trouble(error, failures, doing="beating", at=self._clock.now(), most=self._beat)
                tell(self._bus.emit, told)
                wait = told.again
            else:
                failures, wait = 0, self._beat
                tell(_settle, self._first, None)
            tell(self._turned)
            if self._going:
                await alarm.wait(wait)
        self._guard.cancel()
        now = self._clock.now()
        with _unsaid.survive(StoreUnavailable):
            await store.beat(self._describe()[0], until=now, now=now)

    async def _one(self, store: Store, tell: Callable[..., None]) -> None:
        await self._clock.learn(store.time)
        info, runs = self._describe()
        self._beats += 1
        info, now = replace(info, beats=self._beats), self._clock.now()
        # Others take our jobs when the lease is over. A beat that fails or hangs must not keep us from
        # letting go of them before, so a timer does it, unless the next beat comes first.
        sent = self._clock.monotonic()
        guard = self._clock.call_later(self._lease * LET_GO, lambda: tell(self._silent))
        try:
            answer = await store.beat(info, until=now + timedelta(seconds=self._lease), now=now)
            if (took := self._clock.monotonic() - sent) >= self._lease * LET_GO:
                raise StoreUnavailable(f"a beat was answered after {took:.3g} s, too late to keep the lease")
        except BaseException:
            guard.cancel()
            raise
        self._guard.cancel()
        self._guard = guard
        tell(self._heard, answer, runs)


def _settle(future: asyncio.Future[None] | None, error: BaseException | None) -> None:
    if future is not None and not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
