"""app.dead: dead jobs, listed, grouped by error and redriven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..errors import BadInput
from ..ids import JobId
from ..records.job import Action
from ..records.query import Changed, Filter, Update
from ..records.queue import DeadGroup
from .audit_log import audited
from .bulk_page import BulkPage
from .checks import MAX_PAGE_ROWS, checked_id, checked_limit
from .job_page import Page

if TYPE_CHECKING:
    from ..engine import Engine


class Dead:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, which: Filter | None = None, *, limit: int = 100, after: str | None = None) -> Page:
        """Dead jobs, the latest death first."""
        return await self._engine.jobs.list(_only_dead(which or Filter()), limit=limit, after=after, sort="finished")

    async def groups(self, *, limit: int = 100) -> Sequence[DeadGroup]:
        """Dead jobs grouped by task and error, the largest group first."""
        checked_limit(limit, MAX_PAGE_ROWS)
        return await (await self._engine.connect()).dead_groups(limit=limit)

    @audited("jobs.retry")
    async def redrive(
        self,
        which: JobId | Filter | DeadGroup,
        *,
        arguments: Mapping[str, Any] | UnsetType = UNSET,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """Redrives one job, the matching ones, or a group; Filter() is all. `arguments` override existing ones."""
        chosen = which if isinstance(which, str) else _filter_of(which)
        return await self._engine.jobs.change_with(Action.RETRY, chosen, Update(), arguments, **part)

    async def preview(
        self,
        which: JobId | Filter | DeadGroup,
        *,
        arguments: Mapping[str, Any] | UnsetType = UNSET,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """What redrive() would do and refuse, without doing it."""
        return await self._engine.jobs.preview(Action.RETRY, _filter_of(which), arguments, **part)


def _filter_of(which: JobId | Filter | DeadGroup) -> Filter:
    if isinstance(which, DeadGroup):
        which = Filter(tasks=(which.task,), errors=(which.error,))
    return _only_dead(which) if isinstance(which, Filter) else Filter(ids=(checked_id(which),))


def _only_dead(which: Filter) -> Filter:
    if which.states not in (None, ("dead",)):
        raise BadInput(f"dead letters are in state dead; leave states out of the filter, got {which.states!r}")
    return replace(which, states=("dead",))
