"""What an API answers, and the records it stands for."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import asdict

from ...records.audit import AuditEntry
from ...records.job import Job, State
from ...records.run import Execution
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Schedule, Spec, Tick

T = TypeVar("T")


def _but(answer: Struct, **others: Any) -> dict[str, Any]:
    """The fields of an answer, some of them as the record has them."""
    return {**asdict(answer), **others}


class PageAnswer(Struct, Generic[T]):
    items: list[T]
    next: str | None = None


class TimeAnswer(Struct):
    now: datetime


class JobAnswer(Job, frozen=True, kw_only=True):
    payload: Raw  # type: ignore[assignment]
    result: Raw = Raw(b"null")  # type: ignore[assignment]

    def record(self) -> Job:
        """Only a job that has completed has a result, if only null."""
        result = bytes(self.result).decode() if self.state is State.COMPLETED else None
        return Job(**_but(self, payload=bytes(self.payload).decode(), result=result))


class ItemAnswer(Struct):
    job: JobAnswer


class EntryAnswer(AuditEntry, frozen=True, kw_only=True):
    asked: Raw  # type: ignore[assignment]
    outcome: Raw = Raw(b"null")  # type: ignore[assignment]

    def record(self) -> AuditEntry:
        told = None if bytes(self.outcome) == b"null" else bytes(self.outcome).decode()
        return AuditEntry(**_but(self, asked=bytes(self.asked).decode(), outcome=told))


class WorkerAnswer(WorkerInfo, frozen=True, kw_only=True):
    until: datetime
    orders: WorkerCommands = WorkerCommands()

    def record(self) -> WorkerRow:
        known = {name: getattr(self, name) for name in WorkerInfo.__struct_fields__}
        return WorkerRow(WorkerInfo(**known), self.until, self.orders)


class SpecAnswer(Spec, frozen=True, kw_only=True):
    payload: Raw = Raw(b"{}")  # type: ignore[assignment]


class ScheduleAnswer(Schedule, frozen=True, kw_only=True):
    spec: SpecAnswer

    def record(self) -> Schedule:
        spec = Spec(**_but(self.spec, payload=bytes(self.spec.payload).decode()))
        return Schedule(**_but(self, spec=spec))


class RunAnswer(Execution, frozen=True, kw_only=True):
    n: int
    at: datetime
    seen_at: datetime
    reason: str = ""

    def tick(self) -> Tick:
        return Tick(
            n=self.n, at=self.at, seen_at=self.seen_at, what="fired", reason=self.reason, job_id=self.job_id
        )  # fmt: skip

    def record(self) -> Execution:
        return Execution(**{name: getattr(self, name) for name in Execution.__struct_fields__})
