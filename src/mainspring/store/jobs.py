"""The life of a job in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from ..ids import JobId, WorkerId
from ..records.job import Enqueued, Job, NewJob
from ..records.outcome import Outcome
from ..records.run import RunReport
from ..records.worker import BeatReply, Claim, WorkerInfo

Topic = Literal["claimable", "final"]
"""What `wait` waits for: that a job may be claimable or a leader's term may have ended; that a job may have ended or
its run may have reported."""


class JobStore(Protocol):
    """The life of a job, from `enqueue` to `finish`."""

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        """Stores all jobs; or none, if the key of a job with on_conflict="raise" is held.

        E1. There is one answer for each job, in order. E2. In a refused batch the job with the conflict is "refused"
        with the key and the id of its holder; all others are "refused" with their own id.

        E3. A key is free as soon as its job is final; E4. except that an idempotency key stays held by a completed job.
        E5. A holder whose expires_at has passed is ended as expired here.

        E6. An id that the store has seen in that queue is that job, in whatever state it is now. It is answered as
        "new", before its key is checked, and not written again.

        E7. "replace" and "debounce" change a job only while it is pending or paused, and never a job of an internal
        task; otherwise the job is returned as a duplicate. E8. Replace gives it the new input and keeps run_at. E9.
        Debounce also moves run_at, at most to created_at + debounce_limit. E10. The job's enqueued_by becomes that of
        the new request.

        E11. A fingerprint belongs to its payload: every verb that writes a payload writes its fingerprint too, or None.

        E12. `within` is an open transaction of the caller: nothing is visible before its commit. E13. A store without
        transactions raises BadInput, and writes nothing.
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
        """Claims up to `limit` due jobs under one new lease.

        C1. No two claims return the same job. C2. Jobs of paused queues, and of queues and tasks that are not named,
        are not claimed. C3. A worker whose own lease has lapsed gets no job: it must beat first. A worker is silent
        from its `until` on, that instant included.

        C4. The order is priority (highest first), run_at, id; with two exceptions. C5. A task whose circuit is open
        gives no job before its open_until; from then on it gives one job, the circuit's probe, before all others (even
        a poison suspect), and no more while the probe runs. C6. A worker holds at most one poison suspect
        (job.POISON_SUSPECT_CRASHES) at a time; if it holds none, the first one due comes before all other jobs.

        C7. In that order a job is claimed only while the jobs before it have fewer than bounds.CLAIM_BYTES of payload
        and metadata. So every claim takes the first job, and the rest stay due.

        C8. Pending jobs whose expires_at has passed are ended as expired here, in any queue.

        C9. `next_at` is `now` if more jobs may be due; else the next instant at which a job becomes due, a circuit
        becomes half open or, in any queue, a job expires. None for a worker whose lease has lapsed.
        """
        ...

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        """Extends the worker's lease to `until`, and all its runs with it: there is one row per worker.

        B1. The reply has the runs that the worker holds, and those to be cancelled. B2. A beat that arrives after one
        with a higher `beats` changes nothing. B3. If `until` is not after `now`, the worker leaves: its row and its
        commands are deleted. B4. The reply has the worker's commands, and until when the live feed is wanted.
        """
        ...

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        """OR1. Running jobs whose worker is silent: its row is gone or its `until` has passed."""
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        """Records the outcomes of runs, in order. Returns the ids of the jobs whose outcome was accepted.

        F1. An outcome is accepted only while the job is running under that lease. F2. An outcome with `silent` also
        requires that the worker is still silent at its finished_at. F3. An outcome that was accepted before (same
        lease, ending and finished_at) is acknowledged again and changes nothing.

        F4. One execution row is written for each accepted outcome. F5. A job keeps its last failure until it completes.
        F6. A job that is to be cancelled and would run again ends as cancelled instead.

        In the same transaction an accepted outcome also

        - F7. enqueues its `then`, all or none of it; the outcome is accepted in either case;
        - F8. is counted in the tallies of every span that contains it;
        - F9. changes its task's circuit. A failed run adds a failure, and opens the circuit if the breaker's limit is
          reached or if the run was the probe. A completed run closes it. Any other ending, and a run without a breaker,
          leaves it as it is and, if the run was the probe, lets another job be the probe. A discarded run is such an
          ending: its input was bad, not the task.
        """
        ...

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        """Records log lines and progress of runs under way. Returns the ids of the jobs whose report was accepted.

        R1. A report is accepted only while the job is running under that lease. R2. Of a line that is reported twice
        (same run and n) the first version is kept. R3. Of progress the newest is kept, by run and `at`, in whatever
        order it arrives.
        """
        ...

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        """Waits until the topic may have changed since the number `seen`, at most `timeout` seconds.

        W1. Returns the number of the topic's last change that this process knows, to be passed as `seen` to the next
        call. W2. With a `seen` that is not the present number it returns at once: a caller that takes the number, then
        reads, then waits misses no change of its own process. W3. It may return early or late, so correctness never
        depends on it; `seen=None` waits for the next change.
        """
        ...

    async def time(self) -> datetime:
        """The time of the store's own clock, which corrects the clocks of its clients."""
        ...
