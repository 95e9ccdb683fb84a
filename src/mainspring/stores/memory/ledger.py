"""The memory store's records beside its jobs: runs with what they report, tallies, and the tasks' circuits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from heapq import heappop, heappush

from ...ids import JobId
from ...records.circuit import Circuit
from ...records.outcome import Outcome
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start, sums_by_minute

# Outcomes added to the tallies together: adding each one alone takes longer than a short run.
BATCH_OUTCOMES = 500
_Key = tuple[datetime, str, str]
"""Begin of the span, queue, task."""


class RunLedger:
    """Read and written under the store's lock."""

    def __init__(self) -> None:
        self.executions: dict[JobId, list[Execution]] = defaultdict(list)
        self.lines: dict[JobId, dict[tuple[int, int], LogLine]] = defaultdict(dict)
        self.chunks: dict[JobId, dict[int, OutputChunk]] = defaultdict(dict)
        self.checkpoints: dict[JobId, dict[str, Checkpoint]] = {}
        self.circuits: dict[str, Circuit] = {}
        self._tallies: dict[Span, dict[_Key, RunSums]] = {span: {} for span in SPAN_SECONDS}
        self._uncounted: list[Outcome] = []
        # Heaps of the keys of tallies that are deleted after a while, oldest first.
        self._oldest: dict[Span, list[_Key]] = {span: [] for span in RETENTION}

    def is_recorded(self, outcome: Outcome) -> bool:
        """Whether this outcome is recorded as the end of its run: it was accepted, now or earlier."""
        end = (outcome.lease, outcome.ending, outcome.finished_at)
        runs = self.executions.get(outcome.id, ())
        return any((run.lease, run.ending, run.finished_at) == end for run in runs)

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self._uncounted += outcomes
        if len(self._uncounted) >= BATCH_OUTCOMES:
            self._fold_outcomes()

    def _fold_outcomes(self) -> None:
        outcomes, self._uncounted = self._uncounted, []
        for (at, queue, task), sums in sums_by_minute(outcomes).items():
            for span, tallies in self._tallies.items():
                key = (span_start(at, span), queue, task)
                if key not in tallies:
                    tallies[key] = RunSums()
                    self._prune_tallies(span, key, at)
                tallies[key].add(sums)

    def _prune_tallies(self, span: Span, new: _Key, now: datetime) -> None:
        if span in RETENTION:
            keys = self._oldest[span]
            heappush(keys, new)
            while keys and keys[0][0] < now - RETENTION[span]:
                del self._tallies[span][heappop(keys)]

    def tallies(self, span: Span, since: datetime) -> list[Tally]:
        self._fold_outcomes()
        tallies = self._tallies[span]
        return [Tally(*key, _copy(tallies[key])) for key in sorted(tallies) if key[0] >= since]

    def drop(self, id: JobId) -> None:
        self.executions.pop(id, None)
        self.lines.pop(id, None)
        self.chunks.pop(id, None)
        self.checkpoints.pop(id, None)


def _copy(sums: RunSums) -> RunSums:
    copied = RunSums()
    copied.add(sums)
    return copied
