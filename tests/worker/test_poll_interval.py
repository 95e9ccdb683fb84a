"""The poll interval: a worker whose store notifies it of changes polls seldom, and stays live."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from mainspring import Mainspring, Retention
from mainspring.records.worker import BeatReply
from mainspring.store import Listening, Store
from mainspring.store.poll_interval import LISTENING_POLL_SECONDS, poll_interval
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.testing.contract.build import a_worker


class Talkative(MemoryStore):
    """Wakes all waiters at every change, unless it is deaf; its beats report whether a worker is silent."""

    deaf: bool | None = False
    lost = False

    @property
    def listening(self) -> Listening:
        return "off" if self.deaf is None else "failed" if self.deaf else "ok"

    async def beat(self, *args: Any, **kwargs: Any) -> BeatReply:
        return replace(await super().beat(*args, **kwargs), lost=self.lost)


@pytest.fixture
def asked() -> Counter[str]:
    """The number of calls of each verb."""
    return Counter()


@pytest.fixture
def store(clock: VirtualClock) -> Talkative:
    return Talkative(clock)


@pytest.fixture
def app(store: Talkative, clock: VirtualClock, asked: Counter[str]) -> Mainspring:
    faults = Faults()
    for verb in ("claim", "due", "orphaned", "finished_groups"):
        faults.when(verb, lambda verb=verb: bool(asked.update([verb])))  # type: ignore[misc]
    app = Mainspring(cast(Store, FaultStore(store, faults)), clock=clock)

    @app.task
    async def work() -> None: ...

    return app


async def test_a_worker_with_notifications_polls_a_few_times_in_ten_minutes(
    app: Mainspring, clock: VirtualClock, asked: Counter[str]
) -> None:
    async with app, app.worker():
        await clock.elapse(seconds=600)
    assert asked["claim"] <= 16
    assert asked["due"] <= 16
    assert asked["orphaned"] <= 2


@pytest.mark.parametrize("deaf", [True, None])
async def test_a_worker_without_notifications_polls_every_second(
    app: Mainspring, store: Talkative, clock: VirtualClock, asked: Counter[str], deaf: bool | None
) -> None:
    store.deaf = deaf
    async with app, app.worker() as worker:
        await clock.elapse(seconds=60)
        assert worker.deaf is bool(deaf)
        assert len((await app.health()).notes) == bool(deaf)
    assert min(asked["claim"], asked["due"]) >= 55


async def test_a_worker_that_polls_seldom_is_live(app: Mainspring, clock: VirtualClock) -> None:
    async with app, app.worker():
        for _ in range(20):
            await clock.elapse(seconds=LISTENING_POLL_SECONDS / 5)
            assert (await app.health()).live


async def test_a_beat_that_reports_silent_workers_triggers_a_sweep(
    app: Mainspring, store: Talkative, clock: VirtualClock, asked: Counter[str]
) -> None:
    async with app, app.worker():
        await clock.elapse(seconds=60)
        handle, now = await app.tasks["work"].using(delay=1).enqueue(), clock.now()
        await store.beat(a_worker("gone"), until=now + timedelta(seconds=2), now=now)
        later = now + timedelta(seconds=1)
        assert (await store.claim(None, worker="gone", tasks=["work"], limit=1, now=later)).jobs
        asked.clear()
        store.lost = True
        await clock.elapse(seconds=5.5)
        assert asked["orphaned"] >= 1
        assert (await handle.job()).crashes == 1


def test_without_notifications_the_poll_interval_is_the_setting(store: Talkative) -> None:
    store.deaf = True
    assert poll_interval(store, 3.0) == 3.0


def test_polls_of_workers_with_notifications_are_spread(store: Talkative) -> None:
    spans = {poll_interval(store, 3.0) for _ in range(20)}
    assert len(spans) > 10
    assert all(0.8 * LISTENING_POLL_SECONDS <= span <= LISTENING_POLL_SECONDS for span in spans)
    assert poll_interval(store, 1000.0) == 1000.0


async def test_pruning_runs_every_ten_minutes_and_more_often_for_short_ages(
    app: Mainspring, clock: VirtualClock, asked: Counter[str]
) -> None:
    async with app, app.worker():
        await clock.elapse(hours=2)
    assert 7 <= asked["finished_groups"] <= 24
    asked.clear()

    @app.task(retention=Retention(keep=0, age=timedelta(minutes=5)))
    async def fleeting() -> None: ...

    async with app, app.worker():
        await clock.elapse(hours=1)
    assert asked["finished_groups"] >= 39
