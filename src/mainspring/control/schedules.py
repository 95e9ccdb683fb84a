"""app.schedules: reads, creates, changes and triggers schedules."""

from __future__ import annotations

import asyncio
import math
from builtins import list as List
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..clock import is_instant
from ..errors import BadInput, ScheduleChanged, ScheduleExists, ScheduleNotFound, StoreUnavailable
from ..events import SchedulesChanged
from ..ids import JobId, new_id
from ..records.job import Enqueued, Shown
from ..records.query import Cursor, Filter
from ..schedule.balance.distribution import DAYS_PER_WEEK, Distribution, DistributionBuilder
from ..schedule.balance.spread import Rebalance, choose_anchor, needs_anchor, rebalance
from ..schedule.edit import create, fingerprint, pause, redefine, reschedule, resume, trigger_now
from ..schedule.options import ScheduleOptions, change_spec, declare, encode_arguments, task_fingerprint
from ..schedule.record import BACKFILL, BY_HAND, Firing, Owner, Schedule, Spec, Status, Tick, tick_key
from ..store import Store
from ..suggest import did_you_mean
from ..task.handle import Handle
from ..task.options import check_name
from ..task.task import Task
from ..trigger import Preview
from ..trigger.bounds import LAST_YEAR
from ..webhook.record import check_note
from ..worker.scheduler import BATCH_JOBS, BATCH_SCHEDULES, read_load
from .audit_log import annotate, audited
from .checks import MAX_PAGE_ROWS, checked_limit
from .computation import Computation, ComputationKind
from .job_page import cursor_name
from .schedule_bulk import ManySchedules
from .schedule_history import DEFAULT_WINDOW, ScheduleRun, ScheduleStats, checked_tick_number, runs_of, stats_of
from .schedule_index import ScheduleIndex, SchedulePage, pages, scan, schedule_matcher
from .schedule_ticks import check_number, coming_ticks, common_prefixes, excluding, past_ticks, preview_tick

if TYPE_CHECKING:
    from ..engine import Engine

T = TypeVar("T")
_ChangeAction = Literal["create", "update", "pause", "resume", "reschedule", "rebalance", "delete"]
# Attempts to change a schedule that others change at the same time.
MAX_TRIES = 50
# An unknown name is compared with this number of names for a suggestion,
MAX_COMPARED_NAMES = 100
# of at most this length: the cost is the product of the lengths.
MAX_COMPARED_CHARACTERS = 60
_STATES_WITH_JOB: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused", "completed")


class Backfill(Struct, frozen=True, kw_only=True):
    """Past ticks of a schedule: those that have a job, and those that got one (or would)."""

    made: List[datetime]
    there: List[datetime]
    dry_run: bool


class Schedules:
    """Every change applies to the row's newest revision, whatever workers do to it meanwhile."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._declared = False
        self.index = ScheduleIndex(engine.connect, engine.clock)
        self.many = ManySchedules(engine, self._store, self._emit_changed)

    # reading

    async def get(self, name: str) -> Schedule:
        store = await self._store()
        found = await store.schedules([check_name(name, "schedule name")], limit=1)
        if not found:
            raise await _missing(store, name)
        return found[0]

    async def list(
        self,
        *,
        task: str | None = None,
        owner: Owner | None = None,
        status: Status | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[Schedule]:
        """Schedules by name; pass the last one's name as `after` for the next page."""
        checked_limit(limit, MAX_PAGE_ROWS)
        store, after = await self._store(), cursor_name(after)
        if task is None and owner is None and status is None:
            return await store.schedules(limit=limit, after=after)
        found, _ = await scan(store, schedule_matcher(task=task, owner=owner, status=status), limit, after, math.inf)
        return found

    async def page(
        self,
        *,
        q: str | None = None,
        task: str | None = None,
        owner: Owner | None = None,
        status: Status | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> SchedulePage:
        """Like list(), but fast: with filters a page may have fewer than `limit` rows and still a `next`.

        If there are very many schedules, changes by other processes in the last seconds may be missing.
        """
        checked_limit(limit, MAX_PAGE_ROWS)
        after = cursor_name(after)
        store, matches = await self._store(), schedule_matcher(q=q, task=task, owner=owner, status=status)
        if not (q or task or owner or status):
            rows = await store.schedules(limit=limit, after=after)
            return SchedulePage(rows, rows[-1].name if len(rows) == limit else None)
        return await self.index.page(store, matches, limit, after)

    async def ticks(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[Tick]:
        """Its recorded ticks, newest first; pass the last one's `n` as `before` for the next page."""
        checked_limit(limit, MAX_PAGE_ROWS)
        await self.get(name)
        checked_tick_number(before)
        return await (await self._store()).ticks(name, limit=limit, before=before)

    async def executions(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[ScheduleRun]:
        """Runs of its jobs by tick, newest first, of up to `limit` ticks; pass the last one's tick.n as `before`."""
        checked_limit(limit, MAX_PAGE_ROWS)
        await self.get(name)
        checked_tick_number(before)
        return await runs_of(await self._store(), name, limit=limit, before=before)

    async def stats(self, name: str, window: timedelta = DEFAULT_WINDOW) -> ScheduleStats:
        """Statistics since its creation, and of its runs in the window: of the newest 500 jobs at most."""
        return await stats_of(await self._store(), await self.get(name), window, self._engine.clock.now())

    async def preview(self, name: str, n: int = 10) -> Sequence[Preview]:
        """Its next ticks, with the effects of clock changes; for a paused one, as if it were resumed now."""
        check_number("n", n, MAX_PAGE_ROWS)
        row = await self.get(name)
        now, computation = self._engine.clock.now(), self._computation(f"the preview of {name!r}", "previews")
        left = n if row.spec.max_runs is None else max(0, row.spec.max_runs - row.fired)
        ticks = computation.each(islice(coming_ticks(row, now), min(n, left)))
        return await computation.run(lambda: [preview_tick(row, tick) for tick in ticks])

    # spreading

    async def distribution(self, *, days: int = 1) -> Distribution:
        """The number of ticks in each of the next 24 hours, or in up to 7 days, and how even they are."""
        if not 1 <= days <= DAYS_PER_WEEK:
            raise BadInput(f"a distribution is of 1 to {DAYS_PER_WEEK} days, got {days}")
        store, count = await self._store(), DistributionBuilder(self._engine.clock.now(), days)
        # May take a second with many crons or very many schedules: the event loop stays free.
        async for page in pages(store):
            await self._computation("the distribution", "previews").run(lambda page=page: count.add(page))  # type: ignore[misc]
        return await self._computation("the distribution", "previews").run(count.result)

    @audited("schedules.rebalance")
    async def rebalance(self, *, dry_run: bool = False) -> Rebalance:
        """Moves spread=True intervals to where fewer ticks are; those that run, or are about to, are not moved."""
        store, now = await self._store(), self._engine.clock.now()
        known = [row async for page in pages(store) for row in page]
        planned, rows = await self._computation("the rebalance").run(lambda: rebalance(known, now))
        if dry_run:
            return planned
        changed: List[str] = []
        for n in range(0, len(rows), BATCH_SCHEDULES):
            some = rows[n : n + BATCH_SCHEDULES]
            fired = await store.fire([Firing(schedule=row) for row in some], now=now)
            changed += [row.name for row, done in zip(some, fired, strict=True) if not done.stands]
        moves = [move for move in planned.moves if move.name not in set(changed)]
        annotate(before={move.name: move.from_at for move in moves}, after={move.name: move.to_at for move in moves})
        self._emit_changed("rebalance", *(move.name for move in moves))
        return replace(planned, dry_run=False, moves=moves, changed=changed)

    async def _find_anchor(self, name: str, spec: Spec, row: Schedule | None, now: datetime) -> datetime | None:
        if not needs_anchor(spec, row):
            return None
        load = await read_load(await self._store(), now, without={name})
        return choose_anchor(name, spec, load, now)

    # creating and changing

    @audited("schedules.create")
    async def create(
        self, name: str, trigger: Any, task: Task[Any, Any] | str, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Creates a schedule owned by users, which no deploy changes. Only code can give it an input function."""
        if "input" in options:
            raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
        known = self._engine.tasks.get(task) if isinstance(task, str) else task
        if known is None and self._engine.tasks:
            suggestion = did_you_mean(task, self._engine.tasks)
            raise BadInput(f"schedule {name!r}: no task {task!r:.80} is registered in this app; {suggestion}")
        if known is not None:
            self._engine.check_flows([known.name])
        limit = self._engine.settings.payload_limit
        declaration = await self._computation(f"the check of {name!r}").run(
            lambda: declare(name, trigger, known or task, options, limit)
        )
        store, now = await self._store(), self._engine.clock.now()
        anchor_at = await self._find_anchor(name, declaration.spec, None, now)
        new = create(name, declaration.spec, owner="user", now=now, anchor_at=anchor_at)
        if new.next_run_at is None:
            raise BadInput(
                f"schedule {name!r} would never run: {declaration.spec.trigger.explain()} has no tick to come"
            )
        (fired,) = await store.fire([Firing(schedule=new)], now=now)
        if not fired.stands:
            raise ScheduleExists(f"a schedule named {name!r} is there already; change it with update()")
        annotate(before=None, after=new)
        self._emit_changed("create", name)
        return new

    @audited("schedules.update")
    async def update(
        self,
        name: str,
        *,
        trigger: Any = None,
        expected: str | Callable[[Spec], bool] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Changes the given options. The next tick stays unless the new options mean other instants.

        A schedule that code declares may be changed too; it stays so until the declaration in code changes.
        With `expected` (the fingerprint() of the spec that was read, or a predicate) it raises ScheduleChanged if the
        spec is another one now.
        """
        given: dict[str, Any] = dict(options) if trigger is None else {"trigger": trigger, **options}
        if not given:
            raise BadInput(f"update of schedule {name!r} was given nothing to change")
        limit = self._engine.settings.payload_limit

        async def change(row: Schedule, now: datetime) -> Firing:
            if expected is not None and not _is_expected(row.spec, expected):
                raise ScheduleChanged(f"schedule {name!r} was changed by others since it was read; read it again")
            task = self._engine.tasks.get(row.spec.task)
            computation = self._computation(f"the check of {name!r}")
            spec = await computation.run(lambda: change_spec(name, row.spec, given, task, limit))
            return redefine(row, spec, now=now, anchor_at=await self._find_anchor(name, spec, row, now))

        return await self._change(name, change, action="update")

    @audited("schedules.pause")
    async def pause(self, name: str, note: str = "") -> Schedule:
        """It makes no jobs until it is resumed; its running jobs go on."""
        check_note(note)
        return await self._change(name, lambda row, now: Firing(schedule=pause(row, note, now=now)), action="pause")

    @audited("schedules.resume")
    async def resume(self, name: str, *, catch_up: bool = False) -> Schedule:
        """Resumes from now on, or with `catch_up` from where it stopped: its catch-up rule decides on missed ticks."""

        def change(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is None else resume(row, from_now=not catch_up, now=now)

        return await self._change(name, change, action="resume")

    @audited("schedules.reschedule")
    async def reschedule(self, name: str, at: datetime) -> Schedule:
        """Moves its next tick to this instant; later ones follow its trigger."""
        if not is_instant(at):
            raise BadInput(f"reschedule takes a datetime with a time zone, got {at!r}")
        if at.year > LAST_YEAR:
            raise BadInput(f"reschedule takes an instant in the year {LAST_YEAR} at the latest, got {at}")

        def change(row: Schedule, now: datetime) -> Firing:
            if at < now:
                raise BadInput(
                    f"reschedule of {name!r} to {at} is past; trigger() runs it now, backfill() makes up past ticks"
                )
            if row.spec.max_runs is not None and row.fired >= row.spec.max_runs:
                raise BadInput(f"schedule {name!r} has had all its {row.spec.max_runs} runs; raise max_runs first")
            return reschedule(row, at, now=now)

        return await self._change(name, change, action="reschedule")

    @audited("schedules.delete")
    async def delete(self, name: str) -> None:
        """Deletes the schedule; its jobs are left alone. One that code declares comes back with the next worker."""
        store = await self._store()
        if not name.isprintable():  # no schedule has such a name, and not every store can search for it
            raise await _missing(store, name)
        row = next(iter(await store.schedules([name], limit=1)), None)  # None also if it cannot be decoded
        if not await store.drop_schedules([name]):
            raise await _missing(store, name)
        annotate(before=row, after=None)
        self._emit_changed("delete", name)

    # running

    @audited("schedules.trigger")
    async def trigger(
        self, name: str, *, kwargs: Mapping[str, Any] | None = None, id: JobId | None = None
    ) -> Handle[Any]:
        """Enqueues one job at once, paused or not; the next tick is unchanged. `kwargs` replace its own input.

        `id` is the job's id, for callers that may repeat the call.
        """
        there = False
        scheduler = self._engine.scheduler()

        async def change(row: Schedule, now: datetime) -> Firing | None:
            if there:
                return None
            if kwargs is not None:
                task = self._engine.tasks.get(row.spec.task) or row.spec.task
                payload = encode_arguments(name, task, kwargs, self._engine.settings.payload_limit)
                fingerprint = task_fingerprint(task)
            else:
                payload, fingerprint = await scheduler.payload(row, now), scheduler.fingerprint(row)
            firing = trigger_now(row, [now], BY_HAND, now=now, new_job_id=lambda: id or new_id(now), joins=True)
            jobs = tuple(scheduler.job_for_tick(row, tick, payload, now, fingerprint) for tick in firing.ticks)
            return replace(firing, jobs=jobs)

        def held(keys: Collection[str]) -> None:
            nonlocal there
            there = there or bool(keys)

        row = await self._change(name, change, held)
        return self._engine.handle(Enqueued(id or row.last_job_id or ""), row.spec.task)

    @audited("schedules.backfill")
    async def backfill(
        self, name: str, start: datetime, end: datetime | None = None, *, dry_run: bool = False, limit: int = 1000
    ) -> Backfill:
        """Makes the jobs of past ticks from `start` to before `end` (default: now) that have none.

        A tick has one if its job is completed or unfinished; a dead or cancelled job is replaced. The jobs do not
        count as runs of the schedule: overlap is not checked, and their failures do not pause it.
        """
        row, now = await self.get(name), self._engine.clock.now()
        computation = self._computation(f"the backfill of {name!r}")
        ticks = await computation.run(lambda: past_ticks(row, start, end or now, now, limit, computation))
        there = await self._with_jobs({tick_key(name, tick): tick for tick in ticks})
        made = excluding(ticks, there)
        if not dry_run:
            for n in range(0, len(made), BATCH_JOBS):
                there += await self._make_jobs(name, made[n : n + BATCH_JOBS])
        made = excluding(made, there)
        return Backfill(made=made, there=sorted(there), dry_run=dry_run)

    async def _with_jobs(self, ticks: Mapping[str, datetime]) -> List[datetime]:
        """Those of the ticks (by key) that have a job, found among all jobs of about that time."""
        store, found = await self._store(), List[datetime]()
        for prefix in common_prefixes(ticks):
            which, after = Filter(key_prefix=prefix, states=_STATES_WITH_JOB), None
            while page := await store.jobs(
                which, now=self._engine.clock.now(), limit=MAX_PAGE_ROWS, after=after, brief=True
            ):
                found += [ticks[key] for job in page if (key := job.idempotency_key or "") in ticks]
                after = Cursor(page[-1].id)
                await asyncio.sleep(0)  # a store that answers without waiting would starve other tasks
                if len(page) < MAX_PAGE_ROWS:
                    break
        return found

    async def _make_jobs(self, name: str, ticks: Sequence[datetime]) -> Collection[datetime]:
        """Makes the jobs; returns the ticks whose jobs others have made meanwhile."""
        scheduler, there = self._engine.scheduler(), set[datetime]()

        async def change(row: Schedule, now: datetime) -> Firing | None:
            left = [tick for tick in ticks if tick not in there]
            firing = trigger_now(row, left, BACKFILL, now=now, new_job_id=lambda: new_id(now), joins=False)
            inputs = [await scheduler.payload(row, tick.at) for tick in firing.ticks]
            pairs, fingerprint = zip(firing.ticks, inputs, strict=True), scheduler.fingerprint(row) if left else None
            jobs = tuple(scheduler.job_for_tick(row, tick, payload, now, fingerprint) for tick, payload in pairs)
            return replace(firing, jobs=jobs) if left else None

        def held(keys: Collection[str]) -> None:
            there.update(tick for tick in ticks if tick_key(name, tick) in keys)

        await self._change(name, change, held)
        return there

    # inside

    def _computation(self, what: str, kind: ComputationKind = "records") -> Computation:
        return Computation(self._engine.clock, what, kind=kind)

    async def _store(self) -> Store:
        """The store, after the schedules that the code declares were added if they are missing."""
        store = await self._engine.connect()
        if not self._declared:
            await self._engine.scheduler().declare(store, missing_only=True)
            self._declared = True
        return store

    async def _change(
        self,
        name: str,
        change: Callable[[Schedule, datetime], Firing | Awaitable[Firing | None] | None],
        held: Callable[[Collection[str]], None] = lambda keys: None,
        action: _ChangeAction | None = None,
    ) -> Schedule:
        """Applies the change to the newest revision, repeatedly if needed; `held` gets the keys that conflict."""
        store = await self._store()
        for _ in range(MAX_TRIES):
            row, now = await self.get(name), self._engine.clock.now()
            wanted = change(row, now)
            firing = await wanted if isinstance(wanted, Awaitable) else wanted
            if firing is None:
                return row
            (fired,) = await store.fire([firing], now=now)
            if fired.stands:
                self._engine.scheduler().emit_fired(firing)
                annotate(before=row, after=firing.schedule)
                if action is not None:
                    self._emit_changed(action, name)
                await self._engine.dispatcher.flush()
                return firing.schedule
            if fired.error:
                raise BadInput(fired.error)
            held(fired.held)
        raise StoreUnavailable(f"schedule {name!r} was changed by others {MAX_TRIES} times in a row; try again")

    def _emit_changed(self, action: _ChangeAction, *names: str) -> None:
        if names:
            self.index.touch(names)
            self._engine.events.emit(SchedulesChanged(at=self._engine.clock.now(), action=action, names=names))


async def _missing(store: Store, name: str) -> ScheduleNotFound:
    rows = await store.schedules(limit=MAX_COMPARED_NAMES)
    known = [row.name for row in rows if len(row.name) <= MAX_COMPARED_CHARACTERS]
    return ScheduleNotFound(f"there is no schedule {name!r}; {did_you_mean(name[:MAX_COMPARED_CHARACTERS], known)}")


def _is_expected(spec: Spec, expected: str | Callable[[Spec], bool]) -> bool:
    return fingerprint(spec) == expected if isinstance(expected, str) else expected(spec)
