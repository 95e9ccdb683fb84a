"""The Store protocol: the contract that every store (memory, SQLite, PostgreSQL, Redis) fulfils."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, Protocol

from .ids import JobId, Lease, WorkerId
from .records.audit import AuditEntry, AuditFilter
from .records.document import Document, DocumentDrop
from .records.feed import Feed
from .records.finding import Finding
from .records.job import Action, Enqueued, Job, NewJob, State
from .records.outcome import Outcome
from .records.pruning import Pruning
from .records.query import Changed, Cursor, Filter, Sort, Updates
from .records.queue import DeadGroup, Overview
from .records.run import Execution, LogLine, RunReport
from .records.schema import Schema
from .records.tally import Span, Tally
from .records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from .schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from .task.retention import Rules

Topic = Literal["claimable", "final"]
"""What `wait` waits for: that a job may be claimable or a leader's term may have ended; that a job may have ended or
its run may have reported."""
Listening = Literal["ok", "failed", "off"]
"""Whether notifications of other processes reach `wait`. "off": this store does not listen."""


class Transaction(Protocol):
    """A transaction on the store's own database that commits the effects of a run together with its outcome."""

    connection: Any
    """The driver's connection. What the task does on it is part of the transaction."""

    async def holds(self, id: JobId, lease: Lease) -> bool:
        """Whether the job is running under this lease."""
        ...

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        """Records the reports as `report` does and the outcome as `finish` does, and commits.

        Returns False if the outcome was not accepted; nothing is committed then.
        """
        ...


class ServiceStore(Protocol):
    """Documents, the audit log and the live feed."""

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        """Writes and deletes documents in order, independently of each other.

        DO1. A document is written if the stored revision is `revision - 1` (for revision 1: absent or expired), and
        answered True if it is now stored. DO2. It also counts as stored if the same document is there already: to
        detect a race, include a unique value in `text`. DO3. A DocumentDrop deletes, whatever the revision; it is
        answered True if the document existed, also as an expired one.
        """
        ...

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        """Documents of a kind, those named or all, in order of name, after the name `after`.

        A document is expired from its expires_at on, and then not returned. A document whose record cannot be decoded
        is returned with the stored value as its text: the reader detects that, and a DocumentDrop deletes it.
        """
        ...

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Adds entries to the audit log. An existing entry without an outcome gets one; nothing else of it changes."""

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        """Matching entries, newest first (by id), below the id `before`."""
        ...

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """Adds items to the live feed. Returns until when it is wanted; the instant may have passed.

        FD1. Numbers are assigned in order and become visible in order. Not idempotent. FD2. At least
        feed.MIN_FEED_ITEMS items are kept. FD3. Returns None if the feed was never wanted. FD7. Without items it only
        reads.
        """
        ...

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        """FD4. Items of the live feed in order, after the number `after`.

        FD5. `until` asks workers to publish until then, or longer if another caller asked for longer. Workers learn it
        with their beats. FD6. The page says until when the feed was wanted before this call.
        """
        ...


class Store(ServiceStore, Protocol):
    """The storage of jobs, schedules, workers and everything else that outlives the process.

    Each verb is one atomic step over a set. Verbs never read a clock, never call user code, and never raise because a
    row has changed meanwhile: they return what they did. A temporary failure raises StoreUnavailable, and the caller
    may repeat the call with the same arguments: `enqueue` recognises an id, `finish` an outcome it has accepted, and
    the next beat finds a claim whose answer was lost.

    A record that cannot be decoded affects no other record, in any verb:

    - A job is returned with the values that can be read and a failure of type job.UNREADABLE. It can only be deleted.
      `claim` and `orphaned` set it aside: it is paused, its record is unchanged, and `diagnose` names it.
    - A schedule is not listed. `due` sets it aside, so that it is never due; `fire` treats it as absent;
      `drop_schedules` deletes it.
    - A worker is not listed. It is alive until its `until`.
    - Any other record is left out.
    """

    # life cycle

    async def open(self, *, migrate: bool = True) -> None:
        """Connects, and migrates the schema to one that this release can work with. Opening twice is no error.

        Without `migrate` the schema is left as it is, and only the verbs of this section are sure to work.
        """

    async def close(self) -> None:
        """Closes the store. Everything accepted is safe; later calls raise ShuttingDown. Closing twice is no error."""

    def clone(self) -> Store:
        """A handle on the same data for another event loop. It may be this object."""
        ...

    @property
    def newest_schema(self) -> int:
        """The newest schema version that this release knows. Workers send it with their beats."""
        ...

    async def schema(self) -> Schema:
        """The schema of the tables as they are now."""
        ...

    async def migrate(self, target: int | None = None) -> list[int]:
        """Migrates the schema to the version `target` (default: the newest). Returns the versions passed through.

        All or nothing, and one caller at a time. Workers may run: StoreUnavailable is raised while a live worker could
        not work with the tables afterwards. A worker whose schema was changed anyway gets SchemaMismatch from its next
        beat.
        """
        ...

    def script(self, at: int, target: int | None = None) -> str:
        """The statements that `migrate` executes from version `at` to `target`. Does not connect."""
        ...

    async def time(self) -> datetime:
        """The time of the store's own clock, which corrects the clocks of its clients."""
        ...

    async def diagnose(self) -> list[Finding]:
        """Findings about the condition of this store, one for each subject. Changes nothing."""
        ...

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        """Waits until the topic may have changed since the number `seen`, at most `timeout` seconds.

        W1. Returns the number of the topic's last change that this process knows, to be passed as `seen` to the next
        call. W2. With a `seen` that is not the present number it returns at once: a caller that takes the number, then
        reads, then waits misses no change of its own process. W3. It may return early or late, so correctness never
        depends on it; `seen=None` waits for the next change.
        """
        ...

    @property
    def listening(self) -> Listening:
        """Whether notifications of other processes reach `wait`, so that frequent polling is not needed."""
        ...

    # the life of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        """Stores all jobs; or none, if the key of a job with on_conflict="raise" is held.

        Answers: one for each job, in order. In a refused batch the job with the conflict is "refused" with the key and
        the id of its holder; all others are "refused" with their own id.

        Keys: a key is free as soon as its job is final, except that an idempotency key stays held by a completed job.
        A holder whose expires_at has passed is ended as expired here.

        Repeated calls: an id that the store has seen in that queue is that job, in whatever state it is now. It is
        answered as "new", before its key is checked, and not written again.

        Conflicts: "replace" and "debounce" change a job only while it is pending or paused, and never a job of an
        internal task; otherwise the job is returned as a duplicate. Replace gives it the new input and keeps run_at.
        Debounce also moves run_at, at most to created_at + debounce_limit. The job's enqueued_by becomes that of the
        new request.

        A fingerprint belongs to its payload: every verb that writes a payload writes its fingerprint too, or None.

        `within` is an open transaction of the caller: nothing is visible before its commit. A store without
        transactions raises BadInput with the reason in its `refuses_within`, and writes nothing.
        """
        ...

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        """Claims up to `limit` due jobs under one new lease. No two claims return the same job.

        Not claimed: jobs of paused queues, jobs of queues and tasks that are not named, and any job if the worker's
        own lease has lapsed, which must beat first. A worker is silent from its `until` on, that instant included.

        Order: priority (highest first), run_at, id; with two exceptions:

        - A task whose circuit is open gives no job before its open_until. From then on it gives one job, the circuit's
          probe, before all others (even a poison suspect), and no more while the probe runs.
        - A worker holds at most one poison suspect (job.POISON_SUSPECT_CRASHES) at a time. If it holds none, the first
          one due comes before all other jobs.

        Size: in that order a job is claimed only while the jobs before it have fewer than bounds.CLAIM_BYTES of payload
        and metadata. So every claim takes the first job, and the rest stay due.

        Pending jobs whose expires_at has passed are ended as expired here, in any queue.

        `next_at` is `now` if more jobs may be due; else the next instant at which a job becomes due, a circuit becomes
        half open or, in any queue, a job expires. None for a worker whose lease has lapsed.
        """
        ...

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        """Extends the worker's lease to `until`, and all its runs with it: there is one row per worker.

        A beat that arrives after one with a higher `beats` changes nothing. If `until` is not after `now`, the worker
        leaves: its row and its commands are deleted.
        """
        ...

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        """Running jobs whose worker is silent: its row is gone or its `until` has passed."""
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        """Records the outcomes of runs, in order. Returns the ids of the jobs whose outcome was accepted.

        An outcome is accepted only while the job is running under that lease. An outcome with `silent` also requires
        that the worker is still silent at its finished_at. An outcome that was accepted before (same lease, ending and
        finished_at) is acknowledged again and changes nothing.

        One execution row is written for each accepted outcome. A job keeps its last failure until it completes. A job
        that is to be cancelled and would run again ends as cancelled instead.

        In the same transaction an accepted outcome also

        - enqueues its `then`, all or none of it; the outcome is accepted in either case;
        - is counted in the tallies of every span that contains it;
        - changes its task's circuit. A failed run adds a failure, and opens the circuit if the breaker's limit is
          reached or if the run was the probe. A completed run closes it. Any other ending, and a run without a breaker,
          leaves it as it is and, if the run was the probe, lets another job be the probe. A discarded run is such an
          ending: its input was bad, not the task.
        """
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that is rolled back at the end of the block unless it was committed.

        Raises BadInput if the store has no database.
        """
        ...

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        """Records log lines and progress of runs under way. Returns the ids of the jobs whose report was accepted.

        A report is accepted only while the job is running under that lease. Of a line that is reported twice (same run
        and n) the first version is kept. Of progress the newest is kept, by run and `at`, in whatever order it arrives.
        """
        ...

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        """Schedules whose due_at has come, by due_at and name, and the next instant at which one becomes due.

        `next_at` is `now` if more may be due. Schedules with computed input are ignored unless `computed` names them.
        """
        ...

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        """Writes each firing in one transaction: its schedule, jobs and ticks, and the cancelling of its `cancel` jobs.

        Firings are written in order, independently of each other. A firing is written only if the schedule's stored
        revision is `revision - 1` (absent for revision 1), the schedules in `reads` are unchanged, and no job key is
        held or repeated within the firing. Cancelling works as in `change`. The newest record.TICKS_KEPT ticks of each
        schedule are kept.

        Whenever a job with a counted_schedule becomes final, is revived, or is deleted before it was final, by any
        verb, the same transaction applies job_ended.after_job_ended() or after_job_revived() to that schedule. When the
        job completes, it also applies after_dependency_succeeded() to the schedules that wait for that schedule.
        """
        ...

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        """Deletes schedules and their ticks, not their jobs. Returns the names of those that existed, in order."""
        ...

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        """The schedules named, or all of them, in order of name, after the name `after`."""
        ...

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        """The recorded ticks of a schedule, newest first, below the number `before`."""
        ...

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        """Requests leadership until `until`. Returns the current term and its holder.

        A term that has not ended stays with its holder: `holder` extends its own term, or ends it if `until` is not
        after `now`. If there is no such term, `holder` begins the next one, unless it asked to end it. A term has ended
        from its `until` on, that instant included. Its number is never used again.
        """
        ...

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        """The terms that have not ended, by name."""
        ...

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        """Applies the action to at most `limit` matching jobs, in order of id, after the id `after`.

        job.ALLOWED has the states in which an action is allowed. Jobs in other states are refused, by id, and count
        towards the limit. A pending job whose expires_at has passed counts as expired.

        - Cancel: a running job keeps running, with its cancel_reason set. The first reason is kept.
        - Delete: executions and log lines are deleted too.
        - Retry: the job is due now, its attempts and crashes start at 0, created_at is kept, expires_at is removed.
          Refused while another job holds its key.
        - Update: writes the values of `update`; so does retry, if there are any. If `update` is a mapping by id, each
          job gets its own values, and a job that is not in it none.

        Retry, and a new payload by any verb, remove `since` from the job's failure. `next` is None if fewer than
        `limit` jobs matched.
        """
        ...

    async def pause_queue(self, name: str, paused: bool) -> None:
        """Pauses or resumes a queue. Jobs can be added to a paused queue; none of them is claimed."""

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        """Replaces the commands of live workers (None: all). Returns the ids of the workers changed.

        With `seen` only workers whose commands still equal `seen` are changed. A command to stop is never taken back.
        """
        ...

    # reading

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        """Matching jobs after `after`, oldest first or `newest` first.

        Sort orders: "created" is by id; "due" has pending jobs only, by run_at and id; "finished" has final jobs only,
        by finished_at and id.

        With `brief`, values longer than job.BRIEF_CHARACTERS are left out: a payload or result is then an empty text;
        of the options only tags, schedule and tick remain, and metadata is job.LEFT_OUT. So a page is small however
        large its jobs are, and a store loads at most one of them whole at a time.
        """
        ...

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        """The finished runs of the job, or of these jobs, by id and number: at most `limit`, numbered above `after`."""
        ...

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        """The job's log lines in order of run and n, after the run and n in `after`."""
        ...

    async def overview(self, *, now: datetime) -> Overview:
        """Jobs by shown state, queues, and circuits.

        OV1. States without jobs are left out. OV2. Queues are those that have unfinished jobs or are paused, in order
        of name. OV3. Counts are exact up to some ten thousand jobs; a store with more jobs may estimate large counts.
        OV4. Circuits are those of tasks with a breaker that have failed since their last success, by task.
        """
        ...

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        """The workers whose lease has not lapsed, by id."""
        ...

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        """The tallies of spans that began at `since` or later, by start, queue and task.

        Runs are counted by run.outcome_of(), except snoozed and released ones. tally.RETENTION has the minimum time
        that the tallies of each span are kept.
        """
        ...

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        """Dead jobs grouped by task and Failure.kind, largest group first, then by task and kind.

        `newest` is the job of the group that finished last. A dead job without a failure is in no group. Large counts
        may be estimates, as in `overview`.
        """
        ...

    # retention

    async def finished_groups(self) -> list[tuple[State, str]]:
        """Each pair of final state and task that has jobs."""
        ...

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        """Jobs in that state and task that retention may delete, in order of finished_at.

        These finished before `before`, and are not among the `keep` that finished last.
        """
        ...

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        """Deletes what is cheap to delete in bulk.

        P3. Of jobs it deletes only those that `prunable` returns under these rules, each (keep, before), such as whole
        partitions; possibly none of them. P4. Expired documents, and audit entries before `audited_since`, are
        deleted; if document.MIN_PRUNED_ROWS or more of these were, there may be more to delete.
        """
        ...
