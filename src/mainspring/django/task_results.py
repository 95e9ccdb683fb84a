"""Jobs as Django's task results."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings as project
from django.utils import timezone

from .. import errors
from ..records.job import Job, State
from ..records.run import Execution, Failure
from .tasks_api import base

# The metadata of a run that names the class of its exception, so that it can be imported.
EXCEPTION = "exception_class"
_STATUS: Mapping[State, Any] = {
    State.RUNNING: base.TaskResultStatus.RUNNING,
    State.COMPLETED: base.TaskResultStatus.SUCCESSFUL,
    State.DEAD: base.TaskResultStatus.FAILED,
    State.CANCELLED: base.TaskResultStatus.FAILED,
    State.EXPIRED: base.TaskResultStatus.FAILED,
}


def django_time(at: datetime | None) -> datetime | None:
    """An instant as Django has it: naive in a project without USE_TZ."""
    return at if at is None or project.USE_TZ else timezone.make_naive(at)


def new_result(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], backend: str) -> Any:
    """The result of a task that is not enqueued yet. Raises TypeError if the arguments are not JSON."""
    return base.TaskResult(
        task=task,
        id="",
        status=base.TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def task_result(task: Any, job: Job, runs: Sequence[Execution], backend: str) -> Any:
    """The result that a job has now. `runs` are those that have ended."""
    given = json.loads(job.payload)
    result = new_result(_as_enqueued(task, job), given["args"], given["kwargs"], backend)
    running = job.state is State.RUNNING
    began = [run.started_at for run in runs] + ([job.started_at] if running else [])
    values = {
        "id": job.id,
        "status": _STATUS.get(job.state, base.TaskResultStatus.READY),
        "enqueued_at": django_time(job.created_at),
        "started_at": django_time(began[0]) if began else None,
        "last_attempted_at": django_time(began[-1]) if began else None,
        "finished_at": django_time(job.finished_at),
        "errors": [*(task_error(run.failure, run.metadata) for run in runs if run.failure), *_other_end(job)],
        "worker_ids": [run.worker for run in runs] + ([job.worker] if running else []),
    }
    if job.state is State.COMPLETED and job.result is not None:
        values["_return_value"] = json.loads(job.result)
    return changed(result, **values)


def changed(result: Any, **values: Any) -> Any:
    """The same result, which is frozen, with other values: as Django's own backends do it."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


def task_error(failure: Failure, metadata: Mapping[str, Any] = {}) -> Any:
    """The failure of a run as Django's error. Its class can be imported."""
    path = metadata.get(EXCEPTION) or _path_of(failure.type)
    return base.TaskError(exception_class_path=path, traceback=failure.stack or f"{failure.type}: {failure.message}")


def exception_path(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _path_of(name: str) -> str:
    for module in (errors, builtins):
        if isinstance(getattr(module, name, None), type):
            return f"{module.__name__}.{name}"
    return f"{errors.__name__}.{errors.MainspringError.__name__}"


def _as_enqueued(task: Any, job: Job) -> Any:
    deferred = job.run_at is not None and job.run_at > job.created_at and not job.runs  # later on it is that of a retry
    run_after = django_time(job.run_at) if deferred else None
    return replace(task, priority=job.priority, queue_name=job.queue, run_after=run_after)


def _other_end(job: Job) -> list[Any]:
    """The end of a job that no run of it has made."""
    if job.state is State.CANCELLED:
        return [task_error(Failure("JobCancelled", job.cancel_reason or "cancelled", ""))]
    if job.state is State.EXPIRED:
        return [task_error(Failure("JobExpired", "was not started in time", ""))]
    return []
