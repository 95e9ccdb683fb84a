"""JobLineFilter: limits the log lines of a chatty job on a console; errors are always shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from threading import Lock

from ..clock import Clock
from ..events import Bus, JobEnded
from ..task.context import running

# Lines that are shown per window: of one job, and of all jobs of one task.
MAX_JOB_LINES = 10
MAX_TASK_LINES = 50
WINDOW_SECONDS = 5.0


class _LineCount:
    """The lines of one job or one task in the current window."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.shown = 0
        self.hidden = 0
        self.last = ""


class JobLineFilter(logging.Filter):
    """A filter for handlers that write to a console. A summary replaces hidden lines at the end of a window."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = Lock()
        self._jobs: dict[tuple[str, str], _LineCount] = {}
        self._tasks: dict[str, _LineCount] = {}
        self._handlers: list[logging.Handler] = []

    @classmethod
    def install(cls, clock: Clock, bus: Bus) -> JobLineFilter:
        """Adds it to the handlers of the root logger that write to this terminal; log files get every line."""
        line_filter = cls(clock)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout):
                handler.addFilter(line_filter)
                line_filter._handlers.append(handler)
        bus.subscribe(JobEnded, line_filter.job_ended)
        return line_filter

    def filter(self, record: logging.LogRecord) -> bool:
        ctx = running.get()
        id = getattr(record, "job_id", None) or (ctx.job.id if ctx is not None else None)
        task = getattr(record, "task", None) or (ctx.job.task if ctx is not None else None)
        if id is None or task is None or record.levelno >= logging.ERROR:
            return True
        self.flush()
        with self._lock:
            return self._is_shown(str(task), str(id), record.getMessage())

    def _is_shown(self, task: str, id: str, text: str) -> bool:
        now = self._clock.monotonic()
        of_job = self._jobs.setdefault((task, id), _LineCount(now))
        of_task = self._tasks.setdefault(task, _LineCount(now))
        if text == of_job.last or of_job.shown >= MAX_JOB_LINES or of_task.shown >= MAX_TASK_LINES:
            of_job.hidden += 1
            return False
        of_job.last = text
        of_job.shown += 1
        of_task.shown += 1
        return True

    def job_ended(self, event: JobEnded) -> None:
        """Writes how many lines of the job were hidden."""
        with self._lock:
            lines = self._jobs.pop((event.job.task, event.job.id), None)
        if lines is not None and lines.hidden:
            self._write(_summary(event.job.task, event.job.id, lines.hidden))

    def flush(self, *, all: bool = False) -> None:
        """Writes the summaries of windows that are over; with `all`, of the others, too."""
        with self._lock:
            texts = list(self._summaries(self._clock.monotonic(), all))
        for text in texts:
            self._write(text)

    def _summaries(self, now: float, all: bool) -> Iterator[str]:
        for task in [task for task, lines in self._tasks.items() if now - lines.started >= WINDOW_SECONDS]:
            del self._tasks[task]
        over = [key for key, lines in self._jobs.items() if all or now - lines.started >= WINDOW_SECONDS]
        hidden = {key: self._jobs.pop(key).hidden for key in over}
        hidden = {key: number for key, number in hidden.items() if number}
        for task in {task for task, _ in hidden}:
            ids = [id for name, id in hidden if name == task]
            number = sum(hidden[task, id] for id in ids)
            yield _summary(task, ids[0], number) if len(ids) == 1 else _summary_of_many(task, len(ids), number)

    def _write(self, text: str) -> None:
        record = logging.LogRecord("mainspring", logging.INFO, __file__, 0, text, None, None)
        for handler in self._handlers:
            handler.acquire()
            try:
                handler.emit(record)
            finally:
                handler.release()

    async def run(self) -> None:
        """Writes summaries until it is cancelled, and then the last ones."""
        try:
            while True:
                await self._clock.sleep(WINDOW_SECONDS / 5)
                self.flush()
        finally:
            self.flush(all=True)


def _more_lines(number: int) -> str:
    return f"… {number:,} more line{'' if number == 1 else 's'}"


def _summary(task: str, id: str, number: int) -> str:
    return f"{_more_lines(number)} from {task} {id}: mainspring jobs logs {id}, or dev --all-lines"


def _summary_of_many(task: str, jobs: int, number: int) -> str:
    return f"{_more_lines(number)} from {jobs:,} jobs of {task}: mainspring jobs list --task {task}, or dev --all-lines"
