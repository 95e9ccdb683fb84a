"""app.flows: reads and changes flows. A flow is a job, so app.jobs has its result, its runs and its logs."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import BadInput, JobExists
from ..events import JobsChanged, SignalReceived
from ..flow.graph import Graph
from ..flow.signal_call import signal_value
from ..ids import JobId
from ..insight.flow_view import FlowCounts, FlowView, StepView, flow_counts, flow_view, step_views
from ..insight.flow_why import steps_not_run
from ..insight.why import Reason
from ..records.flow import FLOW_TASKS, PLANNED_TASKS, FlowWithPlan, GiveSignal, SkipStep, StepStatus
from ..records.job import FINAL, Action, Job, Shown, State
from ..records.outcome import clean
from ..records.query import Changed, Filter
from ..records.step import MAX_INDEX, position_of
from ..suggest import did_you_mean
from .audit_log import annotate, audited
from .bulk_page import BulkPage
from .checks import MAX_PAGE_ROWS, checked_id, checked_limit
from .computation import Computation
from .flow_replay import Replay, replayed_job
from .job_page import Page
from .signals import checked_delivery, signal_error
from .step_jobs import flow_of, flow_store, number_of, single_jobs, step_pages

if TYPE_CHECKING:
    from ..engine import Engine
    from ..insight.flow_formats import PictureFormat
    from ..task.handle import Handle
    from ..task.options import JobOptions

# Dead jobs of steps that are retried at once, while other steps of their flow go on.
MAX_RETRIED_JOBS = 10_000
# The reason of a skip, which the flow's row keeps.
MAX_SKIP_REASON_CHARACTERS = 200
# Flows whose rows and plans are read at once.
BATCH_ROWS = 20


class FlowJobs(Page):
    """The jobs of flows, and how far they are."""

    progress: Mapping[JobId, FlowCounts] = {}
    """By id. A flow that is not planned yet is not there."""

    @classmethod
    def of(cls, page: Page, progress: Mapping[JobId, FlowCounts]) -> FlowJobs:
        found = cls(page)
        found.next, found.order, found.progress = page.next, page.order, progress
        return found


class Flows:
    """Each method takes the id of a flow's own job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # reading

    async def get(self, id: JobId) -> FlowView:
        """The flow with all of its steps. Raises BadInput if the job has none: it is no flow, or not planned yet."""
        job, found = await self._found(id)
        graph = Graph(found.plan)
        jobs = await single_jobs(await self._engine.connect(), graph, found.row)
        return flow_view(job, graph, found.row, jobs, self._engine.clock.now())

    async def steps(self, id: JobId) -> Sequence[StepView]:
        """The flow's steps, each after those that it needs."""
        return (await self.get(id)).steps

    async def items(self, id: JobId, step: str, *, after: int = -1, limit: int = 100) -> Sequence[Job]:
        """The jobs of a map's items, in order; `after` is the index of the last one seen, counted from 0."""
        checked_limit(limit, MAX_PAGE_ROWS)
        _, found = await self._found(id)
        n = number_of(graph := Graph(found.plan), step)
        if graph.steps[n].over is None:
            raise BadInput(f"step {step!r} is no map: get() has its job")
        if isinstance(after, bool) or not isinstance(after, int) or not -1 <= after < MAX_INDEX - 1:
            raise BadInput(f"after= is the index of an item, from -1 on; got {after!r:.80}")
        life = found.row.lives.get(n, 0)
        first, last = position_of(n, after + 2, life), position_of(n, MAX_INDEX, life)
        store = flow_store(await self._engine.connect())
        return await store.step_jobs(found.row.id, first=first, last=last, limit=limit)

    async def list(
        self,
        tasks: Sequence[str] | None = None,
        *,
        states: Sequence[Shown] | None = None,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        brief: bool = False,
    ) -> FlowJobs:
        """The jobs of flows, newest first: of these flows, or of all that this app declares and those made with
        app.plan(). A page's `next` is the `after` of the next one, and its `progress` says how far they are."""
        names = self._flow_names() if tasks is None else tuple(tasks)
        self._check_flow_names(names)
        which = Filter(tasks=names, states=None if states is None else tuple(states))
        page = await self._engine.jobs.list(which, limit=limit, after=after, newest=newest, brief=brief)
        return FlowJobs.of(page, await self._counts([job.id for job in page]))

    def _flow_names(self) -> tuple[str, ...]:
        return (*(name for name, task in self._engine.tasks.items() if task.is_flow), *sorted(PLANNED_TASKS))

    def _check_flow_names(self, names: Sequence[str]) -> None:
        """Raises BadInput for a task that is no flow. One that only another app has may be one."""
        for name in names:
            task = self._engine.tasks.get(name)
            if task is not None and not (task.is_flow or task.stub):
                raise BadInput(f"task {name!r} is no flow; {did_you_mean(name, self._flow_names())}")

    async def _counts(self, ids: Sequence[JobId]) -> dict[JobId, FlowCounts]:
        """How far these flows are, read with few plans at a time: plans may be large."""
        store, found = await self._engine.connect(), dict[JobId, FlowCounts]()
        for start in range(0, len(ids), BATCH_ROWS) if store.capabilities.flows else ():
            flows = await flow_store(store).flows(ids[start : start + BATCH_ROWS])
            found.update({flow.row.id: flow_counts(flow.row) for flow in flows if flow.row.planned})
        return found

    async def draw(self, id: JobId, format: PictureFormat = "svg") -> str:
        """The picture of a flow as it is now: "svg", or "mermaid" for text that other pages draw."""
        from ..insight.flow_drawing import conditions_of, draw_flow
        from ..insight.flow_formats import FORMATS

        if format not in FORMATS:
            raise BadInput(f"a picture is {' or '.join(map(repr, FORMATS))}, not {format!r:.80}")
        job, found = await self._found(id)
        graph = Graph(found.plan)
        jobs = await single_jobs(await self._engine.connect(), graph, found.row)
        views = step_views(graph, found.row, jobs, self._engine.clock.now())
        return FORMATS[format](draw_flow(f"{job.task} {job.id}", graph, conditions_of(graph), views))

    async def why(self, id: JobId) -> Sequence[Reason]:
        """Every reason why the flow has not ended, down to the jobs that it waits for, and why steps were not run."""
        found = await flow_of(await self._engine.connect(), checked_id(id))
        reasons = list(await self._engine.jobs.why(id))
        return reasons if found is None else reasons + steps_not_run(Graph(found.plan), found.row)

    async def _found(self, id: JobId) -> tuple[Job, FlowWithPlan]:
        job, store = await self._engine.jobs.get(id), await self._engine.connect()
        store.capabilities.require_flows()
        if (found := await flow_of(store, job.id)) is None:
            why = "it was not planned yet" if self.may_be_flow(job) else "it is no flow"
            raise BadInput(f"job {job.id} ({job.task}) has no steps: {why}")
        return job, found

    def may_be_flow(self, job: Job) -> bool:
        """Whether the job is a flow's own, as far as is known without its plan: this app may not have its task."""
        if (known := self._engine.tasks.get(job.task)) is not None:
            return known.is_flow
        return job.task not in FLOW_TASKS or job.task in PLANNED_TASKS

    # changing

    async def enqueue(self, plan: Mapping[str, Any] | str | bytes, /, **options: Unpack[JobOptions]) -> Handle[Any]:
        """Enqueues a flow whose plan is JSON, as PlanBuilder.document() has it. The options are those of its job."""
        from ..flow.document import builder_from_document

        return await builder_from_document(plan, self._engine.registry.app, options).enqueue()

    async def cancel(self, id: JobId, reason: str = "cancelled by an operator") -> Changed:
        """Cancels the flow: steps that wait are not run, the others are cancelled, and it ends when all have ended.

        Steps with on="end" still run; a second cancel stops these, too.
        """
        return await self._engine.jobs.cancel(id, reason)

    async def retry(self, id: JobId, **part: Unpack[BulkPage]) -> Changed:
        """Puts the dead steps back to work, and all that depends on them. Completed steps do not run again.

        Of a flow that has ended the cancelled steps, too.
        """
        job = await self._engine.jobs.get(id)
        if job.state in FINAL and self.may_be_flow(job):  # maybe it was never planned
            return await self._engine.jobs.retry(job.id)
        job, found = await self._found(id)
        if job.state in FINAL:
            return await self._engine.jobs.retry(job.id)
        ids = await self._dead_jobs(found)
        if not ids:
            raise BadInput(f"flow {job.id} ({job.task}) has no dead steps")
        return await self._engine.jobs.retry(Filter(ids=tuple(ids)), **part)

    @audited("flows.skip")
    async def skip(self, id: JobId, step: str, reason: str = "") -> StepView:
        """Skips a step: one that waits, whose job is cancelled with this, or that is dead or cancelled. The flow goes
        on as if it were optional, also a flow that is dead of it.

        A job that runs is told to stop, and its step is skipped when it has ended, unless it completes before that.
        """
        job, found = await self._found(id)
        n, reason = number_of(Graph(found.plan), step), clean(str(reason), MAX_SKIP_REASON_CHARACTERS)
        store, now = flow_store(await self._engine.connect()), self._engine.clock.now()
        refusal = await store.change_flow(job.id, SkipStep(n, reason), now=now)
        if refusal is not None and refusal.holder is not None:
            raise JobExists(refusal.key or "", refusal.holder)
        if refusal is not None:
            raise BadInput(refusal.error or f"flow {job.id} ({job.task}) has {refusal.state}: it has nothing to skip")
        self._engine.events.emit(JobsChanged(at=now, action=Action.UPDATE, ids=(job.id,)))
        await self._engine.dispatcher.flush()
        return (await self.get(job.id)).step(step)

    @audited("flows.signal")
    async def signal(self, id: JobId, name: str, value: Any = None, *, delivery: str | None = None) -> None:
        """Gives a signal of a flow its value; or, of another job that has not ended, one that its task may wait for.

        The first value stands: another one raises SignalTwice, and one that comes too late SignalLate. A repeated call
        with the same `delivery`, such as the id of a message, changes nothing.
        """
        job, now = await self._engine.jobs.get(id), self._engine.clock.now()
        task, computation = self._engine.tasks.get(job.task), Computation(self._engine.clock, "the check of this value")
        text = await computation.run(lambda: signal_value(task, name, value))
        store = flow_store(await self._engine.connect())
        refusal = await store.change_flow(job.id, GiveSignal(name, text, checked_delivery(delivery, now)), now=now)
        answer = "given" if refusal is None else refusal.signal
        if answer is not None:
            self._engine.events.emit(SignalReceived(at=now, job=job, name=name, answer=answer))
        if refusal is not None:
            raise signal_error(refusal)
        self._engine.events.emit(JobsChanged(at=now, action=Action.UPDATE, ids=(job.id,)))
        await self._engine.dispatcher.flush()

    @audited("flows.replay")
    async def replay(
        self,
        id: JobId,
        *,
        from_: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        new_id: JobId | None = None,
    ) -> Handle[Any]:
        """Enqueues a new flow that repeats one which has ended. From the start its function plans it again; `arguments`
        are merged over those that it had.

        With `from_` it has the same plan: that step and all behind it run, and the others are taken over as they ended,
        with their values. Both flows stay, and the new one has `replay_of`.
        """
        job = await self._engine.jobs.get(id)
        new = await replayed_job(self._engine, Replay(job, from_, arguments), id=new_id)
        (handle,) = await self._engine.insert([new])
        annotate(before=None, after={"job": handle.id})
        return handle

    async def _dead_jobs(self, found: FlowWithPlan) -> builtins.list[JobId]:
        """The dead jobs of its dead steps, up to a limit."""
        store, row, ids = await self._engine.connect(), found.row, list[JobId]()
        for n, status in enumerate(row.statuses):
            # An open batch is not dead yet when some of its jobs are.
            dead = status == StepStatus.DEAD or found.plan.steps[n].open_seconds is not None
            if dead and len(ids) < MAX_RETRIED_JOBS:
                life = row.lives.get(n, 0)
                first, last = position_of(n, 0, life), position_of(n, MAX_INDEX, life)
                async for jobs in step_pages(store, row.id, first, last):
                    ids += (job.id for job in jobs if job.state in (State.DEAD, State.EXPIRED))
        return ids[:MAX_RETRIED_JOBS]
