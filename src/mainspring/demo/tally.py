"""DemoTally: counts per task, added up from the events of the app."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct

from ..app import Mainspring
from ..events import JobEnded, JobEnqueued
from ..records.job import State

RATE_SECONDS = 5


class TaskTally(Struct):
    enqueued: int = 0
    duplicates: int = 0
    completed: int = 0
    retried: int = 0
    dead: int = 0
    runs: int = 0
    waited: float = 0.0
    """Seconds from due to started, over all runs."""
    ran: float = 0.0
    """Seconds from started to finished, over all runs."""

    def __iadd__(self, other: TaskTally) -> TaskTally:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


class DemoTally:
    """Counts from the moment it is created."""

    def __init__(self, app: Mainspring) -> None:
        self._clock = app.clock
        self._started = app.clock.monotonic()
        self._per_second: Counter[int] = Counter()
        self.tasks: dict[str, TaskTally] = defaultdict(TaskTally)
        app.events.subscribe(JobEnqueued, self._on_enqueued)
        app.events.subscribe(JobEnded, self._on_ended)

    @property
    def elapsed(self) -> float:
        """Seconds since it was created."""
        return self._clock.monotonic() - self._started

    @property
    def total(self) -> TaskTally:
        total = TaskTally()
        for task in self.tasks.values():
            total += task
        return total

    def rate(self) -> float:
        """Jobs completed per second, over the last RATE_SECONDS whole seconds."""
        now = int(self.elapsed)
        seconds = range(max(0, now - RATE_SECONDS), now)
        return sum(self._per_second[second] for second in seconds) / len(seconds) if seconds else 0.0

    def _on_enqueued(self, event: JobEnqueued) -> None:
        task = self.tasks[event.task]
        if event.status == "new":
            task.enqueued += 1
        else:
            task.duplicates += 1

    def _on_ended(self, event: JobEnded) -> None:
        job, outcome = event.job, event.outcome
        task = self.tasks[job.task]
        started = job.started_at or outcome.finished_at
        task.runs += 1
        task.waited += max(0.0, (started - job.run_at).total_seconds())
        task.ran += (outcome.finished_at - started).total_seconds()
        if outcome.state is State.COMPLETED:
            task.completed += 1
            self._per_second[int(self.elapsed)] += 1
        if outcome.failure is not None:
            task.retried += outcome.state is State.PENDING
            task.dead += outcome.state is State.DEAD
