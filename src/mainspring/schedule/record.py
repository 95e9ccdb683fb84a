"""Records: what a schedule is, what became of its ticks, and what is to be written about it. No I/O, no clock."""

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

# Why a tick was fired that its trigger had nothing to do with.
BY_HAND, BACKFILL = "by_hand", "backfill"
# Prefix of the reason of a tick whose input could not be made; the error follows, in at most REASON_LIMIT characters.
INPUT, REASON_LIMIT = "input: ", 200
# As many ticks of each schedule are remembered.
TICKS_KEPT = 1000


class Spec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody has said about a schedule: when, what, and by which policies."""

    trigger: AnyTrigger
    task: str
    payload: str = "{}"
    computed: bool = False
    """The input is made when a tick fires, by a function that only some workers have."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that made the payload; None: not known."""
    queue: str = "default"
    priority: int = 0
    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | None = None
    expires: float | None = None
    """Seconds after which a job that has not started is not worth starting."""
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
    """Where an interval is counted from."""
    pause_after_failures: int | None = None
    depends_on: tuple[str, ...] = ()
    adapt: float | None = None
    """The longest its interval may grow to, in seconds, while runs return the same; None: it does not."""
    spread: bool = False
    """Its interval is placed where the fewest others are."""

    def __post_init__(self) -> None:
        # Here, so that it holds for what a store has, too: such a record of an earlier release is set aside.
        check_count("excluded dates", self.exclude, MAX_EXCLUDED_DATES, "leave out those that are past")
        check_count("dependencies", self.depends_on, MAX_DEPENDENCIES, "let one schedule stand for several")

    @property
    def exclusive(self) -> bool:
        """Whether one run of it keeps the next from beginning."""
        return self.overlap != "allow" or self.after == "finish"


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as the store has it. Every change bumps its revision."""

    name: str
    spec: Spec
    owner: Owner = "user"
    revision: int = 1
    created_at: datetime
    updated_at: datetime
    declared: str = ""
    """What the code said last, as a digest: equal means that nothing is to be changed."""
    anchor_at: datetime
    """Through which an interval's grid is laid."""
    next_run_at: datetime | None = None
    """The next tick; None: there is none, or the run under way decides it."""
    due_at: datetime | None = None
    """When a worker is to look; None: not by itself."""
    held_at: datetime | None = None
    """A tick that is to be fired when nothing is in its way any more."""
    waits_on: str | None = None
    """The schedule on whose success the held tick waits; None: on its own runs."""
    active: tuple[JobId, ...] = ()
    """Its jobs that are not final; where they may overlap, the newest hundred of them."""
    unlisted: int = 0
    """How many more there are."""
    paused_at: datetime | None = None
    note: str = ""
    """Why it is paused."""
    reached_at: datetime | None = None
    """The fate of every tick up to here is settled."""
    last_run_at: datetime | None = None
    """The newest tick that was fired."""
    last_fired_at: datetime | None = None
    last_job_id: JobId | None = None
    last_outcome: State | None = None
    last_finished_at: datetime | None = None
    succeeded_at: datetime | None = None
    answered: Mapping[str, datetime] = {}
    """Of those it depends on, the success that its last run has answered."""
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    completed: int = 0
    failed: int = 0
    failures: int = 0
    """In a row."""
    ticks: int = 0
    """The number of the newest tick on record."""
    stretch: int = 1
    """How many of its intervals pass from tick to tick while runs return the same."""
    digest: str = ""
    """Of what the last run returned."""
    moved_at: datetime | None = None
    """When its phase was last moved to spread the load."""

    @property
    def interval(self) -> Every | None:
        """How often it runs at present, be it grown or not; None: its trigger is none of intervals."""
        trigger = self.spec.trigger
        if not isinstance(trigger, Every) or self.stretch == 1:
            return trigger if isinstance(trigger, Every) else None
        return Every(seconds=trigger.seconds * self.stretch, tz=trigger.tz)

    def explain(self) -> str:
        """When it runs, in words."""
        rule, now = self.spec.trigger.explain(), self.interval
        return rule if now is None or self.stretch == 1 else f"{rule}, now {now.explain()} as it returns the same"

    @property
    def timetable(self) -> Timetable:
        """Its ticks. A grown interval's grid goes through the anchor, which is a tick of the interval itself."""
        spec = self.spec
        return Timetable(
            trigger=self.interval or spec.trigger, name=self.name, anchor_at=self.anchor_at, window=spec.window,
            start_at=spec.start_at, end_at=spec.end_at, exclude=spec.exclude, jitter=spec.jitter,
        )  # fmt: skip

    @property
    def status(self) -> Status:
        if self.paused_at is not None:
            return "paused"
        open = self.next_run_at is not None or self.held_at is not None
        return "active" if open or (self.spec.after == "finish" and self.active) else "ended"

    @property
    def tripped(self) -> bool:
        """Whether failures have paused it, and nobody since."""
        limit = self.spec.pause_after_failures or 1
        return self.paused_at is not None and self.paused_at == self.last_finished_at and self.failures >= limit


class Tick(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one tick, or of several in a row that had the same fate."""

    n: int
    """Counts from 1 in each schedule."""
    at: datetime
    """Its own instant; of several, the first's."""
    seen_at: datetime
    """When its fate was decided."""
    what: Literal["fired", "skipped", "missed"]
    reason: str = ""
    job_id: JobId | None = None
    count: int = 1
    """Of very many, at least so many."""
    last_at: datetime | None = None
    """Of several, the last's."""


class Firing(Struct, frozen=True, kw_only=True):
    """A schedule's next revision, and what comes with it in the same step."""

    schedule: Schedule
    """Written only over the revision before; the first one only where there is none."""
    jobs: tuple[NewJob, ...] = ()
    ticks: tuple[Tick, ...] = ()
    cancel: tuple[JobId, ...] = ()
    """Jobs that are asked to stop."""
    reads: tuple[tuple[str, int], ...] = ()
    """Other schedules that were looked at, with the revisions they must have still."""


class Fired(Struct, frozen=True):
    """What the store did with one Firing."""

    stands: bool
    held: tuple[str, ...] = ()
    """Keys of its jobs that others hold: it was not written because of them."""


class LeaderTerm(Struct, frozen=True):
    """Who leads, as the store has it."""

    name: str
    holder: str | None
    """None: nobody does."""
    term: int
    until: datetime


class Due(Struct, frozen=True):
    """Schedules that are due, and when asking again can help."""

    schedules: list[Schedule]
    next_at: datetime | None = None
    unreadable: list[UnreadableRecord] = []
    """Schedules this call set aside because their records cannot be decoded."""


def key_of(name: str, tick: datetime) -> str:
    """The identity of a tick, whoever makes its job: at most one unfinished or completed job has it."""
    return f"schedule:{name}:{micros(tick) * 1000}"
