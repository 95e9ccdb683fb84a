"""Keeps a console readable when a job is chatty: some lines of each job, the number of the others, and every error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from threading import Lock

from ..clock import Clock
from ..events import Bus, JobEnded
from ..task.context import running

# Lines of one job, and of all jobs of one task, that are shown in a window of time.
MAX_JOB_LINES = 10
MAX_TASK_LINES = 50
WINDOW_SECONDS = 5.0


class _Lines:
    """Of one job or one task within the present window."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.shown = 0
        self.hidden = 0
        self.last = ""


class JobLines(logging.Filter):
    """A filter for handlers that write to a console. What it hides is summed up when the window is over."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = Lock()
        self._jobs: dict[tuple[str, str], _Lines] = {}
        self._tasks: dict[str, _Lines] = {}
        self._handlers: list[logging.Handler] = []

    @classmethod
    def install(cls, clock: Clock, bus: Bus) -> JobLines:
        """On the handlers of the root logger that write to this terminal; files of the app get every line."""
        lines = cls(clock)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout):
                handler.addFilter(lines)
                lines._handlers.append(handler)
        bus.subscribe(JobEnded, lines.ended)
        return lines

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
        ours = self._jobs.setdefault((task, id), _Lines(now))
        all = self._tasks.setdefault(task, _Lines(now))
        if text == ours.last or ours.shown >= MAX_JOB_LINES or all.shown >= MAX_TASK_LINES:
            ours.hidden += 1
            return False
        ours.last = text
        ours.shown += 1
        all.shown += 1
        return True

    def ended(self, event: JobEnded) -> None:
        """The job's last word: how much of it is not here."""
        with self._lock:
            lines = self._jobs.pop((event.job.task, event.job.id), None)
        if lines is not None and lines.hidden:
            self._write(_summary(event.job.task, event.job.id, lines.hidden))

    def flush(self, *, all: bool = False) -> None:
        """Sums up the windows that are over."""
        with self._lock:
            texts = list(self._over(self._clock.monotonic(), all))
        for text in texts:
            self._write(text)

    def _over(self, now: float, all: bool) -> Iterator[str]:
        for task in [task for task, lines in self._tasks.items() if now - lines.began >= WINDOW_SECONDS]:
            del self._tasks[task]
        over = [key for key, lines in self._jobs.items() if all or now - lines.began >= WINDOW_SECONDS]
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

    async def keep(self) -> None:
        """Sums up now and then, until it is cancelled; then for the last time."""
        try:
            while True:
                await self._clock.sleep(WINDOW_SECONDS / 5)
                self.flush()
        finally:
            self.flush(all=True)


def _lines(number: int) -> str:
    return f"… {number:,} more line{'' if number == 1 else 's'}"


def _summary(task: str, id: str, number: int) -> str:
    return f"{_lines(number)} from {task} {id}: mainspring jobs logs {id}, or dev --all-lines"


def _summary_of_many(task: str, jobs: int, number: int) -> str:
    return f"{_lines(number)} from {jobs:,} jobs of {task}: mainspring jobs list --task {task}, or dev --all-lines"
