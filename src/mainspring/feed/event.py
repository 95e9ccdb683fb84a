"""Notice: one event of the live feed, as it is published and read. No I/O, no clock."""

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

# The names are part of the API.
DROPPED, RESET = "dropped", "reset"
TYPES = (
    "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
    "job.released", "job.expired", "job.lost", "job.changed", "job.progress", "job.log", "job.pruned",
    "schedule.fired", "schedule.passed", "schedule.paused", "schedule.changed",
    "queue.paused", "queue.resumed",
    "worker.started", "worker.stopping", "worker.stopped", "worker.changed",
    "leader.changed", DROPPED, RESET,
)  # fmt: skip
# What one name asks for, where that is not a type or the beginning of some.
_TYPE_GROUPS = {"job.failed": ("job.retrying", "job.dead")}


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job, as far as a feed needs to know it."""

    id: JobId
    task: str
    queue: str
    state: Shown | None = None
    """As people see it after the event; None: it is as it was."""
    attempt: int = 0
    run_at: datetime | None = None
    worker: WorkerId | None = None
    schedule: str | None = None


class LeaderChange(Struct, frozen=True):
    name: str
    holder: str
    term: int
    leading: bool


class FeedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of the feed."""

    type: str
    at: datetime
    job: Summary | None = None
    status: str | None = None
    """What became of an enqueue: new, duplicate, replaced or debounced."""
    ending: str | None = None
    """How the run ended, as its execution tells."""
    outcome: str | None = None
    """`partial` where the run completed and some of its items failed; else left out."""
    duration: float | None = None
    """Seconds of the run."""
    error: Failure | None = None
    progress: Progress | None = None
    line: LogLine | None = None
    left_out: int = 0
    """Lines before this one that are not in the feed."""
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
    """Which notices: conjunctive. None means any. That some are missing is told to everybody."""

    types: tuple[str, ...] | None = None
    """Whole types, or how they begin up to a dot."""
    jobs: tuple[JobId, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    schedules: tuple[str, ...] | None = None
    states: tuple[Shown, ...] | None = None

    def met(self, told: FeedEvent) -> bool:
        if told.type in (DROPPED, RESET):
            return True
        job = told.job or _NO_JOB
        return (
            (self.types is None or any(_is_type(told.type, wanted) for wanted in self.types))
            and _matches_any(self.jobs, job.id, told.ids)
            and _matches_any(self.queues, told.queue or job.queue)
            and _matches_any(self.tasks, job.task)
            and _matches_any(self.schedules, told.schedule or job.schedule, told.schedules)
            and _matches_any(self.states, job.state)
        )


_NO_JOB = Summary(id="", task="", queue="")


def feed_filter(**names: Sequence[str] | None) -> FeedFilter:
    """The Wish of these lists; refuses by name what no notice can ever meet."""
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


def encode(notice: FeedEvent) -> str:
    return _encoder.encode(notice).decode()


def decode(text: str) -> FeedEvent | None:
    """The notice a text is; None: it is none, or one of a release that says other things."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
