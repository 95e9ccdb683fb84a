"""The exception tree.

MainspringError
├── BadInput (ValueError)       invalid input; nothing was written
│   ├── BadSetting              invalid setting, option or store URL
│   ├── BadTask                 the function cannot be a task
│   ├── BadPayload              arguments cannot be encoded or decoded
│   ├── BadFlow                 the plan of a flow is invalid
│   └── WorkerNotFound          no live worker has this id
├── UnknownTask (LookupError)   no task of this name is registered here
├── JobNotFound (LookupError)   the store has no job of this id
├── ScheduleNotFound (LookupError)  the store has no schedule of this name
├── ScheduleExists              a schedule of this name exists
├── ScheduleChanged             the schedule has changed since it was read
├── HookNotFound (LookupError)  the store has no webhook or trigger of this name
├── HookExists                  a webhook or trigger of this name exists
├── HookChanged                 the webhook or trigger has changed since it was read
├── NotSigned                   the signature of a trigger's call does not match
├── Stale                       the timestamp of a trigger's call is too far from now
├── ApiKeyNotFound (LookupError)  the store has no API key of this name or id
├── ApiKeyExists                an API key of this name exists
├── NotLeader                   only the leader may do this
├── JobExists                   on_conflict="raise", and another job holds the key
├── SignalRefused               a signal was not taken
│   ├── SignalTwice             ... another value was given before
│   ├── SignalLate              ... its time is over, or the job has ended
│   └── SignalUnknown (LookupError)  ... the flow has no signal of this name
├── SignalTimeout (TimeoutError)  a signal was not given in time
├── InvalidTransition           the state of the job or worker does not allow the action
├── JobUnfinished               result() has no value to return
│   ├── JobDead                 ... out of retries
│   │   ├── FlowFailed          ... a flow, because of dead steps or its timeout
│   │   └── BatchFailed         ... a batch, because of dead jobs, or as it was never closed
│   ├── JobCancelled
│   ├── JobExpired              ... not started in time
│   ├── ChildFailed             ... one that ctx.run() or ctx.map() has started, and that did not complete
│   └── ResultTimeout (TimeoutError)
├── JobTimeout (TimeoutError)   a run took longer than its timeout
├── LeaseLost                   the run no longer holds its job; its transaction was rolled back
├── BatchEnded                  the batch takes no more jobs
├── ItemsFailed                 more items of a run failed than its task allows
├── ShuttingDown                the app is closed or closing
└── StoreError
    ├── StoreUnavailable        temporary: locked, unreachable, restarting
    └── SchemaMismatch          the store's tables have another schema version
"""

from __future__ import annotations


class MainspringError(Exception):
    """The base of all exceptions of Mainspring."""


class BadInput(MainspringError, ValueError):
    """The input is invalid. Nothing was written."""


class BadSetting(BadInput):
    """A setting, an option or a store URL is invalid."""


class BadTask(BadInput):
    """The function cannot be registered as a task."""


class BadPayload(BadInput):
    """Arguments cannot be encoded, or a stored payload cannot be decoded."""


class BadFlow(BadInput):
    """The plan of a flow is invalid, or its function looks at a value that is not known while it is planned."""


class WorkerNotFound(BadInput):
    """No live worker has this id."""


class UnknownTask(MainspringError, LookupError):
    """No task of this name is registered here."""


class JobNotFound(MainspringError, LookupError):
    """The store has no job of this id."""


class ScheduleNotFound(MainspringError, LookupError):
    """The store has no schedule of this name."""


class ScheduleExists(MainspringError):
    """A schedule of this name exists."""


class ApiKeyNotFound(MainspringError, LookupError):
    """The store has no API key of this name or id."""


class ApiKeyExists(MainspringError):
    """An API key of this name exists."""


class ScheduleChanged(MainspringError):
    """The schedule has changed since it was read."""


class HookNotFound(MainspringError, LookupError):
    """The store has no webhook or trigger of this name."""


class HookExists(MainspringError):
    """A webhook or trigger of this name exists."""


class HookChanged(MainspringError):
    """The webhook or trigger has changed since it was read."""


class NotSigned(MainspringError):
    """Signature mismatch, or unknown trigger (indistinguishable on purpose)."""


class Stale(MainspringError):
    """The signature of a trigger's call matches, but its timestamp is too far from now."""


class NotLeader(MainspringError):
    """Only the leader may do this, and this process is not the leader."""


class JobExists(MainspringError):
    """Another job holds the key, and on_conflict is "raise"."""

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"key {key!r} is held by job {job_id}")
        self.key = key
        self.job_id = job_id

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.key, self.job_id)


class SignalRefused(MainspringError):
    """A signal was not taken: see its subclasses. Of this class itself: the job keeps no more signals."""


class SignalTwice(SignalRefused):
    """The signal was given another value before, which stands."""


class SignalLate(SignalRefused):
    """The time of the signal is over, or its job has ended."""


class SignalUnknown(SignalRefused, LookupError):
    """The flow has no signal of this name."""


class SignalTimeout(MainspringError, TimeoutError):
    """A signal was not given in time."""


class InvalidTransition(MainspringError):
    """The state of the job or worker does not allow the action. Of job_id and worker_id one is empty."""

    def __init__(self, job_id: str, state: str, action: str, allowed: str, worker_id: str = "") -> None:
        what = f"worker {worker_id}" if worker_id else f"job {job_id}"
        super().__init__(f"cannot {action} {what}: it is {state}, {action} needs {allowed}")
        self.job_id = job_id
        self.worker_id = worker_id
        self.state = state
        self.action = action
        self.allowed = allowed

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.job_id, self.state, self.action, self.allowed, self.worker_id)


class JobUnfinished(MainspringError):
    """result() has no value to return."""


class JobDead(JobUnfinished):
    """The job is out of retries."""


class FlowFailed(JobDead):
    """Steps of the flow are dead. The message names them, the first one first."""


class BatchFailed(JobDead):
    """Jobs of the batch are dead, or it was never closed. `counts` has how its jobs have ended."""

    def __init__(self, message: str, counts: object) -> None:
        super().__init__(f"{message}; {counts}")
        self._message = message
        self.counts = counts

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self._message, self.counts)


class BatchEnded(MainspringError):
    """The batch takes no more jobs: it has ended, was cancelled, or is none."""

    def __init__(self, batch_id: str) -> None:
        super().__init__(f"no job can be added to batch {batch_id}: it has ended, was cancelled, or is no batch")
        self.batch_id = batch_id

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.batch_id,)


class JobCancelled(JobUnfinished):
    """The job was cancelled."""


class JobExpired(JobUnfinished):
    """The job was not started before its expires_at."""


class ChildFailed(JobUnfinished):
    """A job that ctx.run() has started, or items of ctx.map(), did not complete. It fails the run without a retry, if
    the task does not catch it. A retry of the durable job runs them again."""

    def __init__(self, what: str, job_id: str | None, state: str, reason: str, failure: object) -> None:
        super().__init__(f"{what} {state}: {reason}")
        self._what = what
        self.job_id = job_id
        """The job; of a map its first dead item. None if it has none any more."""
        self.state = state
        """dead, expired or cancelled; deleted if the job is gone."""
        self.reason = reason
        """Such as "ValueError: no money", or why it was cancelled."""
        self.failure = failure
        """The Failure of that job; None if it was cancelled."""

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self._what, self.job_id, self.state, self.reason, self.failure)


class ResultTimeout(JobUnfinished, TimeoutError):
    """The job did not end within the caller's timeout."""


class JobTimeout(MainspringError, TimeoutError):
    """A run took longer than its timeout."""


class LeaseLost(MainspringError):
    """The run no longer holds its job, so its transaction was rolled back."""


class ItemsFailed(MainspringError):
    """More items of a run failed than its task's failed_ratio allows."""


class ShuttingDown(MainspringError):
    """The app is closed or closing, and accepts no more calls."""


class StoreError(MainspringError):
    """A call to the store failed."""


class StoreUnavailable(StoreError):
    """A temporary failure: the same call may succeed later."""


class SchemaMismatch(StoreError):
    """This release cannot work with the schema version of the store's tables."""
