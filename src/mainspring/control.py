"""app.jobs, app.queues, app.executions, app.workers: seeing and steering what is in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from .clock import Clock
from .errors import BadInput, InvalidTransition, JobExists
from .handle import missing
from .job import ALLOWED, SHOWN, Action, Changed, Cursor, Execution, Filter, Job, JobId, LiveWorker, Queue
from .outcome import clean
from .store import Store
from .task import check_name

Opened = Callable[[], Awaitable[Store]]
PAGE = 1000


class Jobs:
    """Each action takes one id, and then raises if it cannot be done; or a Filter, and tells what it did."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock

    async def get(self, id: JobId) -> Job:
        id = _checked_id(id)
        found = await (await self._opened()).jobs(Filter(ids=(id,)), now=self._clock.now(), limit=1)
        if not found:
            raise missing(id)
        return found[0]

    async def list(
        self,
        which: Filter | None = None,
        *,
        limit: int = 100,
        after: JobId | None = None,
        newest: bool = True,
    ) -> Sequence[Job]:
        """Matching jobs, newest first; give the last one's id as `after` for the next page."""
        if not 0 < limit <= PAGE:
            raise BadInput(f"limit must be from 1 to {PAGE}, got {limit}; page on with after=")
        which = self._checked(which or Filter())
        store = await self._opened()
        return await store.jobs(
            which, now=self._clock.now(), limit=limit, after=None if after is None else Cursor(after), newest=newest
        )

    async def cancel(self, which: JobId | Filter, reason: str = "cancelled by an operator") -> Changed:
        """Waiting jobs never run; running ones are interrupted at their worker's next beat."""
        return await self._change(Action.CANCEL, which, reason)

    async def retry(self, which: JobId | Filter) -> Changed:
        """Dead, cancelled and expired jobs become pending, with all their retries."""
        return await self._change(Action.RETRY, which)

    async def pause(self, which: JobId | Filter) -> Changed:
        return await self._change(Action.PAUSE, which)

    async def resume(self, which: JobId | Filter) -> Changed:
        return await self._change(Action.RESUME, which)

    async def delete(self, which: JobId | Filter) -> Changed:
        """Gone with their history; running jobs are refused."""
        return await self._change(Action.DELETE, which)

    async def _change(self, action: Action, which: JobId | Filter, reason: str = "") -> Changed:
        store, now = await self._opened(), self._clock.now()
        reason = clean(str(reason), 1024)
        if isinstance(which, Filter):
            return await store.change(action, self._checked(which), now=now, limit=PAGE, reason=reason)
        which = _checked_id(which)
        changed = await store.change(action, Filter(ids=(which,)), now=now, limit=1, reason=reason)
        if which in changed.refused:
            refusal = changed.refused[which]
            if refusal.holder is not None:
                raise JobExists(refusal.key or "", refusal.holder)
            allowed = ", ".join(sorted(ALLOWED[action]))
            raise InvalidTransition(which, refusal.state, action, allowed)
        if not changed.done:
            raise missing(which)
        return changed

    def _checked(self, which: Filter) -> Filter:
        for state in which.states or ():
            if state not in SHOWN:
                raise BadInput(f"unknown state {state!r} (known: {', '.join(SHOWN)})")
        return which


def _checked_id(id: object) -> JobId:
    if not isinstance(id, str):
        raise BadInput(f"a job is named by its id, which is text; got {type(id).__name__} (a handle has it as .id)")
    if not id.isprintable():
        raise missing(id)  # and no store need be asked
    return id


class Queues:
    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock

    async def list(self) -> Sequence[Queue]:
        return await (await self._opened()).queues(now=self._clock.now())

    async def pause(self, name: str) -> None:
        """Nothing new is claimed from it; running jobs go on, enqueueing goes on."""
        await (await self._opened()).pause_queue(check_name(name, "queue name"), True)

    async def resume(self, name: str) -> None:
        await (await self._opened()).pause_queue(check_name(name, "queue name"), False)


class Executions:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    async def list(self, *, job_id: JobId) -> Sequence[Execution]:
        """The runs of a job that have ended, first to last."""
        return await (await self._opened()).executions(job_id)

    async def get(self, job_id: JobId, number: int) -> Execution:
        for execution in await self.list(job_id=job_id):
            if execution.number == number:
                return execution
        raise missing(f"{job_id} with a run {number}")


class Workers:
    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock

    async def list(self) -> Sequence[LiveWorker]:
        """The workers whose lease has not lapsed."""
        return await (await self._opened()).workers(now=self._clock.now())
