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
Entry = tuple[Verb, "asyncio.Future[Any]"]

# More verbs than this never share a commit, so that the first of them does not wait for ever.
GROUP = 64


# Steps of SQLite's machine, some milliseconds, between two looks whether the caller of a read has gone.
LOOK_STEPS = 200_000


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
        _guarded.add(self)


_guarded: WeakSet[GuardedConnection] = WeakSet()
_held: list[GuardedConnection] = []


def _before_fork() -> None:
    _held.extend(_guarded)
    for one in _held:
        one.busy.acquire()


def _after_fork(*, child: bool) -> None:
    while _held:
        one = _held.pop()
        if child:
            one.connection.close()
        one.busy.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )


class Watcher(GuardedConnection):
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
        turn: AbstractContextManager[object],
        *,
        gives_up: bool = False,
    ) -> None:
        """With `gives_up` a verb whose caller was cancelled is not begun, or is interrupted."""
        super().__init__(connection)
        self._gives_up = gives_up
        self._serving: asyncio.Future[Any] | None = None
        if gives_up:  # not interrupt(): it would miss a verb that is between two statements
            connection.set_progress_handler(self._given_up, LOOK_STEPS)
        self._begin = begin
        self._turn = turn
        self._calls: SimpleQueue[Entry | ExclusiveCall | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"mainspring-{name}", daemon=True)
        self._thread.start()

    async def call(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        """The verb's answer, after its commit. Cancelling the caller does not undo a verb, unless the lane gives up."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((verb, future))
        return await future

    def _given_up(self) -> bool:
        """Whether the caller of the verb that is at work has gone."""
        return self._serving is not None and self._serving.cancelled()

    def _answers(self, group: list[Entry]) -> list[Any]:
        if not self._gives_up:
            return [verb(self.connection) for verb, _ in group]
        answers = []
        try:
            for verb, future in group:
                self._serving = future
                answers.append(None if future.cancelled() else verb(self.connection))
        finally:
            self._serving = None
        return answers

    async def alone(self, act: Callable[[], T]) -> T:
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
            group: list[Entry] = []
            alone: ExclusiveCall | None = None
            entry = self._calls.get()
            while entry is not None:
                if isinstance(entry, ExclusiveCall):
                    alone = entry
                    break
                group.append(entry)
                if len(group) == GROUP:
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
            if alone is not None:
                self._stand_aside(alone)
        self.connection.close()
        while not self._calls.empty():
            if entry := self._calls.get():
                _deliver([(entry[1], None, ShuttingDown("the store is closed"))])

    def _stand_aside(self, call: ExclusiveCall) -> None:
        try:
            with self._turn:
                answer = call.act()
        except Exception as error:
            _deliver([(call.future, None, translated(error))])
        else:
            _deliver([(call.future, answer, None)])

    def _commit(self, group: list[Entry]) -> None:
        begun = False
        try:
            with self._turn:
                self.connection.execute(self._begin)
                begun = True
                answers = self._answers(group)
                self.connection.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            if begun and len(group) > 1:
                # Only the verb at fault may fail: each gets a commit of its own.
                for entry in group:
                    self._commit([entry])
            else:
                _deliver([(future, None, translated(error)) for _, future in group])
        else:
            _deliver([(future, answer, None) for (_, future), answer in zip(group, answers, strict=True)])

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite rolls back by itself on a full disk or an I/O error
                self.connection.execute("ROLLBACK")


Answer = tuple["asyncio.Future[Any]", Any, Exception | None]


def _deliver(answers: list[Answer]) -> None:
    """Hands answers to the loops that wait for them, one call a loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        loops.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            # That loop is closed: nobody waits there any more.
            continue


def _settle(answers: list[Answer]) -> None:
    for future, answer, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)


# Among them a file system that is mounted read-only, and a process that has no file descriptor left.
_PASSING = ("locked", "busy", "disk is full", "disk I/O error", "readonly database", "unable to open database file")


def translated(error: Exception) -> Exception:
    """SQLite's errors as ours; everything else as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    text = str(error)
    if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
        return StoreError("SQLite: the file was moved or deleted while it was in use: put it back, and start again")
    if any(word in text for word in _PASSING):
        return StoreUnavailable(f"SQLite: {text}; nothing was written, the call may be repeated")
    return StoreError(f"SQLite: {text}")
