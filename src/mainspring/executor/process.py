"""One child process, as its worker sees it: started, talked to, killed and reaped."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from .protocol import Frames, Message, RunFinished, RunRequest, RunStarted, answers, frame

# A fresh interpreter, never a fork of this process and its threads. It gets our path and arguments as they are now.
_BOOT = (
    "import sys; a = sys.argv[:]; n = 4 + int(a[3]); sys.path[:], sys.argv[:] = a[4:n], a[n:]; "
    "from mainspring.executor.child import main; main(int(a[1]), int(a[2]))"
)
# Milliseconds a child may take to be dead: after it hung up, and after it was hung up on.
_DYING, _LEAVING = 100, 500
_CHUNK = 2**18
# What a child that has ended can have left to be read is less than this. A process that it forked may write for ever.
_LAST_BYTES = 2**22


class Exit(Struct, frozen=True):
    """How a child ended."""

    code: int | None
    """Negative: the signal that killed it. None: somebody else took its status."""
    cpu: float
    memory: int
    why: str = ""
    """Why the worker killed it, if it did."""

    @property
    def reason(self) -> str:
        if self.code is None:
            return "ended, and somebody else took its status"
        if self.why and self.code == -signal.SIGKILL:  # otherwise it was dying of something else when it was killed
            return self.why
        if self.code >= 0:
            return f"exited with status {self.code}"
        number = -self.code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"killed by {name}" + (" (out of memory?)" if number == signal.SIGKILL else "")


class Process:
    """From its start until it is reaped; `left` is told then."""

    def __init__(self, left: Callable[[Process], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        end, self._lifeline = os.pipe()
        try:
            self._popen = _start(theirs.fileno(), end)
        except BaseException:
            self._socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(end)
        self.pid = self._popen.pid
        self.runs = 0
        self.exit: Exit | None = None
        self.reaped = asyncio.Event()
        self._left = left
        self._why = ""
        self._frames = Frames()
        self._outbox = memoryview(b"")
        self._hear: Callable[[RunStarted | Message], object] | None = None
        self._ended: asyncio.Future[RunFinished | Exit] | None = None
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        self._pidfd = _pidfd(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)

    async def run(self, order: RunRequest, hear: Callable[[RunStarted | Message], object]) -> RunFinished | Exit:
        """The child's report, or its exit if there is none."""
        if self.exit is not None:
            return self.exit
        self.runs += 1
        self._hear, self._ended = hear, self._loop.create_future()
        self._outbox = memoryview(frame(order))
        self._write()
        try:
            return await self._ended
        finally:
            self._hear = self._ended = None

    def interrupt(self) -> None:
        """The function that runs is told to stop, at its next bytecode."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """With the helpers it started."""
        if self.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._signal(signal.SIGKILL)  # it may have left its group

    def hang_up(self) -> None:
        """An idle child ends by itself, and is reaped when it has."""
        if self.exit is None:
            self._loop.remove_reader(self._socket)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._pidfd is None:
                self.end()

    def end(self) -> None:
        """Waits, for a moment, until a child that was hung up on has ended; kills it if it does not."""
        if self.exit is None:
            if self._pidfd is None or not _readable(self._pidfd, _LEAVING):
                self.kill()
            self._reap()

    def _signal(self, number: int) -> None:
        if self.exit is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _write(self) -> None:
        try:
            self._outbox = self._outbox[self._socket.send(self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self._outbox = memoryview(b"")  # it is dying, and its exit will say so
        if self._outbox:
            self._loop.add_writer(self._socket, self._write)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        if self._receive() == 0:
            self._hung_up()

    def _receive(self) -> int | None:
        """How many bytes came: 0 is the end, None is nothing yet."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        try:
            for message in self._frames.feed(data):
                self._heard(answers.decode(message))
        except Exception:  # of whatever kind: a reader that raises would leave the run without an end
            self._why = "garbled its connection to the worker, and was killed"
            self.kill()
            return 0
        return len(data)

    def _heard(self, message: RunStarted | Message | RunFinished) -> None:
        if not isinstance(message, RunFinished):
            if self._hear is not None:
                self._hear(message)
        elif self._ended is not None and not self._ended.done():
            self._ended.set_result(message)

    def _hung_up(self) -> None:
        """It is dying, or code in it has closed what was not its own."""
        self._loop.remove_reader(self._socket)
        if self._pidfd is None:
            self.kill()  # does not change the status of one that is dying already
            self._reap()
        elif _readable(self._pidfd, _DYING):
            self._exited()
        else:
            self._why = self._why or "closed its connection to the worker, and was killed"
            self.kill()

    def _exited(self) -> None:
        left = _LAST_BYTES
        while left > 0 and (came := self._receive()):
            left -= came  # its last words came before its end
        self._reap()

    def _reap(self) -> None:
        if self.exit is not None:
            return
        self.kill()  # helpers do not outlive it
        try:
            _, status, used = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self.exit = Exit(code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, self._why)
        except ChildProcessError:
            self.exit = Exit(None, 0.0, 0, self._why)
        self._popen.returncode = self.exit.code or 0
        self._release()
        self.reaped.set()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(self.exit)
        self._left(self)

    def _release(self) -> None:
        self._loop.remove_writer(self._socket)
        self._loop.remove_reader(self._socket)
        self._socket.close()
        os.close(self._lifeline)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _start(connection: int, lifeline: int) -> subprocess.Popen[bytes]:
    """In a group of its own: Ctrl-C in a terminal does not reach it, and a kill reaches its helpers."""
    if not sys.executable:
        raise OSError("sys.executable is not set")
    path = [str(entry) for entry in sys.path]
    told = [str(connection), str(lifeline), str(len(path)), *path, *sys.argv]
    # -O, -W, -X and the like, as the standard library hands them on to its own children.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen(
        [sys.executable, *flags, "-c", _BOOT, *told],
        stdin=subprocess.DEVNULL,
        pass_fds=(connection, lifeline),
        process_group=0,
    )


def _pidfd(pid: int) -> int | None:
    """Readable once the process has ended. None: not on this system; then its end is noticed by its hanging up."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _readable(fd: int, milliseconds: int) -> bool:
    look = select.poll()
    look.register(fd, select.POLLIN)
    return bool(look.poll(milliseconds))
