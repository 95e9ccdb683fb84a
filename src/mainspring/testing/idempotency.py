"""The idempotency checker: runs a task once for each point at which its worker can die, and compares what it leaves."""

from __future__ import annotations

import difflib
import inspect
import linecache
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..errors import BadInput
from ..ids import JobId
from ..records.job import Job
from ..task.task import Task
from .crash import Crash, CrashPoint, Occurrence, code_of, own_code, own_garbage, start_of
from .crash_worker import CrashDriver, CrashWorker
from .driver import earliest

if TYPE_CHECKING:
    from .harness import Harness

Hook = Callable[[], object]

# Points that are tried if there are more.
MAX_POINTS = 1000
# Times that one job waits, for a retry or in a run, after which it probably never ends.
MAX_WAITS = 1000


async def check(
    harness: Harness,
    task: Task[Any, Any],
    enqueue: Callable[[], Awaitable[Any]],
    *,
    state: Hook,
    reset: Hook | None,
    restart: Hook | None,
    also: Sequence[object],
    limit: int,
) -> IdempotencyReport:
    """Checks the task whose job `enqueue` makes; the hooks are those of `Harness.check_idempotent()`."""
    if task.stub:
        raise BadInput(f"task {task.name!r} is a stub: check it in the process that has its code")
    if task.executor == "process":
        raise BadInput(
            f"task {task.name!r} runs in a process of its own, where the checker cannot end it: check the task "
            "without executor='process'"
        )
    if limit < 1:
        raise BadInput(f"limit= is how many points to try, 1 or more, got {limit}")
    with own_garbage():
        return await Check(harness, task, enqueue, state, reset, restart).run(also, limit)


class Remains(Struct, frozen=True):
    """What there is when the job has ended."""

    end: str
    jobs: dict[str, int]
    """How many jobs there are, by task."""
    state: Any

    def __str__(self) -> str:
        jobs = [f"{task}: {count} job{'s' if count > 1 else ''}" for task, count in sorted(self.jobs.items())]
        return "\n".join([f"the job {self.end}", *jobs, pformat(self.state, width=100)])


class IdempotencyReport(Struct, frozen=True, kw_only=True):
    """What a check has found. `str(report)` is a text to read."""

    task: str
    points: int
    """Points at which the worker can die."""
    tried: int
    """Those at which it died; the check ends with the first after which there is a difference."""
    sampled: bool = False
    """Whether points were left out because there are too many."""
    file: str | None = None
    """Where the worker died when there was a difference; None if there was none."""
    line: int | None = None
    function: str | None = None
    waited_at: str | None = None
    """The place in another function at which it had waited; None if it had not."""
    expected: str = ""
    """What one run leaves."""
    found: str = ""
    """What is left when the worker has died there, and another one has run the job again."""

    @property
    def idempotent(self) -> bool:
        return self.line is None

    def __str__(self) -> str:
        sample = "; left out are points at lines that are run more than twice" if self.sampled else ""
        tried = f"at {self.tried} of {self.points} points{sample}"
        if self.file is None or self.line is None:
            return f"task {self.task!r} is idempotent: its worker died {tried}"
        wait = f" (it had waited at {self.waited_at})" if self.waited_at else ""
        diff = difflib.ndiff(self.expected.splitlines(), self.found.splitlines())
        return "\n".join([
            f"task {self.task!r} is not idempotent: its worker died after line {self.line} of {_shown(self.file)}, in "
            f"{self.function}(){wait}, and the next run left something else (it died {tried})",
            f"    {linecache.getline(self.file, self.line).strip()}",
            "-: one run, +: one that died there, and another one",
            *(f"    {line}" for line in diff if not line.startswith("?")),
        ])  # fmt: skip


class Check:
    """One check of a task, in a harness."""

    def __init__(
        self,
        harness: Harness,
        task: Task[Any, Any],
        enqueue: Callable[[], Awaitable[Any]],
        state: Hook,
        reset: Hook | None,
        restart: Hook | None,
    ) -> None:
        self._harness = harness
        self._task = task
        self._enqueue = enqueue
        self._state = state
        self._reset = reset
        self._restart = restart
        self._first: Any = None
        self._trials = 0

    async def run(self, also: Sequence[Any], limit: int) -> IdempotencyReport:
        """Tries the points one after the other, at most `limit`, up to the first difference."""
        task = self._task
        tasks = self._harness._app.tasks.values() if task.is_flow else [task]
        code = code_of(*(one.fn for one in tasks if not one.stub), *also)
        is_own = own_code(start_of(task.fn).file)
        expected = await self._trial(None)
        if not expected.end.startswith("is completed"):
            raise AssertionError(f"task {task.name!r} does not complete when no worker dies: the job {expected.end}")
        counted = Crash(code, is_own)
        again = await self._trial(counted)
        if again != expected:
            raise AssertionError(
                f"two runs of task {task.name!r} differ though no worker died: state= must leave out what differs each "
                "time, such as times and random ids, and reset= must put back all that the task changes\n"
                + _diff(expected, again)
            )
        points = occurrences(counted.points)
        numbers = sample(counted.points, limit)
        tried, sampled = 0, len(numbers) < len(points)
        for number in numbers:
            crash = Crash(code, is_own, points[number - 1])
            found = await self._trial(crash)
            tried += crash.dead  # a run that goes another way each time may not come there
            if found != expected:
                return self._difference(crash.points[-1], len(points), tried, sampled, expected, found)
        return IdempotencyReport(task=task.name, points=len(points), tried=tried, sampled=sampled)

    def _difference(
        self, point: CrashPoint, points: int, tried: int, sampled: bool, expected: Remains, found: Remains
    ) -> IdempotencyReport:
        at = point.wait
        return IdempotencyReport(
            task=self._task.name,
            points=points,
            tried=tried,
            sampled=sampled,
            file=point.file,
            line=point.line,
            function=point.function,
            waited_at=None if at is None else f"{_shown(at.file)}:{at.line}, in {at.function}()",
            expected=str(expected),
            found=str(found),
        )

    async def _trial(self, crash: Crash | None) -> Remains:
        """What the job leaves if its worker dies so, in a world as it was before the first run."""
        harness, self._trials = self._harness, self._trials + 1
        with harness._afresh():
            await self._begin()
            handle = await self._enqueue()
            await self._work(handle.id, crash)
            if crash is not None and crash.dead:
                if self._restart is not None:
                    await _call(self._restart)
                harness.clock.advance(harness._app.settings.lease)
                await self._work(handle.id, None)
            jobs = Counter(job.task for job in harness.enqueued)
            return Remains(_end_of(self._job(handle.id)), dict(jobs), await self._snapshot())

    async def _begin(self) -> None:
        if self._reset is not None:
            await _call(self._reset)
        now = await self._snapshot()
        if self._trials == 1:
            self._first = now
        elif now != self._first:
            name = repr(self._task.name)
            raise BadInput(
                f"reset= does not put back what task {name} changes:\n{_diff(self._first, now)}"
                if self._reset
                else f"task {name} changes the state: give reset=, a function that puts it back, since each run has to "
                "start from the same"
            )

    async def _snapshot(self) -> Any:
        value = await _call(self._state)
        try:
            return deepcopy(value)
        except Exception as error:
            text = f"state() has to return what can be copied and compared, not {value!r:.200}: {error}"
            raise BadInput(text) from error

    def _job(self, id: JobId) -> Job:
        (job,) = self._harness._these([id])
        return job

    async def _work(self, job: JobId, crash: Crash | None) -> None:
        """Runs the job until it has ended, it waits for what does not come, or the worker has died."""
        harness = self._harness
        worker = CrashWorker(harness._engine, harness.clock, None if self._task.is_flow else {self._task.name}, crash)
        driver = CrashDriver(worker, crash, harness._engine.events, harness.clock)
        await driver.open()
        try:
            for _ in range(MAX_WAITS):
                await driver.work(MAX_WAITS, passing=True)
                if (crash is not None and crash.dead) or self._job(job).state.final:
                    return
                at = earliest(worker.next_at, harness.clock.next_timer)
                if at is None:
                    return
                await harness._pass(at)
        finally:
            await driver.close()


def occurrences(points: Iterable[CrashPoint]) -> list[Occurrence]:
    counts: Counter[CrashPoint] = Counter()
    found: list[Occurrence] = []
    for point in points:
        counts[point] += 1
        found.append((point, counts[point]))
    return found


def sample(points: Sequence[CrashPoint], limit: int) -> list[int]:
    """The numbers, from 1, of at most `limit` points: the first and the last at each line, then others evenly."""
    numbers = range(1, len(points) + 1)
    if len(points) <= limit:
        return list(numbers)
    first: dict[CrashPoint, int] = {}
    last: dict[CrashPoint, int] = {}
    for number, point in zip(numbers, points, strict=True):
        first.setdefault(point, number)
        last[point] = number
    chosen = {*first.values(), *last.values()}
    if len(chosen) > limit:
        return _evenly(sorted(chosen), limit)
    return sorted(chosen.union(_evenly([one for one in numbers if one not in chosen], limit - len(chosen))))


def _evenly(numbers: Sequence[int], count: int) -> list[int]:
    return [numbers[index * len(numbers) // count] for index in range(count)]


async def _call(hook: Hook) -> Any:
    value = hook()
    return await value if inspect.isawaitable(value) else value


def _end_of(job: Job) -> str:
    failure = (
        f": {job.failure.type}: {job.failure.message}" if job.failure is not None and job.state != "completed" else ""
    )
    return f"is {job.state}{failure}"


def _diff(one: object, other: object) -> str:
    lines = difflib.ndiff(str(one).splitlines(), str(other).splitlines())
    return "\n".join(f"    {line}" for line in lines if not line.startswith("?"))


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
