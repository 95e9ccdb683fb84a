"""Conversion of engine events to feed events, which have no payloads, results or secrets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..events import (
    Event,
    JobEnded,
    JobEnqueued,
    JobLost,
    JobReported,
    JobsChanged,
    JobsExpired,
    JobStarted,
    LeaderChanged,
    Pruned,
    QueuePaused,
    QueueResumed,
    SchedulePaused,
    SchedulesChanged,
    TickFired,
    TickPassed,
    WorkersOrdered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from ..mask import mask_text
from ..records.job import Job, Shown, State
from ..records.run import PARTIAL, Ending, Failure, LogLine
from .event import FeedEvent, LeaderChange, Summary

# Ids or names in one feed event; more are split over several events.
MAX_NAMES = 100
# Log lines of one report, the newest; the store has all of them.
MAX_LINES = 100
# Length of a text; longer ones are cut.
MAX_TEXT_CHARACTERS = 1000


def _enqueued(event: JobEnqueued) -> Iterable[FeedEvent]:
    state: Shown | None = None
    if event.status == "new":
        state = "scheduled" if event.run_at is not None and event.run_at > event.at else "pending"
    job = Summary(
        id=event.id, task=event.task, queue=event.queue, state=state, run_at=event.run_at, schedule=event.schedule
    )
    return (FeedEvent(type="job.enqueued", at=event.at, job=job, status=event.status),)


def _started(event: JobStarted) -> Iterable[FeedEvent]:
    return (FeedEvent(type="job.started", at=event.at, job=_summary(event.job, "running")),)


_TYPES: Mapping[State, tuple[str, Shown]] = {
    State.COMPLETED: ("job.completed", "completed"),
    State.DEAD: ("job.dead", "dead"),
    State.CANCELLED: ("job.cancelled", "cancelled"),
    State.WAITING: ("job.suspended", "waiting"),
}
_UNFINISHED_TYPES = {
    Ending.SNOOZED: "job.snoozed",
    Ending.SUSPENDED: "job.snoozed",
    Ending.RELEASED: "job.released",
}


def _ended(event: JobEnded) -> Iterable[FeedEvent]:
    job, outcome = event.job, event.outcome
    known = _TYPES.get(outcome.state)
    type, state = known or (_UNFINISHED_TYPES.get(outcome.ending, "job.retrying"), None)
    began, failure = job.started_at, outcome.failure
    summary = _summary(job, state)
    if state is None:
        attempt = (1 if outcome.reset_attempts else job.attempt) - outcome.refund
        again: Shown = "scheduled" if outcome.run_at is not None and outcome.run_at > event.at else "pending"
        summary = replace(summary, state="retrying" if attempt else again, attempt=attempt, run_at=outcome.run_at)
    feed_event = FeedEvent(
        type=type,
        at=event.at,
        job=summary,
        ending=outcome.ending.value,
        outcome=PARTIAL if outcome.partial else None,
        duration=None if began is None else round((outcome.finished_at - began).total_seconds(), 6),
        error=None if failure is None else Failure(failure.type, _text(failure.message)),
    )
    return (feed_event,)


def _lost(event: JobLost) -> Iterable[FeedEvent]:
    return (FeedEvent(type="job.lost", at=event.at, job=_summary(event.job, None)),)


def _reported(event: JobReported) -> Iterator[FeedEvent]:
    job, report = _summary(event.job, "running"), event.report
    lines = report.lines[-MAX_LINES:]
    for line in lines:
        left_out = len(report.lines) - len(lines) if line is lines[0] else 0
        shown = LogLine(line.run, line.n, line.at, line.level, _text(line.text))
        yield FeedEvent(type="job.log", at=line.at, job=job, line=shown, left_out=left_out)
    if report.chunks:
        last = report.chunks[-1]
        yield FeedEvent(type="job.output", at=last.at, job=job, chunk=last.n)
    if (progress := report.progress) is not None:
        progress = replace(progress, note=_text(progress.note))
        yield FeedEvent(type="job.progress", at=progress.at, job=job, progress=progress)


def _expired(event: JobsExpired) -> Iterator[FeedEvent]:
    return (FeedEvent(type="job.expired", at=event.at, ids=ids) for ids in _chunks(event.ids))


def _changed(event: JobsChanged) -> Iterator[FeedEvent]:
    action = event.action.value
    return (FeedEvent(type="job.changed", at=event.at, action=action, ids=ids) for ids in _chunks(event.ids))


def _pruned(event: Pruned) -> Iterable[FeedEvent]:
    return (FeedEvent(type="job.pruned", at=event.at, count=event.count),)


def _ticked(event: TickFired | TickPassed) -> Iterable[FeedEvent]:
    type = "schedule.fired" if isinstance(event, TickFired) else "schedule.passed"
    tick = replace(event.tick, reason=_text(event.tick.reason)) if event.tick.reason else event.tick
    return (FeedEvent(type=type, at=event.at, schedule=event.schedule, tick=tick),)


def _paused(event: SchedulePaused) -> Iterable[FeedEvent]:
    return (FeedEvent(type="schedule.paused", at=event.at, schedule=event.schedule, reason=_text(event.note)),)


def _schedules(event: SchedulesChanged) -> Iterator[FeedEvent]:
    return (
        FeedEvent(type="schedule.changed", at=event.at, action=event.action, schedules=names)
        for names in _chunks(event.names)
    )


def _queue(event: QueuePaused | QueueResumed) -> Iterable[FeedEvent]:
    type = "queue.paused" if isinstance(event, QueuePaused) else "queue.resumed"
    return (FeedEvent(type=type, at=event.at, queue=event.queue),)


def _worker(event: WorkerStarted | WorkerStopped) -> Iterable[FeedEvent]:
    type = "worker.started" if isinstance(event, WorkerStarted) else "worker.stopped"
    return (FeedEvent(type=type, at=event.at, worker=event.worker),)


def _stopping(event: WorkerStopping) -> Iterable[FeedEvent]:
    feed_event = FeedEvent(
        type="worker.stopping", at=event.at, worker=event.worker, running=event.running, grace=event.grace
    )
    return (feed_event,)


def _ordered(event: WorkersOrdered) -> Iterator[FeedEvent]:
    return (
        FeedEvent(type="worker.changed", at=event.at, action=event.action, workers=ids)
        for ids in _chunks(event.workers)
    )


def _led(event: LeaderChanged) -> Iterable[FeedEvent]:
    leader = LeaderChange(event.name, event.holder, event.term, event.leading)
    return (FeedEvent(type="leader.changed", at=event.at, leader=leader),)


# By event class, which includes its subclasses. Without JobsPruned: a subscriber to that slows retention down.
CONVERTERS: Mapping[type[Event], Callable[[Any], Iterable[FeedEvent]]] = {
    JobEnqueued: _enqueued,
    JobStarted: _started,
    JobEnded: _ended,
    JobLost: _lost,
    JobReported: _reported,
    JobsExpired: _expired,
    JobsChanged: _changed,
    Pruned: _pruned,
    TickFired: _ticked,
    TickPassed: _ticked,
    SchedulePaused: _paused,
    SchedulesChanged: _schedules,
    QueuePaused: _queue,
    QueueResumed: _queue,
    WorkerStarted: _worker,
    WorkerStopped: _worker,
    WorkerStopping: _stopping,
    WorkersOrdered: _ordered,
    LeaderChanged: _led,
}


def _summary(job: Job, state: Shown | None) -> Summary:
    return Summary(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=state,
        attempt=job.attempt,
        run_at=job.run_at,
        worker=job.worker,
        schedule=job.schedule,
        flow=None if job.step is None else job.step.flow,
    )


def _text(text: str) -> str:
    """Masks the text before cutting it: a cut may separate a secret from the name that gives it away."""
    text = mask_text(text)
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}…"


def _chunks(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The names, MAX_NAMES at a time."""
    return (tuple(names[n : n + MAX_NAMES]) for n in range(0, len(names), MAX_NAMES))
