"""A tracker of attempts and retries, and the table of delays that a backoff gives."""

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
# Stores round instants to microseconds.
_TOLERANCE_SECONDS = 2e-6


class Wait(Struct, frozen=True):
    """The delay before one retry, in seconds; with jitter it is between `least` and `most`."""

    retry: int
    least: float
    most: float
    total_least: float
    """The sum of the least delays up to this retry."""
    total_most: float


def backoff_table(backoff: Curve, retries: int) -> list[Wait]:
    """The delay before each of the first `retries` retries, and the running totals."""
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
    """The number of the attempt, crashes not counted. If it fails, retry `number` follows."""
    started_at: datetime
    finished_at: datetime
    ending: Ending
    again_at: datetime | None
    """When the job is due again; None if it has ended."""


class RetryTracker:
    """Records every run of an app's jobs from its creation on."""

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
        """The state of the job after its last run; None if no run has ended."""
        return self._states.get(job)

    def assert_follows(self, backoff: Curve, *, job: JobId | None = None) -> None:
        """Asserts that each retry, of one job or of all, was due after the backoff's delay and did not run earlier.

        Raises AssertionError also if there was no retry: then nothing was tested.
        """
        checked = 0
        for id in [job] if job is not None else list(self._attempts):
            for number, delay in self._delays(id):
                wanted = backoff.delay(number, seed=id) if isinstance(backoff, Backoff) else backoff(number)
                if abs(delay - wanted) > _TOLERANCE_SECONDS:
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
