"""Functions with durable steps that the tests run in child processes. They note in a file what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from mainspring import BadInput, Context, SignalTimeout
from mainspring.executor.parent_pipe import ParentPipe
from mainspring.executor.protocol import StepReturned
from mainspring.task.durable import Suspended

MADE = datetime(2026, 1, 1, tzinfo=UTC)


class Part(Struct):
    n: int
    made: datetime


def note(file: str, text: object) -> None:
    with open(file, "a") as notes:
        notes.write(f"{text}\n")


def take(file: str, n: int) -> Part:
    note(file, f"take {n}")
    return Part(n, MADE)


async def take_later(file: str, n: int) -> Part:
    await asyncio.sleep(0)
    return take(file, n)


def walk(ctx: Context, file: str) -> list[int]:
    parts = [ctx.sync.step(take, file, n) for n in range(2)]
    parts.append(ctx.sync.step(take_later, file, 2))
    assert parts == [Part(n, MADE) for n in range(3)]
    if not ctx.resumed:
        raise ValueError("in between")
    return [part.n for part in parts]


def rest(ctx: Context, file: str) -> str:
    try:
        ctx.sync.step(take, file, 1)
        ctx.write("before")
        with suppress(ZeroDivisionError):
            ctx.sync.step(fail)
        ctx.sync.sleep(minutes=2)
        ctx.sync.sleep(0.5)
        ctx.write("behind")
        ctx.sync.step(take, file, 2)
    except Exception as error:
        return f"caught {error!r}"
    finally:
        note(file, "finally")
    return "rested"


def fail() -> None:
    raise ZeroDivisionError


def swallow(ctx: Context, file: str) -> str:
    try:
        ctx.sync.sleep(minutes=2)
    except Suspended:
        note(file, "swallowed")
    return "awake"


def wait(ctx: Context, file: str) -> int:
    first = ctx.sync.signal("first", int)
    second = ctx.sync.signal("second", int, timeout="5m", default=1)
    try:
        ctx.sync.signal("third", int, timeout="5m")
    except SignalTimeout as late:
        note(file, late)
    return first + second


def big(size: int) -> str:
    return "x" * size


def nothing() -> None:
    pass


def refused(ctx: Context, file: str) -> list[str]:
    """The texts of the errors of wrong calls."""
    calls: list[Any] = [
        lambda: ctx.sync.step(ctx.sync.step, nothing, name="outer"),
        lambda: ctx.sync.step(nothing, name="a#2"),
        lambda: ctx.sync.step(lambda: 1),
        lambda: ctx.sync.step(big, 2**20),
        lambda: ctx.sync.step(object, name="object"),
        lambda: ctx.sync.sleep(-1),
        lambda: ctx.sync.signal("n", int, default=5),  # type: ignore[call-overload]
        lambda: ctx.step(nothing),
    ]
    found = []
    for call in calls:
        try:
            call()
        except BadInput as bad:
            found.append(str(bad))
    ctx.sync.step(big, 2**20 - 2, name="fits")
    return found


async def awaits(ctx: Context) -> None:
    await ctx.step(nothing)


def misfit(ctx: Context, file: str) -> None:
    ctx.sync.step(take if ctx.job.runs == 1 else nothing_of, file, 1, name="changed")
    raise ValueError


def nothing_of(file: str, n: int) -> int:
    return n


def die_behind_each(ctx: Context, file: str) -> int:
    """Each run is killed once it has stored one step more than the one before."""
    total, done = 0, ctx.job.runs
    for n in range(3):
        total += ctx.sync.step(take, file, n).n
        if n + 1 == done:
            os.kill(os.getpid(), signal.SIGKILL)
    return total


def die_before_each_answer(ctx: Context, file: str) -> int:
    """Each run is killed when it has sent a value, and does not know that it is stored."""
    send = ParentPipe.send

    def send_and_die(pipe: ParentPipe, message: Any, run: int | None = None) -> None:
        send(pipe, message, run)
        if isinstance(message, StepReturned):
            os.kill(os.getpid(), signal.SIGKILL)

    ParentPipe.send = send_and_die  # type: ignore[method-assign]
    return sum(ctx.sync.step(take, file, n).n for n in range(3))


def die_in_step(ctx: Context, file: str) -> int:
    def killed() -> int:
        note(file, "in step")
        if ctx.job.runs == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 5

    return ctx.sync.step(killed)


def in_threads(ctx: Context, file: str) -> list[int]:
    threads = [threading.Thread(target=lambda n=n: ctx.sync.step(take, file, n, name=f"thread {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ctx.sync.step(take, file, 10 + n, name=f"thread {n}").n for n in range(8)]


def leave_a_thread(ctx: Context, file: str) -> None:
    """A thread goes on when the run has ended, and calls a step in the middle of the next one."""

    def late() -> None:
        while "next" not in lines(file):
            threading.Event().wait(0.005)
        try:
            ctx.sync.step(take, file, 1, name="late")
        except BadInput as bad:
            note(file, bad)

    threading.Thread(target=late, daemon=True).start()


def follow(ctx: Context, file: str) -> None:
    note(file, "next")
    while len(lines(file)) < 2:
        threading.Event().wait(0.005)


def fork(ctx: Context, file: str) -> None:
    if (pid := os.fork()) == 0:
        try:
            ctx.sync.step(take, file, 1)
        except BadInput as bad:
            note(file, bad)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def hold(file: str) -> None:
    note(file, "held")
    threading.Event().wait()


def held(ctx: Context, file: str) -> None:
    try:
        ctx.sync.step(hold, file)
    finally:
        note(file, "finally")


def many(ctx: Context, count: int) -> int:
    return sum(ctx.sync.step(nothing_of, "", n) for n in range(count))


def lines(file: str | Path) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
