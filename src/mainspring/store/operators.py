"""The actions of operators on the store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ..ids import JobId, WorkerId
from ..records.job import Action
from ..records.query import Changed, Filter, Updates
from ..records.worker import WorkerCommands


class OperatorStore(Protocol):
    """The actions of operators."""

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

        A1. `job.ALLOWED` has the states in which an action is allowed. Jobs in other states are refused, by id, and
            count towards the limit.
        A2. A pending job whose expires_at has passed counts as expired.
        A3. `next` is None if fewer than `limit` jobs matched.
        A4. Else it is the id of the last job considered, changed or refused; a call with it as `after` goes on there.
        A5. Cancel ends a job that does not run, at `now`. Pause and resume change only the state. An action that is
            repeated is done again and changes nothing.

        A6. Cancel: a running job keeps running, with its cancel_reason set. The first reason is kept.
        A7. Delete: executions, log lines and checkpoints are deleted too.
        A8. Retry: the job is due now, its attempts and crashes start at 0, created_at is kept, expires_at is removed.
        A9. Retry is refused while another job holds its key.
        A10. Update: writes the values of `update`; so does retry, if there are any. If `update` is a mapping by id,
            each job gets its own values, and a job that is not in it none.

        A11. Retry, and a new payload by any verb, remove `since` from the job's failure.
        A12. Cancel, pause and delete are refused, with an error, for a job of flow.DEADLINE_TASKS that is not final. It
            goes with the job that has it as its deadline.
        """
        ...

    async def pause_queue(self, name: str, paused: bool) -> None:
        """PQ1. Pauses or resumes a queue. Jobs can be added to a paused queue; none of them is claimed.

        PQ2. It changes no job: running jobs go on. Pausing or resuming twice is no error.
        """

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        """Replaces the commands of live workers (None: all). Returns the ids of the workers changed.

        CW1. With `seen` only workers whose commands still equal `seen` are changed.
        CW2. A command to stop is never taken back.
        CW3. The commands of the live workers named are replaced as a whole; other workers keep theirs.
        """
        ...
