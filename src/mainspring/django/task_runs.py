"""Runs of Django's tasks: their context, and Django's signals around them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.utils import timezone

from ..records.job import State
from ..records.outcome import Directive, Policy, decide, failure_of
from ..task.context import Context
from .task_results import EXCEPTION, changed, exception_path, task_error, task_result
from .tasks_api import base, normalize_json, signals

if TYPE_CHECKING:
    from ..events import JobFailed
    from .backend import MainspringBackend
    from .project_app import DjangoApp


class TaskRuns:
    """Runs one Django task. `function` is that of its Mainspring task."""

    def __init__(self, app: DjangoApp, backend: MainspringBackend, task: Any) -> None:
        self._app, self._backend, self.task = app, backend, task
        self.function: Callable[..., Any] = self._coroutine() if iscoroutinefunction(task.func) else self._plain()

    def _plain(self) -> Callable[..., Any]:
        def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
            result = self._begin(ctx)
            try:
                value = normalize_json(self.task.func(*self._context(result), *args, **kwargs))
            except Directive:
                raise
            except (Exception, SystemExit) as error:
                self._failed(ctx, result, error)
                raise
            self._succeeded(result, value)
            return value

        return run

    def _coroutine(self) -> Callable[..., Any]:
        async def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
            result = await sync_to_async(self._begin)(ctx)
            try:
                value = normalize_json(await self.task.func(*self._context(result), *args, **kwargs))
            except Directive:
                raise
            except (Exception, SystemExit) as error:
                await sync_to_async(self._failed)(ctx, result, error)
                raise
            await sync_to_async(self._succeeded)(result, value)
            return value

        return run

    def _context(self, result: Any) -> list[Any]:
        return [base.TaskContext(task_result=result)] if self.task.takes_context else []

    def _begin(self, ctx: Context) -> Any:
        runs = self._app.sync.executions.list(job_id=ctx.job.id) if ctx.job.runs > 1 else []
        result = task_result(self.task, ctx.job, runs, self._backend.alias)
        self._send(signals.task_started, result)
        return result

    def _succeeded(self, result: Any, value: Any) -> None:
        changed(result, status=base.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
        self._send(signals.task_finished, result)

    def _failed(self, ctx: Context, result: Any, error: BaseException) -> None:
        """Notes the class of the exception. A failure that is retried is not the end of the task."""
        ctx.note(**{EXCEPTION: exception_path(error)})
        if self._is_last(ctx, error):
            failed = task_error(failure_of(error), {EXCEPTION: exception_path(error)})
            errors = [*result.errors, failed]
            changed(result, status=base.TaskResultStatus.FAILED, finished_at=timezone.now(), errors=errors)
            self._send(signals.task_finished, result)

    async def ended(self, end: JobFailed) -> None:
        """Sends task_finished for an end that the task could not see: a timeout, a cancel, the death of its worker."""
        notes = end.outcome.account
        if notes is None or EXCEPTION not in notes.metadata:
            async with ThreadSensitiveContext():
                await sync_to_async(self._signal_end)(end.job.id)

    def _signal_end(self, id: str) -> None:
        job, runs = self._app.sync.jobs.get(id), self._app.sync.executions.list(job_id=id)
        try:
            self._send(signals.task_finished, task_result(self.task, job, runs, self._backend.alias))
        finally:
            connections.close_all()  # this thread ends

    def _is_last(self, ctx: Context, error: BaseException) -> bool:
        job, settings = ctx.job, self._app.settings
        policy = self._app.tasks[job.task].policy(Policy(settings.retry_max, settings.backoff))
        return decide(job, error, now=self._app.clock.now(), policy=policy).state is State.DEAD

    def _send(self, signal: Any, result: Any) -> None:
        signal.send(sender=type(self._backend), task_result=result)
