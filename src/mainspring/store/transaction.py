"""A transaction on the store's own database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..ids import JobId, Lease
from ..records.outcome import Outcome
from ..records.run import RunReport


class Transaction(Protocol):
    """A transaction on the store's own database that commits the effects of a run together with its outcome, or with
    checkpoints."""

    connection: Any
    """The driver's connection. What the task does on it is part of the transaction."""

    async def holds(self, id: JobId, lease: Lease) -> bool:
        """Whether the job is running under this lease."""
        ...

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        """Records the reports as `report` does and the outcome as `finish` does, and commits.

        Returns False if the outcome was not accepted; nothing is committed then.
        """
        ...

    async def keep(self, report: RunReport) -> bool:
        """Records the report as `report` does, and commits: the run goes on.

        Returns False if the report was not accepted; nothing is committed then.
        """
        ...
