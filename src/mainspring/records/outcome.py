"""The outcome of a run: what it means for its job. Pure; workers, the rescue of orphaned jobs and tests share it."""

from __future__ import annotations

import math
import os.path
import traceback
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, cast

from msgspec import Struct

from ..bounds import MAX_TEXT_CHARACTERS, later
from ..errors import ChildFailed, JobTimeout, MainspringError
from ..ids import JobId, Lease, WorkerId
from ..retry import Backoff
from ..span import Span, seconds
from ..suggest import SuggestingMeta
from ..survived_errors import SurvivedErrors
from .circuit import Breaker
from .flow import AwaitedSignal
from .job import Job, NewJob, State
from .plan import Plan
from .run import PARTIAL, PARTIAL_TYPE, Ending, Failure, Items, RunNotes, outcome_of
from .skew import UndecodablePayload, judge_skew
from .step import StepRef

# Looking up an enum's member by name is slow on the hot path.
_COMPLETED = State.COMPLETED
_COMPLETED_ENDING = Ending.COMPLETED
MAX_STACK_CHARACTERS = 16_384
MAX_MESSAGE_CHARACTERS = 4_096
MAX_TYPE_CHARACTERS = 256
_MASKABLE = slice(MAX_TEXT_CHARACTERS + 1)
# Frames of the engine are cut from stacks. Those of the demo are not: its tasks stand for user code.
_ENGINE = os.path.dirname(os.path.dirname(__file__))
_DEMO = os.path.join(_ENGINE, "demo")
_broken_backoff = SurvivedErrors("backoff", "the default backoff is used instead")


class Directive(Exception, metaclass=SuggestingMeta):
    """What a task raises, or returns, to decide what happens to its job."""


class Retry(Directive):
    """Runs the job again `after` a span, such as Retry(after="5m"). Default: the task's backoff. Uses up a retry."""

    def __init__(self, after: Span | None = None, reason: str = "asked to be retried") -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after, "Retry(after=…)")


class Snooze(Directive):
    """Runs the job again after `delay`. Uses up no attempt."""

    def __init__(self, delay: Span, reason: str = "snoozed") -> None:
        super().__init__(reason)
        self.delay = seconds(delay, "Snooze(…)")


class Discard(Directive):
    """Ends the job as dead, without a retry."""

    def __init__(self, reason: str = "discarded") -> None:
        super().__init__(reason)


class Cancel(Directive):
    """Ends the job as cancelled, without a retry."""

    def __init__(self, reason: str = "cancelled by the task") -> None:
        super().__init__(reason)


class Skip(Directive):
    """Ends the job as completed, without a result. A step of a flow then counts as skipped."""

    def __init__(self, reason: str = "skipped by the task") -> None:
        super().__init__(reason)


class Finish(Directive):
    """Ends the job as completed with this value. If it is a step, its flow ends so too: other steps are cancelled."""

    def __init__(self, value: Any = None) -> None:
        super().__init__("finished by a step")
        self.value = value


class Suspend(Directive):
    """Lets the job wait for the steps of its flow: those of `plan`, or of the plan that is stored already. A job
    without a plan waits for one of the signals that it `awaits`; with `until` it waits for that instant instead."""

    def __init__(
        self,
        plan: Plan | None = None,
        awaits: tuple[AwaitedSignal, ...] = (),
        until: datetime | None = None,
    ) -> None:
        super().__init__("waits for a signal" if awaits else "waits for its steps" if until is None else "sleeps")
        self.plan, self.awaits, self.until = plan, awaits, until


class Done(Struct, frozen=True, gc=False):
    """The task returned. `note` tells why its result could not be stored, or how many of its items failed."""

    result: str | None = None
    note: Failure | None = None
    finish: bool = False
    """The result is also that of the flow."""

    def partly(self, items: Items) -> Done:
        """The same end with a note of the failed items. run.PARTIAL_KIND depends on the note's first line."""
        first, note = f"{items.failed} of {items.total} items failed", self.note
        message = first if note is None else f"{first}\n{note.type}: {note.message}"
        return Done(self.result, Failure(PARTIAL_TYPE, clean(message, MAX_MESSAGE_CHARACTERS)), self.finish)


class Released(Struct, frozen=True):
    """The worker stopped before the run ended."""


class Stopped(Struct, frozen=True):
    """The job was cancelled while it ran."""

    reason: str


class Crashed(Struct, frozen=True):
    """The run's worker stopped sending beats."""

    worker: WorkerId
    max_crashes: int


class Poisoned(Struct, frozen=True):
    """The job has crashed too often and is not run again."""

    max_crashes: int


class ProcessDied(Struct, frozen=True):
    """The task's subprocess exited or was killed."""

    reason: str
    max_crashes: int


class ProcessExited(Exception):
    """Raised when the task's subprocess ended during the run. The text tells how."""


class RemoteFailure(Exception):
    """A failure in a subprocess: its text, and whether the task's rules there allow a retry."""

    def __init__(self, failure: Failure, *, retryable: bool, timeout: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retryable = retryable
        self.timeout = timeout


class UnreadableAbroad(RemoteFailure):
    """The payload does not fit the task in the subprocess. `version` is the task's fingerprint and parameters there."""

    def __init__(self, failure: Failure, version: tuple[str, str] | None) -> None:
        super().__init__(failure, retryable=False)
        self.version = version


class StepNotCompleted(Exception):
    """The step whose value a run needs was put back to work. The run is obsolete, and will be cancelled."""


StepEnding = Literal["skipped", "finish"]
# No row of a flow has this revision.
NO_REVISION = 0

RunEnd = Done | Released | Stopped | Crashed | Poisoned | ProcessDied | UndecodablePayload | BaseException


class BrokenBackoff(MainspringError):
    """A task's backoff function raised, or returned a value that is not a span."""


class Policy(Struct, frozen=True):
    """The retry rules of a run: the job's options, else the task's, else the app's defaults."""

    max_retries: int = 3
    backoff: Backoff | Callable[[int], Span] = Backoff()
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    no_retry_on: tuple[type[BaseException], ...] = ()
    breaker: Breaker | None = None


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """How a run ended, and the new state of its job. The lease identifies the run."""

    id: JobId
    lease: Lease
    state: State
    ending: Ending
    finished_at: datetime
    run_at: datetime | None = None
    """When the job runs again; only with PENDING."""
    refund: bool = False
    """The run does not count as an attempt."""
    crash: bool = False
    """The run counts as a crash."""
    reset_attempts: bool = False
    """Attempts and crashes are counted from this run on, because it has stored a checkpoint."""
    silent: bool = False
    """The store accepts this outcome only while the run's worker is silent."""
    result: str | None = None
    failure: Failure | None = None
    account: RunNotes | None = None
    then: tuple[NewJob, ...] = ()
    """Jobs that are enqueued in the same transaction if this outcome is accepted."""
    breaker: Breaker | None = None
    """The task's circuit breaker, if it has one."""
    task: str = ""
    """Empty: the run is not counted, and changes a circuit only if it was the circuit's probe."""
    queue: str = ""
    """Task, queue, started_at and due_at are what statistics count."""
    started_at: datetime | None = None
    due_at: datetime | None = None
    """When the job became claimable."""
    schedule: str | None = None
    """The schedule this run counts for (None for backfills)."""
    step: StepRef | None = None
    """The step of a flow that the job belongs to."""
    step_end: StepEnding | None = None
    """What a completion means for the flow, if it is more than the step's result."""
    plan: Plan | None = None
    """The steps that a job in state WAITING waits for. None: those that are stored already."""
    awaits: tuple[AwaitedSignal, ...] = ()
    """The signals that a job without a plan waits for; with WAITING."""
    concludes: int | None = None
    """The revision of the row that the run has concluded; NO_REVISION if it was cancelled before it read that."""
    limit_key: str | None = None  # see records.limit

    @property
    def partial(self) -> bool:
        """Whether the run completed although some of its items failed."""
        return self.failure is not None and outcome_of(self.ending, self.failure) == PARTIAL


def decide(
    job: Job,
    ended: RunEnd,
    *,
    now: datetime,
    policy: Policy = Policy(),  # noqa: B008
    account: RunNotes | None = None,
) -> Outcome:
    """The outcome of a run: the only place that turns the end of a run into a job's state."""
    if type(ended) is Done and ended.note is None and not ended.finish:  # hot: nearly all runs end this way
        return Outcome(
            id=job.id,
            lease=job.lease or "",
            state=_COMPLETED,
            ending=_COMPLETED_ENDING,
            finished_at=now,
            result=ended.result,
            account=account,
            breaker=policy.breaker,
            task=job.task,
            queue=job.queue,
            started_at=job.started_at,
            due_at=job.due_at,
            schedule=job.counted_schedule,
            step=job.step,
            limit_key=job.limit_key,
        )

    def outcome(state: State, ending: Ending, failure: Failure | None = None, **fields: Any) -> Outcome:
        return Outcome(
            id=job.id,
            lease=job.lease or "",
            state=state,
            ending=ending,
            finished_at=now,
            failure=failure,
            account=account,
            breaker=policy.breaker,
            task=job.task,
            queue=job.queue,
            started_at=job.started_at,
            due_at=job.due_at,
            schedule=job.counted_schedule,
            step=job.step,
            limit_key=job.limit_key,
            **fields,
        )

    match ended:
        case Done(note=Failure(type="ResultLost") as note) if job.step is not None and (
            job.step.needed or ended.finish
        ):
            return outcome(State.DEAD, Ending.FAILED, note)
        case Done(result=result, note=note, finish=finish):
            return outcome(
                State.COMPLETED, Ending.COMPLETED, note, result=result, step_end="finish" if finish else None
            )
        case Skip():
            note = Failure("Skipped", failure_of(ended, stack=False).message)
            return outcome(State.COMPLETED, Ending.COMPLETED, note, step_end="skipped")
        case Suspend(until=datetime() as until):
            return outcome(State.PENDING, Ending.SUSPENDED, run_at=max(now, until), refund=True)
        case Suspend(plan=plan, awaits=awaits):
            return outcome(State.WAITING, Ending.SUSPENDED, refund=True, plan=plan, awaits=awaits)
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
            failure, again = judge_skew(job, ended, now)
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
            reason = "no worker that knows its task was there when it crashed"
            poison = Failure("PoisonPill", f"{reason}; {job.crashes} crashes of {limit} allowed")
            return outcome(State.DEAD, Ending.CRASHED, poison, refund=True)
        case ProcessDied(reason=reason, max_crashes=limit):
            crashes = job.crashes + 1
            if crashes >= limit:
                poison = Failure("PoisonPill", f"its process ended: {reason}; crash {crashes} of {limit} allowed")
                return outcome(State.DEAD, Ending.CRASHED, poison, crash=True)
            again = later(now, wait_after(job, crashes, policy))
            failure = Failure("ProcessDied", f"its process ended: {reason}")
            return outcome(State.PENDING, Ending.CRASHED, failure, run_at=again, crash=True)
        case _:
            late = isinstance(ended, JobTimeout) or (isinstance(ended, RemoteFailure) and ended.timeout)
            ending = Ending.TIMEOUT if late else Ending.FAILED
            failure = failure_of(ended)
            wait = retry_delay(job, ended, policy)
            if wait is None:
                return outcome(State.DEAD, ending, failure)
            return outcome(State.PENDING, ending, failure, run_at=later(now, wait))


def retry_delay(job: Job, error: BaseException, policy: Policy) -> float | None:
    """Seconds until the next attempt. None if there is none."""
    failed = job.attempt - job.crashes
    if failed > policy.max_retries:
        return None
    if isinstance(error, Retry):
        if error.after is not None:
            return error.after
    elif isinstance(error, RemoteFailure):
        if not error.retryable:
            return None
    elif isinstance(error, (ChildFailed, *policy.no_retry_on)) or not isinstance(error, policy.retry_on):
        return None  # that of a child would be raised again
    return wait_after(job, failed, policy)


def wait_after(job: Job, failed: int, policy: Policy) -> float:
    """Seconds to wait after `failed` failures, by the policy's backoff."""
    if isinstance(policy.backoff, Backoff):
        return policy.backoff.delay(failed, seed=job.id)
    try:
        wait: Span = policy.backoff(failed)
        return seconds(max(0, wait) if isinstance(wait, int | float) else wait, "backoff", math.inf)
    except BaseException as error:  # a broken backoff function must not keep the job from ending
        failure = failure_of(error, stack=False)
        _broken_backoff(BrokenBackoff(f"that of task {job.task!r} raised {failure.type}: {failure.message}"))
        return Backoff().delay(failed, seed=job.id)


def failure_of(error: BaseException, *, stack: bool = True) -> Failure:
    """An exception as clean, bounded text, even if its __str__ raises."""
    if issubclass(type(error), RemoteFailure):  # isinstance() would read error.__class__, which may be user code
        return cast("RemoteFailure", error).failure
    # BaseException: code of the exception's own class runs here, and it may raise SystemExit.
    try:
        message = str(error)
    except BaseException as broken:
        message = f"<the exception's __str__ raised {type(broken).__name__}>"
    text = ""
    if stack:
        try:
            text = "".join(traceback.format_exception(type(error), error, _user_frames(error.__traceback__)))
        except BaseException:
            text = "".join(traceback.format_tb(error.__traceback__))
    return Failure(
        clean(_type_name(error), MAX_TYPE_CHARACTERS),
        clean(message, MAX_MESSAGE_CHARACTERS),
        clean(text, MAX_STACK_CHARACTERS),
    )


def _type_name(error: BaseException) -> str:
    """The name of the exception's class. A metaclass may return anything for it, or raise."""
    try:
        return str(type(error).__qualname__)
    except BaseException:
        return "Exception"


def bad_payload(task: str, error: BaseException) -> Failure:
    """The failure of a run whose payload could not be decoded."""
    reason = failure_of(error, stack=False).message
    return Failure("BadPayload", clean(f"the payload does not fit task {task!r}: {reason}", MAX_MESSAGE_CHARACTERS))


def _user_frames(stack: TracebackType | None) -> TracebackType | None:
    """The stack from the first frame outside the engine; the whole stack if every frame is the engine's."""
    found = stack
    while found is not None and _is_engine_file(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found or stack


def _is_engine_file(file: str) -> bool:
    return file.startswith(_ENGINE) and not file.startswith(_DEMO)


def clean(text: str, limit: int) -> str:
    """Text that every store and page can hold: no NUL, no lone surrogates, at most `limit` characters.

    A text that has to be cut is masked first: half a secret would not be recognised.
    """
    # str's own methods, since __str__ may return a subclass of str. Characters that mask_to_cut would not look at are
    # dropped first.
    text = str.replace(str.__getitem__(text, _MASKABLE), "\x00", "\\x00")
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    from ..mask import CUT_MARK, mask_to_cut

    if len(text := mask_to_cut(text)) <= limit:
        return text
    half = (limit - 50) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} {CUT_MARK}{text[-half:]}"
