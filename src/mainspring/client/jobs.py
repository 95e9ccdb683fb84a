"""RemoteJobs: app.jobs over an API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Unpack

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from ..control.bulk_page import BulkPage
from ..control.checks import MAX_PAGE_ROWS, checked_filter, checked_id, checked_limit
from ..control.job_counts import MAX_COUNTED_JOBS, FilteredCounts
from ..control.job_output import OutputReader, checked_after
from ..control.job_page import Page
from ..control.jobs import FINAL_SHOWN, MAX_LOG_LINES, Jobs
from ..errors import BadInput
from ..ids import JobId
from ..insight.why import Reason
from ..records.job import SHOWN, Action, Enqueued, Job, Shown, State
from ..records.query import Changed, Filter, Refusal, Sort, Update
from ..records.run import LogLine
from ..span import Span, seconds
from ..task.handle import Handle
from .client import connection_of
from .connection import MAX_BATCH_JOBS, MAX_WAIT_SECONDS
from .job_output import RemoteOutputReader
from .paging import read_jobs
from .responses import JobItemResponse, JobResponse

# Query parameters whose names differ from the fields of a Filter.
_PARAMETERS = {
    "states": "state",
    "queues": "queue",
    "tasks": "task",
    "tags": "tag",
    "schedules": "schedule",
    "workers": "worker",
    "errors": "error",
    "ids": "id",
}


class _Refused(Struct):
    id: JobId
    detail: str
    state: State | None = None


class _BulkResponse(Struct):
    ids: list[JobId]
    refused: list[_Refused]
    next: str | None = None


class RemoteJobs(Jobs):
    async def get(self, id: JobId) -> Job:
        connection = await connection_of(self._engine)
        return (await connection.call(JobResponse, "GET", "jobs", checked_id(id))).to_record()

    async def list(
        self,
        which: Filter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        sort: Sort | None = None,
        brief: bool = False,
    ) -> Page:
        checked_limit(limit, MAX_PAGE_ROWS)
        connection = await connection_of(self._engine)
        chosen = _query(which or Filter()) | {"sort": sort, "order": "desc" if newest else "asc"}
        page, _ = await read_jobs(connection, JobItemResponse, "jobs", limit=limit, after=after, **chosen)
        return page

    async def wait(self, id: JobId, timeout: Span) -> Job:
        connection, clock = await connection_of(self._engine), self._engine.clock
        end = clock.now() + timedelta(seconds=seconds(timeout, "wait()"))
        while True:
            asked = clock.now()
            left = min(max((end - asked).total_seconds(), 0.0), MAX_WAIT_SECONDS)
            query = {"wait": left}
            response = await connection.call(
                JobResponse, "GET", "jobs", checked_id(id), query=query, wait=MAX_WAIT_SECONDS
            )
            job, now = response.to_record(), clock.now()
            if job.shown(now) in FINAL_SHOWN or now >= end:
                return job
            if now < asked + timedelta(seconds=left):
                # It returned early: its clock says that the job has expired, ours does not yet.
                pause = min(self._engine.settings.poll_interval, (end - now).total_seconds())
                await clock.sleep(pause)

    async def tail(self, id: JobId, *, after: tuple[int, int] = (0, 0)) -> AsyncIterator[LogLine]:
        store, wait = await self._engine.connect(), 0.0
        while True:
            job = await self.wait(id, wait)
            while lines := await store.logs(id, limit=MAX_LOG_LINES, after=after):
                for line in lines:
                    yield line
                after = (lines[-1].run, lines[-1].n)
            if job.shown(self._engine.clock.now()) in FINAL_SHOWN:
                return
            wait = self._engine.settings.poll_interval

    def output_reader(self, id: JobId, *, after: int = 0) -> OutputReader:
        return RemoteOutputReader(self._engine, checked_id(id), checked_after(after))

    async def why(self, id: JobId) -> Sequence[Reason]:
        return await (await connection_of(self._engine)).call(list[Reason], "GET", "jobs", checked_id(id), "why")

    async def counts(self) -> dict[Shown, int]:
        counts = await (await connection_of(self._engine)).call(dict[Shown, int], "GET", "jobs", "counts")
        return {state: counts.get(state, 0) for state in SHOWN}

    async def filtered_counts(self, which: Filter) -> FilteredCounts:
        query = _query(which)
        found = await (await connection_of(self._engine)).call(dict[str, Any], "GET", "jobs", "counts", query=query)
        counts: dict[Shown, int] = {state: found[state] for state in SHOWN if state in found}
        return FilteredCounts(counts=counts, up_to=found.get("up_to", MAX_COUNTED_JOBS))

    async def run_again(self, id: JobId, *, new_id: JobId | None = None) -> Handle[Any]:
        if new_id is not None:
            raise BadInput("new_id= needs the database itself; over an API it is the header Idempotency-Key")
        made = await (await connection_of(self._engine)).call(Enqueued, "POST", "jobs", checked_id(id), "run-again")
        return self._engine.handle(made, (await self.get(id)).task if self._engine.tasks else "")

    async def preview(
        self,
        action: Action,
        which: Filter,
        arguments: Mapping[str, Any] | UnsetType = UNSET,
        **part: Unpack[BulkPage],
    ) -> Changed:
        if arguments is UNSET:
            return await self._bulk(which, {"action": action, "dry_run": True}, part)
        return await self._bulk(which, {"arguments": arguments, "dry_run": True}, part, "dead", "redrive")

    async def change_with(
        self,
        action: Action,
        which: JobId | Filter,
        update: Update,
        arguments: Mapping[str, Any] | UnsetType,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """The server merges arguments, because the API shows them without their secrets."""
        given = {name: value for name, value in asdict(update).items() if value is not UNSET}
        if arguments is not UNSET:
            given["arguments"] = arguments
        if action is Action.RETRY:
            return await self._redrive(which, given, part)
        if isinstance(which, Filter):
            return await self._bulk(which, {"action": action, "update": given}, part)
        await (await connection_of(self._engine)).send("PATCH", "jobs", checked_id(which), body=given)
        return Changed([which], {})

    async def _redrive(self, which: JobId | Filter, given: Mapping[str, Any], part: BulkPage) -> Changed:
        if isinstance(which, Filter):
            return await self._bulk(which, given, part, "dead", "redrive")
        changed = await self._bulk(Filter(ids=(which,)), given, part, "dead", "redrive")
        if not changed.done:
            await super().retry(which)  # raises the reason
        return changed

    async def _change(
        self,
        action: Action,
        which: JobId | Filter,
        reason: str = "",
        update: Update | None = None,
        **part: Unpack[BulkPage],
    ) -> Changed:
        body = {"reason": str(reason)[:1024]} if reason else {}
        if isinstance(which, Filter):
            return await self._bulk(which, {"action": action, **body}, part)
        connection, id = await connection_of(self._engine), checked_id(which)
        if action is Action.DELETE:
            await connection.send("DELETE", "jobs", id)
        else:
            await connection.send("POST", "jobs", id, action.value, body=body or None)
        return Changed([id], {})

    async def _bulk(self, which: Filter, body: Mapping[str, Any], part: BulkPage, *path: str) -> Changed:
        """Sends requests of at most MAX_BATCH_JOBS jobs until `part` is done."""
        connection, total, after = await connection_of(self._engine), Changed([], {}), part.get("after")
        left = part.get("limit")
        ids = list(checked_filter(which).ids or ())
        while True:
            room = MAX_BATCH_JOBS if left is None else min(MAX_BATCH_JOBS, left - len(total.done) - len(total.refused))
            if ids:
                chosen: dict[str, Any] = {"ids": ids[:MAX_BATCH_JOBS]}
                del ids[:MAX_BATCH_JOBS]
            else:
                chosen = {"filter": _bulk_filter(which, path), "all": True, "limit": room, "after": after}
            response = await connection.call(
                _BulkResponse, "POST", *(path or ("jobs", "bulk")), body={**body, **chosen}
            )
            total.done.extend(response.ids)
            total.refused.update({one.id: Refusal(one.state) for one in response.refused if one.state is not None})
            after = response.next
            matched = len(total.done) + len(total.refused)
            if not ids and (after is None or (left is not None and matched >= left)):
                return Changed(total.done, total.refused, after)


def _query(which: Filter) -> dict[str, Any]:
    return {_PARAMETERS.get(name, name): value for name, value in asdict(checked_filter(which)).items()}


def _bulk_filter(which: Filter, path: Sequence[str]) -> dict[str, Any]:
    """The filter in a request. Without states it means all of them; a redrive is about dead jobs anyway."""
    given = {name: value for name, value in asdict(which).items() if value is not None}
    return given if path or which.states is not None else {**given, "states": SHOWN}
