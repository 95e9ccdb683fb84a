"""HttpStore: the verbs that an API can express, for processes that cannot reach the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from msgspec import UNSET, Raw
from msgspec.structs import asdict

from ...errors import BadInput, BadSetting, StoreError, StoreUnavailable
from ...ids import JobId
from ...records.audit import AuditEntry, AuditFilter
from ...records.finding import Finding
from ...records.job import Enqueued, NewJob, Shown
from ...records.queue import DeadGroup, Queue
from ...records.run import Execution, LogLine
from ...records.schema import Schema
from ...records.worker import WorkerRow
from ...schedule.record import Schedule, Tick
from ..rules import unique_ids
from .answers import EntryAnswer, PageAnswer, ScheduleAnswer, TimeAnswer, WorkerAnswer
from .line import ApiConnection
from .place import ApiUrl

T = TypeVar("T")
# As many the API gives, or takes, at once; and seconds that it waits for a job to end.
PAGE, MANY, WAIT = 200, 1000, 20.0
# Of a NewJob, what the API calls as a job has it.
_SAME = ("id", "task", "queue", "priority", "run_at", "timeout", "max_retries", "backoff", "tags", "metadata")
_KEYS = ("unique_key", "idempotency_key", "on_conflict", "debounce_limit")


class HttpStore:
    """Verbs that are not here need the database itself, and say so."""

    remote = True
    """Where one call of the API does what control does in several, control asks the API."""
    refuses_within = "an API has no transactions to enqueue within: use sqlite:///… or postgresql://…"

    def __init__(self, place: ApiUrl, key: str) -> None:
        if not key:
            raise BadSetting(f"store URL {place.shown!r} needs a key: give api_key=, or set $MAINSPRING_API_KEY")
        self._place = place
        self._key = key
        self._line: ApiConnection | None = None

    @property
    def line(self) -> ApiConnection:
        if self._line is None:
            self._line = ApiConnection(self._place, self._key)
        return self._line

    def __getattr__(self, verb: str) -> NoReturn:
        if verb.startswith("_"):
            raise AttributeError(verb)
        raise BadInput(
            f"{self._place.shown} is an API, and `{verb}` needs the database itself: give this process the URL of the "
            "database, or do it where that can be reached"
        )

    # life

    async def open(self, *, migrate: bool = True) -> None:
        await self.time()

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def beside(self) -> HttpStore:
        return HttpStore(self._place, self._key)

    async def schema(self) -> Schema:
        return Schema(1, 1, 1)

    async def time(self) -> datetime:
        return (await self.line.ask(TimeAnswer, "GET", "time")).now

    async def diagnose(self) -> list[Finding]:
        await self.time()
        return []

    def hears(self) -> bool | None:
        return None

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        """Of several, the first: whoever waits looks again at all of them."""
        wait = min(max(timeout, 0.0), WAIT)
        await self.line.tell("GET", "jobs", next(iter(ids)), query={"wait": wait}, wait=wait)

    # jobs

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        if within is not None:
            raise BadInput(self.refuses_within)
        if len(jobs) > MANY:
            raise BadInput(f"an API takes {MANY:,} jobs at once, all or nothing; got {len(jobs):,}")
        body = {"jobs": [_request(job) for job in jobs]}
        return (await self.line.ask(dict[str, list[Enqueued]], "POST", "jobs", body=body))["jobs"]

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        found = list[Execution]()
        for id in sorted(unique_ids(job_id)):
            left = None if limit is None else limit - len(found)
            if left == 0:
                break
            found += await self._all(Execution, "jobs", id, "executions", limit=left, after=after)
        return found

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        query = {"limit": limit, "after": f"{after[0]}.{after[1]}"}
        return (await self.line.ask(PageAnswer[LogLine], "GET", "jobs", job_id, "logs", query=query)).items

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        return await self.line.ask(dict[Shown, int], "GET", "jobs", "counts")

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        return (await self.line.ask(PageAnswer[DeadGroup], "GET", "dead", query={"limit": limit})).items

    # schedules

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        if names is None:
            rows = await self._all(ScheduleAnswer, "schedules", limit=limit, after=after)
        else:
            rows = [await self.line.ask(ScheduleAnswer, "GET", "schedules", name) for name in sorted(set(names))]
        return [row.record() for row in rows]

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        ticks: list[Tick] = []
        while len(ticks) < limit:
            query = {"limit": min(limit - len(ticks), PAGE), "before": before}
            more = await self._ticks(name, query)
            ticks += more
            if len(more) < query["limit"]:  # type: ignore[operator]
                break
            before = more[-1].n
        return ticks

    async def _ticks(self, name: str, query: Mapping[str, Any]) -> list[Tick]:
        try:
            return await self.line.ask(list[Tick], "GET", "schedules", name, "ticks", query=query)
        except StoreError as error:
            if isinstance(error, StoreUnavailable):
                raise
            # A server of an earlier release answers with them at another address.
            return await self.line.ask(list[Tick], "GET", "schedules", name, "executions", query=query)

    # the rest

    async def queues(self, *, now: datetime) -> list[Queue]:
        return (await self.line.ask(PageAnswer[Queue], "GET", "queues")).items

    async def pause_queue(self, name: str, paused: bool) -> None:
        await self.line.tell("PATCH", "queues", name, body={"paused": paused})

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        found = await self.line.ask(PageAnswer[WorkerAnswer], "GET", "workers")
        return [worker.record() for worker in found.items]

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        found = await self._all(EntryAnswer, "audit", limit=limit, before=before, **asdict(which))
        return [one.record() for one in found]

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """The server writes down what its API is asked to do, under the name of the key."""

    async def watched(self) -> None:
        """The server tells those who watch."""

    async def _all(self, of: type[T], *path: str, limit: int | None = None, **query: Any) -> list[T]:
        """Page by page."""
        found: list[T] = []
        on = "before" if "before" in query else "after"
        while limit is None or len(found) < limit:
            query["limit"] = PAGE if limit is None else min(PAGE, limit - len(found))
            page = await self.line.ask(PageAnswer[of], "GET", *path, query=query)  # type: ignore[valid-type]
            found += page.items
            if page.next is None:
                break
            query[on] = page.next
        return found


def _request(job: NewJob) -> dict[str, Any]:
    """The job as the API takes it; what is as always is left out."""
    given = {name: getattr(job, name) for name in (*_SAME, *_KEYS)} | {"expires": job.expires_at}
    given = {name: value for name, value in given.items() if value not in (None, UNSET)}
    if job.timeout is None:
        given["timeout"] = None
    return given | {"arguments": Raw(job.payload.encode())}
