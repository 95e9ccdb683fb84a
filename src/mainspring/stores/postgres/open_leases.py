"""The leases claimed through one handle of the PostgreSQL store that still have running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...ids import Lease, WorkerId
from ...records.outcome import Outcome

# Leases that OpenLeases remembers.
MAX_KNOWN_LEASES = 10_000


class OpenLeases:
    """The number of running jobs of each lease claimed here, so that the last finish deletes the lease's row. A beat
    deletes the rows that are missed here."""

    def __init__(self) -> None:
        self._worker = ""
        self._out: dict[Lease, int] = {}

    def opened(self, worker: WorkerId, lease: Lease, jobs: int) -> None:
        if worker != self._worker or len(self._out) > MAX_KNOWN_LEASES:
            self._worker, self._out = worker, {}
        if jobs:
            self._out[lease] = jobs

    def finished(self, outcomes: Sequence[Outcome]) -> tuple[WorkerId, list[Lease]]:
        """The worker, and its leases that have no running job once these outcomes are stored."""
        for lease, ended in Counter(outcome.lease for outcome in outcomes).items():
            if lease in self._out:
                self._out[lease] -= ended
        over = [lease for lease, out in self._out.items() if out <= 0]
        for lease in over:
            del self._out[lease]
        return self._worker, over
