"""The exception tree.

MainspringError
├── BadInput (ValueError)       refused before anything was written
│   ├── BadSetting              a setting, an option or a store URL
│   ├── BadTask                 a function that cannot be a task
│   ├── BadPayload              arguments that cannot be sent or read
│   └── WorkerNotFound          no live worker is called so
├── UnknownTask (LookupError)   no task of that name is registered here
├── JobNotFound (LookupError)   the store has no job of that id
├── ScheduleNotFound (LookupError)  the store has no schedule of that name
├── ScheduleExists              a schedule of that name is there already
├── ScheduleChanged             others have changed it since it was read
├── HookNotFound (LookupError)  the store has no webhook, or no trigger, of that name
├── HookExists                  a webhook, or a trigger, of that name is there already
├── HookChanged                 others have changed it since it was read
├── NotSigned                   a call is not by whom it should be
├── Stale                       a call is well signed, and too long ago
├── ApiKeyNotFound (LookupError)  the store has no API key of that name or id
├── ApiKeyExists                an API key of that name is there already
├── NotLeader                   what only the leader may do was asked of another
├── JobExists                   on_conflict="raise" met a job that holds the key
├── InvalidTransition           the state of the job, or worker, does not allow the action
├── JobUnfinished               result() cannot return a value
│   ├── JobDead                 ... out of retries
│   ├── JobCancelled
│   ├── JobExpired              ... never started in time
│   └── ResultTimeout (TimeoutError)
├── JobTimeout (TimeoutError)   a run took longer than its timeout
├── LeaseLost                   the run is not the job's any more: its transaction was rolled back
├── ItemsFailed                 a run counted more failed items than its task allows
├── ShuttingDown                the app is closed or closing
└── StoreError
    ├── StoreUnavailable        try again: locked, unreachable, restarting
    └── SchemaMismatch          the store's tables are of another version
"""

from __future__ import annotations


class MainspringError(Exception):
    """Whatever Mainspring raises on purpose."""


class BadInput(MainspringError, ValueError):
    """Refused before anything was written."""


class BadSetting(BadInput):
    """A setting, an option or a store URL that cannot be used."""


class BadTask(BadInput):
    """A function that cannot be registered as a task."""


class BadPayload(BadInput):
    """Arguments that cannot be sent, or a stored payload that cannot be read."""


class WorkerNotFound(BadInput):
    """No live worker is called so."""


class UnknownTask(MainspringError, LookupError):
    """No task of that name is registered here."""


class JobNotFound(MainspringError, LookupError):
    """The store has no job of that id."""


class ScheduleNotFound(MainspringError, LookupError):
    """The store has no schedule of that name."""


class ScheduleExists(MainspringError):
    """A schedule of that name is there already."""


class ApiKeyNotFound(MainspringError, LookupError):
    """The store has no API key of that name or id."""


class ApiKeyExists(MainspringError):
    """An API key of that name is there already."""


class ScheduleChanged(MainspringError):
    """Others have changed the schedule since it was read."""


class HookNotFound(MainspringError, LookupError):
    """The store has no webhook, or no trigger, of that name."""


class HookExists(MainspringError):
    """A webhook, or a trigger, of that name is there already."""


class HookChanged(MainspringError):
    """Others have changed the webhook, or the trigger, since it was read."""


class NotSigned(MainspringError):
    """A call of a trigger is not signed by whom it should be; or there is no such trigger, which is not said."""


class Stale(MainspringError):
    """A call of a trigger is well signed, and its timestamp is not of now."""


class NotLeader(MainspringError):
    """What only the leader may do was asked of another."""


class JobExists(MainspringError):
    """A job holds the key already, and the caller asked to be told."""

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"key {key!r} is held by job {job_id}")
        self.key = key
        self.job_id = job_id

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.key, self.job_id)


class InvalidTransition(MainspringError):
    """The state of the job, or of the worker, does not allow the action; the id of the other one is empty."""

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


class JobCancelled(JobUnfinished):
    """The job was cancelled."""


class JobExpired(JobUnfinished):
    """The job was not started before its expires_at."""


class ResultTimeout(JobUnfinished, TimeoutError):
    """The job had not ended when the caller's timeout was over."""


class JobTimeout(MainspringError, TimeoutError):
    """A run took longer than its timeout."""


class LeaseLost(MainspringError):
    """The job was taken from this run, so what the run did in its transaction was rolled back."""


class ItemsFailed(MainspringError):
    """A run counted more failed items than its task's failed_ratio allows."""


class ShuttingDown(MainspringError):
    """The app is closed or closing and takes no more work."""


class StoreError(MainspringError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """A passing trouble: the same call may succeed later."""


class SchemaMismatch(StoreError):
    """The store's tables are of a version this release does not know."""
