"""Leader: one of many, elected through the store for a term at a time."""

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
from .poll_interval import poll_interval
from .schedule.record import LeaderTerm
from .store import Store
from .store_retry import store_trouble
from .survived_errors import count_error
from .sync import Sync

T = TypeVar("T")
# The share of a term after which a leader that could not prolong it stops believing. The rest is for the clocks:
# corrected to the store's they are wrong by 0.1 s at most, on either side, so a term is never shorter than LEAST_TTL.
BELIEF_SHARE = 0.8
# Seconds between two looks at a store that is busy with other things.
BUSY_RETRY_SECONDS = 0.5
# Real seconds to give a term back; a store that hangs does not keep anybody from stopping.
RELEASE_TIMEOUT_SECONDS = 5.0

_logger = logging.getLogger("mainspring")


class HeldTerm(Struct, frozen=True):
    """A term that is ours, and how long we may believe so: by the store's time and by this machine's, both."""

    term: int
    until: datetime
    ends: float


class Leader:
    """A candidate for one leadership. Two of them are rivals, in one process as in two; it belongs to one event loop.

    A term that was lost or released is over: whoever leads again does so in a later one.
    """

    def __init__(
        self,
        name: str,
        *,
        ttl: float,
        refresh: float,
        poll: float,
        opened: Callable[[], Awaitable[Store]],
        clock: StoreClock,
        bus: Bus,
        instance: str = "",
    ) -> None:
        """Terms last `ttl` seconds unless prolonged, every `refresh`; who waits looks every `poll` at least."""
        if ttl < MIN_TTL_SECONDS:
            raise BadSetting(f"leader {name!r}: ttl must be at least {MIN_TTL_SECONDS:g} s; clocks are not more exact")
        self.name = name
        self._ttl = ttl
        self._margin = ttl * (1 - BELIEF_SHARE)
        self._refresh = refresh
        self._poll = poll
        self._opened = opened
        self._clock = clock
        self._bus = bus
        self._instance = instance or socket.gethostname()
        self._heard: list[Callable[[bool], object]] = []
        self._be_born()

    def _be_born(self) -> None:
        self._pid = os.getpid()
        self.holder = f"{self._instance}-{self._pid}-{os.urandom(4).hex()}"
        """Who we are in the store."""
        self._held: HeldTerm | None = None
        self._past = 0
        self._unsure = False
        self._guard: Timer | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._kept = 0
        self._turn = asyncio.Lock()
        self._gone = asyncio.Event()

    def _here(self) -> None:
        """A fork is somebody else, and leads nothing."""
        if self._pid != os.getpid():
            self._be_born()

    def __repr__(self) -> str:
        return f"<Leader {self.name!r} {self.holder} {'leads' if self.is_leader else 'does not lead'}>"

    def through(self, wrap: Callable[[Store], Store]) -> None:
        """Its calls of the store go through what `wrap` makes of it."""
        opened = self._opened

        async def wrapped() -> Store:
            return wrap(await opened())

        self._opened = wrapped

    # asking

    @property
    def is_leader(self) -> bool:
        """Never true in two places at once, however late a store answers; asks no store."""
        return self.term is not None

    @property
    def term(self) -> int | None:
        """The number of the term it leads in, greater than all before; None: it does not lead."""
        held = self._held
        if held is None or self._pid != os.getpid():
            return None
        believes = self._clock.monotonic() < held.ends and self._clock.now() < held.until
        return held.term if believes else None

    def check(self) -> int:
        """The term, for the guard of whatever only the leader may do; NotLeader if it is not."""
        term = self.term
        if term is None:
            raise self._not_leader("acquire() waits for its turn")
        return term

    def _not_leader(self, why: str) -> NotLeader:
        return NotLeader(f"{self.name!r} is not led from here ({self.holder}): {why}")

    def on_change(self, act: Callable[[bool], object]) -> Callable[[bool], object]:
        """Has a plain function called with True when it begins to lead, and with False when it does no longer."""
        if not callable(act) or inspect.iscoroutinefunction(act):
            raise BadInput(f"leader {self.name!r}: on_change takes a plain function of one argument, got {act!r:.80}")
        self._heard.append(act)
        return act

    @property
    def sync(self) -> Any:
        """The same names for code that does not await: leader.sync.acquire(keep=True)."""
        return Sync(self)

    # leading

    async def acquire(self, timeout: float | None = None, *, keep: bool = False) -> int:
        """Waits for its turn; the term it leads in, perhaps already. NotLeader after `timeout` seconds.

        With `keep` the term is prolonged in the background until it is released or lost. A `timeout` of 0 asks once.
        """
        self._here()
        end = math.inf if timeout is None else self._clock.monotonic() + timeout
        try:
            held = await self._elected(end)
        except BaseException:
            if self._unsure and self._held is None:
                await self._give_back()
            raise
        if keep:
            self._keep(held)
        return held.term

    async def renew(self) -> int:
        """Prolongs the term by another ttl from now. NotLeader, if it is over; StoreUnavailable changes nothing."""
        self._here()
        async with self._turn:
            self.check()
            held, store = self._held, await self._opened()
            answer, sent = await self._lead(store, self._ttl)
            mine = answer.holder == self.holder
            if held is not None and held is self._held and mine and answer.term == held.term:
                return self._adopt(answer, sent).term
            self._lose(held)
            # Over before the store heard us: then it may have begun another term for us, which nobody asked for.
            if mine:
                await self._lead(store, 0.0)
            raise self._not_leader("the term was over when it was to be prolonged")

    async def release(self) -> None:
        """Ends the term, so that the next one need not wait for it. If the store does not answer, it ends by itself."""
        self._here()
        held, keeper, self._keeper = self._held, self._keeper, None
        self._lose(held)
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        if held is not None or self._unsure:
            await self._give_back()

    async def __aenter__(self) -> Leader:
        await self.acquire(keep=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs the coroutine function while it leads, and returns what it returns.

        When leadership is lost it is cancelled, and once it has ended and we lead again it is run again.
        """
        try:
            while True:
                await self.acquire(keep=True)
                working = asyncio.ensure_future(_awaited(work))
                if await self._ended_first(working):
                    return working.result()
        finally:
            await self.release()

    async def _ended_first(self, working: asyncio.Future[Any]) -> bool:
        """Whether it ended of its own accord; if leadership was lost before, it has been cancelled."""
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return True
        finally:
            gone.cancel()
            working.cancel()
            await asyncio.wait([working, gone])
        return not working.cancelled() and working.exception() is not None

    # being elected

    async def _elected(self, end: float) -> HeldTerm:
        """The term we lead in, sooner or later; NotLeader at the end."""
        failures = 0
        while True:
            looked = self._clock.monotonic()
            try:
                store = await self._opened()
                asked = await self._ask(store)
                if isinstance(asked, HeldTerm):
                    return asked
                if (left := end - self._clock.monotonic()) <= 0:
                    raise self._not_leader(f"{asked.holder} leads in term {asked.term}, until {asked.until}")
                await self._wait(store, asked.until, left)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                if (left := end - self._clock.monotonic()) <= 0:
                    raise self._not_leader(f"the store does not answer: {error}") from error
                await self._clock.sleep(self._trouble(error, failures, left))
            if (rest := min(looked + BUSY_RETRY_SECONDS, end) - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest)

    def _trouble(self, error: StoreUnavailable, failures: int, most: float) -> float:
        """Tells of it; the seconds until we try again."""
        doing = f"electing the leader of {self.name!r}"
        told = store_trouble(error, failures, doing=doing, at=self._clock.now(), seed=self.holder, most=most)
        self._bus.emit(told)
        return told.again

    async def _wait(self, store: Store, until: datetime, left: float) -> None:
        """Until somebody may have let go, the term is over or it is time to look again."""
        over = (until - self._clock.now()).total_seconds()
        await store.wait(None, max(0.0, min(poll_interval(store, self._poll), over, left)))

    async def _ask(self, store: Store) -> HeldTerm | LeaderTerm:
        """Takes the leadership if it is free; else, whose it is."""
        async with self._turn:
            if self._held is not None and self.is_leader:
                return self._held
            await self._clock.learn(store.time)
            # Only reads, most of the time: who waits must not be in the way of those who write.
            for known in await store.leaders(now=self._clock.now()):
                if known.name == self.name and known.holder != self.holder:
                    self._lose(self._held)
                    return known
            answer, sent = await self._lead(store, self._ttl)
            if answer.holder == self.holder and answer.term == self._past:
                # The store did not hear that it is over. No term is led twice, or fences would not hold.
                await self._lead(store, 0.0)
                answer, sent = await self._lead(store, self._ttl)
            return self._adopt(answer, sent) if answer.holder == self.holder else answer

    async def _lead(self, store: Store, span: float) -> tuple[LeaderTerm, float]:
        """The store's answer, and when we asked: belief counts from there, not from when the answer came."""
        sent = self._clock.monotonic()
        await self._clock.learn(store.time)
        if (took := self._clock.monotonic() - sent) > self._margin / 2:
            raise StoreUnavailable(f"the store took {took:.3g} s to say its time, too long to compare clocks")
        now = self._clock.now()
        self._unsure = span > 0
        answer = await store.lead(self.name, self.holder, until=now + timedelta(seconds=span), now=now)
        self._unsure = False
        return answer, sent

    def _adopt(self, answer: LeaderTerm, sent: float) -> HeldTerm:
        held = HeldTerm(answer.term, answer.until - timedelta(seconds=self._margin), sent + self._ttl - self._margin)
        if self._clock.monotonic() >= held.ends or self._clock.now() >= held.until:
            self._unsure = True
            raise StoreUnavailable(f"the answer came too late to lead {self.name!r}")
        fresh = self._held is None or self._held.term != held.term
        if fresh:
            self._lose(self._held)
        if self._guard is not None:
            self._guard.cancel()
        self._held = held
        # A store that fails or hangs must not keep us from knowing that it is over.
        self._guard = self._clock.call_later(held.ends - self._clock.monotonic(), lambda: self._lapse(held))
        if fresh:
            self._gone.clear()
            self._tell(held.term, True)
        return held

    def _lapse(self, held: HeldTerm) -> None:
        if self._held is held:
            self._lose(held)

    def _lose(self, held: HeldTerm | None) -> None:
        """It is over, whatever the store says: known here first, told once."""
        if held is None or self._held is None or self._held.term != held.term:
            return
        self._held, self._past = None, held.term
        if self._guard is not None:
            self._guard.cancel()
        self._gone.set()
        self._tell(held.term, False)

    async def _give_back(self) -> None:
        """Tells the store that we do not lead, unless we do again."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS), self._turn:
                if self._held is None:
                    await self._lead(await self._opened(), 0.0)
        except (StoreUnavailable, ShuttingDown, TimeoutError) as error:
            text = "leader %r: the store was not told of its end (%s: %s); the term ends by itself within %g s"
            _logger.warning(text, self.name, type(error).__name__, error, self._ttl)
            count_error("leader", error)

    # keeping

    def _keep(self, held: HeldTerm) -> None:
        if self._keeper is not None:
            if self._kept == held.term and not self._keeper.done():
                return
            self._keeper.cancel()
        self._keeper, self._kept = asyncio.create_task(self._prolong(held.term)), held.term
        self._keeper.add_done_callback(self._report)

    async def _prolong(self, term: int) -> None:
        """Renews until the term is lost; a store that fails is asked again until then."""
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
                    wait = self._trouble(error, failures, self._refresh)

    def _report(self, keeper: asyncio.Task[None]) -> None:
        """What ends it otherwise is said at once; the term then ends by itself."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            text = "leader %r: the term is no longer prolonged: %s: %s"
            _logger.error(text, self.name, type(error).__name__, error)

    # who is told

    def _tell(self, term: int, leading: bool) -> None:
        event = LeaderChanged(at=self._clock.now(), name=self.name, holder=self.holder, term=term, leading=leading)
        self._bus.emit(event)
        for act in tuple(self._heard):
            try:
                act(leading)
            except (Exception, SystemExit) as error:
                _logger.exception("leader %r: %r raised on being told %s", self.name, act, leading)
                count_error("subscriber", error)


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
