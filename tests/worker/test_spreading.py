"""Schedules with spread and adapt in a running worker."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import Mainspring, cron, every
from mainspring.schedule.record import Fired, Firing
from mainspring.store import Store
from mainspring.testing import VirtualClock


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    """Beats and polls are rare: much time passes in these tests."""
    return Mainspring(url, clock=clock, beat=60, lease=240, poll_interval=20, sweep=60)


async def nothing() -> None:
    pass


async def ticks(app: Mainspring, name: str) -> list[float]:
    """Minutes from the start of the clock at which it was fired."""
    found = [tick.at for tick in await app.schedules.ticks(name) if tick.what == "fired"]
    began = (await app.schedules.get(name)).created_at
    return sorted((at - began).total_seconds() / 60 for at in found)


def crowd(app: Mainspring, n: int, **said: Any) -> None:
    task = app.task(nothing)
    for i in range(n):
        app.schedule(f"s{i:02}", every().hour, task, spread=True, **said)


# placing


async def test_declared_schedules_with_spread_get_distinct_anchors_and_keep_them(
    app: Mainspring, clock: VirtualClock
) -> None:  # fmt: skip
    crowd(app, 12)
    async with app, app.worker():
        await clock.settle()
        before = {row.name: row.anchor_at for row in await app.schedules.list()}
        assert len(set(before.values())) == 12
        assert (await app.schedules.distribution()).score > 0.9
        await clock.elapse(minutes=20)
    async with app, app.worker():
        await clock.elapse(minutes=1)
        assert {row.name: row.anchor_at for row in await app.schedules.list()} == before


async def test_a_new_schedule_with_spread_takes_the_least_loaded_slot(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(nothing)
    async with app:
        first = await app.schedules.create("first", every().hour, task)
        second = await app.schedules.create("second", every().hour, task, spread=True)
        assert abs(second.anchor_at - first.anchor_at - timedelta(minutes=30)) < timedelta(seconds=10)
        assert second.next_run_at == second.anchor_at


async def test_a_changed_interval_gets_a_new_anchor_and_other_changes_do_not(
    app: Mainspring, clock: VirtualClock
) -> None:  # fmt: skip
    task = app.task(nothing)
    async with app:
        await app.schedules.create("first", every(20).minutes, task)
        made = await app.schedules.create("second", every().hour, task, spread=True)
        clock.advance(minutes=3)
        kept = await app.schedules.update("second", overlap="queue", start_at=clock.now())
        assert kept.anchor_at == made.anchor_at
        moved = await app.schedules.update("second", trigger=every(20).minutes)
        assert abs((moved.anchor_at - made.created_at) % timedelta(minutes=20) - timedelta(minutes=10)) <= timedelta(
            seconds=1
        )


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_changed_declaration_gets_a_new_anchor(url: str, clock: VirtualClock) -> None:
    for interval in (every().hour, every(20).minutes):
        app = Mainspring(url, clock=clock, beat=60, lease=240, poll_interval=20, sweep=60)
        task = app.task(nothing)
        app.schedule("first", every(20).minutes, task)
        app.schedule("second", interval, task, spread=True)
        async with app, app.worker():
            await clock.settle()
            first, second = await app.schedules.list()
    assert abs((second.anchor_at - first.anchor_at) % timedelta(minutes=20) - timedelta(minutes=10)) <= timedelta(
        seconds=1
    )


# moving


async def test_a_dry_run_of_rebalance_equals_the_rebalance(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await pile(app, 12)
        clock.advance(minutes=1)
        before = {row.name: row for row in await app.schedules.list()}
        preview = await app.schedules.rebalance(dry_run=True)
        assert {row.name: row for row in await app.schedules.list()} == before
        done = await app.schedules.rebalance()
        assert preview.dry_run
        assert not done.dry_run
        assert (done.moves, done.left, done.before, done.after) == (
            preview.moves, preview.left, preview.before, preview.after,
        )  # fmt: skip
        assert len(done.moves) == 11
        rows = {row.name: row for row in await app.schedules.list()}
        assert {move.name: move.to_at for move in done.moves} == {
            move.name: rows[move.name].next_run_at for move in done.moves
        }
        assert {rows[move.name].moved_at for move in done.moves} == {clock.now()}
        assert (await app.schedules.distribution()).score == done.after


async def pile(app: Mainspring, n: int, minutes: int = 60) -> None:
    """A number of schedules of the same interval at the same second."""
    task = app.tasks.get("nothing") or app.task(nothing)
    for i in range(n):
        await app.schedules.create(f"s{i:02}", every(minutes).minutes, task)
        await app.schedules.update(f"s{i:02}", spread=True)


async def test_moved_schedules_go_on_without_a_gap_or_a_double(app: Mainspring, clock: VirtualClock) -> None:
    app.task(nothing)
    async with app, app.worker():
        await pile(app, 6, minutes=5)
        await clock.elapse(minutes=8)
        done = await app.schedules.rebalance()
        assert len(done.moves) == 5
        await clock.elapse(minutes=24)
        for name in (f"s{i:02}" for i in range(6)):
            at = await ticks(app, name)
            gaps = [after - before for before, after in pairwise(at)]
            assert all(2.5 <= gap < 10 for gap in gaps), (name, at)
            assert gaps[-3:] == pytest.approx([5] * 3)
            assert len(at) in (5, 6, 7)


async def test_running_and_imminent_schedules_are_left_alone(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await pile(app, 4)
        await app.schedules.trigger("s01")
        clock.advance(minutes=59, seconds=30)
        left = (await app.schedules.rebalance()).left
        assert [(stay.name, stay.why) for stay in left] == [
            ("s00", "imminent"), ("s01", "running"), ("s02", "imminent"), ("s03", "imminent"),
        ]  # fmt: skip


class Meddler:
    """A store in which a schedule is paused right before rows are written."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def clone(self) -> Any:
        return self

    async def fire(self, firings: Any, *, now: Any) -> list[Fired]:
        if any(firing.schedule.moved_at is not None for firing in firings):
            (row,) = await self._store.schedules([self._name], limit=1)
            paused = replace(row, revision=row.revision + 1, paused_at=now, due_at=None)
            await self._store.fire([Firing(schedule=paused)], now=now)
        return await self._store.fire(firings, now=now)


async def test_a_row_changed_meanwhile_is_skipped_and_reported(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        store = await app.connect()
        meddled = Mainspring(Meddler(store, "s01"), clock=clock)  # type: ignore[arg-type]
        meddled.task(nothing)
        await pile(app, 3)
        clock.advance(minutes=1)
        done = await meddled.schedules.rebalance()
        assert done.changed == ["s01"]
        assert [move.name for move in done.moves] == ["s00"]
        row = await app.schedules.get("s01")
        assert (row.moved_at, row.paused_at) == (None, clock.now())


async def test_the_distribution_counts_every_kind_of_trigger(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(nothing)
    app.schedule("a", cron("0 3 * * *"), task)
    app.schedule("b", every().hour, task)
    async with app:
        found = await app.schedules.distribution()
        assert (found.total, found.schedules) == (25, 2)


# growing


@pytest.fixture
def page() -> list[str]:
    """What the runs of `look` return from now on."""
    return ["old"]


@pytest.fixture
def looking(app: Mainspring, page: list[str]) -> Mainspring:
    @app.every(minutes=1, adapt=timedelta(minutes=8))
    async def look() -> str:
        if page[0] == "down":
            raise OSError("down")
        return page[0]

    return app


async def test_adapt_grows_the_interval_while_results_are_equal(looking: Mainspring, clock: VirtualClock) -> None:
    async with looking, looking.worker():
        await clock.elapse(minutes=25)
        assert await ticks(looking, "look") == [1, 2, 4, 8, 16, 24]
        assert (await looking.schedules.get("look")).explain() == (
            "every minute, now every 8 minutes as it returns the same"
        )


async def test_adapt_resets_the_interval_on_a_changed_result(
    looking: Mainspring, clock: VirtualClock, page: list[str]
) -> None:
    async with looking, looking.worker():
        await clock.elapse(minutes=17)
        page[0] = "new"
        await clock.elapse(minutes=11)
        assert await ticks(looking, "look") == [1, 2, 4, 8, 16, 24, 25, 27]


async def test_adapt_ignores_failed_runs(looking: Mainspring, clock: VirtualClock, page: list[str]) -> None:
    looking.tasks["look"].options = replace(looking.tasks["look"].options, max_retries=0)
    async with looking, looking.worker():
        await clock.elapse(minutes=5)
        page[0] = "down"
        await clock.elapse(minutes=12)
        page[0] = "old"
        await clock.elapse(minutes=4)
        assert await ticks(looking, "look") == [1, 2, 4, 8, 12, 16, 20]
        assert (await looking.schedules.get("look")).stretch == 8


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_adapt_survives_a_restart(url: str, clock: VirtualClock) -> None:
    for _ in range(3):
        app = Mainspring(url, clock=clock, beat=60, lease=240, poll_interval=20, sweep=60)

        @app.every(minutes=1, adapt=timedelta(minutes=8))
        async def look() -> str:
            return "old"

        async with app, app.worker():
            await clock.elapse(minutes=8, seconds=30)
            found = await ticks(app, "look")
    assert found == [1, 2, 4, 8, 16, 24]
