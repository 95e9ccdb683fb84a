"""One child process as its worker sees it: started, sent requests, killed and reaped."""

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

from .protocol import Answer, Frames, Message, Question, RunFinished, RunRequest, RunStarted, frame, replies
from .start_mark import StartMark, new_file

# A new interpreter, never a fork of this process and its threads. It gets the worker's current sys.path and sys.argv.
_BOOT = (
    "import sys; a = sys.argv[:]; n = 5 + int(a[4]); sys.path[:], sys.argv[:] = a[5:n], a[n:]; "
    "from mainspring.executor.child import main; main(int(a[1]), int(a[2]), int(a[3]))"
)
# Time a child may take to exit after it has closed its connection.
_DYING_MILLISECONDS = 100
# Time a child may take to exit after the worker has closed the connection.
_LEAVING_MILLISECONDS = 500
_CHUNK_BYTES = 2**18
# More than an ended child can have left to be read. A process that it forked may write for ever.
_MAX_LAST_BYTES = 2**22


class Exit(Struct, frozen=True):
    """How a child ended."""

    code: int | None
    """Negative: the signal that killed it. None: other code in the worker has reaped it."""
    cpu: float
    memory: int
    spent: float | None = None
    """CPU seconds used before the last run that the worker has sent; None if the child died before it began."""
    kill_reason: str = ""
    """Why the worker killed it; empty if it did not."""

    @property
    def reason(self) -> str:
        if self.code is None:
            return "ended, and other code has taken its exit status"
        if self.kill_reason and self.code == -signal.SIGKILL:  # else it was dying of another cause when it was killed
            return self.kill_reason
        if self.code >= 0:
            return f"exited with status {self.code}"
        number = -self.code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"killed by {name}" + (" (out of memory?)" if number == signal.SIGKILL else "")


class Process:
    """A child process from its start until it is reaped; `on_exit` is called then."""

    def __init__(self, on_exit: Callable[[Process], object], started_at: float) -> None:
        """`started_at`: now, on the clock of its owner."""
        self.started_at = started_at
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        end, self._death_pipe = os.pipe()
        mark = new_file()
        self._mark = StartMark(mark)
        try:
            self._popen = _start(theirs.fileno(), end, mark)
        except BaseException:
            self._socket.close()
            os.close(self._death_pipe)
            self._mark.close()
            raise
        finally:
            theirs.close()
            os.close(end)
            os.close(mark)
        self.pid = self._popen.pid
        self.runs = 0
        self.exit: Exit | None = None
        self.reaped = asyncio.Event()
        self._on_exit = on_exit
        self._kill_reason = ""
        self._frames = Frames()
        self._outbox = memoryview(b"")
        self._has_writer = False
        self._on_message: Callable[[RunStarted | Message | Question], object] | None = None
        self._ended: asyncio.Future[RunFinished | Exit] | None = None
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        self._pidfd = _pidfd(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)

    async def run(
        self, request: RunRequest, on_message: Callable[[RunStarted | Message | Question], object]
    ) -> RunFinished | Exit:
        """The child's report, or its exit if it sent none."""
        if self.exit is not None:
            return self.exit
        self.runs += 1
        self._on_message, self._ended = on_message, self._loop.create_future()
        self._send(request)
        try:
            return await self._ended
        finally:
            self._on_message = self._ended = None

    def answer(self, answer: Answer) -> None:
        """Answers a question of the run. Does nothing if the child has ended."""
        if self.exit is None:
            self._send(answer)

    def interrupt(self) -> None:
        """Interrupts the running function at its next bytecode."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """Kills the child and the helpers it started."""
        if self.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._signal(signal.SIGKILL)  # it may have left its group

    def hang_up(self) -> None:
        """Closes the connection: an idle child then exits by itself, and is reaped."""
        if self.exit is None:
            self._loop.remove_reader(self._socket)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._pidfd is None:
                self.end()

    def end(self) -> None:
        """Waits briefly for a child that was hung up on to exit; kills it if it does not. Reaps it."""
        if self.exit is None:
            if self._pidfd is None or not _readable(self._pidfd, _LEAVING_MILLISECONDS):
                self.kill()
            self._reap()

    def _signal(self, number: int) -> None:
        if self.exit is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _send(self, message: RunRequest | Answer) -> None:
        data = frame(message)
        self._outbox = memoryview(bytes(self._outbox) + data if self._outbox else data)
        self._write()

    def _write(self) -> None:
        try:
            self._outbox = self._outbox[self._socket.send(self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self._outbox = memoryview(b"")  # it is dying: its exit is reported when it is reaped
        if self._outbox:
            self._has_writer = True
            self._loop.add_writer(self._socket, self._write)
        elif self._has_writer:
            self._has_writer = False
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        if self._receive() == 0:
            self._on_hang_up()

    def _receive(self) -> int | None:
        """Number of bytes received; 0 at the end of the stream, None if there is nothing to read yet."""
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        try:
            for message in self._frames.feed(data):
                self._dispatch(replies.decode(message))
        except Exception:  # of any kind: an error here would leave the run without an end
            self._kill_reason = "garbled its connection to the worker, and was killed"
            self.kill()
            return 0
        return len(data)

    def _dispatch(self, message: RunStarted | Message | Question | RunFinished) -> None:
        if not isinstance(message, RunFinished):
            if self._on_message is not None:
                self._on_message(message)
        elif self._ended is not None and not self._ended.done():
            self._ended.set_result(message)

    def _on_hang_up(self) -> None:
        """The child is dying, or code in it has closed a connection that is not its own."""
        self._loop.remove_reader(self._socket)
        if self._pidfd is None:
            self.kill()  # does not change the status of a child that is dying already
            self._reap()
        elif _readable(self._pidfd, _DYING_MILLISECONDS):
            self._exited()
        else:
            self._kill_reason = self._kill_reason or "closed its connection to the worker, and was killed"
            self.kill()

    def _exited(self) -> None:
        left = _MAX_LAST_BYTES
        while left > 0 and (received := self._receive()):
            left -= received  # messages sent before it exited
        self._reap()

    def _reap(self) -> None:
        if self.exit is not None:
            return
        self.kill()  # helpers must not outlive it
        spent = self._mark.spent_before(self.runs)
        try:
            _, status, used = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self.exit = Exit(code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, spent, self._kill_reason)
        except ChildProcessError:
            self.exit = Exit(None, 0.0, 0, spent, self._kill_reason)
        self._popen.returncode = self.exit.code or 0
        self._release()
        self.reaped.set()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(self.exit)
        self._on_exit(self)

    def _release(self) -> None:
        self._loop.remove_writer(self._socket)
        self._loop.remove_reader(self._socket)
        self._socket.close()
        os.close(self._death_pipe)
        self._mark.close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _start(connection: int, death_pipe: int, mark: int) -> subprocess.Popen[bytes]:
    """Starts it in its own process group: Ctrl-C in a terminal does not reach it, and a kill reaches its helpers."""
    if not sys.executable:
        raise OSError("sys.executable is not set")
    path = [str(entry) for entry in sys.path]
    arguments = [str(connection), str(death_pipe), str(mark), str(len(path)), *path, *sys.argv]
    # -O, -W, -X and the like, as the standard library passes them to its own children.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen(
        [sys.executable, *flags, "-c", _BOOT, *arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=(connection, death_pipe, mark),
        process_group=0,
    )


def _pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; None if the system has none (see _on_hang_up)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _readable(fd: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))
