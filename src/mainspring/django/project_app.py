"""The app of a Django project: its store is one of the project's databases, in tests the test database."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as project
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from msgspec.structs import replace

from .. import sync
from ..app import Mainspring
from ..events import JobDied, JobFailed, JobStopped
from ..stores import open_store
from .child_setup import databases
from .connections import fresh_connections, own_connections
from .database_url import database_url

if TYPE_CHECKING:
    from ..engine import Engine
    from .task_runs import TaskRuns

# The Django setting.
SETTING = "MAINSPRING"
_lock = RLock()
_app: DjangoApp | None = None


def get_app() -> DjangoApp:
    """The app of the project: one a process."""
    global _app
    if _app is None and not (apps.ready or apps.loading):
        import django

        django.setup()  # a process that was not started by manage.py, such as a child of a worker
    with _lock:
        if _app is None:
            _app = DjangoApp(getattr(project, SETTING, {}))
        return _app


class DjangoApp(Mainspring):
    """An app whose store is in one of the project's DATABASES. Test runners change the name of that database while the
    process runs: the store follows."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        if not isinstance(options, Mapping):
            raise ImproperlyConfigured(f"{SETTING} is a dict of settings, got {options!r:.80}")
        given = dict(options)
        url = given.pop("store", None)
        self.database: str | None = given.pop("database", "default" if url is None else None)
        """The alias of the database whose transactions jobs are enqueued in. None: the store is elsewhere."""
        if self.database is not None and self.database not in _databases():
            raise ImproperlyConfigured(f"{SETTING} names the database {self.database!r}, which is not in DATABASES")
        self.django_tasks: dict[str, TaskRuns] = {}
        """Django's tasks, by the names of the tasks that run them."""
        self._follows = url is None
        self._name = self._database_name()
        self._current: Engine | None = None
        self._own: Engine | None = None
        """Its own engine, which differs from the current one inside app.testing()."""
        self._guarded = False
        super().__init__(
            self._store_url() if url is None else url,
            middleware=[own_connections],
            thread_middleware=[fresh_connections],
            **given,
        )
        self._registry.child_setup = lambda: ("mainspring.django.child_setup:set_up", databases())

        for kind in (JobDied, JobStopped):
            self.events.subscribe(kind, self._signal_end)

    async def _signal_end(self, end: JobFailed) -> None:
        if (runs := self.django_tasks.get(end.job.task)) is not None:
            await runs.ended(end)

    @property
    def _engine(self) -> Engine:
        current = self._current
        assert current is not None
        if current is self._own and self._database_name() != self._name:
            return self._move()
        return current

    @_engine.setter
    def _engine(self, engine: Engine) -> None:
        self._own = self._own or engine
        self._current = engine

    def connection(self) -> Any:
        """Django's connection to the store's database in this thread, if a transaction is open on it; else None."""
        if self.database is None:
            return None
        connection = connections[self.database]
        if not connection.in_atomic_block and connection.settings_dict.get("AUTOCOMMIT", True):
            return None
        connection.ensure_connection()
        return connection

    def _database_name(self) -> Any:
        return _databases()[self.database]["NAME"] if self._follows else None

    def _store_url(self) -> str:
        assert self.database is not None
        return database_url(self.database, _databases()[self.database])

    def _move(self) -> Engine:
        """Makes an engine for the database of another name: a test begins, or has ended."""
        from ..engine import Engine

        with _lock:
            before, name = self._own, self._database_name()
            assert before is not None
            if name != self._name:
                settings = replace(before.settings, store=self._store_url())
                store = open_store(settings.store, clock=before.clock, durability=settings.durability, **settings.names)
                before.detach()
                self._own = self._current = Engine(store, before.clock, self._registry, settings, self.events)
                self._name = name
                self._close_before_destruction()
            assert self._own is not None
            return self._own

    def _close_before_destruction(self) -> None:
        """Closes the store before Django drops the test database, which PostgreSQL refuses while it is in use."""
        if self._guarded:
            return
        self._guarded = True
        creation = type(connections[self.database].creation)
        destroy = creation.destroy_test_db

        @functools.wraps(destroy)
        def destroy_test_db(made: Any, *args: Any, **kwargs: Any) -> Any:
            if made.connection.alias == self.database and self._own is not None:
                sync.run(self._own.close())
            return destroy(made, *args, **kwargs)

        creation.destroy_test_db = destroy_test_db


def _databases() -> Any:
    """DATABASES with Django's defaults, as it is now: a test runner changes the names."""
    return connections.settings
