"""A thread that owns one SQLite connection and runs the calls of all event loops on it, many to a commit."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from ...errors import ShuttingDown, StoreError, StoreUnavailable
from .log_size import LogSize

T = TypeVar("T")
Verb = Callable[[sqlite3.Connection], Any]
Call = tuple[Verb, "asyncio.Future[Any]"]

# Calls that share a commit: a limit, so that the first of them does not wait for long.
MAX_CALLS_PER_COMMIT = 64
# Virtual machine instructions of SQLite (some milliseconds) between two checks whether the caller was cancelled.
CANCEL_CHECK_INSTRUCTIONS = 200_000


class ExclusiveCall(NamedTuple):
    """A call that has the thread and the write lock for itself, and uses its own connection."""

    act: Callable[[], Any]
    future: asyncio.Future[Any]


class GuardedConnection:
    """A connection that is idle during a fork of the process.

    SQLite counts the locks of a file per process and does not notice a fork: a child with its parent's connections
    takes their locks for its own. So a fork waits until no connection is busy, and the child closes them.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.busy = threading.Lock()
        _connections.add(self)


_connections: WeakSet[GuardedConnection] = WeakSet()
_locked_for_fork: list[GuardedConnection] = []


def _before_fork() -> None:
    _locked_for_fork.extend(_connections)
    for one in _locked_for_fork:
        one.busy.acquire()


def _after_fork(*, child: bool) -> None:
    while _locked_for_fork:
        one = _locked_for_fork.pop()
        if child:
            one.connection.close()
        one.busy.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )


class WriterThread(GuardedConnection):
    """Runs calls in order, each in the state that the last one left; calls that arrive during a commit share the next.

    A store has two: one with the write connection, and one with a read connection, which is interruptible.
    """

    def __init__(
        self,
        name: str,
        connection: sqlite3.Connection,
        begin: str,
        write_lock: AbstractContextManager[object],
        *,
        interruptible: bool = False,
    ) -> None:
        """`begin` is the SQL of BEGIN; if `interruptible`, a call of a cancelled caller is skipped or interrupted."""
        super().__init__(connection)
        self._interruptible = interruptible
        self._serving: asyncio.Future[Any] | None = None
        if interruptible:  # interrupt() would miss a call that is between two statements
            connection.set_progress_handler(self._is_cancelled, CANCEL_CHECK_INSTRUCTIONS)
        self._log_size = LogSize(connection)
        self._begin = begin
        self._write_lock = write_lock
        self._calls: SimpleQueue[Call | ExclusiveCall | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"mainspring-{name}", daemon=True)
        self._thread.start()

    async def call(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        """The verb's answer, after its commit. Cancelling the caller does not undo the call, unless interruptible."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((verb, future))
        return await future

    def _is_cancelled(self) -> bool:
        """Whether the caller of the running verb was cancelled."""
        return self._serving is not None and self._serving.cancelled()

    def _run_calls(self, group: list[Call]) -> list[Any]:
        if not self._interruptible:
            return [verb(self.connection) for verb, _ in group]
        answers = []
        try:
            for verb, future in group:
                self._serving = future
                answers.append(None if future.cancelled() else verb(self.connection))
        finally:
            self._serving = None
        return answers

    async def call_exclusively(self, act: Callable[[], T]) -> T:
        """The result of `act`, which runs in the thread between two commits, in the order of all calls."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put(ExclusiveCall(act, future))
        return await future

    def close(self) -> None:
        """Closes the connection after all earlier calls."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        open = True
        while open:
            group: list[Call] = []
            exclusive: ExclusiveCall | None = None
            entry = self._calls.get()
            while entry is not None:
                if isinstance(entry, ExclusiveCall):
                    exclusive = entry
                    break
                group.append(entry)
                if len(group) == MAX_CALLS_PER_COMMIT:
                    break
                try:
                    entry = self._calls.get_nowait()
                except Empty:
                    break
            else:
                open = False
            if group:
                with self.busy:
                    self._commit(group)
            if exclusive is not None:
                self._run_exclusive(exclusive)
        self.connection.close()
        while not self._calls.empty():
            if entry := self._calls.get():
                _deliver([(entry[1], None, ShuttingDown("the store is closed"))])

    def _run_exclusive(self, call: ExclusiveCall) -> None:
        try:
            with self._write_lock:
                answer = call.act()
        except Exception as error:
            _deliver([(call.future, None, translate_error(error))])
        else:
            _deliver([(call.future, answer, None)])

    def _commit(self, group: list[Call]) -> None:
        begun = False
        try:
            with self._write_lock:
                self.connection.execute(self._begin)
                begun = True
                answers = self._run_calls(group)
                self._log_size.before_commit()
                self.connection.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            if begun and len(group) > 1:
                # Only the failing verb may fail, so each gets its own commit.
                for entry in group:
                    self._commit([entry])
            else:
                _deliver([(future, None, translate_error(error)) for _, future in group])
        else:
            _deliver([(future, answer, None) for (_, future), answer in zip(group, answers, strict=True)])

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite rolls back by itself on a full disk or an I/O error
                self.connection.execute("ROLLBACK")


CallResult = tuple["asyncio.Future[Any]", Any, Exception | None]


def _deliver(answers: list[CallResult]) -> None:
    """Resolves the futures in their event loops, with one call per loop."""
    loops: dict[asyncio.AbstractEventLoop, list[CallResult]] = {}
    for answer in answers:
        loops.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve_futures, mine)
        except RuntimeError:
            # The loop is closed, so no caller waits there.
            continue


def _resolve_futures(answers: list[CallResult]) -> None:
    for future, answer, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)


# Texts of errors that may pass, such as a file system mounted read-only, or no file descriptor left.
_TRANSIENT = ("locked", "busy", "disk is full", "disk I/O error", "readonly database", "unable to open database file")


def translate_error(error: Exception) -> Exception:
    """SQLite's errors as StoreError or StoreUnavailable; any other error unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    text = str(error)
    if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
        return StoreError("SQLite: the file was moved or deleted while it was in use: put it back, and start again")
    if any(word in text for word in _TRANSIENT):
        return StoreUnavailable(f"SQLite: {text}; nothing was written, the call may be repeated")
    return StoreError(f"SQLite: {text}")
