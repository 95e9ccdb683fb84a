"""JSON output: records as dictionaries, and one document on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from ..codec import decode_or_text
from ..records.job import Job
from ..records.run import Checkpoint, Execution, Failure
from ..records.worker import WorkerRow
from ..schedule.record import Schedule
from ..trigger import Preview


def print_json(document: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def job_record(job: Job, now: datetime) -> dict[str, Any]:
    """Every field of the job and its shown state; payload and result as data, not as text.

    `timeout` is absent if the task's own applies, null if there is none.
    """
    record: dict[str, Any] = msgspec.to_builtins(job)
    return record | {
        "shown": job.shown(now),
        "outcome": job.outcome(now),
        "payload": decode_or_text(job.payload),
        "result": None if job.result is None else decode_or_text(job.result),
        "failure": _failure(job.failure),
    }


def execution_records(executions: Sequence[Execution]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(run) | {"outcome": run.outcome, "failure": _failure(run.failure)} for run in executions]


def checkpoint_records(checkpoints: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(one) | {"value": msgspec.json.decode(one.value)} for one in checkpoints]


def worker_record(worker: WorkerRow) -> dict[str, Any]:
    """Every field of the worker, its state and its orders; queues are null if it serves all."""
    record: dict[str, Any] = msgspec.to_builtins(worker.info)
    return record | {"state": worker.state, "until": worker.until, "orders": msgspec.structs.asdict(worker.orders)}


def schedule_record(row: Schedule) -> dict[str, Any]:
    """Every field of the schedule, its status and its rule in words; its input as data, not as text.

    `timeout` is absent if the task's own applies, null if there is none.
    """
    spec = msgspec.structs.asdict(row.spec)
    spec |= {"payload": decode_or_text(row.spec.payload), "meaning": row.spec.trigger.named(row.name).explain()}
    if spec["timeout"] is msgspec.UNSET:
        del spec["timeout"]
    return msgspec.structs.asdict(row) | {"status": row.status, "spec": spec}


def preview_records(ticks: Sequence[Preview]) -> list[dict[str, Any]]:
    return [{"at": tick.at, "local": tick.local.isoformat(), "note": tick.note} for tick in ticks]


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else msgspec.structs.asdict(failure)
