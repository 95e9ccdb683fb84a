"""Leader election: one of many candidates leads, for one term at a time, decided by the store."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct

from .clock import StoreClock, Timer
from .config import MIN_TTL_SECONDS
from .errors import BadInput, BadSetting, NotLeader, ShuttingDown, StoreUnavailable
from .events import Bus, LeaderChanged
from .schedule.record import LeaderTerm
from .store import Store
from .store.poll_interval import poll_interval
from .store.retry import store_trouble
from .suggest import former_method
from .survived_errors import count_error
from .sync import Sync

T = TypeVar("T")
# The share of a term after which a leader that could not renew it ceases to lead. The rest is a margin for the clocks:
# corrected to the store's they are wrong by at most 0.1 s on either side, so a term is never shorter than
# MIN_TTL_SECONDS.
BELIEF_SHARE = 0.8
# Minimum seconds between two requests for leadership.
BUSY_RETRY_SECONDS = 0.5
# Seconds of real time to return a term: a store that hangs must not delay the stop of a process.
RELEASE_TIMEOUT_SECONDS = 5.0

_logger = logging.getLogger("mainspring")


class HeldTerm(Struct, frozen=True):
    """A term that this candidate holds. It leads until `until` by the store's time and until `ends` by this machine's,
    whichever comes first."""

    term: int
    until: datetime
    ends: float


class Leader:
    """A candidate for one leadership. Two candidates are rivals, even in one process. It belongs to one event loop.

    A term that was lost or released has ended: a candidate that leads again does so in a later term.
    """

    def __init__(
        self,
        name: str,
        *,
        ttl: float,
        refresh: float,
        poll: float,
        connect: Callable[[], Awaitable[Store]],
        clock: StoreClock,
        bus: Bus,
        instance: str = "",
    ) -> None:
        """Terms last `ttl` seconds and are renewed every `refresh`. A waiting candidate asks at least every `poll`."""
        if ttl < MIN_TTL_SECONDS:
            raise BadSetting(f"leader {name!r}: ttl must be at least {MIN_TTL_SECONDS:g} s; clocks are not more exact")
        self.name = name
        self._ttl = ttl
        self._margin = ttl * (1 - BELIEF_SHARE)
        self._refresh = refresh
        self._poll = poll
        self._connect = connect
        self._clock = clock
        self._bus = bus
        self._instance = instance or socket.gethostname()
        self._listeners: list[Callable[[bool], object]] = []
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self.holder = f"{self._instance}-{self._pid}-{os.urandom(4).hex()}"
        """The name of this candidate in the store."""
        self._held: HeldTerm | None = None
        self._last_term = 0
        self._may_hold = False
        self._end_timer: Timer | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._renewed_term = 0
        self._lock = asyncio.Lock()
        self._lost = asyncio.Event()

    def _check_fork(self) -> None:
        """Makes a forked process another candidate, which does not lead."""
        if self._pid != os.getpid():
            self._reset()

    def __repr__(self) -> str:
        return f"<Leader {self.name!r} {self.holder} {'leads' if self.is_leader else 'does not lead'}>"

    def wrap_store(self, wrap: Callable[[Store], Store]) -> None:
        """Wraps the store for the calls of this leader."""
        connect = self._connect

        async def wrapped() -> Store:
            return wrap(await connect())

        self._connect = wrapped

    through = former_method("Leader.through", wrap_store)

    # status

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads. Never true in two places at once, however late the store answers."""
        return self.term is not None

    @property
    def term(self) -> int | None:
        """The number of the term in which it leads, greater than all earlier ones. None if it does not lead."""
        held = self._held
        if held is None or self._pid != os.getpid():
            return None
        leads = self._clock.monotonic() < held.ends and self._clock.now() < held.until
        return held.term if leads else None

    def check(self) -> int:
        """The term, to guard an action that only the leader may take. Raises NotLeader if it does not lead."""
        term = self.term
        if term is None:
            raise self._not_leader("acquire() waits for its turn")
        return term

    def _not_leader(self, why: str) -> NotLeader:
        return NotLeader(f"{self.name!r} is not led from here ({self.holder}): {why}")

    def on_change(self, act: Callable[[bool], object]) -> Callable[[bool], object]:
        """Calls a plain function with True when this candidate begins to lead, and with False when it ceases to."""
        if not callable(act) or inspect.iscoroutinefunction(act):
            raise BadInput(f"leader {self.name!r}: on_change takes a plain function of one argument, got {act!r:.80}")
        self._listeners.append(act)
        return act

    @property
    def sync(self) -> Any:
        """The same names for code that does not await: leader.sync.acquire(keep=True)."""
        return Sync(self)

    # leading

    async def acquire(self, timeout: float | None = None, *, keep: bool = False) -> int:
        """Waits until it leads, and returns the term. Raises NotLeader after `timeout` seconds; 0 asks once.

        With `keep` the term is renewed in the background until it is released or lost.
        """
        self._check_fork()
        end = math.inf if timeout is None else self._clock.monotonic() + timeout
        try:
            held = await self._await_term(end)
        except BaseException:
            if self._may_hold and self._held is None:
                await self._return_term()
            raise
        if keep:
            self._start_renewal(held)
        return held.term

    async def renew(self) -> int:
        """Renews the term for a ttl from now. Raises NotLeader if it has ended. StoreUnavailable changes nothing."""
        self._check_fork()
        async with self._lock:
            self.check()
            held, store = self._held, await self._connect()
            answer, sent = await self._request_term(store, self._ttl)
            mine = answer.holder == self.holder
            if held is not None and held is self._held and mine and answer.term == held.term:
                return self._accept(answer, sent).term
            self._lose(held)
            # The term ended before the request arrived, so the store may have begun another one for us: end it.
            if mine:
                await self._request_term(store, 0.0)
            raise self._not_leader("the term had ended when it was to be renewed")

    async def release(self) -> None:
        """Ends the term, so that another candidate can lead at once. If the store does not answer, the term expires."""
        self._check_fork()
        held, keeper, self._renewal = self._held, self._renewal, None
        self._lose(held)
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        if held is not None or self._may_hold:
            await self._return_term()

    async def __aenter__(self) -> Leader:
        await self.acquire(keep=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs the coroutine function while this candidate leads, and returns its value.

        The coroutine is cancelled when leadership is lost. It is run again when this candidate leads again.
        """
        try:
            while True:
                await self.acquire(keep=True)
                working = asyncio.ensure_future(_call(work))
                if await self._ended_first(working):
                    return working.result()
        finally:
            await self.release()

    async def _ended_first(self, working: asyncio.Future[Any]) -> bool:
        """Whether the work ended before leadership was lost. If not, it has been cancelled."""
        gone = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return True
        finally:
            gone.cancel()
            working.cancel()
            await asyncio.wait([working, gone])
        return not working.cancelled() and working.exception() is not None

    # election

    async def _await_term(self, end: float) -> HeldTerm:
        """Waits for a term of ours. Raises NotLeader at `end`, which is a monotonic time."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                store = await self._connect()
                seen = await store.wait("claimable", 0)
                answer = await self._try_to_lead(store)
                if isinstance(answer, HeldTerm):
                    return answer
                if (left := end - self._clock.monotonic()) <= 0:
                    raise self._not_leader(f"{answer.holder} leads in term {answer.term}, until {answer.until}")
                await self._wait(store, answer.until, left, seen)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                if (left := end - self._clock.monotonic()) <= 0:
                    raise self._not_leader(f"the store does not answer: {error}") from error
                await self._clock.sleep(self._report_trouble(error, failures, left))
            if (rest := min(began + BUSY_RETRY_SECONDS, end) - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest)

    def _report_trouble(self, error: StoreUnavailable, failures: int, most: float) -> float:
        """Emits the event of a failed store call. Returns the seconds until the next try."""
        doing = f"electing the leader of {self.name!r}"
        event = store_trouble(error, failures, doing=doing, at=self._clock.now(), seed=self.holder, most=most)
        self._bus.emit(event)
        return event.again

    async def _wait(self, store: Store, until: datetime, left: float, seen: int) -> None:
        """Waits until the current term may have ended, or for the poll interval."""
        over = (until - self._clock.now()).total_seconds()
        timeout = max(0.0, min(poll_interval(store, self._poll), over, left))
        await store.wait("claimable", timeout, seen=seen)

    async def _try_to_lead(self, store: Store) -> HeldTerm | LeaderTerm:
        """Takes the leadership if it is free. Returns our term, or that of the current leader."""
        async with self._lock:
            if self._held is not None and self.is_leader:
                return self._held
            await self._clock.learn(store.time)
            # A waiting candidate only reads, so that it does not block writers.
            for known in await store.terms(now=self._clock.now()):
                if known.name == self.name and known.holder != self.holder:
                    self._lose(self._held)
                    return known
            answer, sent = await self._request_term(store, self._ttl)
            if answer.holder == self.holder and answer.term == self._last_term:
                # The store does not know that this term has ended. No term is led twice, or fences would not hold.
                await self._request_term(store, 0.0)
                answer, sent = await self._request_term(store, self._ttl)
            return self._accept(answer, sent) if answer.holder == self.holder else answer

    async def _request_term(self, store: Store, span: float) -> tuple[LeaderTerm, float]:
        """The store's answer, and the monotonic time of the request, from which our term counts."""
        sent = self._clock.monotonic()
        await self._clock.learn(store.time)
        if (took := self._clock.monotonic() - sent) > self._margin / 2:
            raise StoreUnavailable(f"the store took {took:.3g} s to return its time, too long to compare clocks")
        now = self._clock.now()
        self._may_hold = span > 0
        answer = await store.acquire_term(self.name, self.holder, until=now + timedelta(seconds=span), now=now)
        self._may_hold = False
        return answer, sent

    def _accept(self, answer: LeaderTerm, sent: float) -> HeldTerm:
        held = HeldTerm(answer.term, answer.until - timedelta(seconds=self._margin), sent + self._ttl - self._margin)
        if self._clock.monotonic() >= held.ends or self._clock.now() >= held.until:
            self._may_hold = True
            raise StoreUnavailable(f"the answer came too late to lead {self.name!r}")
        fresh = self._held is None or self._held.term != held.term
        if fresh:
            self._lose(self._held)
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._held = held
        # The timer ends our term even if the store fails or hangs.
        self._end_timer = self._clock.call_later(held.ends - self._clock.monotonic(), lambda: self._lapse(held))
        if fresh:
            self._lost.clear()
            self._announce(held.term, True)
        return held

    def _lapse(self, held: HeldTerm) -> None:
        if self._held is held:
            self._lose(held)

    def _lose(self, held: HeldTerm | None) -> None:
        """Ends our term here, whatever the store says, and announces it once."""
        if held is None or self._held is None or self._held.term != held.term:
            return
        self._held, self._last_term = None, held.term
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._lost.set()
        self._announce(held.term, False)

    async def _return_term(self) -> None:
        """Ends the term in the store, unless we lead again."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS), self._lock:
                if self._held is None:
                    await self._request_term(await self._connect(), 0.0)
        except (StoreUnavailable, ShuttingDown, TimeoutError) as error:
            text = "leader %r: the term could not be ended in the store (%s: %s); it expires within %g s"
            _logger.warning(text, self.name, type(error).__name__, error, self._ttl)
            count_error("leader", error)

    # renewal

    def _start_renewal(self, held: HeldTerm) -> None:
        if self._renewal is not None:
            if self._renewed_term == held.term and not self._renewal.done():
                return
            self._renewal.cancel()
        self._renewal, self._renewed_term = asyncio.create_task(self._renew_until_lost(held.term)), held.term
        self._renewal.add_done_callback(self._log_renewal_error)

    async def _renew_until_lost(self, term: int) -> None:
        """Renews the term until it is lost. A failed renewal is repeated until then."""
        failures, wait = 0, self._refresh
        with suppress(NotLeader):
            while True:
                await self._clock.sleep(wait)
                if self.check() != term:
                    return
                try:
                    await self.renew()
                    failures, wait = 0, self._refresh
                except StoreUnavailable as error:
                    failures += 1
                    wait = self._report_trouble(error, failures, self._refresh)

    def _log_renewal_error(self, keeper: asyncio.Task[None]) -> None:
        """Logs an unexpected error that ended the renewal. The term then expires."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            text = "leader %r: the term is no longer renewed: %s: %s"
            _logger.error(text, self.name, type(error).__name__, error)

    # listeners

    def _announce(self, term: int, leading: bool) -> None:
        event = LeaderChanged(at=self._clock.now(), name=self.name, holder=self.holder, term=term, leading=leading)
        self._bus.emit(event)
        for act in tuple(self._listeners):
            try:
                act(leading)
            except (Exception, SystemExit) as error:
                _logger.exception("leader %r: %r raised when called with %s", self.name, act, leading)
                count_error("subscriber", error)


async def _call(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
