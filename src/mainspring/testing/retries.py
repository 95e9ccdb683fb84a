"""Retries as they were and as they should be: a tracker of attempts, and the table of a backoff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from ..events import JobEnded
from ..ids import JobId
from ..records.job import State
from ..records.run import Ending
from ..retry import Backoff

if TYPE_CHECKING:
    from ..app import Mainspring

Curve = Backoff | Callable[[int], float]
_FAILED = (Ending.FAILED, Ending.TIMEOUT)
# Stores keep whole microseconds.
_EXACT = 2e-6


class Wait(Struct, frozen=True):
    """The wait before one retry, in seconds: jitter leaves it between `least` and `most`."""

    retry: int
    least: float
    most: float
    total_least: float
    """From the first failure to this retry, if every wait is as short as it may be."""
    total_most: float


def backoff_table(backoff: Curve, retries: int) -> list[Wait]:
    """The waits before the first so many retries, and what they add up to."""
    table: list[Wait] = []
    least = most = 0.0
    for n in range(1, retries + 1):
        full = backoff.full_delay(n) if isinstance(backoff, Backoff) else float(backoff(n))
        shortest = full * (1 - backoff.jitter) if isinstance(backoff, Backoff) else full
        least, most = least + shortest, most + full
        table.append(Wait(n, shortest, full, least, most))
    return table


class Attempt(Struct, frozen=True):
    """One run of a job that ended and was stored."""

    number: int
    """Which attempt it was, crashes not counted: it is followed by retry `number`."""
    started_at: datetime
    finished_at: datetime
    ending: Ending
    again_at: datetime | None
    """When the job is due again, if it is."""


class RetryTracker:
    """Every run of every job of an app; subscribed on creation."""

    def __init__(self, app: Mainspring) -> None:
        self._attempts: dict[JobId, list[Attempt]] = defaultdict(list)
        self._states: dict[JobId, State] = {}
        app.events.subscribe(JobEnded, self._note)

    def _note(self, event: JobEnded) -> None:
        job, outcome = event.job, event.outcome
        number = job.attempt - job.crashes
        started_at = job.started_at or outcome.finished_at
        attempt = Attempt(number, started_at, outcome.finished_at, outcome.ending, outcome.run_at)
        self._attempts[job.id].append(attempt)
        self._states[job.id] = outcome.state

    def attempts(self, job: JobId) -> list[Attempt]:
        return list(self._attempts.get(job, ()))

    def delays(self, job: JobId) -> list[float]:
        """Seconds between the end of each failed attempt and the instant its retry was due."""
        return [delay for _, delay in self._delays(job)]

    def outcome(self, job: JobId) -> State | None:
        """What the last run made of the job; None: none has ended."""
        return self._states.get(job)

    def assert_follows(self, backoff: Curve, *, job: JobId | None = None) -> None:
        """Every retry (of one job, or of all) was due as the backoff says, and none ran before that.

        Also fails if there was no retry: then nothing was shown.
        """
        checked = 0
        for id in [job] if job is not None else list(self._attempts):
            for number, delay in self._delays(id):
                wanted = backoff.delay(number, seed=id) if isinstance(backoff, Backoff) else backoff(number)
                if abs(delay - wanted) > _EXACT:
                    raise AssertionError(f"retry {number} of job {id} was due after {delay:g} s, not {wanted:g} s")
                checked += 1
            self._check_starts(id)
        if not checked:
            raise AssertionError(f"no retry{'' if job is None else f' of job {job}'} was seen")

    def _delays(self, job: JobId) -> list[tuple[int, float]]:
        return [
            (attempt.number, (attempt.again_at - attempt.finished_at).total_seconds())
            for attempt in self.attempts(job)
            if attempt.ending in _FAILED and attempt.again_at is not None
        ]

    def _check_starts(self, job: JobId) -> None:
        attempts = self.attempts(job)
        for before, after in pairwise(attempts):
            if before.again_at is not None and after.started_at < before.again_at:
                early = (before.again_at - after.started_at).total_seconds()
                raise AssertionError(f"attempt {after.number} of job {job} ran {early:g} s before it was due")
