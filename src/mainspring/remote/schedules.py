"""app.schedules over an API: what it says is checked here and there, and done there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import msgspec
from msgspec.structs import asdict

from ..control import Backfill, ManySchedules, ScheduleBulk, ScheduleFilter, ScheduleRun, Schedules, ScheduleStats
from ..control.ground import Ground
from ..control.jobs import PAGE, checked_limit
from ..control.schedule_bulk import BulkPart
from ..control.schedule_history import WEEK
from ..errors import BadInput
from ..ids import JobId
from ..records.job import Enqueued
from ..schedule.balance.spread import Rebalance
from ..schedule.options import ScheduleOptions
from ..schedule.record import Schedule, Spec
from ..store import Store
from ..stores.http.answers import RunAnswer, ScheduleAnswer
from ..stores.http.store import PAGE as ANSWERS
from ..task.handle import Handle
from ..task.options import check_name
from ..task.task import Task
from ..trigger import Window
from ..worker.scheduler import Scheduler
from .line import line_of


class RemoteManySchedules(ManySchedules):
    async def pause(self, which: ScheduleFilter, reason: str = "", **part: Unpack[BulkPart]) -> ScheduleBulk:
        return await self._ask(which, {"action": "pause", "note": reason, **part})

    async def resume(self, which: ScheduleFilter, *, catch_up: bool = False, **part: Unpack[BulkPart]) -> ScheduleBulk:
        return await self._ask(which, {"action": "resume", "catch_up": catch_up, **part})

    async def trigger(self, which: ScheduleFilter, **part: Unpack[BulkPart]) -> ScheduleBulk:
        return await self._ask(which, {"action": "trigger", **part})

    async def delete(self, which: ScheduleFilter, **part: Unpack[BulkPart]) -> ScheduleBulk:
        return await self._ask(which, {"action": "delete", **part})

    async def _ask(self, which: ScheduleFilter, body: Mapping[str, Any]) -> ScheduleBulk:
        filter = {name: value for name, value in asdict(which).items() if value is not None}
        names = filter.pop("names", None)
        if names is not None and filter:
            raise BadInput("over an API schedules are chosen by names, or by a filter without names")
        chosen = {"names": names} if names is not None else {"filter": filter, "all": True}
        line = await line_of(self._ground)
        return await line.ask(ScheduleBulk, "POST", "scheduler", "bulk", body={**body, **chosen})


class RemoteSchedules(Schedules):
    def __init__(
        self, ground: Ground, scheduler: Callable[[], Scheduler], handle: Callable[[Enqueued, str], Handle[Any]]
    ) -> None:
        super().__init__(ground, scheduler, handle)
        self.many = RemoteManySchedules(ground, self._store, scheduler, self._tell)

    async def create(
        self, name: str, trigger: Any, task: Task[Any, Any] | str, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        asked = {"name": name, "task": task.name if isinstance(task, Task) else task, "trigger": trigger}
        return await self._row("POST", body=asked | _body(name, options))

    async def update(
        self,
        name: str,
        *,
        trigger: Any = None,
        expected: str | Callable[[Spec], bool] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        if expected is not None:
            raise BadInput("expected= needs the database itself; over an API it is the header If-Match")
        said = {} if trigger is None else {"trigger": trigger}
        return await self._row("PATCH", name, body=said | _body(name, options))

    async def pause(self, name: str, note: str = "") -> Schedule:
        return await self._row("POST", name, "pause", body={"note": note})

    async def resume(self, name: str, *, catch_up: bool = False) -> Schedule:
        return await self._row("POST", name, "resume", body={"catch_up": catch_up})

    async def reschedule(self, name: str, at: datetime) -> Schedule:
        return await self._row("POST", name, "reschedule", body={"at": at})

    async def delete(self, name: str) -> None:
        await (await line_of(self._ground)).tell("DELETE", "schedules", check_name(name, "schedule name"))

    async def trigger(
        self, name: str, *, kwargs: Mapping[str, Any] | None = None, id: JobId | None = None
    ) -> Handle[Any]:
        line = await line_of(self._ground)
        body = {"kwargs": kwargs}
        made = await line.ask(dict[str, str], "POST", "schedules", check_name(name, "name"), "trigger", body=body)
        task = "" if not self._ground.tasks else (await self.get(name)).spec.task
        return self._handle(Enqueued(made["job_id"]), task)

    async def backfill(
        self, name: str, start: datetime, end: datetime | None = None, *, dry_run: bool = False, limit: int = 1000
    ) -> Backfill:
        line = await line_of(self._ground)
        body = {"start": start, "end": end, "dry_run": dry_run, "limit": limit}
        return await line.ask(Backfill, "POST", "schedules", check_name(name, "name"), "backfill", body=body)

    async def executions(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[ScheduleRun]:
        checked_limit(limit, PAGE)
        line, found = await line_of(self._ground), list[ScheduleRun]()
        path = "schedules", check_name(name, "schedule name"), "executions"
        while limit > 0:
            query = {"limit": min(limit, ANSWERS), "before": before}
            answers = await line.ask(list[RunAnswer], "GET", *path, query=query)
            if not answers:
                break
            found += [ScheduleRun(one.tick(), one.record()) for one in answers]
            limit, before = limit - len({one.n for one in answers}), answers[-1].n
        return found

    async def stats(self, name: str, window: timedelta = WEEK) -> ScheduleStats:
        line, path = await line_of(self._ground), ("schedules", check_name(name, "schedule name"), "stats")
        return await line.ask(ScheduleStats, "GET", *path, query={"window": f"{window.total_seconds():g}s"})

    async def rebalance(self, *, dry_run: bool = False) -> Rebalance:
        line = await line_of(self._ground)
        return await line.ask(Rebalance, "POST", "scheduler", "rebalance", body={"dry_run": dry_run})

    async def _row(self, method: str, *path: str, body: Mapping[str, Any]) -> Schedule:
        line = await line_of(self._ground)
        for name in path[:1]:
            check_name(name, "schedule name")
        return (await line.ask(ScheduleAnswer, method, "schedules", *path, body=body)).record()

    async def _store(self) -> Store:
        """What the code declares is brought there by those who have the database."""
        return await self._ground.opened()


def _body(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Policies as the API takes them: spans in seconds, lists where one would do."""
    if "input" in options:
        raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
    said: dict[str, Any] = dict(options)
    for option in ("exclude", "depends_on"):
        if option in said and (isinstance(said[option], str) or not hasattr(said[option], "__iter__")):
            said[option] = [said[option]]
    if said.get("window") is not None:
        said["window"] = Window.of(said["window"])
    spans = {option: value.total_seconds() for option, value in said.items() if isinstance(value, timedelta)}
    plain: dict[str, Any] = msgspec.to_builtins(said | spans)
    return plain
