"""app.jobs: every job, one at a time or by filter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..bounds import MAX_REASON_CHARACTERS
from ..clock import is_instant
from ..errors import BadInput, BadPayload, InvalidTransition, JobExists, MainspringError
from ..events import JobsChanged
from ..ids import JobId
from ..insight.why import JobSurroundings, Reason, reasons
from ..records.job import ALLOWED, SHOWN, Action, Enqueued, Job, NewJob, Shown, State
from ..records.outcome import clean
from ..records.query import SORTS, Changed, Filter, Refusal, Sort, Update, Updates
from ..records.run import PARTIAL, LogLine
from ..span import Span, seconds
from ..suggest import did_you_mean
from ..task.handle import Handle, job_not_found
from ..task.options import checked_options
from ..webhook.seen_message import settle_open
from .audit_log import annotate, audited
from .bulk_page import BulkPage, resumed, token
from .bulk_steps import MAX_STEP_JOBS, Act, BulkSteps, in_parts
from .computation import Computation
from .edited import MAX_EDITED_JOBS, in_lots, with_arguments
from .ground import Ground
from .job_counts import FilteredCounts, filtered_counts
from .job_page import Page, is_text, page_cursor, page_token, running_jobs, whole_job
from .queues import Queues
from .run_again import again

PAGE = 1000
LINES = 1000
# Jobs that are looked at before others have their turn.
YIELD_JOBS = 50
MOST = 2**31 - 1
_UNFINISHED: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")
_IDEMPOTENT: tuple[Shown, ...] = (*_UNFINISHED, "completed")
_AT_REST = {"completed", "dead", "cancelled"}
# A job may be seen as expired before a claim has ended it.
_FINAL = _AT_REST | {"expired"}


class Jobs:
    """Each action takes one id, and then raises if it cannot be done; or a Filter, and tells what it did."""

    def __init__(
        self,
        ground: Ground,
        enqueue: Callable[[Sequence[NewJob]], Awaitable[Sequence[Handle[Any]]]],
        handle: Callable[[Enqueued, str], Handle[Any]],
    ) -> None:
        self._ground = ground
        self._enqueue, self._handle = enqueue, handle
        self._queues = Queues(ground)

    async def get(self, id: JobId) -> Job:
        id = checked_id(id)
        found = await (await self._ground.opened()).jobs(Filter(ids=(id,)), now=self._ground.clock.now(), limit=1)
        if not found:
            raise job_not_found(id)
        return found[0]

    async def list(
        self,
        which: Filter | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        sort: Sort | None = None,
        brief: bool = False,
    ) -> Page:
        """Matching jobs, newest first; give the page's `next` as `after` for the next one.

        `sort` is "created" (by id), "due" (pending jobs by run_at) or "finished" (final ones by finished_at);
        left out it is "finished" if only completed, dead or cancelled jobs are asked for, and not by when they were
        created; else "created".
        """
        checked_limit(limit, PAGE)
        which = checked_filter(which or Filter()).by_error()
        if sort is None:
            by_time = which.created_after is not None or which.created_before is not None
            sort = "finished" if which.states and set(which.states) <= _AT_REST and not by_time else "created"
        if sort not in SORTS:
            raise BadInput(f"unknown sort {sort!r} (known: {', '.join(SORTS)})")
        store, end = await self._ground.opened(), None if after is None else page_cursor(after, sort)
        now = self._ground.clock.now()
        found = await store.jobs(which, now=now, limit=limit, after=end, newest=newest, sort=sort, brief=brief)
        page = Page(found)
        page.order, page.next = sort, page_token(found[-1], sort) if len(found) == limit else None
        return page

    async def wait(self, id: JobId, timeout: Span) -> Job:
        """The job when it has ended, or as it is after `timeout`, e.g. 30 or "5m"."""
        clock, store = self._ground.clock, await self._ground.opened()
        end = clock.now() + timedelta(seconds=seconds(timeout, "wait()"))
        while True:
            now = clock.now()
            # Brief: a caller that waits reads it again and again.
            job = next(iter(await store.jobs(Filter(ids=(checked_id(id),)), now=now, limit=1, brief=True)), None)
            if job is None:
                raise job_not_found(id)
            if job.shown(now) in _FINAL or now >= end:
                return job if job.is_whole else await self.get(id)
            left = (end - now).total_seconds()
            await store.wait_final([id], min(left, self._ground.settings.poll_interval))

    async def counts(self) -> dict[Shown, int]:
        """How many jobs are in each state that people see. Large figures may be estimates."""
        counts = await (await self._ground.opened()).counts(now=self._ground.clock.now())
        return {state: counts.get(state, 0) for state in SHOWN}

    async def filtered_counts(self, which: Filter) -> FilteredCounts:
        """How many jobs of a filter are in each state, up to a bound; its states do not matter."""
        return await filtered_counts(await self._ground.opened(), checked_filter(which), self._ground.clock)

    async def why(self, id: JobId) -> Sequence[Reason]:
        """Every reason why the job is not running, or where it runs; never empty."""
        job, store, now = await self.get(id), await self._ground.opened(), self._ground.clock.now()
        circuits = {circuit.task: circuit for circuit in await store.circuits()}
        paused = {queue.name: queue for queue in await self._queues.list() if queue.paused}
        facts = JobSurroundings(
            now=now,
            paused=paused,
            pause=paused.get(job.queue),
            workers=await store.workers(now=now),
            running=await running_jobs(store, now) if job.state is State.PENDING else [],
            circuit=circuits.get(job.task),
            holder=await self._holder(job),
        )
        return reasons(job, facts)

    async def _holder(self, job: Job) -> Job | None:
        """Another job that has this final one's key, so that it cannot be retried."""
        key = job.unique_key or job.idempotency_key
        if key is None or not job.state.final or job.state is State.COMPLETED:
            return None
        holding = _IDEMPOTENT if job.idempotency_key else _UNFINISHED
        keys = job.unique_key, job.idempotency_key
        after: str | None = None
        while True:
            page = await self._page(Filter(key_prefix=key, states=holding), after, PAGE)
            for one in page:
                if (one.unique_key, one.idempotency_key) == keys and one.id != job.id:
                    return one
            after = page.next
            if after is None:
                return None

    async def logs(self, id: JobId, *, limit: int = LINES, after: tuple[int, int] = (0, 0)) -> Sequence[LogLine]:
        """What its runs have logged, first to last; `after` is the (run, n) of the last line seen."""
        checked_limit(limit, LINES)
        await self.get(id)
        return await (await self._ground.opened()).logs(id, limit=limit, after=after)

    async def tail(self, id: JobId, *, after: tuple[int, int] = (0, 0)) -> AsyncIterator[LogLine]:
        """Every line so far, then each new one as it comes, until the job has ended."""
        store, poll = await self._ground.opened(), self._ground.settings.poll_interval
        while True:
            job = await self.get(id)
            while lines := await store.logs(id, limit=LINES, after=after):
                for line in lines:
                    yield line
                after = (lines[-1].run, lines[-1].n)
            if job.shown(self._ground.clock.now()) in _FINAL:
                return
            await store.wait_final([id], poll)

    # actions

    @audited("jobs.run_again")
    async def run_again(self, id: JobId, *, new_id: JobId | None = None) -> Handle[Any]:
        """A new job that makes the same call as this finished one; see run_again.again()."""
        job = await self.get(id)
        made = again(job, self._ground.tasks, id=new_id, now=self._ground.clock.now())
        (handle,) = await self._enqueue([made])
        annotate(before=None, after={"job": handle.id})
        return handle

    @audited("jobs.cancel")
    async def cancel(
        self, which: JobId | Filter, reason: str = "cancelled by an operator", **part: Unpack[BulkPage]
    ) -> Changed:
        """Waiting jobs never run; running ones are interrupted at their worker's next beat."""
        return await self._change(Action.CANCEL, which, reason, **part)

    @audited("jobs.retry")
    async def retry(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        """Dead, cancelled and expired jobs become pending, with all their retries."""
        return await self._change(Action.RETRY, which, **part)

    @audited("jobs.pause")
    async def pause(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        return await self._change(Action.PAUSE, which, **part)

    @audited("jobs.resume")
    async def resume(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        return await self._change(Action.RESUME, which, **part)

    @audited("jobs.delete")
    async def delete(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        """Gone with their history; running jobs are refused."""
        return await self._change(Action.DELETE, which, **part)

    @audited("jobs.reschedule")
    async def reschedule(self, which: JobId | Filter, at: datetime | Span, **part: Unpack[BulkPage]) -> Changed:
        """Waiting jobs are due at that instant, or after that span from now."""
        now = self._ground.clock.now()
        run_at = at if isinstance(at, datetime) else now + timedelta(seconds=seconds(at, "reschedule()"))
        return await self.update(which, run_at=run_at, **part)

    @audited("jobs.update")
    async def update(
        self,
        which: JobId | Filter,
        *,
        arguments: Mapping[str, Any] | UnsetType = UNSET,
        queue: str | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        run_at: datetime | UnsetType = UNSET,
        expires_at: datetime | UnsetType | None = UNSET,
        timeout: Span | UnsetType | None = UNSET,
        max_retries: int | UnsetType = UNSET,
        tags: Sequence[str] | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """Waiting jobs get these values; what is left out stays. `arguments` go on top of those they have."""
        given = {
            "queue": queue, "priority": priority, "run_at": run_at, "expires": expires_at, "timeout": timeout,
            "max_retries": max_retries, "tags": tags, "metadata": metadata,
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not UNSET}
        if not given and arguments is UNSET:
            raise BadInput("update() was given nothing to change")
        if isinstance(given.get("expires"), int | float | timedelta | str):
            raise BadInput(f"expires_at takes a datetime, or None for never; got {expires_at!r}")
        values = checked_options(given, "this update")
        if "expires" in values:
            values["expires_at"] = values.pop("expires")
        return await self.change_with(Action.UPDATE, which, Update(**values), arguments, **part)

    async def preview(
        self,
        action: Action,
        which: Filter,
        arguments: Mapping[str, Any] | UnsetType = UNSET,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """What the action would do and refuse by the jobs' states and new arguments, without doing it.

        Keys are not looked at.
        """

        async def look(which: Filter, after: JobId | None, limit: int) -> Changed:
            store, page = await self._ground.opened(), await self._page(which, after, limit, brief=True)
            changed = Changed([], {}, page.next)
            for n, job in enumerate(page):
                whole = job if arguments is UNSET else await whole_job(store, job, self._ground.clock.now())
                _add(changed, await self._would(action, whole, arguments))
                if n % YIELD_JOBS == 0 or whole is not job:
                    await asyncio.sleep(0)
            return changed

        return await self._by_filter(which, look, MAX_STEP_JOBS if arguments is UNSET else MAX_EDITED_JOBS, **part)

    async def _would(self, action: Action, job: Job, arguments: Mapping[str, Any] | UnsetType) -> Changed:
        met = job.state_at(self._ground.clock.now())
        if met not in ALLOWED[action]:
            return Changed([], {job.id: Refusal(met)})
        try:
            if arguments is not UNSET:
                await self._edited(job, Update(), arguments)
        except BadPayload as bad:
            return Changed([], {job.id: Refusal(job.state, error=str(bad))})
        return Changed([job.id], {})

    async def change_with(
        self,
        action: Action,
        which: JobId | Filter,
        update: Update,
        arguments: Mapping[str, Any] | UnsetType,
        **part: Unpack[BulkPage],
    ) -> Changed:
        """An action that edits jobs; with arguments each gets a payload of its own."""
        if arguments is UNSET:
            return await self._change(action, which, update=update, **part)
        if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
            raise BadInput(f"arguments are given as a mapping by name, got {arguments!r:.80}")
        if not isinstance(which, Filter):
            job = await self.get(which)
            return await self._change(action, job.id, update=await self._edited(job, update, arguments), **part)

        async def edit(which: Filter, after: JobId | None, limit: int) -> Changed:
            page = await self._page(which, after, limit, brief=True)
            changed = await self._edit(action, page, update, arguments)
            await self._tell(action, changed)
            return replace(changed, next=page.next)

        return await self._by_filter(which, edit, MAX_EDITED_JOBS, **part)

    async def _page(self, which: Filter, after: JobId | None, limit: int, *, brief: bool = False) -> Page:
        return await self.list(which, limit=limit, after=after, newest=False, sort="created", brief=brief)

    async def _edit(self, action: Action, page: Page, update: Update, arguments: Mapping[str, Any]) -> Changed:
        """In a few steps of the store, each job with a payload of its own."""
        store, updates, refused = await self._ground.opened(), dict[JobId, Update](), dict[JobId, Refusal]()
        for brief in page:
            job = await whole_job(store, brief, self._ground.clock.now())
            try:
                updates[job.id] = await self._edited(job, update, arguments)
            except BadPayload as bad:
                refused[job.id] = Refusal(job.state, error=str(bad))
        changed = Changed([], refused)
        for some in in_lots(updates):
            _add(changed, await self._step(action, Filter(ids=tuple(some)), None, PAGE, "", some))
        return changed

    async def _edited(self, job: Job, update: Update, arguments: Mapping[str, Any]) -> Update:
        """In a thread: they may be large."""
        task, limit = self._ground.tasks.get(job.task), self._ground.settings.payload_limit
        computation = Computation(self._ground.clock, "the check of these arguments")
        return await computation.run(lambda: with_arguments(job, update, arguments, task, limit))

    async def _change(
        self,
        action: Action,
        which: JobId | Filter,
        reason: str = "",
        update: Update | None = None,
        **part: Unpack[BulkPage],
    ) -> Changed:
        reason = clean(str(reason), MAX_REASON_CHARACTERS)
        if isinstance(which, Filter):

            async def step(which: Filter, after: JobId | None, limit: int) -> Changed:
                changed = await self._step(action, which, after, limit, reason, update)
                await self._tell(action, changed)
                return changed

            return await self._by_filter(which, step, **part)
        which = checked_id(which)
        changed = await self._step(action, Filter(ids=(which,)), None, PAGE, reason, update)
        annotate(changed=changed)
        if which in changed.refused:
            raise refused_as(action, which, changed.refused[which])
        if not changed.done:
            raise job_not_found(which)
        await self._tell(action, changed)
        return changed

    async def _by_filter(self, which: Filter, act: Act, most: int = MAX_STEP_JOBS, **part: Unpack[BulkPage]) -> Changed:
        """Step by step, in order of id; each is told of, so that a later one that fails hides nothing."""
        left = part.get("limit", MOST)
        checked_limit(left, MOST)
        which, after = resumed(checked_filter(which).by_error(), part.get("after"), self._ground.clock.now())
        total, steps = Changed([], {}), BulkSteps(self._ground.clock, most)
        act = act if which.ids is None else in_parts(which.ids, act)
        annotate(changed=total)
        while True:
            changed = await act(which, after, steps.begin(left))
            steps.end()
            _add(total, changed)
            after, left = changed.next, left - len(changed.done) - len(changed.refused)
            if after is None or left <= 0:
                return total if after is None else replace(total, next=token(which, after))
            await asyncio.sleep(0)

    async def _step(
        self,
        action: Action,
        which: Filter,
        after: JobId | None,
        limit: int,
        reason: str,
        update: Updates | None,
    ) -> Changed:
        store, now = await self._ground.opened(), self._ground.clock.now()
        if action is Action.DELETE:
            await settle_open(store, now)
        return await store.change(action, which, now=now, limit=limit, reason=reason, update=update, after=after)

    async def _tell(self, action: Action, changed: Changed) -> None:
        if changed.done:
            self._ground.events.emit(JobsChanged(at=self._ground.clock.now(), action=action, ids=tuple(changed.done)))
            await self._ground.crier.flush()


def refused_as(action: Action, id: JobId, refusal: Refusal) -> MainspringError:
    """The error that a refusal means for who asked about this one job."""
    if refusal.error is not None:
        return BadPayload(refusal.error)
    if refusal.holder is not None:
        return JobExists(refusal.key or "", refusal.holder)
    return InvalidTransition(id, refusal.state, action, ", ".join(sorted(ALLOWED[action])))


def _add(total: Changed, more: Changed) -> None:
    total.done.extend(more.done)
    total.refused.update(more.refused)


_TEXTS = ("ids", "states", "queues", "tasks", "tags", "workers", "errors", "schedules")


def checked_filter(which: Filter) -> Filter:
    """Refuses by name what no job can match because it is not even the right kind of thing."""
    for name in _TEXTS:
        _texts(f"Filter({name}=…)", getattr(which, name))
    if which.key_prefix is not None and not is_text(which.key_prefix):
        raise BadInput(f"Filter(key_prefix=…) takes a text, got {which.key_prefix!r:.80}")
    if which.outcome not in (None, PARTIAL):
        raise BadInput(f"unknown outcome {which.outcome!r:.80} (known: {PARTIAL}; for others use states)")
    for state in which.states or ():
        if state not in SHOWN:
            raise BadInput(f"unknown state {state!r}; {did_you_mean(state, SHOWN)}")
    for name in ("created_after", "created_before"):
        at = getattr(which, name)
        if at is not None and not is_instant(at):
            raise BadInput(f"{name} takes a datetime with a time zone, got {at!r}")
    return _storable(which)


def _storable(which: Filter) -> Filter:
    """The same filter without NULs, which no store keeps and not every store can be asked for."""
    if "\x00" in (which.key_prefix or "") or any("\x00" in tag for tag in which.tags or ()):
        return Filter(ids=())
    for name in ("ids", "queues", "tasks", "workers", "errors", "schedules"):
        values = getattr(which, name)
        if values is not None and any("\x00" in value for value in values):
            which = replace(which, **{name: tuple(value for value in values if "\x00" not in value)})
    return which


def _texts(what: str, given: object) -> None:
    if given is not None and (not isinstance(given, tuple | list) or not all(map(is_text, given))):
        raise BadInput(f"{what} takes a tuple of texts, got {given!r:.80}")


def checked_limit(limit: object, most: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= most:
        raise BadInput(f"limit must be from 1 to {most}, got {limit!r}; page on with after=")


def checked_id(id: object) -> JobId:
    if not isinstance(id, str):
        raise BadInput(f"a job is named by its id, which is text; got {type(id).__name__} (a handle has it as .id)")
    if not id.isprintable():
        raise job_not_found(id)  # and no store need be asked
    return id
