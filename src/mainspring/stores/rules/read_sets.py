"""Read sets: the names of everything that a rule reads, for a whole batch.

A read set is named in stages, since some names follow from values: a key leads to its holder, which leads to its
schedule. A store reads each stage at once, whatever the size of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from ...ids import JobId
from ...records.job import Action, Job, NewJob, State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...schedule.record import Firing
from .keys import keys_of
from .outcome import is_last_crash

Item = TypeVar("Item")

Kind = Literal[
    "job", "seen_job", "key", "schedule", "fired_schedule", "seen_schedule", "waiting", "worker", "circuits", "circuit",
    "runs", "lines", "flow", "unfinished_steps", "failed_steps", "all_steps",
]  # fmt: skip

# Stages of a read set, at most: a job, its schedule, the names that wait on it, their schedules; one to spare.
MAX_STAGES = 5


class Name(NamedTuple):
    """The name of a value that a rule reads.

    A `job` or `schedule` may be written; a `seen_job` or `seen_schedule` is only read. A `fired_schedule` is replaced:
    of it, and of a `seen_schedule`, the revision is enough. `waiting` are the schedules that wait on one; `circuits`
    are all circuits, and `circuit` is one that the rule may write. Keys are named as in keys.py. A `flow` is a flow's
    row with its plan. Of the jobs of its steps, `unfinished_steps` names a flow and the first position of one step,
    `failed_steps` and `all_steps` name the flow.
    """

    kind: Kind
    name: str


class KnownValues(Protocol):
    """The values that are read so far. A value that is not read yet counts as absent."""

    def is_read(self, name: Name) -> bool: ...

    def known_job(self, id: JobId) -> Job | None: ...

    def known_holder(self, key: str) -> JobId | None: ...

    def known_waiting(self, name: str) -> Sequence[str]: ...

    def known_circuits(self) -> Collection[str]:
        """The tasks that have a circuit."""
        ...


Needs = Callable[[Item, KnownValues], Iterator[Name]]
"""The names that an item of a batch reads, as far as they follow from the values that are known."""


class ReadSet(Generic[Item]):
    """The names that the items of a batch read, in stages."""

    def __init__(self, items: Sequence[Item], needs: Needs[Item]) -> None:
        self._items, self._needs = items, needs
        self._open: Sequence[int] = range(len(items))
        self._stages = 0
        self.names: list[list[Name]] = [[] for _ in items]
        """The names of each item. They are complete once nothing is missing."""

    def missing(self, known: KnownValues) -> list[Name]:
        """The names to read next, without duplicates; none if everything is read."""
        missing: dict[Name, None] = {}
        still_open: list[int] = []
        for n in self._open:
            self.names[n] = list(self._needs(self._items[n], known))
            if unread := [name for name in self.names[n] if not known.is_read(name)]:
                missing.update(dict.fromkeys(unread))
                still_open.append(n)
        self._open, self._stages = still_open, self._stages + 1
        assert not missing or self._stages <= MAX_STAGES, f"a read set that takes more than {MAX_STAGES} stages"
        return list(missing)


def of_new_jobs(jobs: Iterable[NewJob], known: KnownValues, now: datetime) -> Iterator[Name]:
    """An enqueue reads the ids and keys of new jobs and the holders of the keys, and ends holders that have expired."""
    for job in jobs:
        yield Name("seen_job", job.id)
        if job.step is not None:
            yield Name("flow", job.step.flow)
        if job.schedule is not None and not job.detached:
            yield Name("schedule", job.schedule)
        for key in keys_of(job):
            yield Name("key", key)
            if (held := known.known_holder(key)) is not None:
                holder = known.known_job(held)
                changes = job.on_conflict in ("replace", "debounce") or job.collect is not None
                if changes or holder is None or holder.shown(now) == "expired":
                    yield from of_job(held, known)
                else:
                    yield Name("seen_job", held)


def of_job(id: JobId, known: KnownValues) -> Iterator[Name]:
    """A job that may end or be revived, and its schedule, which changes with it."""
    yield Name("job", id)
    if (job := known.known_job(id)) is not None and job.counted_schedule is not None:
        yield Name("schedule", job.counted_schedule)


def of_outcome(outcome: Outcome, known: KnownValues, repeated: bool) -> Iterator[Name]:
    """`repeated`: the batch has another outcome for that job, so one of them may be a duplicate."""
    yield from of_job(outcome.id, known)
    yield from _of_own_schedule(outcome)
    if outcome.concludes is not None or outcome.state is State.WAITING or is_last_crash(outcome):
        yield Name("flow", outcome.id)
    if outcome.step is not None:
        yield Name("flow", outcome.step.flow)
    job = known.known_job(outcome.id)
    if known.is_read(Name("job", outcome.id)):
        if job is None or job.state is not State.RUNNING or job.lease != outcome.lease:
            yield Name("runs", outcome.id)
            return
        if outcome.silent:
            yield Name("worker", job.worker or "")
        if outcome.silent or repeated or outcome.concludes is not None or outcome.plan is not None:
            yield Name("runs", outcome.id)
        if outcome.breaker is not None or job.task in known.known_circuits():
            yield Name("circuit", job.task)
    yield from _of_sequel(outcome, outcome.schedule if job is None else job.counted_schedule, known)


def of_completion(outcome: Outcome, known: KnownValues) -> Iterator[Name]:
    """What follows a plain completion whose job the store writes itself."""
    yield from _of_own_schedule(outcome)
    if outcome.step is not None:
        yield Name("flow", outcome.step.flow)
    yield from _of_sequel(outcome, outcome.schedule, known)


def of_completions(outcomes: Iterable[Outcome]) -> list[Name]:
    """What follows plain completions without a `then`, for a store that reads whole schedules with `waiting`."""
    outcomes = list(outcomes)
    schedules = list(dict.fromkeys(outcome.schedule for outcome in outcomes if outcome.schedule is not None))
    flows = dict.fromkeys(outcome.step.flow for outcome in outcomes if outcome.step is not None)
    names = [Name("circuits", ""), *(Name("schedule", name) for name in schedules), *(Name("flow", id) for id in flows)]
    return names + [Name("waiting", name) for name in schedules]


def _of_own_schedule(outcome: Outcome) -> Iterator[Name]:
    yield Name("circuits", "")
    if outcome.schedule is not None:
        yield Name("schedule", outcome.schedule)


def _of_sequel(outcome: Outcome, schedule: str | None, known: KnownValues) -> Iterator[Name]:
    """The schedules that wait on the one whose job completed, and what the jobs that follow read."""
    if schedule is not None and outcome.state is State.COMPLETED:
        yield Name("waiting", schedule)
        yield from (Name("schedule", name) for name in known.known_waiting(schedule))
    yield from of_new_jobs(outcome.then, known, outcome.finished_at)


def of_report(report: RunReport, known: KnownValues) -> Iterator[Name]:
    """A report reads its job."""
    yield Name("job", report.id)


def of_firing(firing: Firing, known: KnownValues, now: datetime) -> Iterator[Name]:
    """A firing reads its schedule, the schedules in `reads`, and what its jobs and cancels read."""
    yield Name("fired_schedule", firing.schedule.name)
    yield from (Name("seen_schedule", name) for name, _ in firing.reads)
    yield from of_new_jobs(firing.jobs, known, now)
    for id in firing.cancel:
        yield from of_change(Action.CANCEL, id, known)


def of_change(action: Action, id: JobId, known: KnownValues) -> Iterator[Name]:
    """A change reads the job and its schedule; a retry also its keys and their holders."""
    yield Name("job", id)
    if (job := known.known_job(id)) is None:
        return
    if job.counted_schedule is not None and not (action is Action.DELETE and job.state.final):
        yield Name("schedule", job.counted_schedule)
    if action is Action.RETRY:
        yield Name("flow", id)
        yield from _of_keys(job, known)
        if job.step is not None:  # its flow may be over, and is reopened with its keys
            yield Name("flow", job.step.flow)
            yield from of_job(job.step.flow, known)
            if (flow := known.known_job(job.step.flow)) is not None:
                yield from _of_keys(flow, known)
        return
    if job.state is State.WAITING or (action is Action.CANCEL and may_have_steps(job)):
        yield Name("flow", id)
    if job.step is not None:
        yield Name("flow", job.step.flow)


def may_have_steps(job: Job) -> bool:
    """Whether an unfinished job may have a flow with steps: an earlier run of it has ended."""
    return job.state is State.WAITING or (not job.state.final and job.runs > (job.state is State.RUNNING))


def of_signal(id: JobId, known: KnownValues) -> Iterator[Name]:
    """A signal reads the flow, and the state of its job."""
    yield Name("flow", id)
    yield Name("seen_job", id)


def of_flow_request(id: JobId, known: KnownValues) -> Iterator[Name]:
    """What is asked of a flow reads it, and what a retry of its job reads: it may be reopened."""
    yield Name("flow", id)
    yield from of_change(Action.RETRY, id, known)


def _of_keys(job: Job, known: KnownValues) -> Iterator[Name]:
    for key in keys_of(job):
        yield Name("key", key)
        if (held := known.known_holder(key)) is not None:
            yield Name("seen_job", held)
