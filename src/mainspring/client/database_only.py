"""The Store verbs that need the database itself: over an API each of them raises BadInput."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import BadInput
from ..store import Capabilities


class DatabaseOnly:
    """Base class of ApiClient. An error names the feature, not the verb, because users call features."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self.capabilities = Capabilities(store="an API", remote=True, no_scripts=self._refusal("migrating the schema"))

    def _refusal(self, feature: str) -> str:
        return (
            f"{feature} needs the database itself, and {self._shown} is an API: give this process the URL of the "
            "database, or do it where the database can be reached"
        )

    def _refuse(self, feature: str) -> NoReturn:
        raise BadInput(self._refusal(feature))

    # migrations

    async def migrate(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("migrating the schema")

    # running jobs

    async def claim(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("running a worker")

    async def beat(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("running a worker")

    async def orphaned(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("running a worker")

    async def finish(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("running a worker")

    async def report(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("running a worker")

    async def wait(self, *_: Any, **__: Any) -> NoReturn:
        """A request waits for one job: RemoteJobs does."""
        self._refuse("waiting for changes of the store")

    # schedules and leaders

    async def due(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("firing schedules")

    async def fire(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("firing schedules")

    async def drop_schedules(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("dropping schedules")

    async def acquire_term(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("electing a leader")

    async def terms(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("the list of leaders")

    # operators and reading

    async def change(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("changing jobs in the store")

    async def command_workers(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("commanding workers in the store")

    async def jobs(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("reading jobs from the store")

    async def tallies(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("reading tallies")

    async def overview(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("reading counts, queues and circuit breakers from the store")

    # retention

    async def finished_groups(self) -> NoReturn:
        self._refuse("pruning jobs")

    async def prunable(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("pruning jobs")

    async def prune(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("pruning jobs")

    # documents and the live feed

    async def put_documents(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("writing documents")

    async def documents(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("reading documents")

    async def news(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("watching the live feed")
