"""The steps of the twin test about schedules and leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from ..records.job import NewJob
from ..schedule.edit import create, pause, redefine, resume, trigger_now
from ..schedule.plan import plan
from ..schedule.record import Due, Firing, Schedule, Spec, tick_key
from ..store import Store
from ..trigger import Every

T = TypeVar("T")
SCHEDULES = ("a", "a:1", "ü")
# The ids of jobs.
ID = "00000000-0000-7000-8000-{:012}"
# Ids below this number are for jobs that the twin enqueues, those from it on for jobs of schedules.
OWN_JOBS = 30

_options: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"overlap": "queue", "catch_up": "all"},
        {"overlap": "queue", "depends_on": ("a",)},
        {"overlap": "allow", "pause_after_failures": 1, "expires": 5.0},
        {"overlap": "allow", "catch_up": "all", "depends_on": ("a:1", "a")},
        {"overlap": "cancel", "tags": ("x",), "queue": "high"},
        {"overlap": "cancel", "catch_up": "skip", "computed": True},
        {"after": "finish", "overlap": "queue", "adapt": 30.0},
        {"adapt": 40.0, "catch_up": "skip", "max_runs": 3},
        {"jitter": 7.0, "computed": True, "max_retries": 0},
    ]
)
_names = st.sampled_from(SCHEDULES)
_some = st.sampled_from([100, 1, 2, 3])
SCHEDULE_STEPS: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    (3, "define", {"name": _names, "options": _options, "seconds": st.sampled_from([5, 20])}),
    (8, "tick", {"limit": _some, "computed": st.sampled_from([SCHEDULES, ("a",), ()])}),
    (
        3,
        "fire_stale",
        {"name": _names, "by": st.integers(-1, 3), "reads": st.lists(st.tuples(_names, st.integers(0, 3)), max_size=1)},
    ),
    (2, "trigger", {"name": _names, "ticks": st.lists(st.integers(-9, 9), max_size=2), "joins": st.booleans()}),
    (1, "pause_or_resume", {"name": _names, "from_now": st.booleans()}),
    (1, "drop_schedules", {"names": st.lists(_names, max_size=2)}),
    (1, "lead", {"holder": st.sampled_from(["ada", "bob"]), "span": st.sampled_from([20, 5, 0])}),
]


class ScheduleSteps:
    """Steps of schedulers, users and candidates for leadership."""

    now: datetime
    minted = OWN_JOBS

    def _both(self, verb: Callable[[Store], Awaitable[T]], learn: Callable[[T, T], None] | None = None) -> T:
        raise NotImplementedError

    def define(self, name: str, options: dict[str, Any], seconds: int) -> None:
        """Creates or redefines a schedule."""
        spec = Spec(
            **{"trigger": Every(seconds=seconds), "task": "mail", "grace": 4.0, "catch_up_window": 40.0, **options}
        )
        row = self._row(name)
        if row is None:
            self._fire([Firing(schedule=create(name, spec, owner="user", now=self.now))])
        else:
            self._fire([redefine(row, spec, now=self.now)])

    def tick(self, limit: int, computed: Sequence[str]) -> None:
        """Fires the due schedules, as a scheduler does."""

        def verb(store: Store) -> Awaitable[Due]:
            return store.due(now=self.now, limit=limit, computed=computed)

        rows = {row.name: row for row in self._both(lambda store: store.schedules(limit=9))}
        planned = [
            plan(
                row,
                now=self.now,
                new_job_id=self._mint,
                dependencies={name: rows[name] for name in row.spec.depends_on if name in rows},
            )
            for row in self._both(verb).schedules
        ]
        self._fire([self._with_jobs(firing) for firing in planned])

    def fire_stale(self, name: str, by: int, reads: list[tuple[str, int]]) -> None:
        """Fires with a revision, or with read revisions, that are mostly out of date."""
        row = self._row(name)
        if row is not None:
            new = replace(row, revision=row.revision + by, note="in vain", ticks=row.ticks)
            stale = replace(new, revision=new.revision - 1)
            firing = trigger_now(stale, [self.now], "in vain", now=self.now, new_job_id=self._mint, joins=True)
            seen = tuple((other, revision) for other, revision in reads)
            self._fire([replace(self._with_jobs(firing), reads=seen, cancel=row.active)])

    def trigger(self, name: str, ticks: list[int], joins: bool) -> None:
        row = self._row(name)
        if row is not None:
            times = [self.now + timedelta(seconds=n) for n in ticks]
            firing = trigger_now(row, times, "by_hand", now=self.now, new_job_id=self._mint, joins=joins)
            self._fire([self._with_jobs(firing)])

    def pause_or_resume(self, name: str, from_now: bool) -> None:
        row = self._row(name)
        if row is not None and row.paused_at is not None:
            self._fire([resume(row, from_now=from_now, now=self.now)])
        elif row is not None:
            self._fire([Firing(schedule=pause(row, "why", now=self.now))])

    def drop_schedules(self, names: list[str]) -> None:
        self._both(lambda store: store.drop_schedules(names))

    def lead(self, holder: str, span: float) -> None:
        self._both(
            lambda store: store.acquire_term("x", holder, until=self.now + timedelta(seconds=span), now=self.now)
        )
        self._both(lambda store: store.terms(now=self.now))

    def _row(self, name: str) -> Schedule | None:
        return next(iter(self._both(lambda store: store.schedules([name], limit=1))), None)

    def _mint(self) -> str:
        self.minted += 1
        return ID.format(self.minted - 1)

    def _with_jobs(self, firing: Firing) -> Firing:
        name, spec = firing.schedule.name, firing.schedule.spec
        expires = None if spec.expires is None else self.now + timedelta(seconds=spec.expires)
        jobs = tuple(
            NewJob(
                id=tick.job_id,
                task=spec.task,
                payload="{}",
                queue=spec.queue,
                tags=spec.tags,
                expires_at=expires,
                idempotency_key=tick_key(name, tick.at),
                schedule=name,
                scheduled_at=tick.at,
            )
            for tick in firing.ticks
            if tick.job_id is not None
        )
        return replace(firing, jobs=jobs)

    def _fire(self, firings: list[Firing]) -> None:
        self._both(lambda store: store.fire(firings, now=self.now))
