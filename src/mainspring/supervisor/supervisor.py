"""Supervisor: a parent process that keeps several processes of its own command running."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from ..clock import Alarm, Clock
from ..counters import Counters
from ..retry import Backoff
from ..survived_errors import count_error, count_in
from .channel import RECYCLED_EXIT_CODE, VARIABLE, StatusMessage
from .command_line import CommandLine, can_reload
from .systemd import VARIABLES, notify, notify_watchdog

_logger = logging.getLogger("mainspring")

# Delays before a process that died is replaced.
RESTART_BACKOFF = Backoff(initial=0.5, max=60.0)
# A process that lived this long starts the backoff from the beginning.
STEADY_SECONDS = 30.0
# Time after its grace in which a process interrupts its runs, stores the last outcomes and exits, before it is killed.
KILL_AFTER_SECONDS = 12.0
# A process that exits with one of these before any process claimed jobs was started wrongly: a restart is no use.
UNRECOVERABLE_EXIT_CODES = (1, 2)
# Time to read the last messages of a process that has ended: a process that it started may keep the socket open.
LAST_MESSAGES_SECONDS = 1.0
MAX_MESSAGE_BYTES = 4 << 20
MAX_PROCESSES = 1000


class SupervisedProcess:
    """A numbered place, filled by one process after the other."""

    def __init__(self, number: int, clock: Clock) -> None:
        self.number = number
        self.wanted = True
        self.up = False
        self.recycling = ""
        self.failures = 0
        self.process: asyncio.subprocess.Process | None = None
        self.replaced: asyncio.Future[bool] | None = None
        """Resolved when the replacement is up (True) or failed (False)."""
        self.wake = Alarm(clock)

    def __str__(self) -> str:
        return f"process {self.number} (pid {self.process.pid if self.process else '-'})"

    @property
    def is_working(self) -> bool:
        """Whether its process claims jobs."""
        return self.up and self.process is not None and self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """Signals the process, or ends the wait before the next one starts."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
        else:
            self.wake.ring()


class Supervisor:
    """Keeps `count` processes running until it is stopped: gracefully, then at once, then by force."""

    def __init__(self, command_line: CommandLine, count: int, *, grace: float, clock: Clock) -> None:
        self._command_line = command_line
        self.count = count
        self._grace = grace
        self._clock = clock
        self._children: dict[int, SupervisedProcess] = {}
        self._process_loops: set[asyncio.Task[None]] = set()
        self._reloading = Alarm(clock)
        self._stops = 0
        self._ready = self._was_up = False
        self._unrecoverable: dict[int, int] = {}
        self.started = 0
        self.ended: Counter[str] = Counter()
        """Runs by the state in which they left their job, without the last ones of killed processes."""
        self.counters = Counters()
        """What all processes have counted, including those that have ended."""
        count_in(self.counters)
        self.failure_code = 0
        """The exit code with which every process failed at the first start; 0 if they did not."""

    async def run(self) -> None:
        """Returns when every process has ended."""
        with self._signals():
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(self._reload_loop()), group.create_task(notify_watchdog(self._clock))]
                self._group = group
                for _ in range(self.count):
                    self.add_process()
                while self._process_loops:
                    await asyncio.wait(self._process_loops)
                for task in background:
                    task.cancel()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGTTIN: self.add_process,
            signal.SIGTTOU: self.remove_process,
        }
        if can_reload():
            handlers[signal.SIGHUP] = self.reload
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    # commands

    def stop(self) -> None:
        """Stops every process: gracefully the first time, at once the second, by SIGKILL the third."""
        self._stops += 1
        if self._stops == 1:
            notify("STOPPING=1")
            text = "stopping %d processes: running jobs have %g s to end; a second signal does not wait, a third kills"
            _logger.info(text, len(self._children), self._grace)
            for child in list(self._children.values()):
                self._terminate(child)
        elif self._stops == 2:
            _logger.warning("stopping at once: running jobs are released")
            for child in list(self._children.values()):
                # Not SIGTERM again: two pending signals of one kind become one.
                child.send(signal.SIGINT)
                self._kill_later(child, KILL_AFTER_SECONDS)
        else:
            for child in list(self._children.values()):
                self._kill(child, child.process)

    def add_process(self) -> None:
        """Adds one process."""
        if self._stops or len(self._children) >= MAX_PROCESSES:
            return
        number = next(number for number in range(1, MAX_PROCESSES + 1) if number not in self._children)
        child = self._children[number] = SupervisedProcess(number, self._clock)
        loop = self._group.create_task(self._run_process_loop(child))
        self._process_loops.add(loop)
        loop.add_done_callback(self._process_loops.discard)

    def remove_process(self) -> None:
        """Removes one process, but never the last."""
        wanted = [child for child in self._children.values() if child.wanted]
        if len(wanted) < 2:
            _logger.warning("the last process stays; SIGTERM stops it")
            return
        child = max(wanted, key=lambda child: child.number)
        _logger.info("%s is one too many", child)
        self._terminate(child)

    def reload(self) -> None:
        """Replaces every process, one after the other. A call during that replaces them once more."""
        self._reloading.ring()

    async def _reload_loop(self) -> None:
        while True:
            await self._reloading.wait(None)
            _logger.info("replacing %d processes, one after the other", len(self._children))
            for child in sorted(self._children.values(), key=lambda child: child.number):
                if child.wanted and not await self._replace(child):
                    break

    async def _replace(self, child: SupervisedProcess) -> bool:
        """Whether a new process is up. If not, the other processes are left as they are."""
        child.replaced = asyncio.get_running_loop().create_future()
        child.send(signal.SIGTERM)
        self._kill_later(child, self._grace + KILL_AFTER_SECONDS)
        is_up = await child.replaced
        if not is_up and not self._stops:
            _logger.error("%s did not come up again: the other processes are not replaced", child)
        return is_up

    # ending a process

    def _terminate(self, child: SupervisedProcess) -> None:
        child.wanted = False
        child.send(signal.SIGTERM)
        self._kill_later(child, self._grace + KILL_AFTER_SECONDS)

    def _kill_later(self, child: SupervisedProcess, seconds: float) -> None:
        process = child.process
        self._clock.call_later(seconds, lambda: self._kill(child, process))

    def _kill(self, child: SupervisedProcess, process: asyncio.subprocess.Process | None) -> None:
        """Kills the process and everything its jobs have started."""
        if process is not None and process.returncode is None:
            _logger.error("%s does not end: killing it", child)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    # running a process

    async def _run_process_loop(self, child: SupervisedProcess) -> None:
        """Runs one process after the other as long as the place is wanted."""
        while child.wanted:
            began = self._clock.monotonic()
            code = await self._run_process(child)
            if not child.wanted:
                _logger.info("%s ended: %s", child, describe_exit(code))
            elif wait := self._restart_delay(child, code, self._clock.monotonic() - began):
                await child.wake.wait(wait)
        _resolve(child.replaced, False)
        del self._children[child.number]

    async def _run_process(self, child: SupervisedProcess) -> int | None:
        """Runs one process; returns its exit code (negative: the signal that killed it), None if it did not start."""
        child.up, child.recycling, replaced = False, "", child.replaced
        ours, theirs = socket.socketpair()
        try:
            child.process = await self._start(child, theirs)
        except OSError as error:
            ours.close()
            _resolve(replaced, False)
            _logger.error("process %d cannot be started: %s", child.number, error)
            count_error("supervisor", error)
            return None
        finally:
            theirs.close()
        if not child.wanted or child.replaced is not replaced:
            child.process.kill()  # stopped or replaced while it was being started: it has not begun anything
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
        messages = asyncio.create_task(self._listen(child, reader, replaced))
        try:
            code = await child.process.wait()
            await asyncio.wait([messages], timeout=LAST_MESSAGES_SECONDS)
        finally:
            messages.cancel()
            writer.close()
        _resolve(replaced, False)
        return code

    async def _start(self, child: SupervisedProcess, channel: socket.socket) -> asyncio.subprocess.Process:
        environ = {name: value for name, value in self._command_line.environ.items() if name not in VARIABLES}
        process = await asyncio.create_subprocess_exec(
            *self._command_line.argv,
            cwd=self._command_line.folder,
            env=environ | {VARIABLE: f"{child.number}:{channel.fileno()}"},
            pass_fds=[channel.fileno()],
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which passes it on
        )
        self.started += 1
        _logger.info("process %d started: pid %d", child.number, process.pid)
        return process

    async def _listen(
        self, child: SupervisedProcess, reader: asyncio.StreamReader, replaced: asyncio.Future[bool] | None
    ) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                message = msgspec.json.decode(line, type=StatusMessage)
                self.ended.update(message.ended)
                if message.counts is not None:
                    self.counters.add(message.counts)
                if message.recycling:
                    child.recycling = message.recycling
                    self._kill_later(child, self._grace + KILL_AFTER_SECONDS)
                # A process that was stopped or replaced while it was being started may be up before the signal arrives.
                if message.up and child.wanted and child.replaced is replaced:
                    child.up = self._was_up = True
                    _resolve(replaced, True)
                    self._notify_ready()

    def missing(self) -> list[str]:
        """Why it is not ready: the processes that do not claim jobs."""
        return [
            f"process {child.number} does not take jobs" for child in self._children.values() if not child.is_working
        ]

    def _notify_ready(self) -> None:
        if not self._ready and all(child.up for child in self._children.values()):
            self._ready = True
            _logger.info("all %d processes take jobs", len(self._children))
            notify("READY=1")

    def _restart_delay(self, child: SupervisedProcess, code: int | None, lived: float) -> float:
        """Logs how the process ended; returns the seconds until the next one starts."""
        if child.up and code == RECYCLED_EXIT_CODE:
            child.failures = 0
            _logger.info("%s recycled: %s", child, child.recycling)
            return 0.0
        if child.replaced is not None and not child.replaced.done():
            _logger.info("%s ended: %s; the next one starts", child, describe_exit(code))
            return 0.0
        if code in UNRECOVERABLE_EXIT_CODES and not self._was_up:
            self._unrecoverable[child.number] = code
            self._stop_if_unrecoverable()
        child.failures = 1 if lived >= STEADY_SECONDS else child.failures + 1
        wait = RESTART_BACKOFF.delay(child.failures, seed=str(child.number))
        if child.wanted:
            _logger.warning("%s ended: %s; the next one starts in %.2g s", child, describe_exit(code), wait)
        return wait if child.wanted else 0.0

    def _stop_if_unrecoverable(self) -> None:
        """Stops if every process failed at its first start: restarting for ever would hide the error."""
        if self._unrecoverable.keys() >= self._children.keys():
            self.failure_code = max(self._unrecoverable.values())
            for child in list(self._children.values()):
                self._terminate(child)


def describe_exit(code: int | None) -> str:
    """The exit code, or the name of the signal."""
    if code is None:
        return "not started"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _resolve(future: asyncio.Future[bool] | None, value: bool) -> None:
    if future is not None and not future.done():
        future.set_result(value)
