"""app.schedules: what runs when, and whether it may."""

from __future__ import annotations

import asyncio
import math
from builtins import list as List
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..clock import is_instant
from ..errors import BadInput, ScheduleChanged, ScheduleExists, ScheduleNotFound, StoreUnavailable
from ..events import SchedulesChanged
from ..ids import JobId, new_id
from ..records.job import Enqueued, Shown
from ..records.query import Cursor, Filter
from ..schedule.balance.distribution import WEEK, Distribution, DistributionCount
from ..schedule.balance.spread import Rebalance, place, rebalance, unplaced
from ..schedule.edit import create, fingerprint, pause, redefine, reschedule, resume, trigger_now
from ..schedule.options import ScheduleOptions, amended, declared, fingerprint_of, payload_of
from ..schedule.record import BACKFILL, BY_HAND, Firing, Owner, Schedule, Spec, Status, Tick, key_of
from ..store import Store
from ..suggest import did_you_mean
from ..task.handle import Handle
from ..task.options import check_name
from ..task.task import Task
from ..trigger import Preview
from ..trigger.bounds import LAST_YEAR
from ..webhook.record import noted
from ..worker.scheduler import BATCH, LOAD, Scheduler, job_of, load_of
from .audit_log import annotate, audited
from .computation import Computation, Kind
from .ground import Ground
from .job_page import cursor_name
from .jobs import PAGE, checked_limit
from .schedule_bulk import ManySchedules
from .schedule_history import WEEK as STATS_WINDOW
from .schedule_history import ScheduleRun, ScheduleStats, checked_tick_number, runs_of, stats_of
from .schedule_index import ScheduleIndex, SchedulePage, fits, pages, scanned
from .schedule_ticks import check_number, coming_ticks, common_prefixes, past_ticks, shown_tick, without

T = TypeVar("T")
_Deed = Literal["create", "update", "pause", "resume", "reschedule", "rebalance", "delete"]
# How often a change is tried again when others change the same schedule meanwhile.
TRIES = 50
# Names that one that is not known is compared with, and their characters: it takes their product.
MAX_LIKE, MAX_LIKE_CHARACTERS = 100, 60
_HOLDING: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused", "completed")


class Backfill(Struct, frozen=True, kw_only=True):
    """Past ticks of a schedule: those that have their job, and those that were given one (or would be)."""

    made: List[datetime]
    there: List[datetime]
    dry_run: bool


class Schedules:
    """Every change is one step on the row's newest revision, whatever workers do to it meanwhile."""

    def __init__(
        self,
        ground: Ground,
        scheduler: Callable[[], Scheduler],
        handle: Callable[[Enqueued, str], Handle[Any]],
    ) -> None:
        self._ground = ground
        self._scheduler = scheduler
        self._handle = handle
        self._declared = False
        self.index = ScheduleIndex(ground.opened, ground.clock)
        self.many = ManySchedules(ground, self._store, scheduler, self._tell)

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
        """By name; give the last one's name as `after` for the next page."""
        checked_limit(limit, PAGE)
        store, after = await self._store(), cursor_name(after)
        if task is None and owner is None and status is None:
            return await store.schedules(limit=limit, after=after)
        found, _ = await scanned(store, fits(task=task, owner=owner, status=status), limit, after, math.inf)
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
        """As list(), for those who do not want to wait: with filters it may have fewer than `limit`, and yet a next.

        Where there are very many, what other processes did in the last seconds may be left out.
        """
        checked_limit(limit, PAGE)
        after = cursor_name(after)
        store, fitting = await self._store(), fits(q=q, task=task, owner=owner, status=status)
        if not (q or task or owner or status):
            rows = await store.schedules(limit=limit, after=after)
            return SchedulePage(rows, rows[-1].name if len(rows) == limit else None)
        return await self.index.page(store, fitting, limit, after)

    async def ticks(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[Tick]:
        """What became of its ticks, newest first; give the last one's `n` as `before` for the next page."""
        checked_limit(limit, PAGE)
        await self.get(name)
        checked_tick_number(before)
        return await (await self._store()).ticks(name, limit=limit, before=before)

    async def executions(self, name: str, *, limit: int = 100, before: int | None = None) -> Sequence[ScheduleRun]:
        """Runs of its jobs, by tick, newest first, of up to `limit` ticks; give the last one's tick.n as `before`."""
        checked_limit(limit, PAGE)
        await self.get(name)
        checked_tick_number(before)
        return await runs_of(await self._store(), name, limit=limit, before=before)

    async def stats(self, name: str, window: timedelta = STATS_WINDOW) -> ScheduleStats:
        """How it has gone since it was made, and its runs in the window: of the newest 500 jobs at most."""
        return await stats_of(await self._store(), await self.get(name), window, self._ground.clock.now())

    async def preview(self, name: str, n: int = 10) -> Sequence[Preview]:
        """Its next ticks, with what changes of the clocks do to them; of a paused one, as if it were resumed now."""
        check_number("n", n, PAGE)
        row = await self.get(name)
        now, computation = self._ground.clock.now(), self._computation(f"the preview of {name!r}", "previews")
        left = n if row.spec.max_runs is None else max(0, row.spec.max_runs - row.fired)
        ticks = computation.each(islice(coming_ticks(row, now), min(n, left)))
        return await computation.run(lambda: [shown_tick(row, tick) for tick in ticks])

    # spreading

    async def distribution(self, *, days: int = 1) -> Distribution:
        """How many ticks come in each of the next 24 hours, or as many days up to 7, and how evenly."""
        if not 1 <= days <= WEEK:
            raise BadInput(f"a distribution is of 1 to {WEEK} days, got {days}")
        store, count = await self._store(), DistributionCount(self._ground.clock.now(), days)
        # A second of work with many crons, or very many schedules: others are served meanwhile.
        async for page in pages(store):
            await self._computation("the distribution", "previews").run(lambda page=page: count.add(page))  # type: ignore[misc]
        return await self._computation("the distribution", "previews").run(count.result)

    @audited("schedules.rebalance")
    async def rebalance(self, *, dry_run: bool = False) -> Rebalance:
        """Moves intervals made with spread=True to where fewer ticks are; those that run, or are about to, stay."""
        store, now = await self._store(), self._ground.clock.now()
        known = [row async for page in pages(store) for row in page]
        planned, rows = await self._computation("the rebalance").run(lambda: rebalance(known, now))
        if dry_run:
            return planned
        changed: List[str] = []
        for n in range(0, len(rows), BATCH):
            some = rows[n : n + BATCH]
            fired = await store.fire([Firing(schedule=row) for row in some], now=now)
            changed += [row.name for row, done in zip(some, fired, strict=True) if not done.stands]
        moves = [move for move in planned.moves if move.name not in set(changed)]
        annotate(before={move.name: move.from_at for move in moves}, after={move.name: move.to_at for move in moves})
        self._tell("rebalance", *(move.name for move in moves))
        return replace(planned, dry_run=False, moves=moves, changed=changed)

    async def _anchor(self, name: str, spec: Spec, row: Schedule | None, now: datetime) -> datetime | None:
        if not unplaced(spec, row):
            return None
        board = await load_of(await self._store(), now, without={name})
        return place(name, spec, board, now)

    # making and changing

    @audited("schedules.create")
    async def create(
        self, name: str, trigger: Any, task: Task[Any, Any] | str, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """A schedule of the users' own, which no deploy touches. An input function is given in code only."""
        if "input" in options:
            raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
        known = self._ground.tasks.get(task) if isinstance(task, str) else task
        if known is None and self._ground.tasks:
            way_out = did_you_mean(task, self._ground.tasks)
            raise BadInput(f"schedule {name!r}: no task {task!r:.80} is registered in this app; {way_out}")
        limit = self._ground.settings.payload_limit
        said = await self._computation(f"the check of {name!r}").run(
            lambda: declared(name, trigger, known or task, options, limit)
        )
        store, now = await self._store(), self._ground.clock.now()
        anchor_at = await self._anchor(name, said.spec, None, now)
        new = create(name, said.spec, owner="user", now=now, anchor_at=anchor_at)
        if new.next_run_at is None:
            raise BadInput(f"schedule {name!r} would never run: {said.spec.trigger.explain()} has no tick to come")
        (fired,) = await store.fire([Firing(schedule=new)], now=now)
        if not fired.stands:
            raise ScheduleExists(f"a schedule named {name!r} is there already; change it with update()")
        annotate(before=None, after=new)
        self._tell("create", name)
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
        """Says some of it anew. Its next tick stays unless the new policies mean other instants.

        What code has declared may be changed too; it stays so until the code says something else than it did.
        With `expected`, the fingerprint() of the spec that was read, or what tells whether it is that one, only if
        nobody has changed it since.
        """
        given: dict[str, Any] = dict(options) if trigger is None else {"trigger": trigger, **options}
        if not given:
            raise BadInput(f"update of schedule {name!r} was given nothing to change")
        limit = self._ground.settings.payload_limit

        async def change(row: Schedule, now: datetime) -> Firing:
            if expected is not None and not _is_expected(row.spec, expected):
                raise ScheduleChanged(f"schedule {name!r} was changed by others since it was read; read it again")
            task = self._ground.tasks.get(row.spec.task)
            computation = self._computation(f"the check of {name!r}")
            spec = await computation.run(lambda: amended(name, row.spec, given, task, limit))
            return redefine(row, spec, now=now, anchor_at=await self._anchor(name, spec, row, now))

        return await self._change(name, change, deed="update")

    @audited("schedules.pause")
    async def pause(self, name: str, note: str = "") -> Schedule:
        """It makes no jobs until it is resumed; its running jobs go on."""
        noted(note)
        return await self._change(name, lambda row, now: Firing(schedule=pause(row, note, now=now)), deed="pause")

    @audited("schedules.resume")
    async def resume(self, name: str, *, catch_up: bool = False) -> Schedule:
        """From now on; or, with `catch_up`, from where it left: ticks it has missed are met by its catch-up rule."""

        def change(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is None else resume(row, from_now=not catch_up, now=now)

        return await self._change(name, change, deed="resume")

    @audited("schedules.reschedule")
    async def reschedule(self, name: str, at: datetime) -> Schedule:
        """Its next tick is at this instant; those after it follow its trigger."""
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

        return await self._change(name, change, deed="reschedule")

    @audited("schedules.delete")
    async def delete(self, name: str) -> None:
        """Jobs already made are left alone. One that code declares comes back with the next worker that starts."""
        store = await self._store()
        if not name.isprintable():  # no schedule has such a name, and not every store can be asked for it
            raise await _missing(store, name)
        row = next(iter(await store.schedules([name], limit=1)), None)  # None, too: one that cannot be decoded
        if not await store.drop_schedules([name]):
            raise await _missing(store, name)
        annotate(before=row, after=None)
        self._tell("delete", name)

    # running

    @audited("schedules.trigger")
    async def trigger(
        self, name: str, *, kwargs: Mapping[str, Any] | None = None, id: JobId | None = None
    ) -> Handle[Any]:
        """One job at once, paused or not; its next tick is left alone. `kwargs` are in place of its own input.

        `id` is the job's, for who may ask for the same one twice.
        """
        there = False
        scheduler = self._scheduler()

        async def change(row: Schedule, now: datetime) -> Firing | None:
            if there:
                return None
            if kwargs is not None:
                task = self._ground.tasks.get(row.spec.task) or row.spec.task
                payload = payload_of(name, task, kwargs, self._ground.settings.payload_limit)
                fingerprint = fingerprint_of(task)
            else:
                payload, fingerprint = await scheduler.payload(row, now), scheduler.fingerprint(row)
            firing = trigger_now(row, [now], BY_HAND, now=now, mint=lambda: id or new_id(now), joins=True)
            jobs = tuple(job_of(row, tick, payload, now, fingerprint) for tick in firing.ticks)
            return replace(firing, jobs=jobs)

        def held(keys: Collection[str]) -> None:
            nonlocal there
            there = there or bool(keys)

        row = await self._change(name, change, held)
        return self._handle(Enqueued(id or row.last_job_id or ""), row.spec.task)

    @audited("schedules.backfill")
    async def backfill(
        self, name: str, start: datetime, end: datetime | None = None, *, dry_run: bool = False, limit: int = 1000
    ) -> Backfill:
        """Makes the jobs of past ticks from `start` to before `end` (default: now) that have none.

        A tick whose job completed or is under way has one; that of a dead or cancelled one is made anew.
        They go beside the series: overlap is not looked at, and their failures do not pause it.
        """
        row, now = await self.get(name), self._ground.clock.now()
        computation = self._computation(f"the backfill of {name!r}")
        ticks = await computation.run(lambda: past_ticks(row, start, end or now, now, limit, computation))
        there = await self._with_jobs({key_of(name, tick): tick for tick in ticks})
        made = without(ticks, there)
        if not dry_run:
            for n in range(0, len(made), LOAD):
                there += await self._make(name, made[n : n + LOAD])
        made = without(made, there)
        return Backfill(made=made, there=sorted(there), dry_run=dry_run)

    async def _with_jobs(self, ticks: Mapping[str, datetime]) -> List[datetime]:
        """Those of the ticks, each by its key, that have a job: found among all jobs of about that time."""
        store, found = await self._store(), List[datetime]()
        for prefix in common_prefixes(ticks):
            which, after = Filter(key_prefix=prefix, states=_HOLDING), None
            while page := await store.jobs(which, now=self._ground.clock.now(), limit=PAGE, after=after, brief=True):
                found += [ticks[key] for job in page if (key := job.idempotency_key or "") in ticks]
                after = Cursor(page[-1].id)
                await asyncio.sleep(0)  # a store that answers without waiting gives other tasks no turn
                if len(page) < PAGE:
                    break
        return found

    async def _make(self, name: str, ticks: Sequence[datetime]) -> Collection[datetime]:
        """Returns those that others have made meanwhile."""
        scheduler, there = self._scheduler(), set[datetime]()

        async def change(row: Schedule, now: datetime) -> Firing | None:
            left = [tick for tick in ticks if tick not in there]
            firing = trigger_now(row, left, BACKFILL, now=now, mint=lambda: new_id(now), joins=False)
            inputs = [await scheduler.payload(row, tick.at) for tick in firing.ticks]
            pairs, fingerprint = zip(firing.ticks, inputs, strict=True), scheduler.fingerprint(row) if left else None
            jobs = tuple(job_of(row, tick, payload, now, fingerprint) for tick, payload in pairs)
            return replace(firing, jobs=jobs) if left else None

        def held(keys: Collection[str]) -> None:
            there.update(tick for tick in ticks if key_of(name, tick) in keys)

        await self._change(name, change, held)
        return there

    # inside

    def _computation(self, what: str, kind: Kind = "records") -> Computation:
        return Computation(self._ground.clock, what, kind=kind)

    async def _store(self) -> Store:
        """With what the code declares in it, where nobody has brought it there before."""
        store = await self._ground.opened()
        if not self._declared:
            await self._scheduler().declare(store, missing_only=True)
            self._declared = True
        return store

    async def _change(
        self,
        name: str,
        change: Callable[[Schedule, datetime], Firing | Awaitable[Firing | None] | None],
        held: Callable[[Collection[str]], None] = lambda keys: None,
        deed: _Deed | None = None,
    ) -> Schedule:
        """Until the change stands on the newest revision; `held` hears of keys that are in its way."""
        store = await self._store()
        for _ in range(TRIES):
            row, now = await self.get(name), self._ground.clock.now()
            wanted = change(row, now)
            firing = await wanted if isinstance(wanted, Awaitable) else wanted
            if firing is None:
                return row
            (fired,) = await store.fire([firing], now=now)
            if fired.stands:
                self._scheduler().tell(firing)
                annotate(before=row, after=firing.schedule)
                if deed is not None:
                    self._tell(deed, name)
                await self._ground.crier.flush()
                return firing.schedule
            held(fired.held)
        raise StoreUnavailable(f"schedule {name!r} was changed by others {TRIES} times in a row; try again")

    def _tell(self, deed: _Deed, *names: str) -> None:
        if names:
            self.index.touch(names)
            self._ground.events.emit(SchedulesChanged(at=self._ground.clock.now(), action=deed, names=names))


async def _missing(store: Store, name: str) -> ScheduleNotFound:
    rows = await store.schedules(limit=MAX_LIKE)
    known = [row.name for row in rows if len(row.name) <= MAX_LIKE_CHARACTERS]
    return ScheduleNotFound(f"there is no schedule {name!r}; {did_you_mean(name[:MAX_LIKE_CHARACTERS], known)}")


def _is_expected(spec: Spec, expected: str | Callable[[Spec], bool]) -> bool:
    return fingerprint(spec) == expected if isinstance(expected, str) else expected(spec)
