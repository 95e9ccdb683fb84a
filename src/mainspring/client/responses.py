"""Responses of the API, and the records they are converted to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import asdict

from ..records.audit import AuditEntry
from ..records.job import Job, State
from ..records.run import Checkpoint, Execution, OutputChunk
from ..records.worker import WorkerCommands, WorkerInfo, WorkerRow
from ..schedule.record import Schedule, Spec, Tick

T = TypeVar("T")


def _fields(response: Struct, **replaced: Any) -> dict[str, Any]:
    """The fields of a response, some of them replaced by the record's form."""
    return {**asdict(response), **replaced}


class PageResponse(Struct, Generic[T]):
    items: list[T]
    next: str | None = None


class TimeResponse(Struct):
    now: datetime


class JobResponse(Job, frozen=True, kw_only=True):
    payload: Raw  # type: ignore[assignment]
    result: Raw = Raw(b"null")  # type: ignore[assignment]

    def to_record(self) -> Job:
        """Only a completed job has a result, which may be null."""
        result = bytes(self.result).decode() if self.state is State.COMPLETED else None
        return Job(**_fields(self, payload=bytes(self.payload).decode(), result=result))


class JobItemResponse(Struct):
    job: JobResponse


class OutputChunkResponse(Struct):
    n: int
    run: int
    at: datetime
    value: Raw = Raw(b"null")
    full: bool = False
    resumed: bool = False

    def to_record(self) -> OutputChunk:
        text = "" if self.full else bytes(self.value).decode()
        return OutputChunk(self.n, self.run, self.at, text, self.resumed)


class CheckpointResponse(Struct):
    n: int
    name: str
    at: datetime
    value: Raw

    def to_record(self) -> Checkpoint:
        return Checkpoint(self.n, self.name, self.at, bytes(self.value).decode())


class OutputPageResponse(Struct):
    items: list[OutputChunkResponse]
    next: int
    ended: bool


class AuditEntryResponse(AuditEntry, frozen=True, kw_only=True):
    asked: Raw  # type: ignore[assignment]
    outcome: Raw = Raw(b"null")  # type: ignore[assignment]

    def to_record(self) -> AuditEntry:
        outcome = None if bytes(self.outcome) == b"null" else bytes(self.outcome).decode()
        return AuditEntry(**_fields(self, asked=bytes(self.asked).decode(), outcome=outcome))


class WorkerResponse(WorkerInfo, frozen=True, kw_only=True):
    until: datetime
    orders: WorkerCommands = WorkerCommands()

    def to_record(self) -> WorkerRow:
        info = {name: getattr(self, name) for name in WorkerInfo.__struct_fields__}
        return WorkerRow(WorkerInfo(**info), self.until, self.orders)


class SpecResponse(Spec, frozen=True, kw_only=True):
    payload: Raw = Raw(b"{}")  # type: ignore[assignment]


class ScheduleResponse(Schedule, frozen=True, kw_only=True):
    spec: SpecResponse

    def to_record(self) -> Schedule:
        spec = Spec(**_fields(self.spec, payload=bytes(self.spec.payload).decode()))
        return Schedule(**_fields(self, spec=spec))


class RunResponse(Execution, frozen=True, kw_only=True):
    n: int
    at: datetime
    seen_at: datetime
    reason: str = ""

    def to_tick(self) -> Tick:
        return Tick(n=self.n, at=self.at, seen_at=self.seen_at, what="fired", reason=self.reason, job_id=self.job_id)

    def to_record(self) -> Execution:
        return Execution(**{name: getattr(self, name) for name in Execution.__struct_fields__})
