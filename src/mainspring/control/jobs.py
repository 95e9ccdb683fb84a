"""app.jobs: reads and changes jobs, one at a time or by filter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..bounds import MAX_REASON_CHARACTERS
from ..errors import BadInput, BadPayload, InvalidTransition, JobExists, MainspringError
from ..events import JobsChanged
from ..ids import JobId
from ..records.job import ALLOWED, SHOWN, Action, Job, Shown, State
from ..records.outcome import clean
from ..records.query import SORTS, Changed, Filter, Refusal, Sort, Update, Updates
from ..records.run import Ending, LogLine
from ..span import Span, seconds
from ..task.handle import Handle, job_not_found
from ..task.options import checked_options
from ..webhook.message_dedup import record_open_messages
from .argument_edits import MAX_EDITED_JOBS, in_batches, with_arguments
from .audit_log import annotate, audited
from .bulk_page import BulkPage, bulk_token, resume_from
from .bulk_steps import MAX_STEP_JOBS, BulkStep, BulkSteps, split_ids
from .checks import MAX_COUNT, MAX_PAGE_ROWS, checked_filter, checked_id, checked_limit
from .computation import Computation
from .job_checkpoints import JobCheckpoints
from .job_counts import FilteredCounts, filtered_counts
from .job_output import JobOutput
from .job_page import Page, page_cursor, page_token, running_jobs, whole_job
from .run_again import repeat_of

if TYPE_CHECKING:
    from ..engine import Engine
    from ..insight.why import Reason
    from ..store import Store

MAX_LOG_LINES = 1000
# Jobs processed before the event loop serves others.
YIELD_JOBS = 50
# Flows in steps of flows that why() looks into.
MAX_NESTED_FLOWS = 5
_UNFINISHED: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")
_IDEMPOTENT: tuple[Shown, ...] = (*_UNFINISHED, "completed")
_AT_REST = {"completed", "dead", "cancelled"}
# A job may be shown as expired before a claim has ended it.
FINAL_SHOWN = _AT_REST | {"expired"}


class Jobs(JobOutput, JobCheckpoints):
    """Each action takes one id and raises if it is impossible, or a Filter and returns what it did and refused."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: JobId) -> Job:
        id = checked_id(id)
        found = await (await self._engine.connect()).jobs(Filter(ids=(id,)), now=self._engine.clock.now(), limit=1)
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
        """Matching jobs, newest first; pass the page's `next` as `after` for the next one.

        `sort` is "created" (by id), "due" (pending jobs by run_at) or "finished" (final ones by finished_at). By
        default it is "finished" if the filter has only the states completed, dead or cancelled, and no bound on the
        creation time; else "created".
        """
        checked_limit(limit, MAX_PAGE_ROWS)
        which = checked_filter(which or Filter()).by_error()
        if sort is None:
            by_time = which.created_after is not None or which.created_before is not None
            sort = "finished" if which.states and set(which.states) <= _AT_REST and not by_time else "created"
        if sort not in SORTS:
            raise BadInput(f"unknown sort {sort!r} (known: {', '.join(SORTS)})")
        store, end = await self._engine.connect(), None if after is None else page_cursor(after, sort)
        now = self._engine.clock.now()
        found = await store.jobs(which, now=now, limit=limit, after=end, newest=newest, sort=sort, brief=brief)
        page = Page(found)
        page.order, page.next = sort, page_token(found[-1], sort) if len(found) == limit else None
        return page

    async def wait(self, id: JobId, timeout: Span) -> Job:
        """Returns the job when it has ended, or as it is after `timeout`, e.g. 30 or "5m"."""
        clock, store = self._engine.clock, await self._engine.connect()
        end = clock.now() + timedelta(seconds=seconds(timeout, "wait()"))
        while True:
            seen, now = await store.wait("final", 0), clock.now()
            # Brief: it is read again and again.
            job = next(iter(await store.jobs(Filter(ids=(checked_id(id),)), now=now, limit=1, brief=True)), None)
            if job is None:
                raise job_not_found(id)
            if job.shown(now) in FINAL_SHOWN or now >= end:
                return job if job.is_whole else await self.get(id)
            until = end if job.state is not State.PENDING or job.expires_at is None else min(end, job.expires_at)
            left = min((until - now).total_seconds(), self._engine.settings.poll_interval)
            await store.wait("final", left, seen=seen)

    async def counts(self) -> dict[Shown, int]:
        """The number of jobs in each state that users see. Large figures may be estimates."""
        overview = await (await self._engine.connect()).overview(now=self._engine.clock.now())
        return {state: overview.states.get(state, 0) for state in SHOWN}

    async def filtered_counts(self, which: Filter) -> FilteredCounts:
        """The number of a filter's jobs in each state, up to a maximum; the filter's own states are ignored."""
        return await filtered_counts(await self._engine.connect(), checked_filter(which), self._engine.clock)

    async def why(self, id: JobId) -> Sequence[Reason]:
        """Every reason why the job is not running, or where it runs; never empty.

        A flow that waits has a reason for each step that it waits for.
        """
        return await self._why(await self.get(id), MAX_NESTED_FLOWS)

    async def _waits_for_steps(self, store: Store, job: Job, depth: int) -> Sequence[Reason]:
        from .flow_reasons import waiting_reasons
        from .step_jobs import row_of

        if (flow := await row_of(store, job.id)) is None:
            return ()
        return await waiting_reasons(store, job, flow, lambda step: self._why(step, depth - 1))

    async def _why(self, job: Job, depth: int) -> Sequence[Reason]:
        from ..insight.why import JobSurroundings, reasons
        from .limits import facts_of_limit
        from .queues import with_pauses

        store, now = await self._engine.connect(), self._engine.clock.now()
        if job.state is State.WAITING and depth and (waits := await self._waits_for_steps(store, job, depth)):
            return waits
        overview = await store.overview(now=now, finished=False)
        circuits = {circuit.task: circuit for circuit in overview.circuits}
        paused = {queue.name: queue for queue in await with_pauses(store, overview.queues, now) if queue.paused}
        surroundings = JobSurroundings(
            now=now,
            paused=paused,
            pause=paused.get(job.queue),
            workers=await store.workers(now=now),
            running=await running_jobs(store, now) if job.state is State.PENDING else [],
            circuit=circuits.get(job.task),
            holder=await self._holder(job),
            asleep=await _is_asleep(store, job, now),
            limit=await facts_of_limit(store, job),
        )
        return reasons(job, surroundings)

    async def _holder(self, job: Job) -> Job | None:
        """The other job that holds this final job's key, so that it cannot be retried; None if there is none."""
        key = job.unique_key or job.idempotency_key
        if key is None or not job.state.final or job.state is State.COMPLETED:
            return None
        holding = _IDEMPOTENT if job.idempotency_key else _UNFINISHED
        keys = job.unique_key, job.idempotency_key
        after: str | None = None
        while True:
            page = await self._page(Filter(key_prefix=key, states=holding), after, MAX_PAGE_ROWS)
            for one in page:
                if (one.unique_key, one.idempotency_key) == keys and one.id != job.id:
                    return one
            after = page.next
            if after is None:
                return None

    async def logs(
        self, id: JobId, *, limit: int = MAX_LOG_LINES, after: tuple[int, int] = (0, 0)
    ) -> Sequence[LogLine]:
        """The lines logged by its runs, first to last; `after` is the (run, n) of the last line seen."""
        checked_limit(limit, MAX_LOG_LINES)
        await self.get(id)
        return await (await self._engine.connect()).logs(id, limit=limit, after=after)

    async def tail(self, id: JobId, *, after: tuple[int, int] = (0, 0)) -> AsyncIterator[LogLine]:
        """Yields every line so far, then each new one, until the job has ended."""
        store, poll = await self._engine.connect(), self._engine.settings.poll_interval
        while True:
            seen = await store.wait("final", 0)
            job = await self.get(id)
            while lines := await store.logs(id, limit=MAX_LOG_LINES, after=after):
                for line in lines:
                    yield line
                after = (lines[-1].run, lines[-1].n)
            if job.shown(self._engine.clock.now()) in FINAL_SHOWN:
                return
            await store.wait("final", poll, seen=seen)

    # actions

    @audited("jobs.run_again")
    async def run_again(self, id: JobId, *, new_id: JobId | None = None) -> Handle[Any]:
        """Enqueues a new job with the same call as this finished one; see the run_again module."""
        job = await self.get(id)
        copy = repeat_of(job, self._engine.tasks, id=new_id, now=self._engine.clock.now())
        (handle,) = await self._engine.insert([copy])
        annotate(before=None, after={"job": handle.id})
        return handle

    @audited("jobs.cancel")
    async def cancel(
        self, which: JobId | Filter, reason: str = "cancelled by an operator", **part: Unpack[BulkPage]
    ) -> Changed:
        """Cancels waiting jobs; running ones are interrupted at their worker's next beat."""
        return await self._change(Action.CANCEL, which, reason, **part)

    @audited("jobs.retry")
    async def retry(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        """Makes dead, cancelled and expired jobs pending, with all their retries."""
        return await self._change(Action.RETRY, which, **part)

    @audited("jobs.pause")
    async def pause(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        return await self._change(Action.PAUSE, which, **part)

    @audited("jobs.resume")
    async def resume(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        return await self._change(Action.RESUME, which, **part)

    @audited("jobs.delete")
    async def delete(self, which: JobId | Filter, **part: Unpack[BulkPage]) -> Changed:
        """Deletes jobs with their history; running ones are refused."""
        return await self._change(Action.DELETE, which, **part)

    @audited("jobs.reschedule")
    async def reschedule(self, which: JobId | Filter, at: datetime | Span, **part: Unpack[BulkPage]) -> Changed:
        """Makes waiting jobs due at that instant, or after that span from now."""
        now = self._engine.clock.now()
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
        """Changes the given values of waiting jobs. `arguments` are merged over the existing ones."""
        given = {
            "queue": queue,
            "priority": priority,
            "run_at": run_at,
            "expires": expires_at,
            "timeout": timeout,
            "max_retries": max_retries,
            "tags": tags,
            "metadata": metadata,
        }
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
        """What the action would do, and refuse because of the jobs' states or new arguments, without doing it.

        Conflicts of keys are not checked.
        """

        async def preview_step(which: Filter, after: JobId | None, limit: int) -> Changed:
            store, page = await self._engine.connect(), await self._page(which, after, limit, brief=True)
            changed = Changed([], {}, page.next)
            for n, job in enumerate(page):
                whole = job if arguments is UNSET else await whole_job(store, job, self._engine.clock.now())
                _add(changed, await self._preview_job(action, whole, arguments))
                if n % YIELD_JOBS == 0 or whole is not job:
                    await asyncio.sleep(0)
            return changed

        return await self._by_filter(
            which, preview_step, MAX_STEP_JOBS if arguments is UNSET else MAX_EDITED_JOBS, **part
        )

    async def _preview_job(self, action: Action, job: Job, arguments: Mapping[str, Any] | UnsetType) -> Changed:
        state = job.state_at(self._engine.clock.now())
        if state not in ALLOWED[action]:
            return Changed([], {job.id: Refusal(state)})
        try:
            if arguments is not UNSET:
                await self._with_arguments(job, Update(), arguments)
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
        """An action that also edits jobs; with arguments each job gets a payload of its own."""
        if arguments is UNSET:
            return await self._change(action, which, update=update, **part)
        if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
            raise BadInput(f"arguments are given as a mapping by name, got {arguments!r:.80}")
        if not isinstance(which, Filter):
            job = await self.get(which)
            return await self._change(action, job.id, update=await self._with_arguments(job, update, arguments), **part)

        async def edit(which: Filter, after: JobId | None, limit: int) -> Changed:
            page = await self._page(which, after, limit, brief=True)
            changed = await self._edit_page(action, page, update, arguments)
            await self._emit_changed(action, changed)
            return replace(changed, next=page.next)

        return await self._by_filter(which, edit, MAX_EDITED_JOBS, **part)

    async def _page(self, which: Filter, after: JobId | None, limit: int, *, brief: bool = False) -> Page:
        return await self.list(which, limit=limit, after=after, newest=False, sort="created", brief=brief)

    async def _edit_page(self, action: Action, page: Page, update: Update, arguments: Mapping[str, Any]) -> Changed:
        """Changes the jobs in a few store calls, each job with a payload of its own."""
        store, updates, refused = await self._engine.connect(), dict[JobId, Update](), dict[JobId, Refusal]()
        for brief in page:
            job = await whole_job(store, brief, self._engine.clock.now())
            try:
                updates[job.id] = await self._with_arguments(job, update, arguments)
            except BadPayload as bad:
                refused[job.id] = Refusal(job.state, error=str(bad))
        changed = Changed([], refused)
        for some in in_batches(updates):
            _add(changed, await self._change_batch(action, Filter(ids=tuple(some)), None, MAX_PAGE_ROWS, "", some))
        return changed

    async def _with_arguments(self, job: Job, update: Update, arguments: Mapping[str, Any]) -> Update:
        """The update with the edited payload, computed in a thread because payloads may be large."""
        task, limit = self._engine.tasks.get(job.task), self._engine.settings.payload_limit
        computation = Computation(self._engine.clock, "the check of these arguments")
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
                changed = await self._change_batch(action, which, after, limit, reason, update)
                await self._emit_changed(action, changed)
                return changed

            return await self._by_filter(which, step, **part)
        which = checked_id(which)
        changed = await self._change_batch(action, Filter(ids=(which,)), None, MAX_PAGE_ROWS, reason, update)
        annotate(changed=changed)
        if which in changed.refused:
            raise refusal_error(action, which, changed.refused[which])
        if not changed.done:
            raise job_not_found(which)
        await self._emit_changed(action, changed)
        return changed

    async def _by_filter(
        self, which: Filter, act: BulkStep, max_jobs: int = MAX_STEP_JOBS, **part: Unpack[BulkPage]
    ) -> Changed:
        """Runs `act` step by step, in order of id. Each step emits its events, so that a later error hides nothing."""
        left = part.get("limit", MAX_COUNT)
        checked_limit(left, MAX_COUNT)
        which, after = resume_from(checked_filter(which).by_error(), part.get("after"), self._engine.clock.now())
        total, steps = Changed([], {}), BulkSteps(self._engine.clock, max_jobs)
        act = act if which.ids is None else split_ids(which.ids, act)
        annotate(changed=total)
        while True:
            changed = await act(which, after, steps.begin(left))
            steps.end()
            _add(total, changed)
            after, left = changed.next, left - len(changed.done) - len(changed.refused)
            if after is None or left <= 0:
                return total if after is None else replace(total, next=bulk_token(which, after))
            await asyncio.sleep(0)

    async def _change_batch(
        self,
        action: Action,
        which: Filter,
        after: JobId | None,
        limit: int,
        reason: str,
        update: Updates | None,
    ) -> Changed:
        store, now = await self._engine.connect(), self._engine.clock.now()
        if action is Action.DELETE:
            await record_open_messages(store, now)
        return await store.change(action, which, now=now, limit=limit, reason=reason, update=update, after=after)

    async def _emit_changed(self, action: Action, changed: Changed) -> None:
        if changed.done:
            self._engine.events.emit(JobsChanged(at=self._engine.clock.now(), action=action, ids=tuple(changed.done)))
            await self._engine.dispatcher.flush()


def refusal_error(action: Action, id: JobId, refusal: Refusal) -> MainspringError:
    """The exception for a refusal of a change of this one job."""
    if refusal.error is not None:
        return BadPayload(refusal.error)
    if refusal.holder is not None:
        return JobExists(refusal.key or "", refusal.holder)
    return InvalidTransition(id, refusal.state, action, ", ".join(sorted(ALLOWED[action])))


def _add(total: Changed, more: Changed) -> None:
    total.done.extend(more.done)
    total.refused.update(more.refused)


async def _is_asleep(store: Store, job: Job, now: datetime) -> bool:
    """Whether the job's last run ended in ctx.sleep()."""
    if job.state is not State.PENDING or not job.runs or job.run_at <= now:
        return False
    last = await store.executions(job.id, after=job.runs - 1)
    return bool(last) and last[-1].ending is Ending.SUSPENDED
