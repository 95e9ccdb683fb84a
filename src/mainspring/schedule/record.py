"""Records of schedules: the spec, the stored schedule, its ticks, and the firing that changes it. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from ..clock import micros
from ..ids import JobId
from ..records.job import NewJob, State, UnreadableRecord
from ..retry import Backoff
from ..trigger import AnyTrigger, Every, Timetable, Window
from ..trigger.bounds import MAX_DEPENDENCIES, MAX_EXCLUDED_DATES, check_count

Overlap = Literal["skip", "queue", "allow", "cancel"]
OVERLAPS: tuple[Overlap, ...] = ("skip", "queue", "allow", "cancel")
CatchUp = Literal["latest", "skip", "all"]
CATCH_UPS: tuple[CatchUp, ...] = ("latest", "skip", "all")
Owner = Literal["code", "user"]
Status = Literal["active", "paused", "ended"]

# Reason of a tick that was fired by hand.
BY_HAND = "by_hand"
# Reason of a tick that a backfill fired.
BACKFILL = "backfill"
# Prefix of the reason of a tick whose input function raised; the error follows.
INPUT_ERROR = "input: "
# Length of the error in such a reason.
MAX_REASON_CHARACTERS = 200
# Ticks that the store keeps of each schedule.
MAX_KEPT_TICKS = 1000


class Spec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of a schedule: when it ticks, which job it makes, and its policies."""

    trigger: AnyTrigger
    task: str
    payload: str = "{}"
    computed: bool = False
    """A function computes the arguments when a tick fires; only workers that have it can fire the schedule."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that encoded the payload; None if unknown."""
    queue: str = "default"
    priority: int = 0
    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | None = None
    expires: float | None = None
    """Seconds after which a job that has not started expires."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    catch_up_window: float = 86_400.0
    grace: float = 60.0
    jitter: float = 0.0
    window: Window | None = None
    exclude: tuple[date, ...] = ()
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    run_on_start: bool = False
    after: Literal["start", "finish"] = "start"
    """Whether an interval is measured from the start or the finish of a run."""
    pause_after_failures: int | None = None
    depends_on: tuple[str, ...] = ()
    adapt: float | None = None
    """Longest interval, in seconds, that it may grow to while runs return the same; None: it does not grow."""
    spread: bool = False
    """The phase of its interval is chosen where the fewest other schedules tick."""

    def __post_init__(self) -> None:
        # Checked on decoding too: a stored record of an earlier release that breaks a limit is set aside.
        check_count("excluded dates", self.exclude, MAX_EXCLUDED_DATES, "leave out those that are past")
        check_count("dependencies", self.depends_on, MAX_DEPENDENCIES, "let one schedule stand for several")

    @property
    def exclusive(self) -> bool:
        """Whether an unfinished run prevents the next one from starting."""
        return self.overlap != "allow" or self.after == "finish"


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored schedule. Every change increments its revision."""

    name: str
    spec: Spec
    owner: Owner = "user"
    revision: int = 1
    created_at: datetime
    updated_at: datetime
    declared: str = ""
    """Digest of the spec last declared in code; if it is equal, a new declaration changes nothing."""
    anchor_at: datetime
    """An instant on the grid of an interval."""
    next_run_at: datetime | None = None
    """The next tick; None if there is none, or if the end of a run decides it."""
    due_at: datetime | None = None
    """When a worker has to look at it; None if no time is set."""
    held_at: datetime | None = None
    """A tick that waits: for a dependency, or for unfinished runs."""
    waits_on: str | None = None
    """The schedule whose success the held tick waits for; None: its own runs."""
    active: tuple[JobId, ...] = ()
    """Its unfinished jobs; only the newest hundred if they may overlap."""
    unlisted: int = 0
    """Number of unfinished jobs that `active` leaves out."""
    paused_at: datetime | None = None
    note: str = ""
    """Why it is paused."""
    reached_at: datetime | None = None
    """Every tick up to this instant is fired, skipped or missed."""
    last_run_at: datetime | None = None
    """The newest tick that was fired."""
    last_fired_at: datetime | None = None
    last_job_id: JobId | None = None
    last_outcome: State | None = None
    last_finished_at: datetime | None = None
    succeeded_at: datetime | None = None
    answered: Mapping[str, datetime] = {}
    """By dependency, the success that its last run followed."""
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    completed: int = 0
    failed: int = 0
    failures: int = 0
    """Consecutive failures."""
    ticks: int = 0
    """The number of the newest recorded tick."""
    stretch: int = 1
    """How many intervals lie between two ticks; more than 1 while runs return the same."""
    digest: str = ""
    """Digest of the last run's result."""
    moved_at: datetime | None = None
    """When its phase was last moved to spread the load."""

    @property
    def interval(self) -> Every | None:
        """Its present interval, grown or not; None if its trigger is not an interval."""
        trigger = self.spec.trigger
        if not isinstance(trigger, Every) or self.stretch == 1:
            return trigger if isinstance(trigger, Every) else None
        return Every(seconds=trigger.seconds * self.stretch, tz=trigger.tz)

    def explain(self) -> str:
        """Describes in words when it runs."""
        rule, now = self.spec.trigger.explain(), self.interval
        return rule if now is None or self.stretch == 1 else f"{rule}, now {now.explain()} as it returns the same"

    @property
    def timetable(self) -> Timetable:
        """Its ticks. The grid of a grown interval contains the anchor, which is a tick of the original interval."""
        spec = self.spec
        return Timetable(
            trigger=self.interval or spec.trigger,
            name=self.name,
            anchor_at=self.anchor_at,
            window=spec.window,
            start_at=spec.start_at,
            end_at=spec.end_at,
            exclude=spec.exclude,
            jitter=spec.jitter,
        )

    @property
    def status(self) -> Status:
        if self.paused_at is not None:
            return "paused"
        open = self.next_run_at is not None or self.held_at is not None
        return "active" if open or (self.spec.after == "finish" and self.active) else "ended"

    @property
    def tripped(self) -> bool:
        """Whether it is paused by its own failures, not by hand."""
        limit = self.spec.pause_after_failures or 1
        return self.paused_at is not None and self.paused_at == self.last_finished_at and self.failures >= limit


class Tick(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to one tick, or to several consecutive ticks alike."""

    n: int
    """Counts from 1 in each schedule."""
    at: datetime
    """The instant of the tick; the first if there are several."""
    seen_at: datetime
    """When it was fired, skipped or missed."""
    what: Literal["fired", "skipped", "missed"]
    reason: str = ""
    job_id: JobId | None = None
    count: int = 1
    """Number of ticks; a lower bound when more than 1000."""
    last_at: datetime | None = None
    """The last instant if there are several."""


class Firing(Struct, frozen=True, kw_only=True):
    """A schedule's next revision, and what the store writes with it atomically."""

    schedule: Schedule
    """Written only if the stored revision is one less; revision 1 only if none is stored."""
    jobs: tuple[NewJob, ...] = ()
    ticks: tuple[Tick, ...] = ()
    cancel: tuple[JobId, ...] = ()
    """Jobs to cancel."""
    reads: tuple[tuple[str, int], ...] = ()
    """Other schedules that the plan depends on, with the revisions they must still have."""


class Fired(Struct, frozen=True):
    """The store's answer to one Firing."""

    stands: bool
    """Whether it was written."""
    held: tuple[str, ...] = ()
    """Keys of its jobs that other jobs hold, which is why it was not written."""
    error: str = ""
    """Why the store does not take its jobs; it does not take them at the next try either."""


class LeaderTerm(Struct, frozen=True):
    """A stored term of leadership."""

    name: str
    holder: str | None
    """The leader; None if there is none."""
    term: int
    until: datetime


class Due(Struct, frozen=True):
    """Schedules that are due, and when to ask again."""

    schedules: list[Schedule]
    next_at: datetime | None = None
    unreadable: list[UnreadableRecord] = []
    """Schedules that this call set aside because their records cannot be decoded."""


def tick_key(name: str, tick: datetime) -> str:
    """The idempotency key of a tick's job: at most one unfinished or completed job has it."""
    return f"schedule:{name}:{micros(tick) * 1000}"
