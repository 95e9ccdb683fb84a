"""Formatters of log records, as text or JSON with secrets masked, and a filter that adds the run."""

from __future__ import annotations

import json
import logging
import math
from copy import copy
from datetime import UTC, datetime
from typing import Any

from ..mask import mask, mask_text
from ..task.context import run_fields, running

# Length of a message or a stack.
MAX_MESSAGE_CHARACTERS = 32_768
# Length of any other value.
MAX_VALUE_CHARACTERS = 4_096
# Attributes that every record has; any other attribute is an extra.
_STANDARD_ATTRIBUTES = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName"}
)
# Names of the JSON object that extras must not overwrite.
_RESERVED_NAMES = ("time", "level", "logger", "message", "process", "exception")


class RunFilter(logging.Filter):
    """Adds job_id, task, queue, attempt, worker and schedule to each record that is logged inside a run.

    For a handler of your own: handler.addFilter(RunFilter()). Attributes that a record has already are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        ctx = running.get()
        if ctx is not None and not hasattr(record, "job_id"):
            for name, value in run_fields(ctx.job).items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    """A line of text; the job is appended if the record is of a run and does not name it."""

    def __init__(self, mark: str = "") -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s{mark} %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line, id = super().formatMessage(record), getattr(record, "job_id", None)
        if id is None or str(id) in line:
            return line
        return f"{line} ({getattr(record, 'task', 'job')} {id}, attempt {getattr(record, 'attempt', '?')})"

    def format(self, record: logging.LogRecord) -> str:
        """One line per record; the lines of a stack are indented, so that none of them looks like a record."""
        shown = copy(record)
        shown.msg, shown.args = mask_text(record.getMessage()).replace("\r", "\\r").replace("\n", "\\n"), None
        return printable(mask_text(super().format(shown)).replace("\n", "\n  "))


class JsonFormatter(logging.Formatter):
    """One JSON object per line, in ASCII: time, level, logger, message, the run, exception, extras."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(mask_text(record.getMessage())),
        }
        if self._process is not None:
            entry["process"] = self._process
        extras = {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD_ATTRIBUTES and name not in _RESERVED_NAMES
        }
        entry |= _plain(mask({name: value for name, value in extras.items() if value is not None}))
        if stack := self._stack(record):
            entry["exception"] = _cut(mask_text(stack))
        return json.dumps(entry, default=_text)

    def _stack(self, record: logging.LogRecord) -> str:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return "\n".join(text for text in (record.exc_text, record.stack_info) if text)


def printable(text: str) -> str:
    """The text with control characters escaped, since job data is not trusted."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def _plain(value: Any) -> Any:
    """The value in types that JSON has."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _cut(value, MAX_VALUE_CHARACTERS)
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return _text(value)


def _text(value: object) -> str:
    try:
        return _cut(mask_text(repr(value)), MAX_VALUE_CHARACTERS)
    except Exception as broken:
        return f"a {type(value).__name__} that cannot be written ({type(broken).__name__})"


def _cut(text: str, limit: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Cuts a text, which must be masked already: a cut may separate a secret from the name that gives it away."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else f"{text[:limit]} … {len(text) - limit} characters more"
