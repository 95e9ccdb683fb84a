"""ApiClient: the store of an app whose URL is https://…, for processes that cannot reach the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Raw
from msgspec.structs import asdict

from ..errors import BadInput, BadSetting, StoreError, StoreUnavailable
from ..flow.document import document_of
from ..ids import JobId
from ..records.audit import AuditEntry, AuditFilter
from ..records.finding import Finding
from ..records.job import Enqueued, NewJob
from ..records.limit import group_key
from ..records.queue import DeadGroup
from ..records.run import Checkpoint, Execution, LogLine, OutputChunk
from ..records.schema import Schema
from ..records.worker import WorkerRow
from ..schedule.record import Schedule, Tick
from ..store import Listening, Store
from ..stores.rules import unique_ids
from ..task.options import JobOptions
from .connection import MAX_BATCH_JOBS, ApiConnection
from .database_only import DatabaseOnly
from .paging import PAGE_ITEMS, read_pages
from .responses import (
    AuditEntryResponse,
    CheckpointResponse,
    OutputPageResponse,
    PageResponse,
    ScheduleResponse,
    TimeResponse,
    WorkerResponse,
)
from .url import ApiUrl

if TYPE_CHECKING:
    from ..engine import Engine

# Fields of a NewJob that have the same name in a request: its options, its task and its id.
_SAME_FIELDS = tuple(
    name for name in NewJob.__struct_fields__ if name in ("id", "task") or name in JobOptions.__annotations__
)


class ApiClient(DatabaseOnly):
    """The Store verbs that one or a few requests express, with the contracts of the Store protocol."""

    def __init__(self, url: ApiUrl, key: str) -> None:
        if not key:
            raise BadSetting(f"store URL {url.shown!r} needs a key: give api_key=, or set $MAINSPRING_API_KEY")
        super().__init__(url.shown)
        self._url = url
        self._key = key
        self._connection: ApiConnection | None = None

    @property
    def connection(self) -> ApiConnection:
        if self._connection is None:
            self._connection = ApiConnection(self._url, self._key)
        return self._connection

    # lifecycle

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self.time()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def clone(self) -> Store:
        return ApiClient(self._url, self._key)

    async def schema(self) -> Schema:
        return Schema(1, 1, 1)

    async def time(self) -> datetime:
        return (await self.connection.call(TimeResponse, "GET", "time")).now

    async def diagnose(self) -> list[Finding]:
        await self.time()
        return []

    @property
    def listening(self) -> Listening:
        return "off"

    # jobs

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        if within is not None:
            self.capabilities.require_transactions("within=")
        if len(jobs) > MAX_BATCH_JOBS:
            raise BadInput(f"an API takes {MAX_BATCH_JOBS:,} jobs at once, all or nothing; got {len(jobs):,}")
        if any(job.plan is not None for job in jobs):
            return [await self._enqueue_plan(jobs)]
        body = {"jobs": [job_request(job) for job in jobs]}
        return (await self.connection.call(dict[str, list[Enqueued]], "POST", "jobs", body=body))["jobs"]

    async def _enqueue_plan(self, jobs: Sequence[NewJob]) -> Enqueued:
        if len(jobs) > 1 or jobs[0].plan is None:
            raise BadInput("an API takes a flow that comes with its plan by itself: enqueue one at a time")
        body = flow_request(jobs[0], document_of(jobs[0].plan, jobs[0].metadata["flow"]))
        return await self.connection.call(Enqueued, "POST", "flows", body=body)

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        found = list[Execution]()
        for id in sorted(unique_ids(job_id)):
            left = None if limit is None else limit - len(found)
            if left == 0:
                break
            found += await read_pages(self.connection, Execution, "jobs", id, "executions", limit=left, after=after)
        return found

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        query = {"limit": limit, "after": f"{after[0]}.{after[1]}"}
        return (await self.connection.call(PageResponse[LogLine], "GET", "jobs", job_id, "logs", query=query)).items

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        query = {"limit": limit, "after": after, "newest": "true" if newest else None}
        page = await self.connection.call(OutputPageResponse, "GET", "jobs", job_id, "output", query=query)
        return [chunk.to_record() for chunk in page.items]

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        read = read_pages(self.connection, CheckpointResponse, "jobs", job_id, "checkpoints", limit=limit, after=after)
        return [one.to_record() for one in await read]

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        return (await self.connection.call(PageResponse[DeadGroup], "GET", "dead", query={"limit": limit})).items

    # schedules

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        if names is None:
            rows = await read_pages(self.connection, ScheduleResponse, "schedules", limit=limit, after=after)
        else:
            rows = [
                await self.connection.call(ScheduleResponse, "GET", "schedules", name) for name in sorted(set(names))
            ]
        return [row.to_record() for row in rows]

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        ticks: list[Tick] = []
        while len(ticks) < limit:
            size = min(limit - len(ticks), PAGE_ITEMS)
            page = await self._ticks(name, {"limit": size, "before": before})
            ticks += page
            if len(page) < size:
                break
            before = page[-1].n
        return ticks

    async def _ticks(self, name: str, query: Mapping[str, Any]) -> list[Tick]:
        try:
            return await self.connection.call(list[Tick], "GET", "schedules", name, "ticks", query=query)
        except StoreError as error:
            if isinstance(error, StoreUnavailable):
                raise
            # A server of an earlier release returns ticks at another address.
            return await self.connection.call(list[Tick], "GET", "schedules", name, "executions", query=query)

    # queues, workers, audit

    async def pause_queue(self, name: str, paused: bool) -> None:
        await self.connection.send("PATCH", "queues", name, body={"paused": paused})

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        page = await self.connection.call(PageResponse[WorkerResponse], "GET", "workers")
        return [worker.to_record() for worker in page.items]

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        query = asdict(which)
        entries = await read_pages(self.connection, AuditEntryResponse, "audit", limit=limit, before=before, **query)
        return [entry.to_record() for entry in entries]

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Does nothing: the server records each request in the audit log, under the name of the key."""

    async def publish(self, news: Sequence[str], *, now: datetime) -> None:
        """Does nothing: the server publishes the events of the live feed."""


async def connection_of(engine: Engine) -> ApiConnection:
    """The connection that a Remote* facade sends its requests by: the app's store is an ApiClient, maybe wrapped."""
    return cast(ApiClient, await engine.connect()).connection


def flow_request(job: NewJob, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of a flow and the options of its job, as the API takes them."""
    options = {name: value for name, value in job_request(job).items() if name not in ("task", "arguments")}
    return {**plan, **options}


def job_request(job: NewJob) -> dict[str, Any]:
    """The job as the API takes it, without defaults."""
    fields = {name: getattr(job, name) for name in _SAME_FIELDS} | {"expires": job.expires_at}
    fields["limit_key"] = (
        None if job.limit_key is None else group_key(job.limit_key) or None
    )  # the server names its task
    fields = {name: value for name, value in fields.items() if value not in (None, UNSET)}
    if job.collect is not None:  # the server makes the key, and says when it is due
        fields = {name: value for name, value in fields.items() if name in ("id", "task", "queue")}
    if job.timeout is None:
        fields["timeout"] = None
    return fields | {"arguments": Raw(job.payload.encode())}
