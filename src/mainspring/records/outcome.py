"""What one run means for its job. Pure, total; the worker, the reaper and the tests share it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import cast

from msgspec import Struct

from ..bounds import later
from ..errors import JobTimeout, MainspringError
from ..ids import JobId, Lease, WorkerId
from ..mask import CUT, MAX_TEXT_CHARACTERS, mask_to_cut
from ..retry import Backoff
from ..span import Span, seconds
from ..suggest import SuggestingMeta
from ..survived_errors import SurvivedErrors
from .circuit import Breaker
from .job import Job, NewJob, State
from .run import PARTIAL, PARTIAL_TYPE, Ending, Failure, Items, RunNotes, outcome_of
from .skew import UndecodablePayload, skewed

# An enum's member costs a look-up each time it is named.
_COMPLETED, _WELL = State.COMPLETED, Ending.COMPLETED
STACK_LIMIT = 16_384
MESSAGE_LIMIT = 4_096
_MASKED = slice(MAX_TEXT_CHARACTERS + 1)
# The demo's tasks are somebody's code, too.
_ENGINE = str(Path(__file__).parents[1])
_DEMO = str(Path(__file__).parents[1] / "demo")
_broken_backoff = SurvivedErrors("backoff", "the default backoff is used instead")


class Directive(Exception, metaclass=SuggestingMeta):
    """A task steers its own job by raising, or returning, one of these."""


class Retry(Directive):
    """Run again `after` this long, e.g. Retry(after="5m") (default: the task's backoff); uses up a retry."""

    def __init__(self, after: Span | None = None, reason: str = "asked to be retried") -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after, "Retry(after=…)")


class Snooze(Directive):
    """Run again after this long; costs no attempt."""

    def __init__(self, delay: Span, reason: str = "snoozed") -> None:
        super().__init__(reason)
        self.delay = seconds(delay, "Snooze(…)")


class Discard(Directive):
    """Dead at once, no retry."""

    def __init__(self, reason: str = "discarded") -> None:
        super().__init__(reason)


class Cancel(Directive):
    """End as cancelled, no retry."""

    def __init__(self, reason: str = "cancelled by the task") -> None:
        super().__init__(reason)


class Done(Struct, frozen=True):
    """The task returned. `note` says why its result could not be kept, or how many of its items failed."""

    result: str | None = None
    note: Failure | None = None

    def partly(self, items: Items) -> Done:
        """The same, with the items that failed on record; job.PARTIAL_KIND depends on the first line."""
        first, note = f"{items.failed} of {items.total} items failed", self.note
        message = first if note is None else f"{first}\n{note.type}: {note.message}"
        return Done(self.result, Failure(PARTIAL_TYPE, clean(message, MESSAGE_LIMIT)))


class Released(Struct, frozen=True):
    """The worker stopped before the run was over."""


class Stopped(Struct, frozen=True):
    """Somebody cancelled the job while it ran."""

    reason: str


class Crashed(Struct, frozen=True):
    """The run's worker fell silent."""

    worker: WorkerId
    max_crashes: int


class Poisoned(Struct, frozen=True):
    """The job has crashed too often before, and is not run again."""

    max_crashes: int


class ProcessDied(Struct, frozen=True):
    """The process of its own in which the task ran is gone: killed by a signal, or out of itself."""

    reason: str
    max_crashes: int


class ProcessExited(Exception):
    """The process in which the task ran has ended under it: its text says how."""


class RemoteFailure(Exception):
    """A failure in another process: as text, and whether the task's rules there want a retry."""

    def __init__(self, failure: Failure, *, retryable: bool, timeout: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retryable = retryable
        self.timeout = timeout


class UnreadableAbroad(RemoteFailure):
    """The payload does not fit the task as another process has it; `version`: fingerprint and parameters there."""

    def __init__(self, failure: Failure, version: tuple[str, str] | None) -> None:
        super().__init__(failure, retryable=False)
        self.version = version


RunEnd = Done | Released | Stopped | Crashed | Poisoned | ProcessDied | UndecodablePayload | BaseException


class BrokenBackoff(MainspringError):
    """A task's backoff function raised, or returned no span."""


class Policy(Struct, frozen=True):
    """A task's retry rules, after job, task and app defaults have been weighed."""

    max_retries: int = 3
    backoff: Backoff | Callable[[int], Span] = Backoff()
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    no_retry_on: tuple[type[BaseException], ...] = ()
    breaker: Breaker | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended and what becomes of its job. The lease says which run."""

    id: JobId
    lease: Lease
    state: State
    ending: Ending
    finished_at: datetime
    run_at: datetime | None = None
    """When to run again; only with PENDING."""
    refund: bool = False
    """Give the attempt back."""
    crash: bool = False
    """Count a crash."""
    silent: bool = False
    """Accepted only while the run's worker is still silent."""
    result: str | None = None
    failure: Failure | None = None
    account: RunNotes | None = None
    then: tuple[NewJob, ...] = ()
    """Jobs that are enqueued if this is accepted, in the same step."""
    breaker: Breaker | None = None
    """The task's, if it has one."""
    task: str = ""
    queue: str = ""
    """Those two, started_at and due_at: what statistics count; without a task the run is not counted and, but for
    ending its turn as a probe, moves no circuit."""
    started_at: datetime | None = None
    due_at: datetime | None = None
    """Since when the job had waited to be taken."""
    schedule: str | None = None
    """The one of whose series the job is a run."""

    @property
    def partial(self) -> bool:
        """The run completed, and some of its items failed."""
        return self.failure is not None and outcome_of(self.ending, self.failure) == PARTIAL


def decide(
    job: Job,
    ended: RunEnd,
    *,
    now: datetime,
    policy: Policy = Policy(),  # noqa: B008
    account: RunNotes | None = None,
) -> Outcome:
    """The one place that turns an ending into a state."""
    if type(ended) is Done and ended.note is None:  # what nearly all runs are, in as few steps as can be
        return Outcome(
            id=job.id, lease=job.lease or "", state=_COMPLETED, ending=_WELL, finished_at=now,
            result=ended.result, account=account, breaker=policy.breaker, task=job.task, queue=job.queue,
            started_at=job.started_at, due_at=job.due_at, schedule=job.series,
        )  # fmt: skip

    def outcome(state: State, ending: Ending, failure: Failure | None = None, *, run_at: datetime | None = None,
                refund: bool = False, crash: bool = False, silent: bool = False,
                result: str | None = None) -> Outcome:  # fmt: skip
        return Outcome(id=job.id, lease=job.lease or "", state=state, ending=ending, finished_at=now,
                       run_at=run_at, refund=refund, crash=crash, silent=silent, result=result, failure=failure,
                       account=account, breaker=policy.breaker, task=job.task, queue=job.queue,
                       started_at=job.started_at, due_at=job.due_at, schedule=job.series)  # fmt: skip

    match ended:
        case Done(result=result, note=note):
            return outcome(State.COMPLETED, Ending.COMPLETED, note, result=result)
        case Released():
            return outcome(State.PENDING, Ending.RELEASED, run_at=now, refund=True)
        case Snooze(delay=delay):
            return outcome(State.PENDING, Ending.SNOOZED, run_at=later(now, delay), refund=True)
        case Stopped(reason=reason):
            return outcome(State.CANCELLED, Ending.CANCELLED, Failure("Cancelled", reason))
        case Cancel():
            return outcome(State.CANCELLED, Ending.CANCELLED, failure_of(ended, stack=False))
        case Discard():
            return outcome(State.DEAD, Ending.DISCARDED, failure_of(ended, stack=False))
        case UndecodablePayload():
            failure, again = skewed(job, ended, now)
            if again is None:
                return outcome(State.DEAD, Ending.FAILED, failure)
            return outcome(State.PENDING, Ending.RELEASED, failure, run_at=again, refund=True)
        case Crashed(worker=worker, max_crashes=limit):
            failure = Failure("WorkerLost", f"worker {worker} fell silent while running this job")
            if job.crashes + 1 >= limit:
                poison = Failure("PoisonPill", f"{failure.message}; crash {job.crashes + 1} of {limit} allowed")
                return outcome(State.DEAD, Ending.CRASHED, poison, crash=True, silent=True)
            return outcome(State.PENDING, Ending.CRASHED, failure, run_at=now, crash=True, silent=True)
        case Poisoned(max_crashes=limit):
            said = "no worker that knows its task was there when it crashed"
            poison = Failure("PoisonPill", f"{said}; {job.crashes} crashes of {limit} allowed")
            return outcome(State.DEAD, Ending.CRASHED, poison, refund=True)
        case ProcessDied(reason=reason, max_crashes=limit):
            crashes = job.crashes + 1
            if crashes >= limit:
                poison = Failure("PoisonPill", f"its process ended: {reason}; crash {crashes} of {limit} allowed")
                return outcome(State.DEAD, Ending.CRASHED, poison, crash=True)
            again = later(now, wait_after(job, crashes, policy))
            return outcome(State.PENDING, Ending.CRASHED, Failure("ProcessDied", f"its process ended: {reason}"),
                           run_at=again, crash=True)  # fmt: skip
        case _:
            late = isinstance(ended, JobTimeout) or (isinstance(ended, RemoteFailure) and ended.timeout)
            ending = Ending.TIMEOUT if late else Ending.FAILED
            failure = failure_of(ended)
            wait = retry_delay(job, ended, policy)
            if wait is None:
                return outcome(State.DEAD, ending, failure)
            return outcome(State.PENDING, ending, failure, run_at=later(now, wait))


def retry_delay(job: Job, error: BaseException, policy: Policy) -> float | None:
    """Seconds until the next attempt, or None when there is none."""
    failed = job.attempt - job.crashes
    if failed > policy.max_retries:
        return None
    if isinstance(error, Retry):
        if error.after is not None:
            return error.after
    elif isinstance(error, RemoteFailure):
        if not error.retryable:
            return None
    elif isinstance(error, policy.no_retry_on) or not isinstance(error, policy.retry_on):
        return None
    return wait_after(job, failed, policy)


def wait_after(job: Job, failed: int, policy: Policy) -> float:
    """What the policy's backoff says after so many failures."""
    if isinstance(policy.backoff, Backoff):
        return policy.backoff.delay(failed, seed=job.id)
    try:
        wait: Span = policy.backoff(failed)
        return seconds(max(0, wait) if isinstance(wait, int | float) else wait, "backoff", math.inf)
    except BaseException as error:  # a broken backoff function must not keep the job from ending
        told = failure_of(error, stack=False)
        _broken_backoff(BrokenBackoff(f"that of task {job.task!r} raised {told.type}: {told.message}"))
        return Backoff().delay(failed, seed=job.id)


def failure_of(error: BaseException, *, stack: bool = True) -> Failure:
    """An exception as clean, bounded text, whatever its __str__ does."""
    if issubclass(type(error), RemoteFailure):  # not isinstance(), which asks the exception for its class
        return cast("RemoteFailure", error).failure
    # Of any kind: code of the exception's own class runs here, and it may raise SystemExit.
    try:
        message = str(error)
    except BaseException as broken:
        message = f"<the exception's __str__ raised {type(broken).__name__}>"
    text = ""
    if stack:
        try:
            text = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__)))
        except BaseException:
            text = "".join(traceback.format_tb(error.__traceback__))
    return Failure(clean(_name(error), 256), clean(message, MESSAGE_LIMIT), clean(text, STACK_LIMIT))


def _name(error: BaseException) -> str:
    """Its class, which a metaclass may give any name, or none."""
    try:
        return str(type(error).__qualname__)
    except BaseException:
        return "Exception"


def unfit(task: str, error: BaseException) -> Failure:
    """The failure of a run whose payload could not be decoded."""
    reason = failure_of(error, stack=False).message
    return Failure("BadPayload", clean(f"the payload does not fit task {task!r}: {reason}", MESSAGE_LIMIT))


def _theirs(stack: TracebackType | None) -> TracebackType | None:
    """From the first call that is not the engine's own; all of it if every one is."""
    found = stack
    while found is not None and _ours(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found or stack


def _ours(file: str) -> bool:
    return file.startswith(_ENGINE) and not file.startswith(_DEMO)


def clean(text: str, limit: int) -> str:
    """Text that every store and page can hold: no NUL, no lone surrogates, at most `limit` characters.

    Where it has to be cut, its secrets are masked first: no mask would know half of one.
    """
    # Not its own methods: __str__ may return a subclass of str. Nothing beyond what is masked is shown of a longer one.
    text = str.replace(str.__getitem__(text, _MASKED), "\x00", "\\x00")
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit or len(text := mask_to_cut(text)) <= limit:
        return text
    half = (limit - 50) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} {CUT}{text[-half:]}"
