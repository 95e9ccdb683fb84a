"""app.limits: how many jobs run at once and start in a time, changed while they wait; and who waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ..errors import BadInput
from ..insight.why import LimitFacts
from ..records.job import Job, State
from ..records.limit import LimitGroup, LimitUse, group_key, limit_name
from ..store import LimitStore, Store
from ..stores.rules.limits import limit_of
from ..task.limit import Limit, by_names, checked_limit, stored_limit, task_limit_name
from ..task.options import check_name
from ..task.task import Task
from .audit_log import annotate, audited

if TYPE_CHECKING:
    from ..engine import Engine

# Groups that a call lists at most.
MAX_LISTED_GROUPS = 1000


class Limits:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self) -> Sequence[LimitUse]:
        """The limits by name, each with its running jobs and its keys."""
        return await (await self._store()).limits()

    async def groups(self, name: str, *, key: str | None = None, limit: int = 100) -> Sequence[LimitGroup]:
        """The keys of a limit that have running or waiting jobs, those with the most running ones first."""
        checked = checked_name(name)
        if not 1 <= limit <= MAX_LISTED_GROUPS:
            raise BadInput(f"limit is from 1 to {MAX_LISTED_GROUPS}, got {limit!r}")
        return await (await self._store()).limit_groups(checked, key=key, limit=limit)

    @audited("limits.set")
    async def set(self, name: str, limit: Limit) -> None:
        """Changes the numbers of a limit, such as `task:charge`, while its jobs wait and run. 0 running: none starts.

        A deploy whose code says another limit than the deploy before sets that one.
        """
        checked, store = checked_name(name), await self._store()
        known = next((use.limit for use in await store.limits() if use.limit.name == checked), None)
        if known is None:
            raise BadInput(
                f"there is no limit {checked!r}: say it in the code first, with @app.task(limit=Limit(…)), "
                "so that its jobs have a key"
            )
        if checked_limit(limit).by is not None and by_names(limit) != known.by:
            raise BadInput(
                f"the keys of limit {checked!r} are made by {known.by or 'all calls'}: change that in the code"
            )
        new = replace(stored_limit(limit, checked), by=known.by, declared=known.declared)
        await store.set_limits([new], now=self._engine.clock.now())
        annotate(before={"limit": known}, after={"limit": new})

    @audited("limits.remove")
    async def remove(self, name: str) -> None:
        """Deletes a limit: its jobs only take turns. A worker whose code says it sets it again at its start."""
        checked, store = checked_name(name), await self._store()
        await store.set_limits([], removed=[checked], now=self._engine.clock.now())

    async def _store(self) -> LimitStore:
        store = await self._engine.connect()
        store.capabilities.require_limits()
        return cast(LimitStore, store)


async def declare_limits(store: Store, tasks: Iterable[Task[Any, Any]], now: datetime) -> None:
    """Writes the limits that the code of these tasks says, but for those that it has said before: their numbers may
    have been changed since."""
    store.capabilities.require_limits()
    limits = cast(LimitStore, store)
    said = [stored_limit(task.options.limit, task_limit_name(task.name)) for task in tasks if task.options.limit]
    known = {use.limit.name: use.limit.declared for use in await limits.limits()}
    if new := [limit for limit in said if known.get(limit.name) != limit.declared]:
        await limits.set_limits(new, now=now)


async def facts_of_limit(store: Store, job: Job) -> LimitFacts | None:
    """What a pending job may wait for; None if it has no limit."""
    if job.limit_key is None or job.state is not State.PENDING or not store.capabilities.limits:
        return None
    limits, name = cast(LimitStore, store), limit_name(job.limit_key)
    use = next((use for use in await limits.limits() if use.limit.name == name), None)
    found = await limits.limit_groups(name, key=group_key(job.limit_key), limit=1)
    limit = limit_of(job.limit_key, None if use is None else use.limit)
    return LimitFacts(limit, found[0] if found else None, 0 if use is None else use.running)


def checked_name(name: str) -> str:
    """The name of a limit. Raises BadInput if it cannot be one."""
    kind, _, of = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind != "task":
        raise BadInput(f"a limit is named task:NAME, got {name!r:.80}")
    check_name(of, "task name")
    return name
