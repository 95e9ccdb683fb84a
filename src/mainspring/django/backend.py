"""The backend of Django's tasks whose jobs Mainspring runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from ..errors import BadInput, BadTask, JobNotFound
from ..records.job import NewJob
from .project_app import DjangoApp, get_app
from .task_options import options_of
from .task_results import changed, new_result, task_result
from .task_runs import TaskRuns
from .tasks_api import InvalidTask, backends, base, exceptions, signals

TRANSACTION = ("join", "on_commit", "ignore")
_APART = (
    "the store is in none of the project's databases, so that a job cannot be part of a transaction: "
    "set TASKS[…]['OPTIONS']['transaction'] to 'on_commit' or 'ignore'"
)


class MainspringBackend(backends.BaseTaskBackend):  # type: ignore[misc]
    """TASKS = {"default": {"BACKEND": "mainspring.django.MainspringBackend"}}

    OPTIONS are those of all tasks of the backend, such as max_retries and timeout, and `transaction`: "join" enqueues
    in the transaction that is open, "on_commit" after it, "ignore" at once.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        defaults = {"max_retries": 0, **self.options}  # as with every other backend, a failure is final unless asked
        self._transaction = defaults.pop("transaction", "join")
        if self._transaction not in TRANSACTION:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: transaction is one of {', '.join(TRANSACTION)}; got {self._transaction!r}"
            )
        self._defaults: Mapping[str, Any] = defaults

    @property
    def app(self) -> DjangoApp:
        return get_app()

    # enqueue

    def validate_task(self, task: Any) -> None:
        """Also makes the function a task of the app, as soon as it is decorated."""
        super().validate_task(task)
        self._register(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.validate_task(task)
        result = new_result(task, args, kwargs, self.alias)
        given = self.app.tasks[task.module_path].using(priority=task.priority, queue=task.queue_name)
        if task.run_after is not None:
            at = task.run_after if timezone.is_aware(task.run_after) else timezone.make_aware(task.run_after)
            given = given.using(run_at=at)
        id = self._insert(given.job(args=result.args, kwargs=result.kwargs))
        changed(result, id=id, enqueued_at=timezone.now())
        signals.task_enqueued.send(sender=type(self), task_result=result)
        return result

    def _insert(self, job: NewJob) -> str:
        if self._transaction == "on_commit" and self._in_transaction():
            transaction.on_commit(partial(self.app.sync.insert, [job]), using=self._alias)
            return job.id
        connection = self.app.connection() if self._transaction == "join" else None
        if self._transaction == "join" and self.app.database is None and self._in_transaction():
            raise ImproperlyConfigured(_APART)
        (handle,) = self.app.sync.insert([job], connection)
        id: str = handle.id
        return id

    @property
    def _alias(self) -> str:
        return self.app.database or "default"

    def _in_transaction(self) -> bool:
        return bool(connections[self._alias].in_atomic_block)

    def _register(self, task: Any) -> None:
        app, name = self.app, task.module_path
        if name in app.tasks:
            return
        given = {"priority": task.priority, "queue": task.queue_name, **self._defaults, **options_of(task.func)}
        if given.pop("executor", None) == "process":
            raise InvalidTask(
                f"{name}: a task in a child process is one of @app.task, with from mainspring.django import app"
            )
        try:
            runs = TaskRuns(app, self, task)
            app.task(name=name, **given)(runs.function)
        except (BadInput, BadTask) as bad:
            raise InvalidTask(str(bad)) from bad
        app.django_tasks[name] = runs

    # results

    def get_result(self, result_id: str) -> Any:
        missing = exceptions.TaskResultDoesNotExist(result_id)
        try:
            job = self.app.sync.jobs.get(result_id)
        except (BadInput, JobNotFound):
            raise missing from None
        known = self.app.django_tasks.get(job.task)
        task = self._imported(job.task) if known is None else known.task
        if task is None:
            raise missing
        runs = self.app.sync.executions.list(job_id=job.id) if job.runs else []
        return task_result(task, job, runs, self.alias)

    def _imported(self, path: str) -> Any:
        """The task of that path; None if it is a job of another kind."""
        try:
            found = import_string(path)
        except ImportError:
            return None
        return found if isinstance(found, base.Task) else None

    # checks

    def check(self, **kwargs: Any) -> Iterable[Any]:
        if not apps.is_installed("mainspring.django"):
            yield checks.Error("mainspring.django is not in INSTALLED_APPS", id="mainspring.E001")
        if self._transaction == "join" and self.app.database is None:
            yield checks.Error(_APART, id="mainspring.E002")
