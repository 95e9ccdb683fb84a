"""The Store protocol: what outlives the process, as verbs with a contract."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from .ids import JobId, Lease, WorkerId
from .records.audit import AuditEntry, AuditFilter
from .records.circuit import Circuit
from .records.document import Document
from .records.feed import Feed
from .records.finding import Finding
from .records.job import Action, Enqueued, Job, NewJob, Shown, State
from .records.outcome import Outcome
from .records.query import Changed, Cursor, Filter, Sort, Updates
from .records.queue import DeadGroup, Queue
from .records.run import Execution, LogLine, RunReport
from .records.schema import Schema
from .records.tally import Span, Tally
from .records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from .schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from .task.retention import Rules


class Transaction(Protocol):
    """A transaction on the store's own database, for the effect of one run and its end."""

    connection: Any
    """The driver's: what the task does there is part of it."""

    async def holds(self, id: JobId, lease: Lease) -> bool:
        """Whether the job is running under that very lease."""
        ...

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        """Tells the reports and settles the run as `report` and `finish` do, and commits it all together.

        False: the outcome was not accepted, and nothing is committed.
        """
        ...


class Keeper(Protocol):
    """What a store keeps for the service: documents, the audit trail, and news for those who watch."""

    async def put_documents(self, documents: Sequence[Document], *, now: datetime) -> list[bool]:
        """Writes them in order, each for itself, and says of each whether it stands.

        One stands if the store's own is at the revision before it (the first: there is none, or it has expired), or is
        this very one already: who wants to know whether he was first puts something of his own into the text.
        """
        ...

    async def drop_documents(self, kind: str, names: Collection[str]) -> list[str]:
        """Forgets them; returns those that were there, by name, among them what has expired and was not tidied yet."""
        ...

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        """These of a kind, or all, by name, from beyond `after`. One has expired from its expires_at on.

        One whose record cannot be decoded has what is there as its text: a reader finds that out, and
        `drop_documents` drops it.
        """
        ...

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Adds to the audit trail. One that is there gets its outcome if it had none; nothing else of it changes."""
        ...

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        """Matching entries, the newest first (by id), from below the id `before`."""
        ...

    async def watch(self, *, until: datetime, now: datetime) -> None:
        """Somebody wants news until then; the latest such instant counts. Workers hear it with their beats."""
        ...

    async def watched(self) -> datetime | None:
        """Until when somebody wants, or wanted, news."""
        ...

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """Numbers them on from the newest, and keeps document.NEWS_KEPT of them at least; answers as `watched` does.

        Whoever has seen a number will find none below it that was not there. Told twice, they are there twice.
        """
        ...

    async def news(self, *, after: int, limit: int) -> Feed:
        """What was published, in order, from beyond the number `after`."""
        ...

    async def tidy(self, *, audited_since: datetime, now: datetime) -> int:
        """Deletes expired documents and entries of before; returns how many went.

        Some may be left for another time, if document.TIDIED or more went.
        """
        ...


class Store(Keeper, Protocol):
    """Everything that outlives the process. A verb is one atomic step over a set.

    Verbs never read a clock, never call user code, never raise because a row has moved on:
    they return what they did. A passing trouble is StoreUnavailable, and whoever gets it may
    repeat the call with the same arguments: enqueue knows an id it has seen, finish knows an
    outcome it has accepted, and a claim whose answer was lost is found by the next beat.

    A record that cannot be decoded stops nothing but itself, whatever the verb. Its job is read with what can be read
    of it and a failure of the type job.UNREADABLE, and only deleting it is allowed. A claim, and `expired`, set such a
    job aside: it is paused, its record stays as it is, and `diagnose` names it. Such a schedule is not listed; `due`
    sets it aside, so that it is never due; `fire` takes it for one that is not there, and `drop_schedules` drops it.
    Such a worker is not listed; it lives as long as its `until` says. Any other such record is left out.
    """

    # life

    async def open(self, *, migrate: bool = True) -> None:
        """Ready for use; the schema is one this release can work on, stepped up if it was not. Opening twice is no
        error. Without `migrate` the schema is as it was found, and only these verbs of its life are sure to work.
        """
        ...

    async def close(self) -> None:
        """What was accepted is safe; calls that follow raise ShuttingDown. Closing twice is no error."""
        ...

    def beside(self) -> Store:
        """A handle on the same data for another event loop; may be this very object."""
        ...

    @property
    def newest_schema(self) -> int:
        """The newest version this release knows; workers tell it with their beats."""
        ...

    async def schema(self) -> Schema:
        """Of the tables as they are now."""
        ...

    async def migrate(self, target: int | None = None) -> list[int]:
        """Steps the schema to `target` (default: newest); returns the versions passed through.

        All or nothing, one caller at a time, beside live workers: StoreUnavailable as long as one beats that could
        not work on the tables afterwards. A worker whose schema was changed nevertheless gets SchemaMismatch from
        its next beat.
        """
        ...

    def script(self, at: int, target: int | None = None) -> str:
        """What `migrate` does from one version to another, as statements for somebody else to run. Asks nobody."""
        ...

    async def time(self) -> datetime:
        """The store's own clock, to correct ours for skew."""
        ...

    async def diagnose(self) -> list[Finding]:
        """What only this store can tell about its own condition, each thing once; changes nothing."""
        ...

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        """Until something new may be claimable, or a term was ended. May be early or late, never needed for
        correctness."""
        ...

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        """Until one of these jobs may have ended, or its run have reported something. May be early or late."""
        ...

    def hears(self) -> bool | None:
        """Whether word of what others do reaches `wait` by itself, so that looking often is of no use.

        None: nobody listens, so that not to hear is no trouble.
        """
        ...

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        """All of them or, if one with on_conflict="raise" meets its key, none.

        One answer per job, in order; in a refused batch that job says "refused" with the key and its
        holder's id, all others "refused" with their own id. A key is free again the moment its job is
        final (an idempotency key stays taken after completed); a holder past its expires_at ends as
        expired here. An id the store has seen in that queue is that job, wherever it is by now: it is answered as
        new, before its key is looked at, and not written again. "replace" and "debounce" change a job only while it is
        pending or paused, and never one of an internal task: replace gives it the new input and keeps its time,
        debounce also moves its time, never past created_at + debounce_limit; otherwise the job is returned as a
        duplicate.
        A fingerprint belongs to its payload: a verb that writes a payload also writes the fingerprint that comes
        with it, or None. Of a job that is replaced or debounced, enqueued_by is that of the request that did so.
        `within` is the caller's own open transaction: nothing is visible before its commit. A store without
        transactions raises BadInput, with the reason that its `refuses_within` has; nothing is written.
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
        """Takes up to `limit` due jobs under one fresh lease; no two claims share a job.

        Order: priority (highest first), run_at, id. Leaves alone paused queues, queues and tasks
        not named, and everything if the worker's own lease has lapsed: it must beat first.
        A worker holds at most one suspect (job.SUSPECT) at a time: if it holds none, the first one due is
        taken before all others. A task whose circuit is open gives nothing until its open_until; from then on
        it gives one job, the circuit's probe, before all others (a suspect too), and no more while that one runs.
        In that order a job is taken only while those before it have less than bounds.CLAIM_BYTES of payload and
        metadata; so any claim takes the first one, and what is left is due still.
        Pending jobs past expires_at end as expired here, in any queue. `next_at` is `now` if
        more may be due, else the next instant at which a job becomes due, a circuit half open or, in any queue,
        a job expires; None for a lapsed worker. A worker is silent from its `until` on, that instant included.
        """
        ...

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        """The worker lives until `until`; one row per worker, whatever it runs. A beat that comes late, after one
        with more `beats`, changes nothing.

        With `until` not after `now` the worker leaves: its row goes, and its orders with it.
        """
        ...

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        """Running jobs whose worker is silent: its row is gone or its `until` has passed."""
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        """Settles runs; returns the jobs whose outcome stands.

        Accepted only while the job is running under that very lease; an outcome with `silent`
        also needs the worker to be silent still, at its finished_at. Outcomes are settled in order.
        An outcome accepted before (the same lease, ending and finished_at) is acknowledged again and
        changes nothing. A job keeps its last failure until it completes. One execution row is written per accepted
        outcome. A job that was asked to cancel and would run again ends cancelled instead.

        In the same step an accepted outcome enqueues its `then` (all or none of it; the outcome stands in any case),
        is counted in the tallies of every span it lies in, and moves its task's circuit: a run that went
        wrong adds a failure and opens it when there are as many as its breaker allows, or when it was the probe;
        one that went well closes it. Any other ending, discarded among them (its input was bad, not the task),
        leaves it as it is, and lets another job try if this one was the probe; so does one without a breaker.
        """
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Rolled back at the end of the block unless it was committed. BadInput where there is no database."""
        ...

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        """Log lines and progress of runs under way; returns the jobs whose report stands.

        Accepted only while the job is running under that very lease. A line told twice (the same run and n) is
        kept once, as it was told first; of progress the newest counts, by run and `at`, whenever it is told.
        """
        ...

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        """Schedules whose due_at has come, by due_at and name, and the next instant at which there will be one.

        `next_at` is `now` if more may be due. Of those whose input is computed, only the ones named are seen.
        """
        ...

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        """Writes schedules and, in the same step, each one's jobs and ticks, and cancels what it says.

        A firing stands only if its schedule is in the store at the revision before (the first one: not at all), those
        it reads are at theirs, and no key of its jobs is held, by one of themselves neither; else nothing of it
        is written. They are written in order, each for itself. Cancelling is as `change` does it. Of each schedule
        the newest schedule.record.MAX_KEPT_TICKS ticks are kept.

        Whenever a job that has a schedule becomes final, is put back to work, or is deleted before it was final, by
        whatever verb, that schedule becomes aftermath.ended() or .revived() of itself in the same step; when it
        completes, so do the schedules that wait on that one become .roused(). A job made `beside` the series tells
        it nothing.
        """
        ...

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        """Forgets schedules and their ticks, not their jobs; returns those that were there, by name."""
        ...

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        """These, or all of them, by name, from beyond `after`."""
        ...

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        """What became of a schedule's ticks, newest first, from below the number `before`."""
        ...

    async def lead(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        """Asks to lead until then; answers who does, under which term.

        Whoever holds a term that has not ended keeps it: for `holder` itself it is prolonged, or ended if `until` is
        not after `now`. Where nobody does, `holder` begins the next term, unless it asked to end it. A term has
        ended from its `until` on, that instant included; its number is never given again.
        """
        ...

    async def leaders(self, *, now: datetime) -> list[LeaderTerm]:
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
        """Applies the action to at most `limit` matching jobs, in order of id, from beyond `after`.

        job.ALLOWED says from which states; the others are refused by name, and count towards the
        limit. A pending job past its expires_at is met as expired. Cancelling a running job leaves it
        running with its cancel_reason set; the first reason stays. Delete takes executions and log lines
        too. Retry is due now, starts the count of attempts and crashes anew, keeps created_at, drops
        expires_at, and is refused while another job holds its key. Update writes the values of `update`;
        retry does so too, if given any. Given by id, each job gets its own, and one that is not named no new values.
        Retry, and a new payload by whatever verb, remove `since` from the job's failure. `next` is None if fewer than
        `limit` matched.
        """
        ...

    async def pause_queue(self, name: str, paused: bool) -> None:
        """A paused queue takes jobs and gives none."""
        ...

    async def order(
        self,
        workers: Collection[WorkerId] | None,
        orders: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        """Gives live workers (None: all) their orders, in place of earlier ones; returns those that got them.

        With `seen` only workers whose orders are still those get new ones. An order to stop stays, whatever follows it.
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
        """Matching jobs, first to last or newest first, from beyond `after`.

        If `brief`, what is longer than BRIEF_CHARACTERS is left out of each: its payload and its result, which are then
        empty texts, and its options, of which tags, schedule and tick are kept, and the metadata are LEFT_OUT. However
        large the jobs are, such a page is small, and a store reads no more than one of them whole at a time.

        By creation: in order of id alone. By "due": pending jobs only, by run_at and id. By "finished": jobs in a
        final state only, by finished_at and id.
        """
        ...

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        """Every run of the job, or of these jobs, that has ended, by id and number.

        Those whose number is beyond `after`, and no more than `limit` of them.
        """
        ...

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        """The job's log lines by run and n, from beyond those of `after`."""
        ...

    async def queues(self, *, now: datetime) -> list[Queue]:
        """Every queue that holds unfinished jobs or is paused, by name; its figures are as those of `counts`."""
        ...

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        """The workers whose lease has not lapsed, by id."""
        ...

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        """How many jobs are in each shown state; states without a job are left out.

        Exact while a store has up to some ten thousand jobs; beyond that, a store may estimate figures that are large.
        """
        ...

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        """Runs counted by spans that began at `since` or later, by start, queue and task.

        Each is counted under its job.outcome_of(); snoozed and released runs are not counted. tally.KEPT says how long
        each span is kept at least.
        """
        ...

    async def circuits(self) -> list[Circuit]:
        """Of every task with a breaker that has gone wrong since it last went well, by task."""
        ...

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        """Dead jobs by task and Failure.kind, most first, then by those two; `newest` is the one that finished last.

        A dead job without a failure is in no group. Large counts may be estimates, as in `counts`.
        """
        ...

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        """Each final state and task for which there are jobs."""
        ...

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        """Jobs of that final state and task beyond the `keep` that finished last, and finished before `before`.

        The one that finished first comes first.
        """
        ...

    async def forget(self, rules: Rules, *, now: datetime) -> int:
        """Deletes what can go at once of the jobs that surplus() names under these rules, each (keep, before).

        Never another one; maybe none of them: how many is for the store to say. Returns how many jobs went.
        """
        ...
