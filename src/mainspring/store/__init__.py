"""The Store protocol: the contract that every store (memory, SQLite, PostgreSQL, Redis) fulfils, as facets.

Each verb has numbered sentences (`finish`: F1, F2, …). The tests of the contract suite cite the sentences that they
prove, and a test checks that every sentence is proved and every cited number exists.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from ..records.job import Shown
from ..records.query import Filter
from .flows import FlowStore
from .jobs import JobStore, Topic
from .life import Capabilities, Listening, StoreLife
from .limits import LimitStore
from .operators import OperatorStore
from .queries import QueryStore
from .retention import RetentionStore
from .schedules import LeaderStore, ScheduleStore
from .services import AuditStore, DocumentStore, FeedStore
from .transaction import Transaction

__all__ = [
    "AuditStore",
    "Capabilities",
    "CountingStore",
    "DocumentStore",
    "FeedStore",
    "FlowStore",
    "JobStore",
    "LeaderStore",
    "LimitStore",
    "Listening",
    "OperatorStore",
    "QueryStore",
    "RetentionStore",
    "ScheduleStore",
    "ScriptedStore",
    "Store",
    "StoreLife",
    "Topic",
    "Transaction",
    "TransactionalStore",
]


class Store(
    StoreLife,
    JobStore,
    ScheduleStore,
    LeaderStore,
    OperatorStore,
    QueryStore,
    DocumentStore,
    AuditStore,
    FeedStore,
    RetentionStore,
    Protocol,
):
    """The storage of jobs, schedules, workers and everything else that outlives the process.

    V1. Each verb is one atomic step over a set.
    V2. Verbs never call user code, and never raise because a row has changed meanwhile: they return what they did.
    V3. A temporary failure raises StoreUnavailable, and the caller may repeat the call with the same arguments:
        `enqueue` recognises an id, `finish` an outcome it has accepted, and the next beat finds a claim whose answer
        was lost.

    V4. A record that cannot be decoded affects no other record, in any verb:

    V5. A job is returned with the values that can be read and a failure of type job.UNREADABLE. It can only be deleted.
        `claim`, `orphaned` and `finish` set it aside: it is paused, its record is unchanged, and `diagnose` names it.
    V6. A schedule is not listed. `due` sets it aside, so that it is never due; `fire` treats it as absent;
        `drop_schedules` deletes it.
    V7. A worker is not listed. It is alive until its `until`.
    V8. Any other record is left out, except a document (DO6).

    V9. A call copies what it takes and what it returns: a later change of these objects does not change the store.
    V10. A record is read as it was written: texts to the character, instants to the microsecond and in UTC, and None
        apart from UNSET.
    V11. An empty sequence is no error, and neither is an unknown id or name: nothing is changed or returned for it.
    V12. Reading changes nothing.
    """


class TransactionalStore(Store, Protocol):
    """A store with transactions: `capabilities.transactions`."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that is rolled back at the end of the block unless it was committed."""
        ...


class CountingStore(Store, Protocol):
    """A store that counts a filter's jobs by state in one call: `capabilities.counts`."""

    async def count_by_state(self, which: Filter, *, now: datetime, up_to: int) -> dict[Shown, int]:
        """The number of matching jobs in each state of the filter (None: in each state) at `now`, at most `up_to`.

        The work is bounded: a state whose jobs would take more is left out.
        """
        ...


class ScriptedStore(Store, Protocol):
    """A store whose migrations can be run by hand: `capabilities.scripts`."""

    def script(self, at: int, target: int | None = None) -> str:
        """The statements that `migrate` executes from version `at` to `target`. Does not connect."""
        ...
