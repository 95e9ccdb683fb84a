"""What a worker and its child processes say to each other: JSON values, each with its length before it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..records.job import Job
from ..records.outcome import Cancel, Directive, Discard, Retry, Snooze, failure_of
from ..records.run import Failure, Usage

# Longer than any order or report: whoever announces more does not speak our language.
LIMIT = 2**28


class RunRequest(Struct, frozen=True, kw_only=True):
    """To a child: run this function. The place comes from the worker's own registry, never from stored data."""

    module: str
    qualname: str
    main: str | None = None
    """The file of the worker's __main__, if that is the module."""
    job: Job
    timeout: float | None = None
    deadline: datetime | None = None
    soft_timeout: float | None = None
    """Seconds after which an interruption is raised inside the function."""
    memory_limit: int | None = None
    """Bytes the run may add to what the process held when it began: imports and earlier runs are not its fault."""
    cpu_limit: float | None = None
    """CPU seconds."""
    result_limit: int


# while it runs


class RunStarted(Struct, frozen=True, tag="Began"):
    """The child has read its order: from here on, its death is the run's."""

    spent: float
    """CPU seconds of its life so far."""


class LogMessage(Struct, frozen=True, tag="LogLine"):
    level: int
    text: str


class ProgressMessage(Struct, frozen=True, tag="Progress"):
    done: float
    total: float | None = None
    note: str = ""


class ItemsMessage(Struct, frozen=True, tag="Items"):
    success: int = 0
    failed: int = 0
    skipped: int = 0


class NoteMessage(Struct, frozen=True, tag="Note"):
    metadata: dict[str, Any]


Message = LogMessage | ProgressMessage | ItemsMessage | NoteMessage


# how it ended

Kind = Literal["error", "timeout", "memory", "cpu", "unreadable"]


class Returned(Struct, frozen=True, tag="Returned"):
    """The function returned. `note` says why its result could not be kept."""

    result: str | None = None
    note: Failure | None = None
    usage: Usage | None = None


class RunSteered(Struct, frozen=True, tag="Steered"):
    """The function steers its job."""

    steer: Directive
    usage: Usage | None = None


class Raised(Struct, frozen=True, tag="Raised"):
    """The function raised, was interrupted, or went over a limit."""

    failure: Failure
    kind: Kind = "error"
    bases: tuple[str, ...] = ()
    """Its class and what that inherits from, by name, for the task's rules in the worker; none: not the function's."""
    usage: Usage | None = None
    version: tuple[str, str] | None = None
    """If it is unreadable: the fingerprint and the parameters of the function in this process."""


class ProcessDiedMessage(Struct, frozen=True):
    """The process ended under the run."""

    reason: str
    usage: Usage | None = None


class RunFinished(Struct, frozen=True, tag="Report"):
    """The last word of a child on a run."""

    ending: Returned | RunSteered | Raised
    retire: bool = False
    """The child should not be used again."""


def _enc_hook(value: Any) -> Any:
    reason = failure_of(value, stack=False).message
    match value:
        case Retry(after=after):
            return "retry", after, reason
        case Snooze(delay=delay):
            return "snooze", delay, reason
        case Discard():
            return "discard", None, reason
        case Cancel():
            return "cancel", None, reason
    raise TypeError(f"{type(value).__name__} has no place in a message")


def _dec_hook(_wanted: Any, value: Any) -> Directive:
    kind, number, reason = value
    match kind:
        case "retry":
            return Retry(number, reason)
        case "snooze":
            return Snooze(number, reason)
        case "discard":
            return Discard(reason)
    return Cancel(reason)


def as_decoded(steer: Directive) -> Directive:
    """As the worker will decode it; raises for one that it could not."""
    return _dec_hook(Directive, _enc_hook(steer))


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
orders = msgspec.json.Decoder(RunRequest, dec_hook=_dec_hook)
answers = msgspec.json.Decoder(
    RunStarted | LogMessage | ProgressMessage | ItemsMessage | NoteMessage | RunFinished, dec_hook=_dec_hook
)


def frame(value: Struct) -> bytes:
    data = _encoder.encode(value)
    return len(data).to_bytes(4, "big") + data


class Frames:
    """Bytes as they come, cut into whole messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises ValueError for what cannot be the length of a message."""
        self._rest += data
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4], "big")
            if end > LIMIT:
                raise ValueError("no message is that long")
            if len(self._rest) < end:
                return
            whole = bytes(self._rest[4:end])
            del self._rest[:end]
            yield whole
