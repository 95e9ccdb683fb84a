"""Flows in the store: their rows, their plans, and the jobs of their steps."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ..ids import JobId
from ..records.flow import FlowRequest, FlowWithPlan
from ..records.job import Job
from ..records.query import Refusal
from ..records.run import Checkpoint


class FlowStore(Protocol):
    """Flows. One begins with `finish` or `enqueue`, and changes in whatever verb changes its jobs.

    FL1. A job with a plan, of an outcome in state WAITING or of a NewJob, has a flow from then on: moves.start() of
        that plan, behind the steps that it takes over (Plan.kept). A second plan for the same job is ignored, but for
        FL22.
    FL2. What happens to the job of a step (StepRef) happens to its flow in the same transaction, whichever verb it is:
        it becomes final, is deleted before that, or is put back to work. The flow becomes moves.end_steps() or
        moves.revive() of itself, once for each such change.
    FL3. The jobs of a move are stored in that transaction, due at their run_at or at once.
    FL4. The unfinished jobs of the steps that a move cancels are cancelled in that transaction, at most
        flow.MAX_CANCELLED_JOBS of them; a job of flow.CANCEL_STEPS, stored with them at the
        highest priority, cancels the others.
    FL5. When a flow is over, its own job, which is waiting, is due at once.
    FL6. An outcome that concludes a flow (`concludes`) is accepted with that row only: if the row has changed, the job
        waits again. With outcome.NO_REVISION it is accepted unless the cancel that ended the run was withdrawn. If the
        run has crashed as often as it may, the job waits again if a step was put back to work, with no crashes.

    FL7. A job that is enqueued with a StepRef is an item of that step, and is counted in the same transaction if it is
        new. It is stored as cancelled if the flow makes no more items of that step.
    FL8. Cancelling a waiting job that has a flow cancels the flow: moves.cancel(). The job has its cancel_reason, and
        ends when it has concluded. A second cancel stops the remaining steps too. A job that is cancelled while it
        runs, and then waits for its flow, cancels that in the same way.
    FL9. Retrying a job whose flow is over puts the flow's dead and cancelled steps back to work, and the job waits. A
        retried step whose flow is over reopens it in the same way; this is refused while another job holds the flow's
        key. Of a flow that has completed only that job runs again. A retried step withdraws a cancel of its flow.
    FL10. Deleting a job deletes its flow, and the jobs of its steps: at most flow.MAX_CANCELLED_JOBS of them in that
        transaction, the others by a job of flow.CANCEL_STEPS. Running ones are cancelled.
    FL11. `prunable` returns no job of a step whose flow is stored.

    FL22. A plan that grows (Plan.grows) is of a durable job. The plan of a later outcome of that job, which grows, too,
        adds its steps behind those that are stored, but for those whose names are stored: the flow becomes moves.grow()
        of itself, and the job waits until all steps have ended. Such a job keeps signals of every name, as FL19 to FL21
        say; an outcome with `awaits` and no plan waits for these alone.
    FL23. A cancel of such a job, whether it waits or not, cancels the steps that have not ended. It waits for them only
        if it was waiting for steps.

    BA1. A job that is enqueued with the index step.NEXT_INDEX is a new job of a batch, and gets its next free index,
        however many calls add jobs at once. If the batch has ended, or the step is none of a batch, the call is refused
        and stores nothing. The unfinished jobs of a batch that is closed keep it open for others.
    BA4. A batch has a job of flow.CLOSE_BATCH, stored with it and due PlannedStep.open_seconds later, until it is
        closed, stopped or deleted.
    BA5. A step with on="failure" behind a batch is released with the first dead job, or when the batch is closed as
        dead. It is not released again when dead jobs are put back to work.

    CO1. A `finish` with `carry_on` may start jobs that its outcomes have made due, at most `limit` of them: those of
        steps, and those of flows that are over. They have been running since its `now` under its worker and a lease of
        their own, in the same transaction, and are returned. A store may start fewer.
    CO2. It starts only what a claim of that worker would take: of its queues and tasks, of no paused queue, due and
        not expired at `now`, of no task whose circuit is open, at most bounds.CLAIM_BYTES; and nothing for a worker
        whose lease has lapsed. Nor does it start a job that has crashed a worker.
    CO3. It starts no job of a lower priority than another due job that such a claim would take in order.
    CO4. Of a call that is repeated, jobs that were started before are not returned: beats name them.
    """

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        """FL12. The flows of these jobs with their plans, by id. A job that has none is left out; one that has signals
        and no plan comes with the plan of no steps."""
        ...

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        """FL13. The jobs of the flow's steps whose position is from `first` to `last`, by position, at most `limit`."""
        ...

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        """CP1. The job's checkpoints in order of n: at most `limit`, numbered above `after`."""
        ...

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        """Does what is asked of the flow of this job, or returns why not; then nothing is changed.

        FL14. SkipStep: the flow becomes moves.skip() of itself, and the jobs of the step that are unfinished are
            cancelled, in one transaction. It is refused as moves.may_skip() says. A step that an operator has skipped
            already is left as it is, so that a repeated call does no harm.
        FL15. Skipping a step of a flow that is over reopens it as FL9 says. If nothing is left to do then, its job is
            due at once. This is refused if the flow has completed, or as a retry of its job is refused.
        FL16. A flow whose plan has a timeout has a deadline until it is over, and a job of flow.FLOW_DEADLINE, stored
            with it and due then; it is deleted when the flow is over or deleted. A flow that is reopened has another
            one. TimeOut by that job makes the flow moves.time_out() of itself; by any other job it changes nothing.
        FL17. A signal of a plan (PlannedStep.signal) has no job. When what it needs has ended it completes with the
            value that was given before, or waits for one. With a timeout it then has a deadline (Flow.waits), and a
            job of flow.FLOW_DEADLINE stored with it and due then; that job is deleted when it waits no more. TimeOut by
            that job makes the signal late: it completes with its default, or is dead.
        FL18. GiveSignal: the value is in the flow's inbox, and the flow becomes moves.take_signals() of itself, in one
            transaction. The same delivery again changes nothing. It is refused (Refusal.signal) as `twice` if another
            delivery has given that name a value; as `unknown` if the plan has no such signal, or there is no such job;
            as `late` if the name's time was over, its step does not wait any more, or the job is final; as `full`
            beyond flow.MAX_SIGNAL_NAMES and MAX_INBOX_BYTES.
        FL19. A job without a plan keeps signals of every name until it ends, in a row that the first one makes
            (Flow.planned is false). A plan that comes later takes the inbox over.
        FL20. A job without a plan may wait for signals: an outcome in state WAITING with `awaits`. If one of them has
            come, or its time is over, the job is due at once; else when that happens, in the transaction in which it
            does. Deadlines are those of FL17. A signal that is waited for already keeps its deadline.
        FL21. To actions, a job whose row has no plan is a job without a flow. When it is cancelled while it waits, or
            is deleted, the jobs of its deadlines are deleted; its row goes with the job.

        BA2. CloseBatch: no more jobs are added to the batch (PlannedStep.open_seconds) from outside. It ends when all
            of its jobs have ended; without jobs it completes. One that is closed already stays as it is. This is
            refused if the flow is no batch.
        BA3. CloseBatch with `abandoned_at`, which has to be the number of its jobs: the batch is dead when these have
            ended, as moves.close() says. A retry of its own job takes what it has as all.
        """
        ...
