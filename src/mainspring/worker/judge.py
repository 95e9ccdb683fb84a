"""Decides what becomes of a job after a run, whatever raises while that is decided."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from ..errors import MainspringError
from ..records.job import Job, State
from ..records.outcome import Outcome, Policy, RunEnd, clean, decide, failure_of
from ..records.run import Ending, Execution, Failure, RunNotes
from ..store import Store
from ..survived_errors import count_error

_logger = logging.getLogger("mainspring")
_DEAD = State.DEAD
# Runs in a row that may be given back before they ended, by workers that stopped or lost the answer to their claim,
# and cost the job nothing. From then on each uses up a retry, so that the job comes to an end.
MAX_RELEASES = 100
MESSAGE_CHARACTERS = 4096


class ReleasedTooOften(MainspringError):
    """Workers have given the job back again and again before its run ended."""


class Judge:
    """For one worker: every outcome it settles comes from here, and nothing that raises here leaves a run unsettled."""

    def __init__(
        self,
        policy: Callable[[Job], Policy],
        died: Callable[[Job, Outcome], Outcome],
        told: Callable[[Job, Outcome], Outcome],
    ) -> None:
        """`died` adds to an outcome what a job's death brings about, `told` what others are to be told of an end."""
        self._policy = policy
        self._died = died
        self._told = told

    def outcome(
        self, job: Job, ended: RunEnd, now: datetime, account: Callable[[], RunNotes | None] = lambda: None
    ) -> Outcome:
        """What the run's end means, with everything that follows from it; dead if that cannot be decided."""
        try:
            outcome = decide(job, ended, now=now, policy=self._policy(job), account=account())
        except BaseException as error:  # of any kind: code of the task's exceptions and policy runs there
            outcome = _undecided(job, ended, error, now)
        return self.complete(job, outcome)

    def complete(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome with all that follows from it; what raises meanwhile is left out."""
        if outcome.state is _DEAD:
            outcome = _with(self._died, job, outcome, "what its death brings about")
        return _with(self._told, job, outcome, "what webhooks are told")

    async def bounded(self, store: Store, job: Job, outcome: Outcome) -> Outcome:
        """The outcome; of a job that was given back too often in a row, one that uses up a retry instead."""
        # Fewer runs were refunded than would be too many, be it for a release or a snooze: as good as always.
        if (
            outcome.ending is not Ending.RELEASED
            or outcome.failure is not None
            or job.runs - job.attempt < MAX_RELEASES
        ):
            return outcome
        releases = released_in_a_row(one for one in await store.executions(job.id) if one.lease != job.lease)
        if releases < MAX_RELEASES:
            return outcome
        text = f"workers gave it back {releases + 1} times in a row before its run had ended: see why they stop"
        return self.outcome(job, ReleasedTooOften(text), outcome.finished_at)


def released_in_a_row(executions: Iterable[Execution]) -> int:
    """How many of the last runs were given back, after the newest that was not."""
    found = 0
    for one in executions:
        found = found + 1 if _given_back(one) else 0
    return found


def _given_back(one: Execution) -> bool:
    if one.failure is not None:  # a release for version skew has one, and a bound of its own
        return one.failure.type == ReleasedTooOften.__name__
    return one.ending is Ending.RELEASED


def _undecided(job: Job, ended: RunEnd, error: BaseException, now: datetime) -> Outcome:
    """Dead, with the reason: to run it again would only bring the same about."""
    told, raised = _described(ended), failure_of(error)
    _logger.error("job %s (%s) is dead: %s raised while the end of its run was judged (%s)\n%s",
                  job.id, job.task, raised.type, told, raised.stack)  # fmt: skip
    count_error("judge", error)
    text = f"the run ended with {told}, and judging that raised {raised.type}: {raised.message}"
    return Outcome(
        id=job.id, lease=job.lease or "", state=_DEAD, ending=Ending.FAILED, finished_at=now,
        failure=Failure("NotJudged", clean(text, MESSAGE_CHARACTERS), raised.stack), task=job.task, queue=job.queue,
        started_at=job.started_at, due_at=job.due_at, schedule=job.counted_schedule,
    )  # fmt: skip


def _described(ended: RunEnd) -> str:
    if issubclass(type(ended), BaseException):  # not isinstance(), which asks the object for its class
        failure = failure_of(ended, stack=False)  # type: ignore[arg-type]
        return f"{failure.type}: {failure.message}"[:1000]
    return type(ended).__name__


def _with(add: Callable[[Job, Outcome], Outcome], job: Job, outcome: Outcome, what: str) -> Outcome:
    """The outcome with what is added to it; without, if that raises: it never keeps a job from ending."""
    try:
        return add(job, outcome)
    except BaseException as error:
        _logger.exception("job %s ended as %s, and %s could not be added", job.id, outcome.state, what)
        count_error("judge", error)
        return outcome
