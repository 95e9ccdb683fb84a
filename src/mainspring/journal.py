"""Log lines, made from events."""

from __future__ import annotations

import logging

from .events import (
    Bus,
    Event,
    JobEnded,
    JobFailed,
    JobLost,
    JobStarted,
    LeaderChanged,
    SlotLeaked,
    StoreTrouble,
    WorkerStarted,
    WorkerStopped,
)
from .job import State

_logger = logging.getLogger("mainspring")


def keep_journal(bus: Bus, *, debug: bool) -> None:
    """Failures are warnings, dead jobs are errors, the ordinary course of things is debug."""
    bus.subscribe(JobFailed, _ended)
    bus.subscribe(JobLost, _lost)
    bus.subscribe(SlotLeaked, _leaked)
    bus.subscribe(StoreTrouble, _trouble)
    bus.subscribe(LeaderChanged, _changed)
    bus.subscribe(WorkerStarted, lambda event: _logger.debug("worker %s started", event.worker))
    bus.subscribe(WorkerStopped, lambda event: _logger.debug("worker %s stopped", event.worker))
    # A line a start costs a fast worker more than its jobs: asked for when the app is made, or not at all.
    if debug or _logger.isEnabledFor(logging.DEBUG):
        bus.subscribe(JobStarted, _started)
        bus.subscribe(JobEnded, _went_well)


def _started(event: JobStarted) -> None:
    job = event.job
    _logger.debug("started %s %s, attempt %d", job.task, job.id, job.attempt, extra=_extra(event))


def _ended(event: JobEnded) -> None:
    job, outcome = event.job, event.outcome
    if outcome.state is State.DEAD:
        level, what = logging.ERROR, "dead"
    elif outcome.failure is not None:
        level, what = logging.WARNING, str(outcome.ending)
    else:
        level, what = logging.DEBUG, str(outcome.ending)
    if not _logger.isEnabledFor(level):
        return
    reason = f": {outcome.failure.type}: {outcome.failure.message}" if outcome.failure else ""
    if outcome.state is State.PENDING and outcome.run_at is not None:
        reason += f"; again in {(outcome.run_at - outcome.finished_at).total_seconds():.3g} s"
    _logger.log(level, "%s %s %s, attempt %d%s", what, job.task, job.id, job.attempt, reason, extra=_extra(event))


def _went_well(event: JobEnded) -> None:
    if event.outcome.failure is None:
        _ended(event)


def _lost(event: JobLost) -> None:
    job = event.job
    text = "lease lost on %s %s, attempt %d: another worker has it or will; this run counts for nothing"
    _logger.warning(text, job.task, job.id, job.attempt, extra=_extra(event))


def _leaked(event: SlotLeaked) -> None:
    job = event.job
    text = "leaked slot: %s %s ignores its interruption and goes on here:\n%s"
    _logger.error(text, job.task, job.id, event.stack, extra=_extra(event))


def _trouble(event: StoreTrouble) -> None:
    _logger.warning("store trouble while %s: %s; again in %.2g s", event.doing, event.error, event.again)


def _changed(event: LeaderChanged) -> None:
    verb = "leads" if event.leading else "no longer leads"
    _logger.info("%s %s %r, term %d", event.holder, verb, event.name, event.term)


def _extra(event: Event) -> dict[str, object]:
    job = getattr(event, "job", None)
    return {} if job is None else {"job_id": job.id, "task": job.task, "attempt": job.attempt}
