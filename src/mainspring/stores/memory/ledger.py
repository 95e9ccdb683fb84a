"""What the memory store remembers beside its jobs: their runs, log lines, tallies, and the tasks' circuits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from ...job import Circuit, Execution, Job, JobId, LogLine
from ...outcome import Outcome
from ...tally import KEPT, SECONDS, Span, Sums, Tally, begin, counted
from ..rules import execution, moved


class Ledger:
    """Kept in step by the store, under its lock."""

    def __init__(self) -> None:
        self.executions: dict[JobId, list[Execution]] = defaultdict(list)
        self.lines: dict[JobId, dict[tuple[int, int], LogLine]] = defaultdict(dict)
        self.circuits: dict[str, Circuit] = {}
        self._tallies: dict[Span, dict[tuple[datetime, str, str], Sums]] = {span: {} for span in SECONDS}

    def told(self, outcome: Outcome) -> bool:
        """Whether this very outcome was accepted before."""
        told = (outcome.lease, outcome.ending, outcome.finished_at)
        return any((run.lease, run.ending, run.finished_at) == told for run in self.runs(outcome.id))

    def runs(self, id: JobId) -> Iterable[Execution]:
        return self.executions.get(id, ())

    def accept(self, job: Job, outcome: Outcome) -> None:
        self.executions[job.id].append(execution(job, outcome))
        circuit = moved(self.circuits.get(job.task), outcome)
        if circuit is None:
            self.circuits.pop(job.task, None)
        else:
            self.circuits[job.task] = circuit

    def count(self, outcomes: Sequence[Outcome]) -> None:
        for (at, queue, task), sums in counted(outcomes).items():
            for span, tallies in self._tallies.items():
                key = (begin(at, span), queue, task)
                if key not in tallies:
                    tallies[key] = Sums()
                    self._forget(span, at)
                tallies[key].add(sums)

    def _forget(self, span: Span, now: datetime) -> None:
        if span in KEPT:
            tallies = self._tallies[span]
            for key in [key for key in tallies if key[0] < now - KEPT[span]]:
                del tallies[key]

    def tallies(self, span: Span, since: datetime) -> list[Tally]:
        tallies = self._tallies[span]
        return [Tally(*key, _copy(tallies[key])) for key in sorted(tallies) if key[0] >= since]

    def probe(self, job: Job) -> None:
        self.circuits[job.task] = replace(self.circuits[job.task], probe=job.id)

    def drop(self, id: JobId) -> None:
        self.executions.pop(id, None)
        self.lines.pop(id, None)


def _copy(sums: Sums) -> Sums:
    copied = Sums()
    copied.add(sums)
    return copied
