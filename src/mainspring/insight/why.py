"""Why a job is not running: all reasons, and when each may end. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from ..ids import JobId
from ..records.circuit import Circuit
from ..records.flow import FLOW_TASKS, OLDER_RELEASE
from ..records.job import Job, State
from ..records.limit import LimitGroup, StoredLimit, group_key
from ..records.queue import Queue
from ..records.skew import waiting_since
from ..records.worker import WorkerRow

Code = Literal[
    "running", "stopping", "final", "paused", "waiting", "expired", "not_due", "queue_paused", "no_worker",
    "unknown_task", "queue_not_served", "workers_full", "limit_reached", "draining", "breaker_open", "suspect",
    "version_skew", "key_held", "next", "limit_full", "limit_rate",
    "collecting", "asleep", "waits_for_steps", "waits_for_signal", "cancelling", "step_skipped", "step_not_run",
]  # fmt: skip


# Names of units and their seconds.
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_ENDED = {State.COMPLETED: "it completed at", State.CANCELLED: "it was cancelled at"}
# Workers that a reason names.
MAX_NAMED = 3


class Reason(Struct, frozen=True, kw_only=True):
    """One reason why a job is not running."""

    code: Code
    text: str
    until: datetime | None = None
    """When it may end by itself; None if that is unknown, or if an operator must act."""
    holders: tuple[JobId, ...] = ()
    """The jobs that block it, if any."""
    cause: Code | None = None
    """Of a flow that waits for a step: the code of the first reason of that step's job. None if it has none."""
    signal: str | None = None
    """The signal that a job waits for which is no flow."""


class LimitFacts(Struct, frozen=True):
    """The limit of a job, the group to which it belongs, and how many jobs of the limit run."""

    limit: StoredLimit
    group: LimitGroup | None
    running: int


class JobSurroundings(Struct, frozen=True, kw_only=True):
    """The facts about workers, queues and other jobs that reasons() needs."""

    now: datetime
    paused: Collection[str]
    workers: Sequence[WorkerRow]
    running: Sequence[Job]
    """The running jobs, up to a limit; needed for pending jobs only."""
    pause: Queue | None = None
    """The job's queue, if it is paused."""
    circuit: Circuit | None = None
    holder: Job | None = None
    """The job that holds this final job's key, if another one does."""
    asleep: bool = False
    """Whether the job's last run ended in ctx.sleep()."""
    limit: LimitFacts | None = None
    """The limit of this pending job, if it has one."""


def reasons(job: Job, facts: JobSurroundings) -> list[Reason]:
    """The reasons; never empty, since a job that nothing blocks is next to be claimed."""
    if job.state is State.RUNNING:
        return _running(job)
    if job.state is State.PENDING:
        return _pending(job, facts) or [
            Reason(code="next", text="nothing keeps it: a worker takes it at its next claim")
        ]
    if job.state is State.PAUSED:
        return [Reason(code="paused", text="the job is paused; resume it to let it run")]
    if job.state is State.WAITING:
        return [Reason(code="waiting", text="it waits for other steps of its flow")]
    return _final(job, facts)


def _running(job: Job) -> list[Reason]:
    text = f"it has been running on {job.worker} since {at_text(job.started_at)}, attempt {job.attempt}"
    found = [Reason(code="running", text=text)]
    if job.cancel_reason is not None:
        reason = f" ({job.cancel_reason})" if job.cancel_reason else ""
        found.append(
            Reason(
                code="stopping", text=f"it was asked to cancel{reason}; its worker interrupts it at its next heartbeat"
            )
        )
    return found


def _final(job: Job, facts: JobSurroundings) -> list[Reason]:
    detail = ""
    if job.cancel_reason:
        detail = f": {job.cancel_reason}"
    elif job.failure is not None and job.state is not State.COMPLETED:  # it may have failed before
        detail = f": {job.failure.type}: {job.failure.message}"
    ended = _ENDED.get(job.state, f"it has been {job.state} since")
    found = [Reason(code="final", text=f"{ended} {at_text(job.finished_at)}{detail}")]
    if facts.holder is not None:
        key = job.unique_key or job.idempotency_key
        text = f"it cannot be retried while key {key!r} is held by job {facts.holder.id} ({facts.holder.state})"
        found.append(Reason(code="key_held", text=text, holders=(facts.holder.id,)))
    return found


def _pending(job: Job, facts: JobSurroundings) -> list[Reason]:
    if job.expires_at is not None and job.expires_at <= facts.now:
        return [Reason(code="expired", text=f"it was not started before {at_text(job.expires_at)}, and never will be")]
    found: list[Reason] = []
    found += _skew(job, facts)
    if job.run_at > facts.now and not found:
        found.append(_asleep(job) if facts.asleep else _not_due(job))
    if job.queue in facts.paused:
        found.append(Reason(code="queue_paused", text=_queue_paused(job.queue, facts)))
    found += _breaker(job, facts)
    found += _limit(job, facts)
    return found + _workers(job, facts)


def _asleep(job: Job) -> Reason:
    return Reason(code="asleep", text=f"it sleeps until {at_text(job.run_at)}, and then goes on", until=job.run_at)


def _not_due(job: Job) -> Reason:
    at, collect = at_text(job.run_at), job.collect
    if collect is not None and job.unique_key is not None and not job.runs:
        text = f"it collects items: {collect.count} of {collect.size} so far; without more of them it is due at {at}"
        return Reason(code="collecting", text=text, until=job.run_at)
    if job.failure is not None and job.failure.type == OLDER_RELEASE:
        text = f"{job.failure.message}; it is tried again at {at}"
    else:
        text = f"{'its next attempt is due' if job.attempt else 'it is due'} at {at}"
    return Reason(code="not_due", text=text, until=job.run_at)


def _queue_paused(queue: str, facts: JobSurroundings) -> str:
    pause = facts.pause
    if pause is None or pause.paused_at is None:
        return f"queue {queue!r} is paused; resume it to go on"
    who = f" by {pause.paused_by}" if pause.paused_by else ""
    note = f": {pause.note}" if pause.note else ""
    when = f"{_ago(facts.now - pause.paused_at)} ({at_text(pause.paused_at)})"
    return f"queue {queue!r} was paused{who} {when}{note}; resume it to go on"


def _ago(span: timedelta) -> str:
    """5 min ago, rounded down to one unit."""
    seconds = max(0, int(span.total_seconds()))
    unit, length = next((one for one in _UNITS if seconds >= one[1]), _UNITS[-1])
    return f"{seconds // length} {unit} ago"


def _skew(job: Job, facts: JobSurroundings) -> list[Reason]:
    """The reason of a job that waits for a worker with the task version that made its payload."""
    since, failure = waiting_since(job), job.failure
    if since is None or failure is None:
        return []
    again = f"; it is tried again at {at_text(job.run_at)}" if job.run_at > facts.now else ""
    reason = f"{failure.message}. {_matching(job, facts)}{again}"
    text = f"no worker could read its arguments since {at_text(since)}: {reason}"
    return [Reason(code="version_skew", text=text, until=job.run_at if job.run_at > facts.now else None)]


def _matching(job: Job, facts: JobSurroundings) -> str:
    """A sentence on which live workers have the task version that made the payload."""
    if job.fingerprint is None:
        return "Which version made them is not known: deploy workers that take them, or change them"
    match = [one.info.id for one in facts.workers if (job.task, job.fingerprint) in _versions(one)]
    if not match:
        return f"No live worker has version {job.fingerprint} of task {job.task!r}: deploy one, or change the arguments"
    more = f" and {len(match) - MAX_NAMED} more" if len(match) > MAX_NAMED else ""
    return f"Version {job.fingerprint} of task {job.task!r} is live on {', '.join(match[:MAX_NAMED])}{more}"


def _versions(worker: WorkerRow) -> Iterator[tuple[str, str]]:
    return zip(worker.info.tasks, worker.info.fingerprints, strict=False)


def _breaker(job: Job, facts: JobSurroundings) -> list[Reason]:
    circuit = facts.circuit
    if circuit is None or circuit.open_until is None:
        return []
    failed = f"task {job.task!r} failed {circuit.failures} times in a row, so its breaker is open"
    if circuit.probe is not None:
        text = f"{failed}; job {circuit.probe} is trying whether it works again"
        return [Reason(code="breaker_open", text=text, holders=(circuit.probe,))]
    if circuit.open_until > facts.now:
        text = f"{failed} until {at_text(circuit.open_until)}"
        return [Reason(code="breaker_open", text=text, until=circuit.open_until)]
    return []


def _limit(job: Job, facts: JobSurroundings) -> list[Reason]:
    found = facts.limit
    if found is None or job.limit_key is None:
        return []
    limit, group, key = found.limit, found.group, group_key(job.limit_key)
    of, held = f"limit {limit.name!r}{f' for {key!r}' if key else ''}", 0 if group is None else group.running
    if limit.running == 0 or limit.total == 0:
        return [Reason(code="limit_full", text=f"{of} lets none start: raise it to go on")]
    if limit.running is not None and held >= limit.running:
        text = f"{of} lets {limit.running} run at once, and as many do"
        return [Reason(code="limit_full", text=text, holders=() if group is None else group.holders)]
    if limit.total is not None and found.running >= limit.total:
        return [Reason(code="limit_full", text=f"limit {limit.name!r} lets {limit.total} run in all, and as many do")]
    if limit.rate is not None and group is not None and group.next_at is not None and group.next_at > facts.now:
        text = f"{of} starts {limit.rate} in {limit.per:g} s: the next one at {at_text(group.next_at)}"
        return [Reason(code="limit_rate", text=text, until=group.next_at)]
    return []


def _workers(job: Job, facts: JobSurroundings) -> list[Reason]:
    if not facts.workers:
        return [Reason(code="no_worker", text="no worker is alive: start one with `mainspring worker`")]
    know = [worker for worker in facts.workers if job.task in worker.info.tasks or job.task in FLOW_TASKS]
    if not know:
        live = len(facts.workers)
        none = "the only live worker does not know" if live == 1 else f"none of the {live} live workers knows"
        text = f"{none} task {job.task!r}: deploy one that does"
        return [Reason(code="unknown_task", text=text)]
    serve = [worker for worker in know if worker.info.queues is None or job.queue in worker.info.queues]
    if not serve:
        text = f"no live worker that knows task {job.task!r} serves queue {job.queue!r}"
        return [Reason(code="queue_not_served", text=text)]
    open = [worker for worker in serve if worker.state == "open"]
    if not open:
        leave = all(worker.state == "stopping" for worker in serve)
        text = "stopping; start another" if leave else "drained; resume one"
        return [Reason(code="draining", text=f"every worker that could take it is {text}")]
    runs = defaultdict[str | None, list[Job]](list)
    for run in facts.running:
        runs[run.worker].append(run)
    blocked = list[Reason]()
    for worker in open:
        if (reason := _blocked(job, worker, runs[worker.info.id])) is None:
            return []  # one worker with room is enough
        blocked.append(reason)
    return blocked


def _blocked(job: Job, worker: WorkerRow, mine: Sequence[Job]) -> Reason | None:
    """Why this worker, which could take the job, does not; `mine` are its running jobs. None if it can."""
    info = worker.info
    room = worker.orders.concurrency or info.concurrency
    if len(mine) + info.leaked >= room:
        leaked = f", {info.leaked} of them leaked" if info.leaked else ""
        all = f"the only slot of worker {info.id} is" if room == 1 else f"all {room} slots of worker {info.id} are"
        return _full("workers_full", f"{all} taken{leaked}", mine)
    for what, limit, held in (
        (f"task {job.task!r}", info.limits.get(job.task), [run for run in mine if run.task == job.task]),
        (f"queue {job.queue!r}", info.queue_limits.get(job.queue), [run for run in mine if run.queue == job.queue]),
    ):
        if limit is not None and len(held) >= limit:
            return _full("limit_reached", f"worker {info.id} runs {len(held)} of {what}, its limit", held)
    if job.crashes >= 2 and (others := [run for run in mine if run.crashes >= 2]):
        return _full(
            "suspect", f"it has crashed {job.crashes} times, and worker {info.id} runs such jobs singly", others
        )
    return None


def _full(code: Code, text: str, held: Sequence[Job]) -> Reason:
    return Reason(code=code, text=text, holders=tuple(run.id for run in held[:10]))


def at_text(at: datetime | None) -> str:
    return "?" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"
