"""A backfill of many ticks takes few calls on every store, and makes no job twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, State, every
from mainspring.records.query import Filter
from mainspring.stores import open_store
from mainspring.testing import VirtualClock
from servers import Postgres, Redis

MINUTE = timedelta(minutes=1)
TICKS = 1000
# Reads of existing jobs: one page for each of a few spans of time, and one more where a page was full.
MAX_READS, MAX_FIRES = 10, 4


class Counted:
    """A store that counts the calls of its verbs."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.store: Any = open_store(url, clock=clock)
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self.calls[name] += 1
        return getattr(self.store, name)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db"
    server: Postgres | Redis = request.getfixturevalue(request.param)
    return server.fresh()


async def test_a_backfill_of_a_thousand_ticks_takes_few_store_calls(url: str) -> None:
    clock = VirtualClock()
    store = Counted(url, clock)
    app = Mainspring(store, clock=clock)  # type: ignore[arg-type]

    async def work() -> None: ...

    # The keys of one begin with those of the other.
    for name in ("work", "work:1"):
        app.schedule(name, every().minute, app.task(name=name)(work))
    async with app:
        await app.schedules.get("work")
        start = clock.now()
        clock.advance(TICKS * MINUTE + MINUTE / 2)
        first = start + MINUTE
        ticks = [first + n * MINUTE for n in range(TICKS)]
        store.calls.clear()
        planned = await app.schedules.backfill("work", first, dry_run=True)
        assert (planned.made, planned.there, store.calls["jobs"] <= MAX_READS) == (ticks, [], True), store.calls
        some = await app.schedules.backfill("work", ticks[100], ticks[150])
        assert (some.made, some.there) == (ticks[100:150], [])
        (stopped, *_) = await app.jobs.list(Filter(schedules=("work",)), limit=1, newest=False)
        await app.jobs.cancel(stopped.id)

        store.calls.clear()
        rest = await app.schedules.backfill("work", first)
        assert store.calls["jobs"] <= MAX_READS, store.calls
        assert store.calls["fire"] <= MAX_FIRES, store.calls
        assert stopped.scheduled_at is not None
        kept = [tick for tick in ticks[100:150] if tick != stopped.scheduled_at]
        assert rest.there == kept
        assert rest.made == [tick for tick in ticks if tick not in kept]

        store.calls.clear()
        again = await app.schedules.backfill("work", first)
        assert (again.made, again.there) == ([], ticks)
        assert (store.calls["jobs"] <= MAX_READS, store.calls["fire"]) == (True, 0), store.calls
        made = await app.jobs.list(Filter(schedules=("work",), states=("pending",)), limit=1000)
        assert len(made) == TICKS
        assert await app.jobs.list(Filter(schedules=("work:1",), states=(State.PENDING.value,))) == []
