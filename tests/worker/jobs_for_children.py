"""Functions that the tests run in child processes, harmless and otherwise."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import functools
import logging.config
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from mainspring import Cancel, Context, Discard, Mainspring, Retry, Snooze
from mainspring.records.outcome import Directive
from mainspring.task.interruption import Interrupted

app = Mainspring("memory://")
imported_by = os.getpid()
kept: list[Any] = []

# values


def add(a: int, b: int = 1) -> int:
    return a + b


def nothing() -> None:
    pass


async def add_later(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


def coroutine_of(a: int) -> Any:
    return add_later(a)


@app.task
def weekday(day: date) -> str:
    return f"{day:%A}"


class Box:
    @staticmethod
    def name() -> str:
        return "box"


class Shelf:
    def name(self) -> str:
        return "shelf"


@functools.wraps(add)
def add_again(a: int, b: int = 1) -> int:
    return add(a, b)


def day_after(day: date) -> date:
    return day + timedelta(days=1)


def generator() -> Any:
    return (n for n in range(3))


def unserialisable() -> object:
    return object()


def long_text(size: int) -> str:
    return "x" * size


def pid() -> int:
    return os.getpid()


def whole_job(ctx: Context) -> dict[str, Any]:
    return {
        "job": ctx.job,
        "attempt": ctx.attempt,
        "lease": ctx.lease,
        "metadata": ctx.metadata,
        "timeout": ctx.timeout,
        "deadline": ctx.deadline,
        "cancelled": ctx.cancelled,
    }


async def loops() -> int:
    return id(asyncio.get_running_loop())


def _is_library(fd: str) -> bool:
    """libffi keeps the file open that it is in."""
    link = f"/proc/self/fd/{fd}"
    return os.path.lexists(link) and ".so" in os.readlink(link)


def surroundings() -> dict[str, Any]:
    return {
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if not _is_library(fd)),
        "path": sys.path,
        "argv": sys.argv,
        "group": os.getpgrp(),
        "stdin": os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev,
        "mainspring": sys.modules["mainspring"].__file__,
    }


# telling


def tell(ctx: Context) -> None:
    ctx.log.debug("a %s", "detail")
    ctx.log.warning("x" * 100_000)
    ctx.progress(1, 4, "rows")
    ctx.items(success=3, skipped=1)
    ctx.note(model="v2")
    try:
        int("no")
    except ValueError:
        ctx.log.exception("failed")


def tell_of_failures(ctx: Context) -> None:
    ctx.items(success=1, failed=3)


async def tell_later(ctx: Context) -> None:
    await ctx.progress(2)
    await asyncio.gather(ctx.progress(3, 3), ctx.progress(4))
    ctx.items(failed=1)


def tell_nonsense(ctx: Context) -> None:
    ctx.progress(float("nan"))


def tell_with_a_config_of_its_own(ctx: Context) -> None:
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
    ctx.log.info("still here")


def tell_from_threads(ctx: Context) -> None:
    threads = [threading.Thread(target=lambda n=n: [ctx.log.info(f"{n}" * 1000) for _ in range(50)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_much(ctx: Context) -> None:
    ctx.write("one")
    ctx.write({"two": 2})
    try:
        ctx.write("x" * 70_000)
    except ValueError as refused:
        ctx.write(f"refused: {str(refused)[:27]}")
    for _ in range(20):
        ctx.write("x" * 60_000)


def write_and_die(ctx: Context) -> None:
    for n in range(100):
        ctx.write(n)
    os.kill(os.getpid(), signal.SIGKILL)


# failing


def fail(text: str = "no") -> None:
    raise ValueError(text)


class Offline(ConnectionError):
    pass


ERRORS: dict[str, type[Exception]] = {"offline": Offline, "reset": ConnectionResetError, "value": ValueError}


def fail_as(kind: str) -> None:
    raise ERRORS[kind]


def recurse() -> None:
    recurse()


def leave() -> None:
    sys.exit(3)


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def broken() -> None:
    raise Broken


async def cancel_itself() -> None:
    raise asyncio.CancelledError


def no_memory() -> None:
    raise MemoryError


STEERS: dict[str, Directive] = {
    "retry": Retry(5, "busy"),
    "retry by backoff": Retry(),
    "snooze": Snooze(60, "later"),
    "discard": Discard("useless"),
    "cancel": Cancel("unwanted"),
    "own": Directive("of no known kind"),
}


def steer(kind: str, by_return: bool) -> Directive:
    if by_return:
        return STEERS[kind]
    raise STEERS[kind]


# crashing


def crash(how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit 3":
            os._exit(3)
        case "exit 0":
            os._exit(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()
        case "real-time signal":
            os.kill(os.getpid(), 50)


def last_words(ctx: Context) -> None:
    ctx.log.info("goodbye")
    os._exit(1)


def many_last_words(ctx: Context) -> None:
    ctx.log.info(str(os.getpid()))
    for _ in range(100):
        ctx.log.info("goodbye")
    os._exit(1)


def close_everything() -> None:
    os.closerange(3, 256)
    threading.Event().wait(60)


def garble() -> None:
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, b"Hello, world")
        except OSError:
            continue
    threading.Event().wait(60)


def leave_a_fork_behind(ctx: Context) -> None:
    """A fork that holds the files of its parent, outside its process group."""
    if pid := os.fork():
        ctx.log.info(str(pid))
        os._exit(4)
    os.setsid()
    signal.pause()


def flood_from_a_fork(ctx: Context) -> None:
    """A fork that writes faster than its output is read, outside the process group of its parent."""
    named, name = os.pipe()
    if pid := os.fork():
        ctx.log.info(str(pid))
        os.write(name, b"!")
        threading.Event().wait(0.2)
        os._exit(4)
    os.setsid()
    os.read(named, 1)  # the worker receives the pid to kill first
    while True:
        ctx.log.info("x" * 8000)


def return_twice(ctx: Context) -> str:
    """Returns in this process and, later, in a fork of it."""
    if os.fork() == 0:
        threading.Event().wait(0.2)
        return "the copy"
    return "the run"


def wait_a_little(seconds: float) -> str:
    threading.Event().wait(seconds)
    return "waited"


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "__module__", "__mro__"):
            raise SystemExit("no name")
        return super().__getattribute__(name)


def raise_a_nameless_one() -> None:
    raise Nameless("Error", (Exception,), {})("who am I")


def snooze_badly() -> None:
    steer = Snooze(1)
    steer.delay = -5e300
    raise steer


def count_badly(ctx: Context) -> None:
    ctx.items(failed=-1)


def note_too_much(ctx: Context) -> None:
    for n in range(8):
        ctx.note(**{f"n{n}": "x" * 10_000})


# limits


def allocate(mib: int) -> int:
    return len(b"x" * (mib << 20))


def keep(mib: int) -> int:
    kept.append(b"x" * (mib << 20))
    return os.getpid()


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


async def burn_later(seconds: float) -> None:
    burn(seconds)


async def burn_in_a_thread(seconds: float) -> None:
    await asyncio.to_thread(burn, seconds)


def burn_in_c() -> None:
    sum(range(10**12))


def burn_in_a_helper(seconds: float) -> None:
    subprocess.run([sys.executable, "-c", f"import time\nwhile time.process_time() < {seconds}: pass"], check=True)


# running until they are stopped


def spin() -> None:
    while True:
        pass


def wait(ctx: Context) -> None:
    ctx.log.info(str(os.getpid()))
    threading.Event().wait()


def wait_in_c(ctx: Context) -> None:
    ctx.log.info(str(os.getpid()))
    burn_in_c()


def wait_with_a_helper(ctx: Context) -> None:
    helper = subprocess.Popen(["sleep", "60"])
    ctx.log.info(str(helper.pid))
    helper.wait()


def crash_with_a_helper(ctx: Context) -> None:
    helper = subprocess.Popen(["sleep", "60"])
    ctx.log.info(str(helper.pid))
    os._exit(1)


def until_told(ctx: Context) -> str:
    try:
        ctx.log.info("waiting")
        spin()
    except Interrupted:
        return f"cancelled: {ctx.cancelled}"
    return "never"


def stopped(ctx: Context) -> None:
    ctx.log.info("waiting")
    spin()


async def await_for_ever(ctx: Context) -> None:
    ctx.log.info("waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ctx.log.info("cleaning up")
        raise


async def spin_for_ever(ctx: Context) -> None:
    ctx.log.info("waiting")
    spin()


def chatter(ctx: Context) -> None:
    """Each line takes 48 kB on its way, more than the system takes in one piece."""
    ctx.log.info(str(os.getpid()))
    while True:
        ctx.log.info("\x01" * 8000)


def signalled() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    deaf = subprocess.run(["sh", "-c", "kill -TERM $$; echo deaf"], capture_output=True, text=True, check=False)
    return f"alive, its program ended with {deaf.returncode}"


def note_the_exit(path: str) -> None:
    atexit.register(Path(path).write_text, "left")


def hang_at_exit() -> int:
    atexit.register(threading.Event().wait)
    return os.getpid()


# deaf to every interruption; the threads and coroutines among them end when `released` is set

released = threading.Event()


async def swallow_later(ctx: Context) -> str:
    ctx.log.info("waiting")
    while not released.is_set():
        try:
            await asyncio.to_thread(released.wait, 0.01)
        except asyncio.CancelledError:
            continue
    return "ended in its own way"


def swallow(ctx: Context) -> str:
    told = False
    while not released.is_set():
        try:
            told = told or ctx.log.info("waiting") is None
            released.wait(0.01)
        except Interrupted:
            continue
    return "ended in its own way"
