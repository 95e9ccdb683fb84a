"""Supervisor: one parent that keeps several processes of its own command at work."""

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
from .channel import RECYCLED, VARIABLE, StatusMessage
from .command_line import CommandLine, can_reload
from .systemd import VARIABLES, notify, watchdog

_logger = logging.getLogger("mainspring")

# How long to wait before a process that died is replaced; one that lived STEADY seconds is forgiven what was before.
AGAIN = Backoff(initial=0.5, max=60.0)
STEADY = 30.0
# After its grace a process interrupts what still runs, stores the last outcomes and takes its leave. Then it is killed.
PATIENCE = 12.0
# A process that ends with one of these before it took jobs was started wrongly: another try is no use.
HOPELESS = (1, 2)
# What a process said last is in the socket when it ends; a process of its own may still hold the other end open.
LAST_WORDS = 1.0
LONGEST_WORD = 4 << 20
MOST = 1000


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
        """Awaited by whoever sent the process away for a new one; whether that is up."""
        self.wake = Alarm(clock)

    def __str__(self) -> str:
        return f"process {self.number} (pid {self.process.pid if self.process else '-'})"

    @property
    def works(self) -> bool:
        """Whether its process takes jobs."""
        return self.up and self.process is not None and self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """To the process, if there is one; else to whoever waits to start the next one."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
        else:
            self.wake.ring()


class Supervisor:
    """Keeps `count` processes running until it is told to stop: gracefully, then at once, then by force."""

    def __init__(self, program: CommandLine, count: int, *, grace: float, clock: Clock) -> None:
        self._program = program
        self.count = count
        self._grace = grace
        self._clock = clock
        self._children: dict[int, SupervisedProcess] = {}
        self._keepers: set[asyncio.Task[None]] = set()
        self._reloading = Alarm(clock)
        self._stops = 0
        self._ready = self._worked = False
        self._hopeless: dict[int, int] = {}
        self.started = 0
        self.ended: Counter[str] = Counter()
        """How many runs left their job in which state; a process that is killed takes its count along."""
        self.meter = Counters()
        count_in(self.meter)
        """What all processes have counted, those that are gone too."""
        self.failed = 0
        """The exit code with which every process failed at the first start."""

    async def run(self) -> None:
        """Returns when every process is gone."""
        with self._signals():
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._reload_loop()), group.create_task(watchdog(self._clock))]
                self._group = group
                for _ in range(self.count):
                    self.more()
                while self._keepers:
                    await asyncio.wait(self._keepers)
                for task in beside:
                    task.cancel()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        acts = {
            signal.SIGTERM: self.stop, signal.SIGINT: self.stop, signal.SIGTTIN: self.more, signal.SIGTTOU: self.fewer,
        }  # fmt: skip
        if can_reload():
            acts[signal.SIGHUP] = self.reload
        for number, act in acts.items():
            loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            for number in acts:
                loop.remove_signal_handler(number)

    # told from outside

    def stop(self) -> None:
        """Every process is sent away; they are told again the second time, and killed the third."""
        self._stops += 1
        if self._stops == 1:
            notify("STOPPING=1")
            text = "stopping %d processes: running jobs have %g s to end; a second signal does not wait, a third kills"
            _logger.info(text, len(self._children), self._grace)
            for child in list(self._children.values()):
                self._dismiss(child)
        elif self._stops == 2:
            _logger.warning("stopping at once: running jobs are released")
            for child in list(self._children.values()):
                # Not the same signal again: two that are both under way become one.
                child.send(signal.SIGINT)
                self._kill_later(child, PATIENCE)
        else:
            for child in list(self._children.values()):
                self._kill(child, child.process)

    def more(self) -> None:
        """One process more."""
        if self._stops or len(self._children) >= MOST:
            return
        number = next(number for number in range(1, MOST + 1) if number not in self._children)
        child = self._children[number] = SupervisedProcess(number, self._clock)
        keeper = self._group.create_task(self._keep(child))
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)

    def fewer(self) -> None:
        """One process fewer, but never none."""
        wanted = [child for child in self._children.values() if child.wanted]
        if len(wanted) < 2:
            _logger.warning("the last process stays; SIGTERM stops it")
            return
        child = max(wanted, key=lambda child: child.number)
        _logger.info("%s is one too many", child)
        self._dismiss(child)

    def reload(self) -> None:
        """Every process is replaced, one after the other; told so meanwhile, once more."""
        self._reloading.ring()

    async def _reload_loop(self) -> None:
        while True:
            await self._reloading.wait(None)
            _logger.info("replacing %d processes, one after the other", len(self._children))
            for child in sorted(self._children.values(), key=lambda child: child.number):
                if child.wanted and not await self._replace(child):
                    break

    async def _replace(self, child: SupervisedProcess) -> bool:
        """Whether a fresh process took the place. If not, the others had better stay as they are."""
        child.replaced = asyncio.get_running_loop().create_future()
        child.send(signal.SIGTERM)
        self._kill_later(child, self._grace + PATIENCE)
        fresh = await child.replaced
        if not fresh and not self._stops:
            _logger.error("%s did not come up again: the other processes are not replaced", child)
        return fresh

    # ending a process

    def _dismiss(self, child: SupervisedProcess) -> None:
        child.wanted = False
        child.send(signal.SIGTERM)
        self._kill_later(child, self._grace + PATIENCE)

    def _kill_later(self, child: SupervisedProcess, seconds: float) -> None:
        process = child.process
        self._clock.call_later(seconds, lambda: self._kill(child, process))

    def _kill(self, child: SupervisedProcess, process: asyncio.subprocess.Process | None) -> None:
        """By force, with whatever its jobs have started."""
        if process is not None and process.returncode is None:
            _logger.error("%s does not end: killing it", child)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    # keeping a place filled

    async def _keep(self, child: SupervisedProcess) -> None:
        """One process after the other, for as long as the place is wanted."""
        while child.wanted:
            began = self._clock.monotonic()
            code = await self._live(child)
            if not child.wanted:
                _logger.info("%s ended: %s", child, ending(code))
            elif wait := self._pause(child, code, self._clock.monotonic() - began):
                await child.wake.wait(wait)
        _settle(child.replaced, False)
        del self._children[child.number]

    async def _live(self, child: SupervisedProcess) -> int | None:
        """One process from start to end; its exit code, minus the signal that killed it, or None: it never began."""
        child.up, child.recycling, replaced = False, "", child.replaced
        ours, theirs = socket.socketpair()
        try:
            child.process = await self._start(child, theirs)
        except OSError as error:
            ours.close()
            _settle(replaced, False)
            _logger.error("process %d cannot be started: %s", child.number, error)
            count_error("supervisor", error)
            return None
        finally:
            theirs.close()
        if not child.wanted or child.replaced is not replaced:
            child.process.kill()  # sent away while it was being made: it has begun nothing
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_WORD)
        words = asyncio.create_task(self._listen(child, reader, replaced))
        try:
            code = await child.process.wait()
            await asyncio.wait([words], timeout=LAST_WORDS)
        finally:
            words.cancel()
            writer.close()
        _settle(replaced, False)
        return code

    async def _start(self, child: SupervisedProcess, line: socket.socket) -> asyncio.subprocess.Process:
        environ = {name: value for name, value in self._program.environ.items() if name not in VARIABLES}
        process = await asyncio.create_subprocess_exec(
            *self._program.argv,
            cwd=self._program.folder,
            env=environ | {VARIABLE: f"{child.number}:{line.fileno()}"},
            pass_fds=[line.fileno()],
            start_new_session=True,  # Ctrl-C reaches us only, and we tell them
        )
        self.started += 1
        _logger.info("process %d started: pid %d", child.number, process.pid)
        return process

    async def _listen(
        self, child: SupervisedProcess, reader: asyncio.StreamReader, replaced: asyncio.Future[bool] | None
    ) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                word = msgspec.json.decode(line, type=StatusMessage)
                self.ended.update(word.ended)
                if word.counts is not None:
                    self.meter.add(word.counts)
                if word.recycling:
                    child.recycling = word.recycling
                    self._kill_later(child, self._grace + PATIENCE)
                # One that was sent away while it was made may have come up before the signal reached it.
                if word.up and child.wanted and child.replaced is replaced:
                    child.up = self._worked = True
                    _settle(replaced, True)
                    self._tell_ready()

    def missing(self) -> list[str]:
        """What keeps it from being ready: processes that do not take jobs."""
        return [f"process {child.number} does not take jobs" for child in self._children.values() if not child.works]

    def _tell_ready(self) -> None:
        if not self._ready and all(child.up for child in self._children.values()):
            self._ready = True
            _logger.info("all %d processes take jobs", len(self._children))
            notify("READY=1")

    def _pause(self, child: SupervisedProcess, code: int | None, lived: float) -> float:
        """Says how the process ended; returns the seconds until the next one."""
        if child.up and code == RECYCLED:
            child.failures = 0
            _logger.info("%s recycled: %s", child, child.recycling)
            return 0.0
        if child.replaced is not None and not child.replaced.done():
            _logger.info("%s ended: %s; the next one starts", child, ending(code))
            return 0.0
        if code in HOPELESS and not self._worked:
            self._hopeless[child.number] = code
            self._give_up()
        child.failures = 1 if lived >= STEADY else child.failures + 1
        wait = AGAIN.delay(child.failures, seed=str(child.number))
        if child.wanted:
            _logger.warning("%s ended: %s; the next one starts in %.2g s", child, ending(code), wait)
        return wait if child.wanted else 0.0

    def _give_up(self) -> None:
        """If no process at all gets to work, somebody has to look: trying for ever would hide it."""
        if self._hopeless.keys() >= self._children.keys():
            self.failed = max(self._hopeless.values())
            for child in list(self._children.values()):
                self._dismiss(child)


def ending(code: int | None) -> str:
    """An exit code, or a signal by its name."""
    if code is None:
        return "not started"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _settle(future: asyncio.Future[bool] | None, value: bool) -> None:
    if future is not None and not future.done():
        future.set_result(value)
