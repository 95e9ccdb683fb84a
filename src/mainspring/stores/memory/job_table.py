"""The memory store's table of jobs, with the indexes for lists, claims and keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from ...clock import EPOCH
from ...ids import JobId
from ...records.job import IDEMPOTENT_STATES, UNFINISHED, Job, NewJob, Shown, State
from ...records.query import Cursor, Filter, Sort
from ..rules import matches_filter
from ..rules.claim_index import ClaimIndex

# The results of Job.shown() for a pending job.
_SHOWN_OF_PENDING: frozenset[Shown] = frozenset({"pending", "scheduled", "retrying", "expired"})


class JobTable:
    """Every job by its id. `put` and `drop` update the indexes."""

    def __init__(self) -> None:
        self._rows: dict[JobId, Job] = {}
        self.index = ClaimIndex(self.job)
        # Ids in the order in which the jobs entered the state; a list of one state reads only these.
        self._by_state: dict[State, dict[JobId, None]] = {state: {} for state in State}
        self._unique: dict[str, JobId] = {}
        self._idempotent: dict[str, JobId] = {}

    # writing

    def put(self, job: Job) -> None:
        """Writes a job and updates every index."""
        if (old := self._rows.get(job.id)) is not None:
            self._unindex(old)
            if old.unique_key is not None and old.unique_key != job.unique_key:
                _set_holder(self._unique, old.unique_key, job.id, False)
        self._rows[job.id] = job
        self._by_state[job.state][job.id] = None
        self.index.add(job)
        if job.unique_key is not None:
            _set_holder(self._unique, job.unique_key, job.id, job.state in UNFINISHED)
        if job.idempotency_key is not None:
            _set_holder(self._idempotent, job.idempotency_key, job.id, job.state in IDEMPOTENT_STATES)

    def drop(self, job: Job) -> None:
        if job.unique_key is not None:
            _set_holder(self._unique, job.unique_key, job.id, False)
        if job.idempotency_key is not None:
            _set_holder(self._idempotent, job.idempotency_key, job.id, False)
        self._unindex(job)
        del self._rows[job.id]

    def _unindex(self, old: Job) -> None:
        """Removes a job from the indexes of its state."""
        self._by_state[old.state].pop(old.id, None)
        self.index.remove(old)

    # reading

    def job(self, id: JobId) -> Job | None:
        return self._rows.get(id)

    def ids(self) -> Collection[JobId]:
        return self._rows.keys()

    def in_state(self, state: State) -> Collection[JobId]:
        return self._by_state[state].keys()

    def some(self, ids: Collection[JobId]) -> list[Job]:
        """The jobs of these ids, in their order, without those that do not exist."""
        return [job for id in ids if (job := self._rows.get(id)) is not None]

    def in_states(self, states: Collection[State]) -> Iterator[Job]:
        return (job for state in states for job in self.some(self.in_state(state)))

    def matching(self, which: Filter, now: datetime) -> list[Job]:
        """The jobs that match the filter, in order of id."""
        if which.ids is not None:
            ids: Collection[JobId] = set(which.ids)
        elif which.states is not None:
            ids = [id for state in State if _may_be_shown_as(state, which.states) for id in self.in_state(state)]
        else:
            ids = self.ids()
        return [job for job in self.some(sorted(ids)) if matches_filter(job, which, now)]

    def page(
        self, which: Filter, now: datetime, limit: int, after: Cursor | None, newest: bool, sort: Sort
    ) -> list[Job]:
        """The first `limit` matching jobs after the cursor, in that order."""
        found = [(key, job) for job in self.matching(which, now) if (key := _key(job, sort)) is not None]
        found.sort(key=lambda pair: pair[0], reverse=newest)
        if after is not None:
            end = (EPOCH if sort == "created" else after.at or EPOCH, after.id)
            found = [(key, job) for key, job in found if (key < end if newest else key > end)]
        return [job for _, job in found[:limit]]

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The key of this job that is held, and the job that holds it; (None, None) if its keys are free."""
        for key, holders in ((job.unique_key, self._unique), (job.idempotency_key, self._idempotent)):
            if key is not None and key in holders:
                return key, self._rows[holders[key]]
        return None, None


def _set_holder(holders: dict[str, JobId], key: str, id: JobId, held: bool) -> None:
    if held:
        holders[key] = id
    elif holders.get(key) == id:
        del holders[key]


def _may_be_shown_as(state: State, shown: Collection[Shown]) -> bool:
    """Whether a job stored in this state may be shown in one of those."""
    return state.value in shown or (state is State.PENDING and not _SHOWN_OF_PENDING.isdisjoint(shown))


def _key(job: Job, sort: Sort) -> tuple[datetime, JobId] | None:
    """The job's sort key; None if that order does not include it."""
    match sort:
        case "created":
            return EPOCH, job.id
        case "due":
            return (job.run_at, job.id) if job.state is State.PENDING else None
        case _:
            return (job.finished_at or EPOCH, job.id) if job.state.final else None
