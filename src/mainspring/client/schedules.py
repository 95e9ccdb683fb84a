"""RemoteSchedules: app.schedules over an API, which checks and applies every change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec.structs import asdict

from ..control import Backfill, ManySchedules, ScheduleBulk, ScheduleFilter, ScheduleRun, Schedules, ScheduleStats
from ..control.checks import MAX_PAGE_ROWS, checked_limit
from ..control.schedule_bulk import ScheduleBulkPage
from ..control.schedule_history import DEFAULT_WINDOW
from ..errors import BadInput
from ..ids import JobId
from ..records.job import Enqueued
from ..schedule.balance.spread import Rebalance
from ..schedule.options import ScheduleOptions
from ..schedule.record import Schedule, Spec
from ..store import Store
from ..task.handle import Handle
from ..task.options import check_name
from ..task.task import Task
from ..trigger import Window
from .client import connection_of
from .paging import PAGE_ITEMS
from .responses import RunResponse, ScheduleResponse

if TYPE_CHECKING:
    from ..engine import Engine


class RemoteManySchedules(ManySchedules):
    async def pause(self, which: ScheduleFilter, reason: str = "", **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        return await self._change(which, {"action": "pause", "note": reason, **part})

    async def resume(
        self, which: ScheduleFilter, *, catch_up: bool = False, **part: Unpack[ScheduleBulkPage]
    ) -> ScheduleBulk:
        return await self._change(which, {"action": "resume", "catch_up": catch_up, **part})

    async def trigger(self, which: ScheduleFilter, **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        return await self._change(which, {"action": "trigger", **part})

    async def delete(self, which: ScheduleFilter, **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        return await self._change(which, {"action": "delete", **part})

    async def _change(self, which: ScheduleFilter, body: Mapping[str, Any]) -> ScheduleBulk:
        filter = {name: value for name, value in asdict(which).items() if value is not None}
        names = filter.pop("names", None)
        if names is not None and filter:
            raise BadInput("over an API schedules are chosen by names, or by a filter without names")
        chosen = {"names": names} if names is not None else {"filter": filter, "all": True}
        connection = await connection_of(self._engine)
        return await connection.call(ScheduleBulk, "POST", "scheduler", "bulk", body={**body, **chosen})


class RemoteSchedules(Schedules):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.many = RemoteManySchedules(engine, self._store, self._emit_changed)

    async def create(
        self, name: str, trigger: Any, task: Task[Any, Any] | str, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        body = {"name": name, "task": task.name if isinstance(task, Task) else task, "trigger": trigger}
        return await self._send("POST", body=body | _body(name, options))

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
        body = {} if trigger is None else {"trigger": trigger}
        return await self._send("PATCH", name, body=body | _body(name, options))

    async def pause(self, name: str, note: str = "") -> Schedule:
        return await self._send("POST", name, "pause", body={"note": note})

    async def resume(self, name: str, *, catch_up: bool = False) -> Schedule:
        return await self._send("POST", name, "resume", body={"catch_up": catch_up})

    async def reschedule(self, name: str, at: datetime) -> Schedule:
        return await self._send("POST", name, "reschedule", body={"at": at})

    async def delete(self, name: str) -> None:
        await (await connection_of(self._engine)).send("DELETE", "schedules", check_name(name, "schedule name"))

    async def trigger(
        self, name: str, *, kwargs: Mapping[str, Any] | None = None, id: JobId | None = None
    ) -> Handle[Any]:
        connection = await connection_of(self._engine)
        body = {"kwargs": kwargs}
        made = await connection.call(
            dict[str, str], "POST", "schedules", check_name(name, "name"), "trigger", body=body
        )
        task = "" if not self._engine.tasks else (await self.get(name)).spec.task
        return self._engine.handle(Enqueued(made["job_id"]), task)

    async def backfill(
        self, name: str, start: datetime, end: datetime | None = None, *, dry_run: bool = False, limit: int = 1000
    ) -> Backfill:
        connection = await connection_of(self._engine)
        body = {"start": start, "end": end, "dry_run": dry_run, "limit": limit}
        return await connection.call(Backfill, "POST", "schedules", check_name(name, "name"), "backfill", body=body)

    async def executions(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[ScheduleRun]:
        checked_limit(limit, MAX_PAGE_ROWS)
        connection, found = await connection_of(self._engine), list[ScheduleRun]()
        path = "schedules", check_name(name, "schedule name"), "executions"
        while limit > 0:
            query = {"limit": min(limit, PAGE_ITEMS), "before": before}
            runs = await connection.call(list[RunResponse], "GET", *path, query=query)
            if not runs:
                break
            found += [ScheduleRun(run.to_tick(), run.to_record()) for run in runs]
            limit, before = limit - len({run.n for run in runs}), runs[-1].n
        return found

    async def stats(self, name: str, window: timedelta = DEFAULT_WINDOW) -> ScheduleStats:
        connection, path = await connection_of(self._engine), ("schedules", check_name(name, "schedule name"), "stats")
        return await connection.call(ScheduleStats, "GET", *path, query={"window": f"{window.total_seconds():g}s"})

    async def rebalance(self, *, dry_run: bool = False) -> Rebalance:
        connection = await connection_of(self._engine)
        return await connection.call(Rebalance, "POST", "scheduler", "rebalance", body={"dry_run": dry_run})

    async def _send(self, method: str, *path: str, body: Mapping[str, Any]) -> Schedule:
        connection = await connection_of(self._engine)
        for name in path[:1]:
            check_name(name, "schedule name")
        return (await connection.call(ScheduleResponse, method, "schedules", *path, body=body)).to_record()

    async def _store(self) -> Store:
        """Does not write declared schedules: processes with the database do that."""
        return await self._engine.connect()


def _body(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the API takes them: spans in seconds, single values as lists.

    Raises BadInput for an input function, which only code can declare.
    """
    if "input" in options:
        raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
    body: dict[str, Any] = dict(options)
    for option in ("exclude", "depends_on"):
        if option in body and (isinstance(body[option], str) or not hasattr(body[option], "__iter__")):
            body[option] = [body[option]]
    if body.get("window") is not None:
        body["window"] = Window.of(body["window"])
    spans = {option: value.total_seconds() for option, value in body.items() if isinstance(value, timedelta)}
    builtins: dict[str, Any] = msgspec.to_builtins(body | spans)
    return builtins
