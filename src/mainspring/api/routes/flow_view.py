"""Flows and their steps in responses: how far they are, and the picture of their graph, with user data redacted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ...errors import BadFlow
from ...flow.graph import Graph
from ...flow.layout import EdgeKind
from ...flow.shape import shape_of
from ...flow.signals import signal_text
from ...insight.flow_drawing import FlowDrawing, conditions_of, draw_flow
from ...insight.flow_view import FlowCounts, SignalView, StepState, StepView, replayed_flow, step_view, step_views
from ...insight.flow_why import reason_not_run
from ...records.flow import BATCH, PLANNED_FLOW, SKIP_REASONS, Flow, ItemCounts, StepStatus
from ...records.job import BRIEF_CHARACTERS, Job, Shown, State
from ...records.plan import On, PlannedStep, SignalStep
from ...records.run import Failure
from ...records.step import position_of
from ..access.redaction import mask_note, redact_data, redact_failure, redact_line
from ..problem import Problem
from .job_view import MAX_EXCERPT_CHARACTERS, JobItem, JobView, job_item, job_view

if TYPE_CHECKING:
    from ...task.task import Task

# Names in `needs` of all steps of one flow together.
MAX_NEEDED_NAMES = 100_000
# Steps that a waiting step's reason names.
MAX_WAITED_NAMES = 5
StepKind = Literal["step", "map", "flow", "signal"]
_STOPPING = frozenset({"finishing", "failing", "cancelling", "aborting"})


class FlowItem(JobItem, frozen=True, kw_only=True):
    """A flow in a list: its job, and how far it is."""

    flow: FlowCounts | None
    """null before it is planned."""
    name: str | None
    """Of a batch, and of a flow that was made from a plan."""


class FlowPage(Struct, frozen=True):
    items: list[FlowItem]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""


class StepItems(Struct, frozen=True, kw_only=True):
    """The items of a map, counted."""

    total: int | None
    """null while more are made."""
    made: int
    completed: int
    dead: int
    cancelled: int
    open: int
    """Items that have not ended."""


class SignalDetails(Struct, frozen=True, kw_only=True):
    """A signal: a step whose value is given from outside."""

    waits: bool
    """All that it needs has ended, and it was not given."""
    deadline: datetime | None
    """When it is late, if it waits and has a timeout."""
    has_default: bool
    """Whether it has a value after its timeout."""
    given_at: datetime | None
    late: bool
    schema: Any
    """The JSON schema of its values; null if it is not known."""


class StepDetails(Struct, frozen=True, kw_only=True):
    """One step of a flow."""

    name: str
    task: str
    queue: str
    kind: StepKind
    status: StepState
    reason: str | None
    """Why it was not run, or what it waits for."""
    skipped_because: str | None
    """when, absent, all-skipped, said, not-needed or operator."""
    note: str | None
    """Why a step has no job although it has ended, or the reason of an operator who skips it."""
    job_id: str | None
    """null before it is released, and for a map."""
    job_state: Shown | None
    attempts: int | None
    released_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    failure: Failure | None
    """Why its job is dead, or has to be retried; without the stack, which the job has."""
    needs: list[str]
    """The names of the steps that it needs. Of very large flows not all are given."""
    on: On
    optional: bool
    when: str | None
    """Its condition."""
    items: StepItems | None
    """Of a map that has begun."""
    value: str | None
    """The beginning of its result."""
    signal: SignalDetails | None
    """Of a signal: it has no job and no task."""


class GraphNode(Struct, frozen=True):
    """A box of the picture, in pixels."""

    id: str
    steps: list[str]
    """The names of its steps: one, or several that are folded."""
    x: int
    y: int
    width: int
    height: int


class GraphEdge(Struct, frozen=True, kw_only=True):
    source: str = field(name="from")
    """The id of the node that is needed."""
    target: str = field(name="to")
    kind: EdgeKind
    label: str | None
    points: list[tuple[int, int]]


class GraphView(Struct, frozen=True):
    """The picture of a flow: where its nodes and edges are."""

    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class FlowParent(Struct, frozen=True):
    """The step of another flow that this flow is."""

    flow: str
    step: str | None
    """null if that flow is gone."""


class FlowDetails(Struct, frozen=True, kw_only=True):
    """A flow with its steps and their picture."""

    job: JobView
    stopping: bool
    """Whether it is being cancelled, or ended early, and waits for what still runs."""
    parent: FlowParent | None
    replay_of: str | None
    """The flow that it replays."""
    planned_at: datetime | None
    ended_at: datetime | None
    """When its last step ended."""
    deadline: datetime | None
    """When it is stopped, if it has a timeout and goes on."""
    steps: list[StepDetails]
    """Each after those that it needs; none before it is planned."""
    graph: GraphView | None


class StepWithJob(StepDetails, frozen=True, kw_only=True):
    """One step of a flow, with its job."""

    job: JobView | None


class StepItem(JobItem, frozen=True, kw_only=True):
    """The job of one item of a map."""

    index: int
    """Of the item, from 0 on."""


class StepItemPage(Struct, frozen=True):
    items: list[StepItem]
    next: int | None
    """Pass it as `after` to get the next page; null on the last page."""


class ShapeStep(Struct, frozen=True, kw_only=True):
    """One step of a flow that has not run."""

    name: str
    task: str
    queue: str
    kind: StepKind
    needs: list[str]
    on: On
    optional: bool
    when: str | None


class FlowShape(Struct, frozen=True):
    """The steps of a flow whatever its input is."""

    task: str
    steps: list[ShapeStep]
    graph: GraphView


class FlowReading(Struct, frozen=True):
    """A flow as it was read: its job, its plan and row, and the jobs of its steps by position."""

    job: Job
    graph: Graph
    row: Flow
    jobs: Mapping[int, Job]
    flow_tasks: frozenset[str] = frozenset()
    """The tasks that are known to be flows."""


# lists


def flow_item(job: Job, counts: FlowCounts | None, now: datetime, *, full: bool = False) -> FlowItem:
    name = job.metadata.get({BATCH: "batch", PLANNED_FLOW: "flow"}.get(job.task, ""))
    shown = mask_note(name) if isinstance(name, str) else None
    return FlowItem(**asdict(job_item(job, now, full=full)), flow=counts, name=shown)


def step_item(job: Job, now: datetime, *, full: bool = False) -> StepItem:
    assert job.step is not None
    return StepItem(**asdict(job_item(job, now, full=full)), index=job.step.index - 1)


# one flow


def flow_details(read: FlowReading, parent: FlowParent | None, now: datetime) -> FlowDetails:
    row, views = read.row, step_views(read.graph, read.row, read.jobs, now)
    room = MAX_NEEDED_NAMES
    steps: list[StepDetails] = []
    for n, view in enumerate(views):
        steps.append(step_details(read, n, view, now, room))
        room -= len(steps[-1].needs)
    return FlowDetails(
        job=job_view(read.job, now),
        stopping=not read.job.state.final and (read.job.cancel_reason is not None or row.state in _STOPPING),
        parent=parent,
        replay_of=replayed_flow(read.job),
        planned_at=row.began_at,
        ended_at=row.ended_at,
        deadline=None if row.deadline is None else row.deadline.at,
        steps=steps,
        graph=graph_view(read.graph, _drawing(read, views)),
    )


def unplanned_flow(job: Job, parent: FlowParent | None, now: datetime) -> FlowDetails:
    return FlowDetails(
        job=job_view(job, now),
        stopping=not job.state.final and job.cancel_reason is not None,
        parent=parent,
        replay_of=replayed_flow(job),
        planned_at=None,
        ended_at=None,
        deadline=None,
        steps=[],
        graph=None,
    )


def step_with_job(read: FlowReading, n: int, now: datetime) -> StepWithJob:
    job = read.jobs.get(position_of(n, 0, read.row.lives.get(n, 0)))
    view = step_view(read.graph, read.row, n, job, now)
    details = step_details(read, n, view, now, MAX_NEEDED_NAMES)
    return StepWithJob(**asdict(details), job=None if job is None else job_view(job, now))


def step_details(read: FlowReading, n: int, view: StepView, now: datetime, room: int) -> StepDetails:
    """`room` is how many names of needed steps may be given."""
    graph, row, step = read.graph, read.row, read.graph.steps[n]
    job = None if view.job_id is None else read.jobs[position_of(n, 0, row.lives.get(n, 0))]
    failure = redact_failure(view.failure)
    return StepDetails(
        name=view.name,
        task=view.task,
        queue=step.options.queue,
        kind=_kind(read, n, job),
        status=view.state,
        reason=_reason(graph, row, n),
        skipped_because=SKIP_REASONS.get(row.statuses[n]),
        note=mask_note(view.note) if n in row.skipped else None if view.note is None else redact_line(view.note),
        job_id=view.job_id,
        job_state=None if job is None else job.shown(now),
        attempts=None if job is None else job.attempt,
        released_at=None if job is None else job.created_at,
        started_at=view.started_at,
        finished_at=view.finished_at,
        failure=None if failure is None else replace(failure, stack=""),
        needs=[graph.steps[need].name for need in graph.needs[n][: max(room, 0)]],
        on=view.on,
        optional=view.optional,
        when=_condition(graph, n),
        items=None if view.items is None else _items(view.items),
        value=_value(read, n, job),
        signal=None if step.signal is None or view.signal is None else _signal(step.signal, view.signal),
    )


def _value(read: FlowReading, n: int, job: Job | None) -> str | None:
    completed = read.row.statuses[n] == StepStatus.COMPLETED
    text = signal_text(read.graph, read.row, n) if completed else None
    found = text if job is None else job.result
    return None if found is None else _excerpt(found)


def _signal(signal: SignalStep, view: SignalView) -> SignalDetails:
    return SignalDetails(**asdict(view), schema=msgspec.json.decode(signal.schema) if signal.schema else None)


def _kind(read: FlowReading, n: int, job: Job | None) -> StepKind:
    step = read.graph.steps[n]
    if step.signal is not None:
        return "signal"
    if step.over is not None:
        return "map"
    waits = job is not None and job.state is State.WAITING
    return "flow" if waits or step.task in read.flow_tasks else "step"


def _reason(graph: Graph, row: Flow, n: int) -> str | None:
    if (note := row.notes.get(n)) is not None:
        return redact_line(note)
    if row.statuses[n] == StepStatus.WAITING:
        names = list(_waited_names(graph, row, n))
        shown = ", ".join(names[:MAX_WAITED_NAMES])
        return f"waits for {shown}{', …' if names[MAX_WAITED_NAMES:] else ''}" if names else None
    reason = reason_not_run(graph, row, n)
    return None if reason is None else redact_line(reason.text)


def _waited_names(graph: Graph, row: Flow, n: int) -> Iterator[str]:
    for need in graph.needs[n]:
        if row.statuses[need] in (StepStatus.WAITING, StepStatus.RELEASED):
            yield graph.steps[need].name


def _condition(graph: Graph, n: int) -> str | None:
    return redact_line(found) if (found := conditions_of(graph, [n]).get(n)) is not None else None


def _items(counts: ItemCounts) -> StepItems:
    return StepItems(
        total=counts.made if counts.closed else None,
        made=counts.made,
        completed=counts.ended - counts.dead - counts.cancelled,
        dead=counts.dead,
        cancelled=counts.cancelled,
        open=counts.made - counts.ended,
    )


def _excerpt(result: str) -> str:
    """The beginning of a result. "…" for a long one: secrets have to be masked before the text is cut."""
    if len(result) > BRIEF_CHARACTERS:
        return "…"
    text = bytes(redact_data(result)).decode()
    return text if len(text) <= MAX_EXCERPT_CHARACTERS else f"{text[: MAX_EXCERPT_CHARACTERS - 1]}…"


# pictures


def flow_drawing(read: FlowReading, now: datetime) -> FlowDrawing:
    """The picture of a flow, with its conditions redacted."""
    return _drawing(read, step_views(read.graph, read.row, read.jobs, now))


def _drawing(read: FlowReading, views: Sequence[StepView]) -> FlowDrawing:
    conditions = {n: redact_line(text) for n, text in conditions_of(read.graph).items()}
    return draw_flow(f"{read.job.task} {read.job.id}", read.graph, conditions, views)


def graph_view(graph: Graph, drawing: FlowDrawing) -> GraphView:
    layout = drawing.layout
    nodes = [
        GraphNode(node.id, [graph.steps[n].name for n in node.steps], node.x, node.y, node.width, node.height)
        for node in layout.nodes
    ]
    edges = [
        GraphEdge(
            source=nodes[edge.source].id,
            target=nodes[edge.target].id,
            kind=edge.kind,
            label=label or None,
            points=list(edge.points),
        )
        for edge, label in zip(layout.edges, drawing.labels, strict=True)
    ]
    return GraphView(layout.width, layout.height, nodes, edges)


def _shape_kind(step: PlannedStep, flow_tasks: frozenset[str]) -> StepKind:
    if step.signal is not None:
        return "signal"
    return "map" if step.over is not None else "flow" if step.task in flow_tasks else "step"


def shape_view(task: Task[Any, Any], flow_tasks: frozenset[str]) -> FlowShape:
    """Raises Problem(409) if the flow has no shape. `flow_tasks` are those that are flows."""
    try:
        graph = Graph(shape_of(task))
    except BadFlow as bad:
        why = f"flow {task.name!r} has no plan without its input: {redact_line(str(bad))}"
        raise Problem(409, "bad_flow", why) from None
    conditions = {n: redact_line(text) for n, text in conditions_of(graph).items()}
    steps = [
        ShapeStep(
            name=step.name,
            task=step.task,
            queue=step.options.queue,
            kind=_shape_kind(step, flow_tasks),
            needs=[graph.steps[need].name for need in graph.needs[n]],
            on=step.on,
            optional=step.optional,
            when=conditions.get(n),
        )
        for n, step in enumerate(graph.steps)
    ]
    return FlowShape(task.name, steps, graph_view(graph, draw_flow(task.name, graph, conditions)))
