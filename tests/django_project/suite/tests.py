# ruff: noqa: PT009, PT027  these run in Django's test runner
"""The backend of Django's tasks: what the documentation of django.tasks promises, and same-transaction enqueueing."""

import asyncio
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import timedelta
from io import StringIO
from typing import Any

from django.core import checks
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from shop.models import Order

from mainspring import JobNotFound, sync
from mainspring.django import app
from mainspring.django.tasks_api import InvalidTask, base, exceptions, signals
from suite import tasks

BACKEND = "mainspring.django.MainspringBackend"
READY, FAILED, SUCCESSFUL = (base.TaskResultStatus(name) for name in ("READY", "FAILED", "SUCCESSFUL"))


def ran(result: Any) -> Any:
    """The result after its job, and all others, have run."""
    app.sync.drain()
    result.refresh()
    return result


def ids() -> set[str]:
    return {job.id for job in app.sync.jobs.list()}


class Runs(TransactionTestCase):
    def test_the_store_is_the_test_database(self) -> None:
        self.assertIn("test", str(connection.settings_dict["NAME"]))
        self.assertIn(str(connection.settings_dict["NAME"]), app.settings.store)

    def test_a_task_runs_and_its_result_has_everything(self) -> None:
        result = tasks.add.enqueue(1, 2, scale=10)
        self.assertEqual((result.status, result.attempts, result.started_at), (READY, 0, None))
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value
        other = tasks.add.get_result(ran(result).id)
        self.assertEqual((other.status, other.return_value, other.attempts), (SUCCESSFUL, 30, 1))
        self.assertEqual((other.args, other.kwargs, other.backend), ([1, 2], {"scale": 10}, "default"))
        self.assertLessEqual(other.enqueued_at, other.started_at)
        self.assertLessEqual(other.last_attempted_at, other.finished_at)
        self.assertEqual(result, other)

    def test_priority_and_queue_are_those_of_the_job(self) -> None:
        job = app.sync.jobs.get(tasks.nothing.enqueue().id)
        self.assertEqual((job.priority, job.queue, job.task), (7, "mail", "suite.tasks.nothing"))
        job = app.sync.jobs.get(tasks.nothing.using(priority=-100, queue_name="default").enqueue().id)
        self.assertEqual((job.priority, job.queue), (-100, "default"))

    def test_a_task_does_not_run_before_run_after(self) -> None:
        at = timezone.now() + timedelta(hours=1)
        result = ran(tasks.add.using(run_after=at).enqueue(1))
        self.assertEqual((result.status, app.sync.jobs.get(result.id).run_at), (READY, at))

    def test_arguments_that_are_no_json_are_refused(self) -> None:
        with self.assertRaises(TypeError):
            tasks.add.enqueue(object())

    def test_an_async_task_runs_and_uses_the_orm(self) -> None:
        Order.objects.create(customer="ada")

        async def go() -> Any:
            result = await tasks.add_later.aenqueue(1, 2)
            await asyncio.to_thread(app.sync.drain)
            await result.arefresh()
            return await tasks.add_later.aget_result(result.id)

        self.assertEqual(asyncio.run(go()).return_value, [3, 1])

    def test_a_failure_has_the_class_of_its_exception_and_a_traceback(self) -> None:
        for task, args in ((tasks.fail, ["no such door"]), (tasks.fail_later, [])):
            result = ran(task.enqueue(*args))
            self.assertEqual((result.status, result.attempts), (FAILED, 1))
            (error,) = result.errors
            self.assertIs(error.exception_class, tasks.Trouble)
            self.assertIn("raise Trouble(", error.traceback)
            with self.assertRaisesMessage(ValueError, "Task failed"):
                _ = result.return_value

    def test_each_attempt_has_its_error(self) -> None:
        result = ran(tasks.fail_twice.enqueue())
        self.assertEqual((result.status, result.attempts, len(result.errors)), (FAILED, 2, 2))

    def test_the_context_counts_attempts(self) -> None:
        result = ran(tasks.third_time.enqueue())
        self.assertEqual((result.return_value, result.attempts), (3, 3))
        self.assertEqual([error.exception_class for error in result.errors], [ValueError, ValueError])
        self.assertLess(result.started_at, result.last_attempted_at)

    def test_other_ends_are_failures_whose_class_can_be_imported(self) -> None:
        for task, name in (
            (tasks.leave, "SystemExit"),
            (tasks.return_an_object, "TypeError"),
            (tasks.hang, "JobTimeout"),
        ):
            result = ran(task.enqueue())
            self.assertEqual((result.status, result.errors[0].exception_class.__name__), (FAILED, name))

    def test_a_cancelled_job_has_failed(self) -> None:
        result = tasks.nothing.enqueue()
        app.sync.jobs.cancel(result.id, reason="too late")
        result.refresh()
        self.assertEqual((result.status, result.errors[0].traceback), (FAILED, "JobCancelled: too late"))

    def test_results_that_are_missing_or_of_another_task(self) -> None:
        for id in ("nonsense", "01a1f5c0-fa3c-7000-b15c-667f5fd28e18", tasks.native_opened_before.sync.enqueue().id):
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                tasks.add.get_result(id)
        with self.assertRaises(exceptions.TaskResultMismatch):
            tasks.add.get_result(tasks.nothing.enqueue().id)

    def signals_of(self, act: Callable[[], Any]) -> list[tuple[str, str, str, int]]:
        """The signals that are sent meanwhile: name, sender, status and attempts."""
        seen: list[tuple[str, str, str, int]] = []

        def receiver(name: str) -> Any:
            def receive(sender: Any, task_result: Any, **_: Any) -> None:
                seen.append((name, sender.__name__, str(task_result.status), task_result.attempts))

            return receive

        receivers = {name: receiver(name) for name in ("task_enqueued", "task_started", "task_finished")}
        for name, receive in receivers.items():
            getattr(signals, name).connect(receive)
        try:
            act()
            sync.run(app.events.flush())
        finally:
            for name, receive in receivers.items():
                getattr(signals, name).disconnect(receive)
        return seen

    def test_signals_are_sent_in_order(self) -> None:
        self.assertEqual(
            self.signals_of(lambda: ran(tasks.fail_twice.enqueue())),
            [
                ("task_enqueued", "MainspringBackend", "READY", 0),
                ("task_started", "MainspringBackend", "RUNNING", 1),
                ("task_started", "MainspringBackend", "RUNNING", 2),
                ("task_finished", "MainspringBackend", "FAILED", 2),
            ],
        )

    def test_an_end_that_the_task_does_not_see_is_signalled_once(self) -> None:
        names = [(name, status) for name, _, status, _ in self.signals_of(lambda: ran(tasks.hang.enqueue()))]
        self.assertEqual(names, [("task_enqueued", "READY"), ("task_started", "RUNNING"), ("task_finished", "FAILED")])

    def test_a_process_has_the_orm_and_the_test_database(self) -> None:
        job = tasks.in_a_process.sync.enqueue("ada")
        app.sync.drain()
        pid, name = job.result(timeout=10)
        self.assertNotEqual(pid, os.getpid())
        self.assertEqual(name, str(connection.settings_dict["NAME"]))
        self.assertEqual(Order.objects.get().customer, "ada")

    def test_runs_in_one_thread_leave_no_connection_to_the_next(self) -> None:
        for enqueue in (tasks.opened_before.enqueue, tasks.native_opened_before.sync.enqueue):
            results = [enqueue(), enqueue()]
            app.sync.drain()
            values = [app.sync.jobs.get(result.id).result for result in results]
            self.assertTrue(all("false" in value for value in values), values)
            self.assertEqual([connection.connection for connection in tasks.used], [None] * len(tasks.used))


class Transactions(TransactionTestCase):
    def test_a_job_exists_if_and_only_if_its_transaction_commits(self) -> None:
        with transaction.atomic():
            kept = tasks.nothing.enqueue()
            with transaction.atomic():
                lost = tasks.nothing.enqueue()
                transaction.set_rollback(True)
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                kept.refresh()  # for others it is not there yet
        self.assertIn(kept.id, ids())
        self.assertNotIn(lost.id, ids())
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            lost = tasks.nothing.enqueue()
            raise ZeroDivisionError
        self.assertNotIn(lost.id, ids())

    def test_async_code_enqueues_in_the_transaction_of_its_thread(self) -> None:
        from asgiref.sync import async_to_sync

        with transaction.atomic():
            lost = async_to_sync(tasks.nothing.aenqueue)()
            transaction.set_rollback(True)
        self.assertNotIn(lost.id, ids())

    def test_on_commit_enqueues_after_the_commit(self) -> None:
        options = {"transaction": "on_commit"}
        with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}):
            with transaction.atomic():
                kept = tasks.nothing.enqueue()
                self.assertRaises(JobNotFound, app.sync.jobs.get, kept.id)
            self.assertIn(kept.id, ids())
            with transaction.atomic():
                lost = tasks.nothing.enqueue()
                transaction.set_rollback(True)
            self.assertNotIn(lost.id, ids())

    def test_ignore_enqueues_at_once(self) -> None:
        options = {"transaction": "ignore"}
        with (
            override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}),
            transaction.atomic(),
        ):
            kept = tasks.nothing.enqueue()
            self.assertIn(kept.id, ids())
            transaction.set_rollback(True)
        self.assertIn(kept.id, ids())


class InsideTestCase(TestCase):
    def test_jobs_vanish_with_the_transaction_of_a_test(self) -> None:
        Order.objects.create(customer="ada")
        type(self).enqueued = tasks.nothing.enqueue().id

    def test_jobs_vanish_with_the_transaction_of_a_test_before(self) -> None:
        self.assertNotIn(getattr(type(self), "enqueued", None), ids())


class Commands(TransactionTestCase):
    def test_makemigrations_finds_nothing_to_make(self) -> None:
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    def test_the_tables_are_dropped_and_made_by_migrate(self) -> None:
        old = tasks.nothing.enqueue().id
        call_command("migrate", "mainspring", "zero", verbosity=0)
        call_command("migrate", "mainspring", verbosity=0)
        self.assertNotIn(old, ids())
        self.assertIn(tasks.nothing.enqueue().id, ids())

    def test_the_command_line_finds_the_app_of_the_project(self) -> None:
        tasks.add.enqueue(1)
        output = StringIO()
        with redirect_stdout(output):
            call_command("mainspring", "tasks")
        self.assertIn("remind", output.getvalue())
        with self.assertRaisesMessage(CommandError, "No such command 'job'"):
            call_command("mainspring", "job")


class Validation(SimpleTestCase):
    def test_a_task_is_validated_when_it_is_changed_and_enqueued(self) -> None:
        for options in ({"priority": 101}, {"queue_name": "none"}, {"run_after": timezone.now().replace(tzinfo=None)}):
            with self.assertRaises(InvalidTask):
                tasks.nothing.using(**options)

    def test_functions_inside_functions_and_process_tasks_are_refused(self) -> None:
        def inner() -> None: ...

        with self.assertRaises(InvalidTask):
            tasks.task(inner)
        with self.assertRaisesMessage(InvalidTask, "a task in a child process is one of @app.task"):
            tasks.task(tasks.options(executor="process")(_apart))

    def test_unknown_options_are_refused_by_name(self) -> None:
        with self.assertRaisesMessage(InvalidTask, "unexpected keyword argument 'retries'"):
            tasks.task(tasks.options(retries=1)(_apart))

    def test_checks_name_what_is_missing(self) -> None:
        self.assertEqual(checks.run_checks(), [])
        with override_settings(INSTALLED_APPS=["django.contrib.contenttypes"]):
            self.assertEqual([found.id for found in tasks.nothing.get_backend().check()], ["mainspring.E001"])

    def test_a_store_elsewhere_needs_a_choice(self) -> None:
        app.database, before = None, app.database
        try:
            found = list(tasks.nothing.get_backend().check())
        finally:
            app.database = before
        self.assertEqual([(error.id, "'on_commit'" in error.msg) for error in found], [("mainspring.E002", True)])


def _apart() -> None: ...
