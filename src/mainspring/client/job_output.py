"""RemoteOutputReader: follows the output of a job over an API, in requests that wait for more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..control.job_output import MAX_PAGE_CHUNKS
from ..ids import JobId
from ..records.run import OutputChunk
from .client import connection_of
from .connection import MAX_WAIT_SECONDS
from .responses import OutputPageResponse

if TYPE_CHECKING:
    from ..engine import Engine


class RemoteOutputReader:
    def __init__(self, engine: Engine, id: JobId, after: int) -> None:
        self.after = after
        self.ended = False
        self._engine = engine
        self._id = id

    async def read(self, timeout: float | None = None, *, limit: int = MAX_PAGE_CHUNKS) -> Sequence[OutputChunk]:
        connection, clock = await connection_of(self._engine), self._engine.clock
        end = math.inf if timeout is None else clock.monotonic() + timeout
        while True:
            wait = min(max(end - clock.monotonic(), 0.0), MAX_WAIT_SECONDS)
            query = {"after": self.after, "limit": limit, "wait": wait}
            page = await connection.call(
                OutputPageResponse, "GET", "jobs", self._id, "output", query=query, wait=MAX_WAIT_SECONDS
            )
            self.after, self.ended = page.next, page.ended
            if page.items or page.ended or clock.monotonic() >= end:
                return [chunk.to_record() for chunk in page.items]
