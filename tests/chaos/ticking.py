"""The app whose schedules chaos tests fire, and its worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import victim
from audit import Log

from mainspring import Mainspring, SystemClock, every
from mainspring.events import JobEnded, TickFired
from mainspring.stores.sqlite.store import SqliteStore


class Wall(SystemClock):
    """A clock that is wrong by `skew` seconds, plus the seconds in the file `jump`."""

    def __init__(self, skew: float, jump: str | None) -> None:
        self._skew, self._jump = skew, jump

    def now(self) -> datetime:
        jumped = float(Path(self._jump).read_text()) if self._jump else 0.0
        return super().now() + timedelta(seconds=self._skew + jumped)


class Moved(SqliteStore):
    """A store on the machine whose clock jumps: it goes by that clock too."""

    async def time(self) -> datetime:
        return self._clock.now()


def make(
    url: str,
    log: Log | None = None,
    *,
    skew: float = 0.0,
    jump: str | None = None,
    declare: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Mainspring:
    """The victim's app on such a clock; `declare` has the names and seconds of intervals that begin with a run."""
    clock = Wall(skew, jump)
    store = Moved(url.removeprefix("sqlite:///"), clock=clock) if jump else None
    app = victim.make(url, log, store=store, clock=clock, **settings)
    for name, seconds in (declare or {}).items():
        app.schedule(name, every(seconds).seconds, app.tasks["quick"], run_on_start=True)
    if log is not None:
        app.on(TickFired)(lambda event: log.note("fired", event.tick.job_id or "-"))
        app.on(JobEnded)(lambda event: log.write("settled", event.job))
    return app


def main() -> None:
    url, log, settings = victim.arguments()
    queues = settings.pop("queues", None)
    asyncio.run(make(url, log, **settings).worker(queues=queues).run())
