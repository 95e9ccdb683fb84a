"""FeedEvent: one event of the live feed, and the filter of readers. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from ..errors import BadInput
from ..ids import JobId, WorkerId
from ..records.job import SHOWN, Shown
from ..records.run import Failure, LogLine, Progress
from ..schedule.record import Tick
from ..suggest import did_you_mean

# Tells readers that events were not published, because too many waited.
DROPPED = "dropped"
# Tells readers to reload everything, because events may be missing.
RESET = "reset"
# These names are part of the API.
TYPES = (
    "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
    "job.released", "job.suspended", "job.expired", "job.lost", "job.changed", "job.progress", "job.log", "job.output",
    "job.pruned",
    "schedule.fired", "schedule.passed", "schedule.paused", "schedule.changed",
    "queue.paused", "queue.resumed",
    "worker.started", "worker.stopping", "worker.stopped", "worker.changed",
    "leader.changed", DROPPED, RESET,
)  # fmt: skip
# Names that select several types and are not a prefix of them.
_TYPE_GROUPS = {"job.failed": ("job.retrying", "job.dead")}


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a job that feed events show."""

    id: JobId
    task: str
    queue: str
    state: Shown | None = None
    """The shown state after the event; None if it did not change."""
    attempt: int = 0
    run_at: datetime | None = None
    worker: WorkerId | None = None
    schedule: str | None = None
    flow: JobId | None = None
    """The flow that the job is a step of."""


class LeaderChange(Struct, frozen=True):
    """A term of leadership that began or ended."""

    name: str
    holder: str
    term: int
    leading: bool


class FeedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of the live feed. Its type determines which fields are set."""

    type: str
    at: datetime
    job: Summary | None = None
    status: str | None = None
    """The result of an enqueue: new, duplicate, replaced or debounced."""
    ending: str | None = None
    """How the run ended, as in its execution."""
    outcome: str | None = None
    """`partial` if the run completed and some of its items failed; else omitted."""
    duration: float | None = None
    """Duration of the run in seconds."""
    error: Failure | None = None
    progress: Progress | None = None
    line: LogLine | None = None
    chunk: int | None = None
    """The number of the last chunk of output."""
    left_out: int = 0
    """Number of lines before this one that the feed leaves out."""
    action: str | None = None
    ids: tuple[JobId, ...] = ()
    schedule: str | None = None
    schedules: tuple[str, ...] = ()
    tick: Tick | None = None
    queue: str | None = None
    worker: WorkerId | None = None
    workers: tuple[WorkerId, ...] = ()
    running: int | None = None
    grace: float | None = None
    leader: LeaderChange | None = None
    count: int | None = None
    reason: str | None = None


class FeedFilter(Struct, frozen=True, kw_only=True):
    """Selects feed events: all conditions must hold, None means any. `dropped` and `reset` reach every reader."""

    types: tuple[str, ...] | None = None
    """Types, or their prefixes up to a dot."""
    jobs: tuple[JobId, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    schedules: tuple[str, ...] | None = None
    states: tuple[Shown, ...] | None = None
    flows: tuple[JobId, ...] | None = None
    """Flows: their own jobs, and those of their steps."""

    def matches(self, event: FeedEvent) -> bool:
        """Whether the reader gets this event."""
        if event.type in (DROPPED, RESET):
            return True
        job = event.job or _NO_JOB
        return (
            (self.types is None or any(_is_type(event.type, wanted) for wanted in self.types))
            and _matches_any(self.jobs, job.id, event.ids)
            and _matches_any(self.queues, event.queue or job.queue)
            and _matches_any(self.tasks, job.task)
            and _matches_any(self.schedules, event.schedule or job.schedule, event.schedules)
            and _matches_any(self.states, job.state)
            and _matches_any(self.flows, job.flow, (job.id, *event.ids))
        )


_NO_JOB = Summary(id="", task="", queue="")


def feed_filter(**names: Sequence[str] | None) -> FeedFilter:
    """The filter of these lists. Raises BadInput for a type or state that no event can have."""
    for name, given in names.items():
        if isinstance(given, str):
            raise BadInput(f"{name} takes a list, got {given!r:.80}")
    for wanted in names.get("types") or ():
        if wanted not in _TYPE_GROUPS and not any(_is_type(type, wanted) for type in TYPES):
            raise BadInput(f"there is no event type {wanted!r}; {did_you_mean(wanted, [*TYPES, *_TYPE_GROUPS])}")
    for state in names.get("states") or ():
        if state not in SHOWN:
            raise BadInput(f"unknown state {state!r}; {did_you_mean(state, SHOWN)}")
    return msgspec.convert({name: tuple(given) for name, given in names.items() if given}, FeedFilter)


def _is_type(type: str, wanted: str) -> bool:
    return type == wanted or type.startswith(f"{wanted}.") or type in _TYPE_GROUPS.get(wanted, ())


def _matches_any(wanted: Sequence[str] | None, one: str | None, more: Sequence[str] = ()) -> bool:
    return wanted is None or one in wanted or any(name in wanted for name in more)


_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(FeedEvent)


def encode(event: FeedEvent) -> str:
    return _encoder.encode(event).decode()


def decode(text: str) -> FeedEvent | None:
    """Decodes a feed event; None if it cannot be decoded, e.g. because another release wrote it."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
