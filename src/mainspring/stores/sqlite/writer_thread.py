"""A thread that owns one SQLite connection and runs everyone's verbs on it, many to a commit."""

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

T = TypeVar("T")
Verb = Callable[[sqlite3.Connection], Any]
Call = tuple[Verb, "asyncio.Future[Any]"]

# More verbs than this never share a commit, so that the first of them does not wait for ever.
MAX_CALLS_PER_COMMIT = 64


# Steps of SQLite's machine, some milliseconds, between two looks whether the caller of a read has gone.
CANCEL_CHECK_INSTRUCTIONS = 200_000


class ExclusiveCall(NamedTuple):
    """A call that has the lane's thread and turn for itself, with a connection of its own."""

    act: Callable[[], Any]
    future: asyncio.Future[Any]


class GuardedConnection:
    """A connection that a fork must not find at work.

    SQLite counts the locks of a file per process and does not notice a fork: a child that keeps its parent's
    connections believes their locks to be its own. So a fork waits until none is busy, and the child closes them.
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


class CommitWatcher(GuardedConnection):
    """Tells whether somebody has committed."""

    def version(self) -> int:
        """Changes with every commit of any other connection, those of this process included."""
        with self.busy:
            version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
            return version

    def close(self) -> None:
        with self.busy:
            self.connection.close()


class WriterThread(GuardedConnection):
    """Calls run in order, each seeing the last; what arrives while one commit is under way shares the next."""

    def __init__(
        self,
        name: str,
        connection: sqlite3.Connection,
        begin: str,
        write_lock: AbstractContextManager[object],
        *,
        interruptible: bool = False,
    ) -> None:
        """With `interruptible` a verb whose caller was cancelled is not begun, or is interrupted."""
        super().__init__(connection)
        self._interruptible = interruptible
        self._serving: asyncio.Future[Any] | None = None
        if interruptible:  # not interrupt(): it would miss a verb that is between two statements
            connection.set_progress_handler(self._is_cancelled, CANCEL_CHECK_INSTRUCTIONS)
        self._begin = begin
        self._write_lock = write_lock
        self._calls: SimpleQueue[Call | ExclusiveCall | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"mainspring-{name}", daemon=True)
        self._thread.start()

    async def call(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        """The verb's answer, after its commit. Cancelling the caller does not undo a verb, unless the lane gives up."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((verb, future))
        return await future

    def _is_cancelled(self) -> bool:
        """Whether the caller of the verb that is at work has gone."""
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
        """The call's answer; it comes between two commits, in the order of all calls."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put(ExclusiveCall(act, future))
        return await future

    def close(self) -> None:
        """After everything called before."""
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
                self.connection.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            if begun and len(group) > 1:
                # Only the verb at fault may fail: each gets a commit of its own.
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
    """Hands answers to the loops that wait for them, one call a loop."""
    loops: dict[asyncio.AbstractEventLoop, list[CallResult]] = {}
    for answer in answers:
        loops.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve_futures, mine)
        except RuntimeError:
            # That loop is closed: nobody waits there any more.
            continue


def _resolve_futures(answers: list[CallResult]) -> None:
    for future, answer, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)


# Among them a file system that is mounted read-only, and a process that has no file descriptor left.
_TRANSIENT = ("locked", "busy", "disk is full", "disk I/O error", "readonly database", "unable to open database file")


def translate_error(error: Exception) -> Exception:
    """SQLite's errors as ours; everything else as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    text = str(error)
    if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
        return StoreError("SQLite: the file was moved or deleted while it was in use: put it back, and start again")
    if any(word in text for word in _TRANSIENT):
        return StoreUnavailable(f"SQLite: {text}; nothing was written, the call may be repeated")
    return StoreError(f"SQLite: {text}")
