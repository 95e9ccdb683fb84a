"""The life of a job in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from ..ids import JobId, WorkerId
from ..records.job import Enqueued, Job, NewJob
from ..records.outcome import Outcome
from ..records.run import RunReport
from ..records.worker import BeatReply, CarryOn, Claim, Finished, WorkerInfo

Topic = Literal["claimable", "final"]
"""What `wait` waits for: that a job may be claimable or a leader's term may have ended; that a job may have ended or
its run may have reported."""


class JobStore(Protocol):
    """The life of a job, from `enqueue` to `finish`."""

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        """Stores all jobs; or none, if the key of a job with on_conflict="raise" is held.

        E1. There is one answer for each job, in order.
        E2. In a refused batch the job with the conflict is "refused" with the key and the id of its holder; all others
            are "refused" with their own id.
        E3. The jobs of a call are stored in order: a later job meets the keys of the earlier ones.
        E4. A new job is pending, was created at `now` and has no runs. Without a run_at it is due at `now`.

        E5. A job holds its unique key and its idempotency key, which are two separate keys, in all queues and tasks. A
            deleted job holds none.
        E6. A key is free as soon as its job is final.
        E7. But an idempotency key stays held by a completed job.
        E8. A pending holder whose expires_at has passed is ended as expired here.

        E9. An id that the store has in that queue is that job, in whatever state it is now. It is answered as "new",
            before its key is checked, and not written again.

        E10. A job with on_conflict="return" whose key is held is not written: it is answered as "duplicate" with the
            key and the id of its holder.
        E11. "replace" and "debounce" change a job only while it is pending or paused, and never a job of an internal
            task; otherwise the job is returned as a duplicate.
        E12. Replace gives it the new input and keeps run_at.
        E13. Debounce also moves run_at, at most to created_at + debounce_limit.
        E14. The job's enqueued_by becomes that of the new request.

        E15. A fingerprint belongs to its payload: every verb that writes a payload writes its fingerprint too, or None.

        E16. `within` is an open transaction of the caller: nothing is visible before its commit.
        E17. A store without transactions raises BadInput, and writes nothing.

        E18. A request with `collect` adds its items to the job that holds its unique key, if that collects: it is
            pending or paused, and was never claimed. It is answered as "collected", with the key and the id of that
            job. Items are in the order of the requests, and none is lost or there twice.
        E19. Such a job is due `delay` after its creation, or `grace` after the last request if that is earlier. With
            `size` items it is due at once, and lets go of its key.
        E20. Items beyond `size` or `max_bytes`, or of another fingerprint, begin another job, which takes the key over.
            The first one is due at once.
        E21. So do items whose key is held by a job that was claimed. If that job does not collect, it keeps its key,
            and the new one has none.
        E22. An update and a retry let a job with `collect` go of its key, so that it collects no more.

        E23. "replace" and "debounce" delete the checkpoints of a job that has begun: they are those of the old input.
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

        C1. No two claims return the same job.
        C2. Only pending jobs whose run_at has come are claimed, at most `limit` of them.
        C3. A claimed job has been running since `now` under that worker and lease, with one attempt and one run more.
            No other claim has the same lease.
        C4. Jobs of paused queues, and of queues and tasks that are not named, are not claimed.
        C5. A worker whose own lease has lapsed gets no job: it must beat first. A worker is silent from its `until` on,
            that instant included.

        C6. The order is priority (highest first), run_at, id, and the answer has it. Jobs are taken in this order, with
            two exceptions for what is taken first, and that of jobs with a limit (LimitStore).
        C7. A task whose circuit is open gives no job before its open_until; from then on it gives one job, the
            circuit's probe, which is taken before all others (even a poison suspect), and no more while the probe runs.
        C8. A worker holds at most one poison suspect (job.POISON_SUSPECT_CRASHES) at a time; if it holds none, the
            first one due is taken before all other jobs.

        C9. In that order a job is claimed only while the jobs before it have fewer than bounds.CLAIM_BYTES of payload
            and metadata. So every claim takes the first job, and the rest stay due.

        C10. Pending jobs whose expires_at has passed are ended as expired here, in any queue.

        C11. `next_at` is `now` if more jobs may be due; else the next instant at which a job becomes due, a circuit
            becomes half open or, in any queue, a job expires. None for a worker whose lease has lapsed.
        """
        ...

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        """Extends the worker's lease to `until`, and all its runs with it: there is one row per worker.

        B1. The reply has the runs that the worker holds, and those to be cancelled.
        B2. A beat that arrives after one with a higher `beats` does not change the row, unless it leaves.
        B3. If `until` is not after `now`, the worker leaves: its row and its commands are deleted.
        B4. The reply has the worker's commands, and until when the live feed is wanted.
        B5. The worker's row has the info and the `until` of its last beat.
        B6. A worker that has been silent for a day is deleted by the next beat of any worker, with its commands.
        """
        ...

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        """OR1. Running jobs whose worker is silent: its row is gone or its `until` has passed."""
        ...

    async def finish(self, outcomes: Sequence[Outcome], *, carry_on: CarryOn | None = None) -> Finished:
        """Records the outcomes of runs, in order. Returns the ids of the jobs whose outcome was accepted, and the jobs
        that it has started for `carry_on` (FlowStore).

        F1. An outcome is accepted only while the job is running under that lease.
        F2. An outcome with `silent` also requires that the worker is still silent at its finished_at.
        F3. An outcome that was accepted before (same lease, ending and finished_at) is acknowledged again and changes
            nothing.

        F4. The job gets the outcome's state, result, failure and run_at, and its finished_at if it is final. `refund`
            takes one attempt back; `crash` adds one crash; `reset_attempts` first forgets the attempts and crashes
            before this run.
        F5. The outcomes of a call take effect one after the other, each on its own job.
        F6. One execution row is written for each accepted outcome.
        F7. A job keeps its last failure until it completes.
        F8. A job that is to be cancelled and would run again ends as cancelled instead.

        An accepted outcome has its consequences in the same transaction:

        F9. Its `then` is enqueued, all or none of it; the outcome is accepted in either case.
        F10. It is counted in the tallies of every span that contains it.
        F11. It changes its task's circuit. A failed run adds a failure, and opens the circuit if the breaker's limit is
            reached or if the run was the probe. A completed run closes it. Any other ending, and a failed run without a
            breaker, leaves it as it is and, if the run was the probe, lets another job be the probe. A discarded run is
            such an ending: its input was bad, not the task.

        F12. An outcome with an empty `task` is not counted, and changes a circuit only if its run was the probe.
        """
        ...

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        """Records log lines, output, progress and checkpoints of runs. Returns the ids of the jobs whose report was
        accepted.

        R1. A report is accepted only while the job is running under that lease.
        R2. Of a line that is reported twice (same run and n), or a chunk of output (same n), the first version is kept.
        R3. Of progress the newest is kept, by run and `at`, in whatever order it arrives.
        R4. Lines, output and progress are visible at once, and stay with the job until it is deleted. A report changes
            nothing else.
        R5. Of a checkpoint that is reported twice (same job and name) the first version is kept. Checkpoints are
            visible at once, and stay with the job through every further run, until it is deleted or E23 deletes them.
        """
        ...

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        """Waits until the topic may have changed since the number `seen`, at most `timeout` seconds.

        W1. Returns the number of the topic's last change that this process knows, to be passed as `seen` to the next
            call.
        W2. With a `seen` that is not the present number it returns at once: a caller that takes the number, then reads,
            then waits misses no change of its own process.
        W3. It may return early, so correctness never depends on it; `seen=None` waits for the next change.
        W4. Without a change it returns after `timeout` seconds.
        """
        ...

    async def time(self) -> datetime:
        """TI1. The time of the store's own clock, aware and in UTC. It corrects the clocks of clients."""
        ...
