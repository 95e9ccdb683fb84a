"""Context: what a running task may know of its own job."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from .job import Job, Lease

_logger = logging.getLogger("mainspring.task")


class Context:
    """Injected into the first parameter annotated `Context`; never sent."""

    __slots__ = ("_log", "arguments", "cancelled", "deadline", "job", "timeout")

    def __init__(self, job: Job, timeout: float | None, deadline: datetime | None) -> None:
        self.job = job
        self.timeout = timeout
        self.deadline = deadline
        """When the run is interrupted; None: never."""
        self.cancelled = False
        """True once the run was told to stop: by a cancel, a timeout or a stopping worker."""
        self.arguments: tuple[list[Any], dict[str, Any]] = ([], {})
        self._log: logging.LoggerAdapter[logging.Logger] | None = None

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def lease(self) -> Lease:
        return self.job.lease or ""

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.job.metadata)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry job_id, task and attempt."""
        if self._log is None:
            job = self.job
            self._log = logging.LoggerAdapter(_logger, {"job_id": job.id, "task": job.task, "attempt": job.attempt})
        return self._log
