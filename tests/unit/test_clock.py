"""Conversion of instants, the skew to the store's clock, alarms, and the virtual clock."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.clock import EPOCH, Alarm, StoreClock, SystemClock, instant, micros
from mainspring.testing.clock import VirtualClock

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_survive_conversion_to_microseconds(at: datetime) -> None:
    assert instant(micros(at)) == at


@given(st.integers(micros(FIRST), micros(LAST)))
def test_microseconds_survive_conversion_to_instants(us: int) -> None:
    assert micros(instant(us)) == us


# The largest instant of the fast path, where a float of seconds is least precise.
EDGE = 2**33 * 10**6


@given(st.integers(0, 10**7), st.sampled_from([-1, 1]))
def test_micros_is_exact_at_the_limit_of_the_fast_path(below: int, sign: int) -> None:
    us = sign * (EDGE - 1 - below)
    assert micros(instant(us)) == us


@pytest.mark.parametrize(
    ("at", "us"),
    [
        (EPOCH, 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -1),
        (datetime(2030, 1, 1, 0, 0, 0, 123456, tzinfo=UTC), 1_893_456_000_123_456),
        (FIRST, -62_135_596_800_000_000),
        (LAST, 253_402_300_799_999_999),
    ],
)
def test_micros_count_from_1970(at: datetime, us: int) -> None:
    assert micros(at) == us
    assert instant(us) == at


def test_instants_are_in_utc() -> None:
    there = datetime(2030, 1, 1, 7, tzinfo=timezone(timedelta(hours=-5)))
    assert instant(micros(there)) == there
    assert instant(micros(there)).utcoffset() == timedelta(0)


# the store's clock


class Slow(VirtualClock):
    """A store whose clock is ahead, with a delay per round trip."""

    def __init__(self, *, ahead: timedelta, trip: timedelta) -> None:
        super().__init__()
        self.ahead = ahead
        self.trip = trip

    async def time(self) -> datetime:
        self.advance(self.trip / 2)
        theirs = self.now() + self.ahead
        self.advance(self.trip / 2)
        return theirs


MS = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("ahead", "skew"),
    [
        (timedelta(0), timedelta(0)),
        (99 * MS, timedelta(0)),
        (-99 * MS, timedelta(0)),
        (101 * MS, 101 * MS),
        (-101 * MS, -101 * MS),
        (timedelta(hours=1), timedelta(hours=1)),
        (timedelta(hours=-1), timedelta(hours=-1)),
    ],
)
@pytest.mark.parametrize("trip", [timedelta(0), MS])
async def test_store_clock_adopts_a_skew_above_the_noise(ahead: timedelta, skew: timedelta, trip: timedelta) -> None:
    machine = Slow(ahead=ahead, trip=trip)
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    assert clock.skew == skew
    assert clock.now() == machine.now() + skew


async def test_store_clock_skew_ignores_noise_of_round_trips() -> None:
    machine = Slow(ahead=timedelta(hours=1), trip=timedelta(0))
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    machine.ahead += 50 * MS
    await clock.learn(machine.time)
    assert clock.skew == timedelta(hours=1)


async def test_store_clock_follows_a_jump_of_the_store() -> None:
    machine = Slow(ahead=timedelta(hours=1), trip=timedelta(0))
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    machine.ahead = timedelta(hours=-2)
    await clock.learn(machine.time)
    assert clock.skew == timedelta(hours=-2)


async def test_store_clock_drops_the_skew_when_clocks_agree() -> None:
    machine = Slow(ahead=timedelta(hours=1), trip=timedelta(0))
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    machine.ahead = 30 * MS
    await clock.learn(machine.time)
    assert clock.skew == timedelta(0)


def test_system_clock_is_aware_and_monotonic() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()
    assert clock.real


# alarms


async def test_alarm_waits_until_it_is_rung() -> None:
    clock = VirtualClock()
    alarm = Alarm(clock)
    waiting = asyncio.create_task(alarm.wait(None))
    await clock.elapse(days=1)
    assert not waiting.done()
    alarm.ring()
    await waiting


async def test_alarm_rings_at_its_time() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(Alarm(clock).wait(10))
    await clock.elapse(seconds=9.999)
    assert not waiting.done()
    await clock.elapse(seconds=0.001)
    await clock.settle()
    assert waiting.done()


async def test_alarm_rung_before_a_wait_ends_it() -> None:
    alarm = Alarm(VirtualClock())
    alarm.ring()
    async with asyncio.timeout(5):
        await alarm.wait(None)


async def test_alarm_ends_one_wait() -> None:
    clock = VirtualClock()
    alarm = Alarm(clock)
    alarm.ring()
    alarm.ring()
    await alarm.wait(None)
    waiting = asyncio.create_task(alarm.wait(10))
    await clock.settle()
    assert not waiting.done()
    await clock.elapse(seconds=10)
    await waiting


async def test_alarm_rung_early_does_not_ring_again_at_its_time() -> None:
    clock = VirtualClock()
    alarm = Alarm(clock)
    waiting = asyncio.create_task(alarm.wait(10))
    await clock.settle()
    alarm.ring()
    await waiting
    again = asyncio.create_task(alarm.wait(100))
    await clock.elapse(seconds=50)
    assert not again.done()
    again.cancel()


async def test_alarm_is_usable_after_a_cancelled_wait() -> None:
    clock = VirtualClock()
    alarm = Alarm(clock)
    waiting = asyncio.create_task(alarm.wait(10))
    await clock.settle()
    waiting.cancel()
    await asyncio.wait([waiting])
    again = asyncio.create_task(alarm.wait(100))
    await clock.elapse(seconds=50)
    assert not again.done()
    alarm.ring()
    await again


async def test_store_clock_ignores_slow_calls() -> None:
    machine = Slow(ahead=timedelta(seconds=15), trip=timedelta(seconds=40))
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    assert clock.skew == timedelta(0)


class Corrected(SystemClock):
    """A machine's clock that is corrected while the time of the store on it is read."""

    def __init__(self, *, before: timedelta, after: timedelta) -> None:
        self._set, self._before, self._after = timedelta(0), before, after

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + self._set

    async def time(self) -> datetime:
        self._set += self._before
        theirs = self.now()
        self._set += self._after
        return theirs


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("first", [True, False])
async def test_store_clock_ignores_a_change_of_its_own_clock_during_the_call(hours: int, first: bool) -> None:
    jump, none = timedelta(hours=hours), timedelta(0)
    machine = Corrected(before=jump if first else none, after=none if first else jump)
    clock = StoreClock(machine)
    await clock.learn(machine.time)
    assert clock.skew == none


async def test_virtual_clock_waits_for_each_outside_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainspring.testing.clock.CALL_WAIT_SECONDS", 1.0)
    clock, seen = VirtualClock(), set[datetime]()
    clock.call_later(5, lambda: None)
    start = clock.now()

    async def many_calls() -> None:
        for _ in range(30):  # each takes 1/20 of the limit of one call, all together 1.5 times the limit
            with clock.outside():
                await asyncio.to_thread(threading.Event().wait, 0.05)
            seen.add(clock.now())

    calls = asyncio.create_task(many_calls())
    await clock.elapse(seconds=10)
    await calls
    assert seen == {start}


async def test_virtual_clock_gives_up_a_hanging_outside_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.testing.clock.CALL_WAIT_SECONDS", 0.1)
    clock, ends = VirtualClock(), threading.Event()

    async def hang() -> None:
        with clock.outside():
            await asyncio.to_thread(ends.wait, 30)

    hanging = asyncio.create_task(hang())
    async with asyncio.timeout(20):
        await clock.elapse(seconds=10)
    assert not hanging.done()
    ends.set()
    await hanging
