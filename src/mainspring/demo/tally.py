"""What the app's own events add up to."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from msgspec import Struct

from ..app import Mainspring
from ..events import JobEnded, JobEnqueued, StoreTrouble
from ..records.job import Job, State

REMEMBERED = 50
WINDOW = 5


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
    failure: str = ""

    def __iadd__(self, other: TaskTally) -> TaskTally:
        for name in ("enqueued", "duplicates", "completed", "retried", "dead", "runs", "waited", "ran"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


class DemoTally:
    """Counts from the moment it is made."""

    def __init__(self, app: Mainspring) -> None:
        self._clock = app.clock
        self._began = app.clock.monotonic()
        self.tasks: dict[str, TaskTally] = defaultdict(TaskTally)
        self.completed: deque[tuple[Job, float]] = deque(maxlen=REMEMBERED)
        """The last ones and the seconds they took, newest first."""
        self.per_second: Counter[int] = Counter()
        self.trouble = ""
        """What the store last failed at, until a run can be settled again."""
        app.events.subscribe(JobEnqueued, self._on_enqueued)
        app.events.subscribe(JobEnded, self._on_ended)
        app.events.subscribe(StoreTrouble, self._on_trouble)

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def total(self) -> TaskTally:
        total = TaskTally()
        for task in self.tasks.values():
            total += task
        return total

    def rate(self) -> float:
        """Jobs completed a second, over the last whole seconds."""
        now = int(self.elapsed)
        seconds = range(max(0, now - WINDOW), now)
        return sum(self.per_second[second] for second in seconds) / len(seconds) if seconds else 0.0

    def history(self, seconds: int) -> list[int]:
        """Jobs completed in each of the last whole seconds, oldest first."""
        now = int(self.elapsed)
        return [self.per_second[second] for second in range(max(0, now - seconds), now)]

    def _on_enqueued(self, event: JobEnqueued) -> None:
        task = self.tasks[event.task]
        if event.status == "new":
            task.enqueued += 1
        else:
            task.duplicates += 1

    def _on_ended(self, event: JobEnded) -> None:
        self.trouble = ""
        job, outcome = event.job, event.outcome
        task = self.tasks[job.task]
        started = job.started_at or outcome.finished_at
        took = (outcome.finished_at - started).total_seconds()
        task.runs += 1
        task.waited += max(0.0, (started - job.run_at).total_seconds())
        task.ran += took
        if outcome.state is State.COMPLETED:
            task.completed += 1
            self.per_second[int(self.elapsed)] += 1
            self.completed.appendleft((job, took))
        if outcome.failure is not None:
            task.retried += outcome.state is State.PENDING
            task.dead += outcome.state is State.DEAD
            task.failure = f"{outcome.failure.type}: {outcome.failure.message}"

    def _on_trouble(self, event: StoreTrouble) -> None:
        self.trouble = f"store trouble while {event.doing}: {event.error}"
