"""Spread: anchors of intervals, the distribution of ticks, and rebalancing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring import cron, every
from mainspring.clock import micros
from mainspring.schedule.balance.distribution import Peak, distribution, evenness
from mainspring.schedule.balance.load import MAX_SLOTS, MICROS_PER_SECOND, WEIGHT_PER_TICK, IntervalWheel, TickLoad
from mainspring.schedule.balance.spread import IMMINENT, MIN_TIME_BETWEEN_MOVES, choose_anchor, rebalance, with_phase
from mainspring.schedule.edit import create
from mainspring.schedule.plan import plan
from mainspring.schedule.record import Schedule, Spec
from mainspring.trigger import Every

NOW = datetime(2030, 1, 1, 12, 7, 3, 250_000, tzinfo=UTC)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOURLY = every().hour
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def row(name: str, trigger: Any, anchor_at: datetime = NOON, now: datetime = NOW, **said: Any) -> Schedule:
    return create(name, Spec(trigger=trigger, task="t", **said), owner="user", now=now, anchor_at=anchor_at)


def settled(n: int, trigger: Any, now: datetime = NOW, **said: Any) -> list[Schedule]:
    """`n` schedules, each with an anchor chosen in view of those before."""
    board, rows = TickLoad([], now), list[Schedule]()
    for name in (f"s{i:04}" for i in range(n)):
        spec = Spec(trigger=trigger, task="t", spread=True, **said)
        rows.append(row(name, trigger, choose_anchor(name, spec, board, now), now, spread=True, **said))
        board.add(rows[-1])
    return rows


def put(name: str, trigger: Any, others: list[Schedule], now: datetime = NOW, **said: Any) -> datetime:
    return choose_anchor(name, Spec(trigger=trigger, task="t", spread=True, **said), TickLoad(others, now), now)


# slots


@pytest.mark.parametrize(
    ("seconds", "width"),
    [(0.001, 0.001), (1, 0.001), (60, 0.1), (300, 1), (900, 1), (3600, 10), (86_400, 60), (7 * 86_400, 600)],
)
def test_slot_width_depends_on_the_interval(seconds: float, width: float) -> None:
    assert IntervalWheel(int(seconds * MICROS_PER_SECOND), {}).width == width * MICROS_PER_SECOND


def test_an_interval_of_a_hundred_years_has_at_most_max_slots() -> None:
    assert len(IntervalWheel(36_525 * 86_400 * MICROS_PER_SECOND, {}).ticks) <= MAX_SLOTS


def load_at(interval: Every, others: list[Schedule]) -> Counter[int]:
    """Load of each slot of the interval, in millionths of a tick per interval; slots without load are left out."""
    wheel = TickLoad(others, NOW).wheel(int(interval.seconds * MICROS_PER_SECOND))
    return Counter({slot: ticks * 1_000_000 // WEIGHT_PER_TICK for slot, ticks in enumerate(wheel.ticks) if ticks})


@pytest.mark.parametrize(
    ("interval", "other", "load"),
    [
        (every(5).minutes, every(5).minutes, {0: 1_000_000}),
        (every(5).minutes, every(10).minutes, {0: 500_000}),
        (every(10).minutes, every(5).minutes, {0: 1_000_000, 300: 1_000_000}),
        (every(10).minutes, every(15).minutes, {0: 333_333, 300: 333_333}),
        (every(5).minutes, every(1).second, dict.fromkeys(range(300), 1_000_000)),
        (every(5).minutes, every(0.25).seconds, {}),
        (every().hour, cron("0 3 * * *"), {0: 41_666}),
        (every().hour, cron("30 * * * *"), {180: 24 * 41_666}),
        (every().day, cron("0 3 * * *"), {180: 1_000_000}),
    ],
)
def test_tick_load_of_a_slot_is_the_ticks_in_one_interval(interval: Every, other: Any, load: dict[int, int]) -> None:
    found = load_at(interval, [row("other", other)])
    assert found.keys() == load.keys()
    assert all(abs(found[slot] - load[slot]) <= 24 for slot in load)


def test_paused_and_after_finish_schedules_are_no_load() -> None:
    paused = replace(row("a", every(5).minutes), paused_at=NOW)
    assert load_at(every(5).minutes, [paused, row("b", every(5).minutes, after="finish")]) == {}


def test_jitter_is_part_of_the_load() -> None:
    other = row("other", every(5).minutes, jitter=200)
    assert load_at(every(5).minutes, [other]) == {other.timetable.offset // timedelta(seconds=1): 1_000_000}


def test_a_grown_interval_loads_less() -> None:
    assert load_at(every(5).minutes, [replace(row("a", every(5).minutes), stretch=4)]) == {0: 250_000}


@given(
    spans=st.lists(st.integers(1, 7200), min_size=1, max_size=8),
    phases=st.lists(st.integers(0, 7200), min_size=8, max_size=8),
)
def test_removing_a_schedule_restores_the_load_exactly(spans: list[int], phases: list[int]) -> None:
    rows = [row(f"s{n}", every(span).seconds, NOON + timedelta(seconds=phases[n])) for n, span in enumerate(spans)]
    board = TickLoad(rows, NOW)
    wheel = board.wheel(3600 * MICROS_PER_SECOND)
    for one in rows:
        board.add(one, -1)
    assert set(wheel.ticks) == {0}
    assert wheel.total == 0


# anchors


def test_choose_anchor_of_the_first_schedule_is_one_interval_away() -> None:
    assert NOW + timedelta(minutes=4, seconds=59) <= put("a", every(5).minutes, []) <= NOW + timedelta(minutes=5)


def test_choose_anchor_of_the_second_is_half_an_interval_from_the_first() -> None:
    first = row("a", every().hour, NOON)
    assert micros(put("b", every().hour, [first])) // MICROS_PER_SECOND % 3600 == 1800


def test_choose_anchor_takes_the_only_free_slot() -> None:
    taken = [row(f"s{n}", every(5).minutes, NOON + timedelta(seconds=n)) for n in range(300) if n != 77]
    assert put("new", every(5).minutes, taken) == datetime(2030, 1, 1, 12, 11, 17, tzinfo=UTC)


def test_choose_anchor_considers_jitter() -> None:
    taken = [row(f"s{n}", every(5).minutes, NOON + timedelta(seconds=n)) for n in range(300) if n != 77]
    anchor = put("new", every(5).minutes, taken, jitter=100)
    fires = row("new", every(5).minutes, anchor, spread=True, jitter=100).timetable.fire_at(anchor)
    assert micros(fires) // MICROS_PER_SECOND % 300 == 77


def test_choose_anchor_avoids_the_minute_of_hourly_crons() -> None:
    minutes = {minute for minute in range(60) if minute != 44}
    anchor = put("new", every().hour, [row(f"c{m}", cron(f"{m} * * * *")) for m in minutes])
    assert anchor.second != 0 or anchor.minute == 44


@pytest.mark.parametrize("interval", [every(10).seconds, every(5).minutes, every(7).minutes, every().hour, every().day])
def test_choose_anchor_is_within_the_next_interval(interval: Every) -> None:
    for one in settled(50, interval):
        assert NOW < one.anchor_at <= NOW + interval.span
        assert one.next_run_at == one.anchor_at


def test_choose_anchor_with_run_on_start_is_in_the_second_half() -> None:
    for one in settled(50, every(5).minutes, run_on_start=True):
        assert one.next_run_at == NOW
        assert NOW + timedelta(minutes=2.5) <= one.anchor_at <= NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("n", "interval"),
    [(2, every().day), (7, every().hour), (60, every().hour), (360, every().hour), (600, every(1).minutes)],
)
def test_anchors_chosen_one_after_another_are_distinct(n: int, interval: Every) -> None:
    rows = settled(n, interval)
    assert len({micros(one.anchor_at) % int(interval.seconds * MICROS_PER_SECOND) for one in rows}) == n
    assert distribution(rows, NOW).score > 0.95


def test_more_schedules_than_slots_are_distributed_inside_slots() -> None:
    by_second = Counter(micros(one.anchor_at) // MICROS_PER_SECOND % 3600 for one in settled(3600, every().hour))
    assert max(by_second.values()) == 1


@given(
    spans=st.lists(st.sampled_from([30, 60, 90, 300, 420, 3600]), max_size=30),
    seed=st.integers(0, 10**6),
    own=st.sampled_from([30, 60, 300, 3600]),
)
@settings(max_examples=60)
def test_choose_anchor_takes_a_least_loaded_slot(spans: list[int], seed: int, own: int) -> None:
    others = [
        row(f"s{n}", every(span).seconds, NOON + timedelta(seconds=seed * (n + 1) % 3607))
        for n, span in enumerate(spans)
    ]
    anchor = put("new", every(own).seconds, others)
    wheel = TickLoad(others, NOW).wheel(own * MICROS_PER_SECOND)
    assert wheel.ticks[wheel.slot_of(micros(anchor))] == min(wheel.ticks)


def test_choose_anchor_does_not_depend_on_the_order_of_schedules() -> None:
    others = [row(f"s{n}", every(300 + 60 * (n % 3)).seconds, NOON + timedelta(seconds=n * 7)) for n in range(40)]
    assert put("new", every(5).minutes, others) == put("new", every(5).minutes, others[::-1])


# distribution


@pytest.mark.parametrize(
    ("counts", "even"),
    [([0, 0], 1), ([1, 0], 1), ([2, 0], 0), ([3, 3, 3], 1), ([4, 3, 3], 1), ([9, 0, 0], 0), ([6, 2, 1], 0.5)],
)
def test_evenness_is_one_for_evenly_spread_counts_and_zero_for_one_peak(counts: list[int], even: float) -> None:
    assert evenness(counts) == even


def test_distribution_without_schedules_is_even() -> None:
    found = distribution([], NOW)
    assert (found.score, found.peak, found.total, found.hours) == (1, None, 0, (0,) * 24)


def test_distribution_begins_at_the_next_full_hour() -> None:
    rows = [row("a", cron("0 13 * * *")), row("b", cron("30 12 * * *")), row("c", every(20).minutes)]
    found = distribution(rows, NOW)
    assert found.since == datetime(2030, 1, 1, 13, tzinfo=UTC)
    assert found.hours == (4, *[3] * 22, 4)
    assert found.peak == Peak(datetime(2030, 1, 1, 13, tzinfo=UTC), 2)
    assert (found.minutes[0], found.minutes[20], found.minutes[30], found.schedules) == (25, 24, 1, 3)


def test_distribution_of_a_week_has_its_weekdays() -> None:
    rows = [row("a", cron("0 9 * * mon")), row("b", every(12).hours), row("c", cron("30 3 * * *"))]
    found = distribution(rows, NOW, 7)
    by_day = [sum(found.hours[24 * n : 24 * (n + 1)]) for n in range(7)]
    assert (len(found.hours), found.total, sorted(by_day)) == (168, 22, [3, 3, 3, 3, 3, 3, 4])


def test_distribution_reports_schedules_it_could_not_count() -> None:
    assert distribution([row("a", cron("*/30 * 0-23 * * *"))], NOW).unseen == 0
    assert distribution([row("a", cron("*/2 * 0-23 * * *"))], NOW, 7).unseen == 1


@pytest.mark.parametrize(
    ("alike", "same"),
    [
        ("*/40 * * * * *", "*/40 * 0-23 * * *"),
        ("*/7 * * * *", "*/7 0-23 * * *"),
        ("H H * * * ?", "H H 0-23 * * *"),
        ("5,50 * * * *", "5,50 0-23 * * *"),
    ],
)
@pytest.mark.parametrize("jitter", [0, 4000])
def test_distribution_of_an_hourly_cron_equals_a_walk(alike: str, same: str, jitter: float) -> None:
    quick = distribution([row("a", cron(alike, tz="Asia/Kolkata"), jitter=jitter)], NOW)
    walked = distribution([row("a", cron(same, tz="Asia/Kolkata"), jitter=jitter)], NOW)
    assert (quick.hours, quick.minutes, quick.peak) == (walked.hours, walked.minutes, walked.peak)


@pytest.mark.parametrize(
    ("trigger", "said", "hours"),
    [
        (every(1).seconds, {}, [3600] * 24),
        (every(0.4).seconds, {}, [9000] * 24),
        (every(7).hours, {}, [0] * 6 + [1] + [0] * 6 + [1] + [0] * 6 + [1] + [0] * 3),
        (every(10).minutes, {"max_runs": 7}, [6, 1] + [0] * 22),
        (every(10).minutes, {"end_at": datetime(2030, 1, 1, 14, 0, tzinfo=UTC)}, [6, 1] + [0] * 22),
        (every(10).minutes, {"start_at": datetime(2030, 1, 2, 12, 0, tzinfo=UTC)}, [0] * 23 + [6]),
        (every(10).minutes, {"after": "finish"}, [6] * 24),
        (cron("*/15 * * * *"), {"jitter": 600}, None),
    ],
)
def test_distribution_counts_ticks(trigger: Any, said: dict[str, Any], hours: list[int] | None) -> None:
    found = distribution([row("a", trigger, **said)], NOW)
    assert found.hours == tuple(hours or found.hours)
    assert found.total == sum(hours or [96])


def test_distribution_respects_windows() -> None:
    from mainspring import Window

    found = distribution([row("a", every(30).minutes, window=Window.of(("08:00", "10:00")))], NOW)
    assert [n for n, count in enumerate(found.hours) if count] == [19, 20]


def test_distribution_leaves_out_paused_schedules() -> None:
    assert distribution([replace(row("a", every(5).minutes), paused_at=NOW)], NOW).total == 0


def test_distribution_score_sees_ticks_in_the_same_second() -> None:
    together = [row(f"s{n}", every().minute) for n in range(60)]
    assert distribution(together, NOW).score < 0.7
    apart = [row(f"s{n}", every().minute, NOON + timedelta(seconds=n)) for n in range(60)]
    assert distribution(apart, NOW).score == 1


# rebalance


def crowd(n: int, interval: Every = HOURLY, **said: Any) -> list[Schedule]:
    return [row(f"s{i:03}", interval, spread=True, **said) for i in range(n)]


def test_rebalance_spreads_a_crowd() -> None:
    found, rows = rebalance(crowd(60), NOW)
    assert len(found.moves) == len(rows) == 59
    assert found.before < 0.4
    assert found.after > 0.95
    assert len({one.anchor_at for one in rows}) == 59


def test_rebalance_moves_only_schedules_with_spread() -> None:
    rows = [replace(one, spec=replace(one.spec, spread=one.name < "s010")) for one in crowd(60)]
    assert {move.name for move in rebalance(rows, NOW)[0].moves} == {f"s{i:03}" for i in range(10)}


def test_rebalance_keeps_well_placed_schedules() -> None:
    assert rebalance(settled(100, every().hour), NOW)[0].moves == []


def test_rebalance_keeps_slots_within_their_fair_share() -> None:
    pairs = [(n, m) for n in range(1, 300) for m in range(2)]
    rows = [row(f"s{n}-{m}", every(5).minutes, NOON + timedelta(seconds=n), spread=True) for n, m in pairs]
    assert rebalance(rows, NOW)[0].moves == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"active": ("j1",)}, "running"),
        ({"held_at": NOON}, "running"),
        ({"next_run_at": NOW + IMMINENT}, "imminent"),
        ({"next_run_at": NOW - HOUR}, "imminent"),
        ({"moved_at": NOW - MIN_TIME_BETWEEN_MOVES + MINUTE}, "fresh"),
    ],
)
def test_rebalance_reports_kept_schedules_with_the_reason(fields: dict[str, Any], why: str) -> None:
    rows = [replace(one, **fields) if one.name == "s001" else one for one in crowd(3)]
    found, _ = rebalance(rows, NOW)
    assert [(stay.name, stay.why) for stay in found.left] == [("s001", why)]
    assert {move.name for move in found.moves} == {"s000", "s002"}


@pytest.mark.parametrize(("interval", "ago", "fresh"), [(every().minute, 61, False), (every(3).hours, 61, True)])
def test_a_moved_schedule_is_fresh_for_an_hour_or_an_interval(interval: Every, ago: int, fresh: bool) -> None:
    rows = [replace(one, moved_at=NOW - ago * MINUTE) for one in crowd(2, interval)]
    assert bool(rebalance(rows, NOW)[0].left) is fresh


def test_rebalance_does_not_move_a_schedule_twice_in_a_row() -> None:
    rows = {one.name: one for one in crowd(10)}
    _, new = rebalance(rows.values(), NOW)
    again, _ = rebalance((rows | {one.name: one for one in new}).values(), NOW + MINUTE)
    assert again.moves == []
    assert {stay.why for stay in again.left} == {"fresh"}


def test_rebalance_changes_only_the_phase() -> None:
    old = crowd(2)[1]
    found, (new,) = rebalance(crowd(2), NOW)
    kept = replace(
        new, anchor_at=old.anchor_at, next_run_at=old.next_run_at, due_at=old.due_at, moved_at=None,
        updated_at=old.updated_at, revision=old.revision, name=old.name,
    )  # fmt: skip
    assert kept == old
    (move,) = found.moves
    assert (new.moved_at, new.revision, new.next_run_at) == (NOW, 2, move.to_at)
    assert new.due_at == move.to_at


def test_rebalance_is_deterministic() -> None:
    assert rebalance(crowd(40), NOW) == rebalance(crowd(40)[::-1], NOW)


@given(
    seconds=st.sampled_from([10, 45, 60, 300, 3600, 86_400]),
    share=st.floats(0, 0.999),
    phase=st.floats(0, 0.999),
    stretch=st.sampled_from([1, 1, 2, 5]),
)
@settings(max_examples=300)
def test_rebalance_shifts_a_tick_by_less_than_an_interval(
    seconds: int, share: float, phase: float, stretch: int
) -> None:  # fmt: skip
    span = timedelta(seconds=seconds)
    last = NOON + timedelta(days=1)
    old = replace(
        row("a", every(seconds).seconds, last, spread=True), stretch=stretch, next_run_at=last + span * stretch
    )
    now = last + share * span * stretch
    if old.next_run_at is None or old.next_run_at <= now + min(IMMINENT, span / 4):
        return
    new = with_phase(old, int(phase * seconds * MICROS_PER_SECOND), now)
    assert new is not None
    assert new.next_run_at is not None
    gap = new.next_run_at - last - span * (stretch - 1)
    assert span / 2 <= gap < 2 * span
    assert new.next_run_at > now
    assert micros(new.next_run_at) % (seconds * MICROS_PER_SECOND) == int(phase * seconds * MICROS_PER_SECOND)
    assert new.timetable.next(new.next_run_at) == new.next_run_at + span * stretch


@given(
    seconds=st.sampled_from([60, 300, 3600]),
    moves=st.lists(st.tuples(st.floats(0.1, 6), st.floats(0, 0.999)), min_size=1, max_size=5),
)
@settings(max_examples=100)
def test_rebalance_loses_and_doubles_no_ticks(seconds: int, moves: list[tuple[float, float]]) -> None:
    """Whatever the moves: one job per interval, and no two ticks too near or too far apart."""
    span, now = timedelta(seconds=seconds), NOON
    one = row("a", every(seconds).seconds, NOON, NOON, spread=True, overlap="allow")
    fired: list[datetime] = []
    for wait, phase in [*moves, (10.0, None)]:
        end = now + wait * span
        while one.due_at is not None and one.due_at <= end:
            firing = plan(one, now=one.due_at, new_job_id=lambda: "id")
            fired += [tick.at for tick in firing.ticks if tick.what == "fired"]
            one = firing.schedule
        now = end
        fresh = one.moved_at is not None and (now < one.moved_at + span or one.next_run_at == one.anchor_at)
        near = one.next_run_at is None or one.next_run_at <= now + min(IMMINENT, span / 4)
        if phase is not None and not fresh and not near:
            one = with_phase(one, int(phase * seconds * MICROS_PER_SECOND), now) or one
    gaps = [after - before for before, after in pairwise(fired)]
    assert all(span / 2 <= gap < 2 * span for gap in gaps)
    assert len(fired) == len(set(fired))
    assert abs(len(fired) - (now - NOON) / span) <= len(moves) + 1


def test_rebalance_never_lowers_the_score() -> None:
    for n in (2, 5, 17, 100):
        rows = [
            row(f"s{i}", every(60 * (1 + i % 4)).seconds, NOON + timedelta(seconds=i % 3), spread=True)
            for i in range(n)
        ]
        found, _ = rebalance(rows, NOW)
        assert found.after >= found.before


def test_rebalance_keeps_a_schedule_that_would_lose_its_last_tick() -> None:
    one = row("a", every().hour, spread=True, end_at=NOON + HOUR)
    assert with_phase(one, 1800 * MICROS_PER_SECOND, NOW + 25 * MINUTE) is None
