"""Inbound triggers: signed messages from other servers that enqueue a job, fire a schedule or give a signal.

No I/O, no clock.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..bounds import MAX_CONTAINERS, MAX_TEXTS, MAX_TRIGGER_BYTES, has_too_many_parts
from ..codec import encode
from ..errors import BadInput, BadPayload, NotSigned, Stale
from .document_repository import DocumentRepository
from .record import SigningSecrets

MAX_TRIGGERS = 1000
# How far a message's timestamp may differ from now.
TIMESTAMP_TOLERANCE = timedelta(minutes=5)
MAX_ID_CHARACTERS = 200
# The path of the whole message in `arguments`.
BODY = "body"
UNSIGNED = "the signature does not hold, or there is no such trigger"
# Verified against if there is no trigger, so that this takes as long as a wrong signature.
_DUMMY_SECRET = "whsec_" + b64encode(secrets.token_bytes(32)).decode()


class InboundTrigger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message to this trigger starts, and with which arguments."""

    name: str
    task: str | None = None
    """The task to enqueue; or None, and `schedule` is fired, or `signal` is given."""
    schedule: str | None = None
    signal: str | None = None
    """The signal of a flow, or of another job, whose value are the arguments."""
    job: str | None = None
    """With `signal`: where the message has the id of that job, such as body.data.flow."""
    queue: str | None = None
    priority: int | None = None
    kwargs: Mapping[str, Any] = {}
    """Fixed arguments."""
    arguments: Literal["body"] | Mapping[str, str] = {}
    """Arguments from the message. "body": its members, by name. Or a path for each argument: {"event": "body"} or
    {"order": "body.data.id"}."""
    note: str = ""
    created_at: datetime
    disabled_at: datetime | None = None
    revision: int = 1

    def job_id(self, body: bytes) -> str:
        """The id of the job that gets the signal. Raises BadPayload if the message has none."""
        (found,) = _message_arguments({"job": self.job or BODY}, body).values()
        if not isinstance(found, str):
            raise BadPayload(f"the message has no id of a job as {self.job!r}, which is text")
        return found

    def values(self, body: bytes) -> dict[str, Any]:
        """The arguments of a call. Raises BadPayload if the message has an argument that is fixed."""
        given = _message_arguments(self.arguments, body) if self.arguments else {}
        if twice := sorted(given.keys() & self.kwargs.keys()):
            raise BadPayload(f"trigger {self.name!r} gives argument {twice[0]!r} itself; leave it out of the message")
        return {**given, **self.kwargs}


class StoredTrigger(Struct, frozen=True, omit_defaults=True):
    """A stored trigger with its secrets, which are never shown."""

    trigger: InboundTrigger
    keys: SigningSecrets
    revision: int = 1

    @property
    def name(self) -> str:
        return self.trigger.name

    @property
    def shown(self) -> InboundTrigger:
        return replace(self.trigger, revision=self.revision)


TRIGGERS = DocumentRepository("trigger", StoredTrigger, "trigger")


class Call(Struct, frozen=True, kw_only=True):
    """A received message, not yet verified."""

    id: str
    timestamp: str
    signature: str
    body: bytes

    def authenticate(self, stored: StoredTrigger | None, now: datetime) -> StoredTrigger:
        """The trigger if the signature is valid. Takes as long for an unknown trigger as for a wrong signature."""
        from .signature import is_signed

        keys = [] if stored is None or stored.trigger.disabled_at is not None else stored.keys.valid(now)
        signed = is_signed(
            [*keys, _DUMMY_SECRET, _DUMMY_SECRET][:2], self.id, self.timestamp, self.signature, self.body
        )
        if not signed or stored is None:
            raise NotSigned(UNSIGNED)
        if abs(now.timestamp() - _seconds(self.timestamp)) > TIMESTAMP_TOLERANCE.total_seconds():
            raise Stale(
                f"the message's timestamp is more than {TIMESTAMP_TOLERANCE.seconds // 60} minutes from now: "
                "sign it again"
            )
        if not 0 < len(self.id) <= MAX_ID_CHARACTERS or not self.id.isprintable():
            raise BadInput(f"webhook-id is 1 to {MAX_ID_CHARACTERS} printable characters")
        return stored


def _seconds(timestamp: str) -> int:
    return int(timestamp[:12]) if timestamp.isascii() and timestamp.isdigit() else 0


def check_arguments(given: Any) -> Literal["body"] | dict[str, str]:
    if given == BODY:
        return "body"
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadInput(f'arguments is "body", or a mapping such as {{"event": "body"}}; got {given!r:.80}')
    if sum(len(name) + len(str(path)) for name, path in given.items()) > MAX_TRIGGER_BYTES:
        raise BadInput(f"arguments of a trigger have at most {MAX_TRIGGER_BYTES:,} characters together")
    for name, path in given.items():
        if not isinstance(path, str) or path.partition(".")[0] != BODY or "" in path.split("."):
            raise BadInput(
                f'argument {name!r} is taken from "body", or from a part of it such as "body.data.id"; got {path!r:.80}'
            )
    return dict(given)


def check_kwargs(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadInput(f"kwargs are given as a mapping by name, got {given!r:.80}")
    text = encode(dict(given))
    if len(text) > MAX_TRIGGER_BYTES:
        raise BadInput(f"kwargs of a trigger have at most {MAX_TRIGGER_BYTES:,} bytes as JSON, got {len(text):,}")
    copied: dict[str, Any] = msgspec.json.decode(text)
    return copied


def _message_arguments(arguments: Literal["body"] | Mapping[str, str], body: bytes) -> dict[str, Any]:
    try:
        text = body.decode()
        if has_too_many_parts(text):
            raise BadPayload(f"the message has more than {MAX_CONTAINERS:,} lists and objects, or {MAX_TEXTS:,} texts")
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
        raise BadPayload(f"the message is not JSON: {bad}") from None
    if isinstance(arguments, str):
        if not isinstance(data, dict):
            raise BadPayload("the message is not a JSON object, whose members would be the arguments")
        return data
    return {name: _value_at(data, path) for name, path in arguments.items()}


def _value_at(data: Any, path: str) -> Any:
    for step in path.split(".")[1:]:
        if not isinstance(data, dict) or step not in data:
            raise BadPayload(f"the message has no {path!r}")
        data = data[step]
    return data
