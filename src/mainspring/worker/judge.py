"""Judge: decides what becomes of a job after a run, even if deciding raises."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..errors import MainspringError
from ..records.job import Job, State
from ..records.outcome import NO_REVISION, Done, Outcome, Policy, RunEnd, clean, decide, failure_of
from ..records.run import Ending, Execution, Failure
from ..store import Store
from ..survived_errors import count_error
from ..task.context import Context

if TYPE_CHECKING:
    from ..task.flow_failure import FlowEnd

_logger = logging.getLogger("mainspring")
_DEAD = State.DEAD
_CANCELLED = State.CANCELLED
# Consecutive releases of a job (by workers that stopped, or lost the reply to their claim) that cost it nothing. Each
# further one uses up a retry, so that the job comes to an end.
MAX_RELEASES = 100
MAX_MESSAGE_CHARACTERS = 4096


class ReleasedTooOften(MainspringError):
    """Workers have released the job again and again before its run ended."""


class Judge:
    """Makes every outcome that a worker settles. An error raised here never leaves a run unsettled."""

    def __init__(
        self,
        policy: Callable[[Job], Policy],
        after_death: Callable[[Job, Outcome, FlowEnd | None], Outcome],
        with_deliveries: Callable[[Job, Outcome], Outcome],
    ) -> None:
        """`after_death` adds the consequences of a job's death to an outcome, `with_deliveries` webhook deliveries."""
        self._policy = policy
        self._after_death = after_death
        self._with_deliveries = with_deliveries

    def outcome(
        self,
        job: Job,
        ended: RunEnd,
        now: datetime,
        ctx: Context | None = None,
    ) -> Outcome:
        """The outcome of the run with everything that follows from it; dead if it cannot be decided.

        `ctx` is the run's context, None if it did not begin.
        """
        flow_end = None if ctx is None else ctx.flow_end
        try:
            notes = None if ctx is None else ctx.account()
            # Hot: nearly all runs are done.
            resets = type(ended) is not Done and ctx is not None and ctx.has_checkpointed
            counted = replace(job, attempt=1, crashes=0) if resets else job
            outcome = decide(counted, ended, now=now, policy=self._policy(job), account=notes)
            if resets:
                outcome = replace(outcome, reset_attempts=True)
        except BaseException as error:  # of any kind: code of the task's exceptions and policy runs there
            outcome = _undecidable(job, ended, error, now)
        if flow_end is not None and outcome.state.final:
            # What is measured is the flow, not the run that concludes it.
            began = flow_end.began_at
            outcome = replace(outcome, concludes=flow_end.revision, started_at=began, due_at=began)
        elif outcome.state is _CANCELLED and ctx is not None and ctx.may_conclude:
            outcome = replace(outcome, concludes=NO_REVISION)
        return self.complete(job, outcome, flow_end)

    def complete(self, job: Job, outcome: Outcome, flow_end: FlowEnd | None = None) -> Outcome:
        """The outcome with everything that follows from it; additions that raise are left out."""
        if outcome.state is _DEAD:
            outcome = _add_or_log(
                lambda job, outcome: self._after_death(job, outcome, flow_end),
                job,
                outcome,
                "what follows from its death",
            )
        return _add_or_log(self._with_deliveries, job, outcome, "its webhook deliveries")

    async def limit_releases(self, store: Store, job: Job, outcome: Outcome) -> Outcome:
        """The outcome, or one that uses up a retry if the job was released too often in a row."""
        # Nearly always true: fewer runs were refunded (for a release or a snooze) than releases are allowed.
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
    """Number of consecutive releases at the end of the history."""
    found = 0
    for one in executions:
        found = found + 1 if _was_released(one) else 0
    return found


def _was_released(one: Execution) -> bool:
    if one.failure is not None:  # a release for version skew has one, and a limit of its own
        return one.failure.type == ReleasedTooOften.__name__
    return one.ending is Ending.RELEASED


def _undecidable(job: Job, ended: RunEnd, error: BaseException, now: datetime) -> Outcome:
    """A dead outcome with the reason: another run would only end in the same way."""
    end, raised = _describe(ended), failure_of(error)
    message = "job %s (%s) is dead: %s raised while the end of its run was judged (%s)\n%s"
    _logger.error(message, job.id, job.task, raised.type, end, raised.stack)
    count_error("judge", error)
    text = f"the run ended with {end}, and judging that raised {raised.type}: {raised.message}"
    return Outcome(
        id=job.id,
        lease=job.lease or "",
        state=_DEAD,
        ending=Ending.FAILED,
        finished_at=now,
        failure=Failure("NotJudged", clean(text, MAX_MESSAGE_CHARACTERS), raised.stack),
        task=job.task,
        queue=job.queue,
        started_at=job.started_at,
        due_at=job.due_at,
        schedule=job.counted_schedule,
    )


def _describe(ended: RunEnd) -> str:
    if issubclass(type(ended), BaseException):  # not isinstance(), which asks the object for its class
        failure = failure_of(ended, stack=False)  # type: ignore[arg-type]
        return f"{failure.type}: {failure.message}"[:1000]
    return type(ended).__name__


def _add_or_log(add: Callable[[Job, Outcome], Outcome], job: Job, outcome: Outcome, what: str) -> Outcome:
    """The outcome with the addition, or unchanged if adding raises: that must not keep a job from ending."""
    try:
        return add(job, outcome)
    except BaseException as error:
        _logger.exception("job %s ended as %s, and %s could not be added", job.id, outcome.state, what)
        count_error("judge", error)
        return outcome
