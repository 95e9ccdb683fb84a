"""Event log: one log line for each event of interest."""

from __future__ import annotations

import logging

from ..events import (
    Bus,
    Event,
    JobEnded,
    JobFailed,
    JobLost,
    JobPartial,
    JobPostponed,
    JobResultLost,
    JobStarted,
    LeaderChanged,
    SchedulePaused,
    SlotLeaked,
    StoreTrouble,
    TickFired,
    TickPassed,
    WorkerStarted,
    WorkerStopped,
)
from ..ids import JobId
from ..records.job import State
from ..schedule.record import Tick
from ..task.context import run_fields

_logger = logging.getLogger("mainspring")
# Jobs remembered so that their postponement is logged once.
MAX_POSTPONED = 10_000
# Why a tick made no job, and its log level: what was probably not intended is a warning.
_REASONS: dict[str, tuple[int, str]] = {
    "overlap": (logging.WARNING, "the run before is still going (overlap)"),
    "catch_up": (logging.WARNING, "no worker was there in time (catch_up)"),
    "too_old": (logging.WARNING, "no worker was there in time, and catch_up_window is over"),
    "dependency": (logging.WARNING, "what it depends on had not succeeded when the next tick came (depends_on)"),
    "made_already": (logging.INFO, "its job was there already"),
    "paused": (logging.INFO, "the schedule was paused"),
    "changed": (logging.INFO, "the schedule was changed"),
    "window": (logging.DEBUG, "outside its window"),
    "excluded": (logging.DEBUG, "on an excluded date"),
}


def log_events(bus: Bus, *, debug: bool) -> None:
    """Subscribes the log to events: failures are warnings, dead jobs are errors, normal runs are debug."""
    bus.subscribe(JobFailed, _ended)
    bus.subscribe(JobPartial, _ended)
    bus.subscribe(JobResultLost, _ended)
    bus.subscribe(JobLost, _lost)
    bus.subscribe(JobPostponed, _Postponed())
    bus.subscribe(SlotLeaked, _leaked)
    bus.subscribe(StoreTrouble, _trouble)
    bus.subscribe(LeaderChanged, _changed)
    bus.subscribe(TickFired, _fired)
    bus.subscribe(TickPassed, _passed)
    bus.subscribe(SchedulePaused, _paused)
    bus.subscribe(WorkerStarted, lambda event: _logger.debug("worker %s started", event.worker))
    bus.subscribe(WorkerStopped, lambda event: _logger.debug("worker %s stopped", event.worker))
    # A line per start costs a fast worker more than its jobs: decided once, when the app is created.
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
    elif outcome.partial:
        level, what = logging.INFO, "partial"
    elif outcome.failure is not None and outcome.step_end != "skipped":
        level, what = logging.WARNING, str(outcome.ending)
    else:
        level, what = logging.DEBUG, str(outcome.ending)
    if not _logger.isEnabledFor(level):
        return
    reason = f": {outcome.failure.type}: {outcome.failure.message}" if outcome.failure else ""
    if outcome.state is State.PENDING and outcome.run_at is not None:
        reason += f"; again in {(outcome.run_at - outcome.finished_at).total_seconds():.3g} s"
    _logger.log(level, "%s %s %s, attempt %d%s", what, job.task, job.id, job.attempt, reason, extra=_extra(event))


class _Postponed:
    """Warns once about each job that waits for another version of its task; later attempts are debug."""

    def __init__(self) -> None:
        self._seen: dict[JobId, None] = {}

    def __call__(self, event: JobPostponed) -> None:
        id, outcome = event.job.id, event.outcome
        known = id in self._seen
        self._seen[id] = None
        if len(self._seen) > MAX_POSTPONED:
            del self._seen[next(iter(self._seen))]
        text = "postponed %s %s: %s; the next try is at %s"
        failure = outcome.failure.message if outcome.failure else ""
        level = logging.DEBUG if known else logging.WARNING
        _logger.log(level, text, event.job.task, id, failure, f"{outcome.run_at:%H:%M:%S}Z", extra=_extra(event))


def _went_well(event: JobEnded) -> None:
    if event.outcome.failure is None or event.outcome.step_end == "skipped":
        _ended(event)


def _lost(event: JobLost) -> None:
    job = event.job
    text = (
        "lease lost on %s %s, attempt %d: another worker has taken it over or will; the result of this run is ignored"
    )
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


def _fired(event: TickFired) -> None:
    if _logger.isEnabledFor(logging.DEBUG):
        why = f" ({event.tick.reason})" if event.tick.reason else ""
        text = "schedule %r fired its tick of %s%s: job %s"
        _logger.debug(text, event.schedule, _when(event.tick), why, event.tick.job_id, extra=_tick_extra(event))


def _passed(event: TickPassed) -> None:
    tick = event.tick
    # Any other reason is the error of its input function.
    level, why = _REASONS.get(tick.reason, (logging.WARNING, tick.reason))
    if _logger.isEnabledFor(level):
        which = f"its tick of {_when(tick)}" if tick.count == 1 else f"{tick.count:,} ticks, {_when(tick)}"
        _logger.log(level, "schedule %r %s %s: %s", event.schedule, tick.what, which, why, extra=_tick_extra(event))


def _paused(event: SchedulePaused) -> None:
    text = "schedule %r is %s; it makes no more jobs until it is resumed"
    _logger.warning(text, event.schedule, event.note, extra={"schedule": event.schedule})


def _when(tick: Tick) -> str:
    """2030-01-01 09:00:00 UTC; for several ticks, the first and the last."""
    first, last = (at and f"{at.replace(microsecond=0, tzinfo=None)}" for at in (tick.at, tick.last_at))
    return f"{first} to {last} UTC" if last else f"{first} UTC"


def _tick_extra(event: TickFired | TickPassed) -> dict[str, object]:
    return {"schedule": event.schedule, "tick": event.tick.at.isoformat(), "job_id": event.tick.job_id}


def _extra(event: Event) -> dict[str, object]:
    job = getattr(event, "job", None)
    return {} if job is None else run_fields(job)
