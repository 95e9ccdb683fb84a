"""The messages between a worker and its child processes: JSON values, each preceded by its length."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..codec import decode_or_text, encode
from ..records.job import Job
from ..records.outcome import Cancel, Directive, Discard, Finish, Retry, Skip, Snooze, failure_of
from ..records.run import Failure, Usage

# Longer than any request or report: a larger length means that the stream is garbled.
MAX_MESSAGE_BYTES = 2**28


class RunRequest(Struct, frozen=True, kw_only=True, tag="Run"):
    """To a child: run this function. Its import path comes from the worker's registry, never from stored data."""

    module: str
    qualname: str
    main: str | None = None
    """The file of the worker's __main__ module, if the function is in it."""
    job: Job
    timeout: float | None = None
    deadline: datetime | None = None
    soft_timeout: float | None = None
    """Seconds after which an interruption is raised inside the function."""
    memory_limit: int | None = None
    """Bytes the run may add to what the process held at its start: imports and earlier runs do not count."""
    cpu_limit: float | None = None
    """CPU seconds."""
    result_limit: int
    setup: tuple[str, str] | None = None
    """A function, as module:name, that a new child calls before it imports a task, and its argument."""


# while it runs


class RunStarted(Struct, frozen=True, tag="Began"):
    """The run begins. Sent only for a request with a soft timeout, which counts from here."""


class LogMessage(Struct, frozen=True, tag="LogLine"):
    level: int
    text: str


class ProgressMessage(Struct, frozen=True, tag="Progress"):
    done: float
    total: float | None = None
    note: str = ""


class OutputMessage(Struct, frozen=True, tag="Output"):
    text: str
    """A chunk of output, as JSON."""


class ItemsMessage(Struct, frozen=True, tag="Items"):
    success: int = 0
    failed: int = 0
    skipped: int = 0


class NoteMessage(Struct, frozen=True, tag="Note"):
    metadata: dict[str, Any]


Message = LogMessage | ProgressMessage | OutputMessage | ItemsMessage | NoteMessage


# durable steps: what a child asks while it runs. Its questions are numbered; it waits for the answer to each.


class StepBegins(Struct, frozen=True, tag="StepBegins"):
    """What is stored of this step? The answer has its name with the number of the call, too."""

    n: int
    name: str


class StepReturned(Struct, frozen=True, tag="StepReturned"):
    """Store this value of a step. Answered when it is stored."""

    n: int
    key: str
    text: str


class StepFailed(Struct, frozen=True, tag="StepFailed"):
    """A step has ended without a value. Has no answer."""

    n: int


class SleepAsked(Struct, frozen=True, tag="Sleep"):
    n: int
    seconds: float
    name: str | None = None


class SignalAsked(Struct, frozen=True, tag="Signal"):
    """What was given? Without a value in the answer: the call returns its default."""

    n: int
    name: str
    seconds: float | None = None
    has_default: bool = False


class Answer(Struct, frozen=True, tag="Answer"):
    """To a child."""

    n: int
    key: str = ""
    text: str | None = None
    error: Failure | None = None
    """What the call raises in the child; its type is the name of the class."""


Question = StepBegins | StepReturned | StepFailed | SleepAsked | SignalAsked


# how it ended

RaisedKind = Literal["error", "timeout", "memory", "cpu", "unreadable", "suspended"]


class Returned(Struct, frozen=True, tag="Returned"):
    """The function returned. `note`: why its result could not be kept; None if it was."""

    result: str | None = None
    note: Failure | None = None
    usage: Usage | None = None


class RunSteered(Struct, frozen=True, tag="Steered"):
    """The function returned or raised a Retry, Snooze, Discard, Cancel, Skip or Finish."""

    steer: Directive
    usage: Usage | None = None


class Raised(Struct, frozen=True, tag="Raised"):
    """The function raised, was interrupted, or went over a limit."""

    failure: Failure
    kind: RaisedKind = "error"
    bases: tuple[str, ...] = ()
    """The exception's class and its bases by name, for the task's retry rules; empty if the function did not raise."""
    usage: Usage | None = None
    version: tuple[str, str] | None = None
    """For kind "unreadable": the fingerprint and the parameters of the function in this process."""


class ProcessDiedMessage(Struct, frozen=True):
    """The process ended during the run."""

    reason: str
    usage: Usage | None = None


class RunFinished(Struct, frozen=True, tag="Report"):
    """A child's final report on a run."""

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
        case Skip():
            return "skip", None, reason
        case Finish(value=result):
            return "finish", encode(result).decode(), reason
    raise TypeError(f"a message cannot contain {type(value).__name__}")


def _dec_hook(_wanted: Any, value: Any) -> Directive:
    kind, detail, reason = value
    match kind:
        case "retry":
            return Retry(detail, reason)
        case "snooze":
            return Snooze(detail, reason)
        case "discard":
            return Discard(reason)
        case "skip":
            return Skip(reason)
        case "finish":
            return Finish(decode_or_text(detail))
    return Cancel(reason)


def as_decoded(steer: Directive) -> Directive:
    """The directive as the worker will decode it. Raises if that is not possible."""
    return _dec_hook(Directive, _enc_hook(steer))


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
requests = msgspec.json.Decoder(RunRequest | Answer, dec_hook=_dec_hook)
replies = msgspec.json.Decoder(RunStarted | Message | Question | RunFinished, dec_hook=_dec_hook)


def frame(value: Struct) -> bytes:
    data = _encoder.encode(value)
    return len(data).to_bytes(4, "big") + data


class Frames:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the messages completed by `data`. Raises ValueError for an impossible length."""
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if end > MAX_MESSAGE_BYTES:
                raise ValueError("a message of that length is impossible")
            if len(self._buffer) < end:
                return
            whole = bytes(self._buffer[4:end])
            del self._buffer[:end]
            yield whole
