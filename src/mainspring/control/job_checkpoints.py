"""The checkpoints of a job: the stored values of its durable steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..ids import JobId
from ..records.job import Job
from ..records.run import Checkpoint
from .checks import checked_limit

if TYPE_CHECKING:
    from ..engine import Engine
    from ..store import FlowStore

MAX_PAGE_CHECKPOINTS = 1000


class JobCheckpoints(ABC):
    """Reads what the durable steps of a job have stored."""

    _engine: Engine

    @abstractmethod
    async def get(self, id: JobId) -> Job: ...

    async def checkpoints(
        self, id: JobId, *, limit: int = MAX_PAGE_CHECKPOINTS, after: int = 0
    ) -> Sequence[Checkpoint]:
        """The job's checkpoints beyond number `after`, in the order in which they were stored."""
        checked_limit(limit, MAX_PAGE_CHECKPOINTS)
        await self.get(id)
        store = await self._engine.connect()
        if not (store.capabilities.flows or store.capabilities.remote):
            return ()
        return await cast("FlowStore", store).checkpoints(id, after=after, limit=limit)
