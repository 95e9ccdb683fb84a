"""Log records: which run they are of, and how they are written, as text or as JSON. Secrets are hidden in both."""

from __future__ import annotations

import json
import logging
import math
from copy import copy
from datetime import UTC, datetime
from typing import Any

from ..mask import mask, mask_text
from ..task.context import run_fields, running

# Characters of a message or a stack, and of anything else that is said with it.
LONGEST, LONGEST_VALUE = 32_768, 4_096
# What every record has, and what is written under another name.
_OWN = frozenset({*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName"})
_NAMED = ("time", "level", "logger", "message", "process", "exception")


class RunFilter(logging.Filter):
    """Gives each record that is made inside a run job_id, task, queue, attempt, worker and schedule.

    For a handler of your own: handler.addFilter(RunFilter()). A record that has them keeps its own.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        ctx = running.get()
        if ctx is not None and not hasattr(record, "job_id"):
            for name, value in run_fields(ctx.job).items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    """A line for people; one of a run that does not name its job says so at the end."""

    def __init__(self, mark: str = "") -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s{mark} %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line, id = super().formatMessage(record), getattr(record, "job_id", None)
        if id is None or str(id) in line:
            return line
        return f"{line} ({getattr(record, 'task', 'job')} {id}, attempt {getattr(record, 'attempt', '?')})"

    def format(self, record: logging.LogRecord) -> str:
        """A record is one line; of a stack, the lines below it are indented, so that none looks like a record."""
        shown = copy(record)
        shown.msg, shown.args = mask_text(record.getMessage()).replace("\r", "\\r").replace("\n", "\\n"), None
        return printable(mask_text(super().format(shown)).replace("\n", "\n  "))


class JsonFormatter(logging.Formatter):
    """One object a line, in plain ASCII: time, level, logger, message, what is known of the run, exception, extras."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(mask_text(record.getMessage())),
        }
        if self._process is not None:
            said["process"] = self._process
        extras = {name: value for name, value in vars(record).items() if name not in _OWN and name not in _NAMED}
        said |= _plain(mask({name: value for name, value in extras.items() if value is not None}))
        if stack := self._stack(record):
            said["exception"] = _cut(mask_text(stack))
        return json.dumps(said, default=_text)

    def _stack(self, record: logging.LogRecord) -> str:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return "\n".join(text for text in (record.exc_text, record.stack_info) if text)


def printable(text: str) -> str:
    """The text with control characters spelled out: job data is anybody's."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def _plain(value: Any) -> Any:
    """The same with nothing that JSON does not have."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _cut(value, LONGEST_VALUE)
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return _text(value)


def _text(value: object) -> str:
    try:
        return _cut(mask_text(repr(value)), LONGEST_VALUE)
    except Exception as broken:
        return f"a {type(value).__name__} that cannot be written ({type(broken).__name__})"


def _cut(text: str, limit: int = LONGEST) -> str:
    """After it was masked: half a secret has no telling name."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else f"{text[:limit]} … {len(text) - limit} characters more"
