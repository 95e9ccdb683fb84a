"""Records of webhooks: the webhook, its signing secrets, and how its deliveries went. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..bounds import MAX_NOTE_CHARACTERS
from ..errors import BadInput
from ..records.job import Job
from ..task.options import check_name
from .document_repository import DocumentRepository

# The task that delivers events.
TASK = "mainspring.webhook"
# The queue of its jobs.
QUEUE = "webhooks"

Kind = Literal[
    "job.completed", "job.dead", "job.cancelled", "job.expired", "job.retrying",
    "schedule.missed", "schedule.skipped", "schedule.paused",
    "worker.started", "worker.stopped",
]  # fmt: skip
EVENTS: tuple[Kind, ...] = get_args(Kind)
# The event type of a test; webhooks cannot subscribe to it.
TEST_EVENT = "webhook.test"
Extra = Literal["arguments", "metadata", "result"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
# Each event may become a job for every webhook.
MAX_WEBHOOKS = 100
# Names in one filter of a webhook.
MAX_FILTER_NAMES = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Redacted:
    """A parameter whose value the audit trail must not record."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "***"


def secret_or_new(given: str | None) -> str:
    """The given secret, checked; or a new one."""
    from .signature import check_secret, new_secret

    return new_secret() if given is None else check_secret(given)


class SigningSecret(Struct, frozen=True, omit_defaults=True):
    """A secret and its expiry; None: valid until it is rotated."""

    secret: str
    until: datetime | None = None


class SigningSecrets(Struct, frozen=True, omit_defaults=True):
    """The secrets, newest first."""

    keys: tuple[SigningSecret, ...] = ()

    def valid(self, now: datetime) -> list[str]:
        return [key.secret for key in self.keys if key.until is None or key.until > now]

    def rotated(self, secret: str, until: datetime) -> SigningSecrets:
        """The secrets with a new one; the previous one is valid until then, and older ones are dropped."""
        return SigningSecrets((SigningSecret(secret), *(replace(key, until=until) for key in self.keys[:1])))


class Standing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the deliveries of a webhook went; after a crash, `failures` may be one too low."""

    name: str
    revision: int = 1
    failures: int = 0
    """Consecutive failures."""
    failed_at: datetime | None = None
    error: str = ""
    delivered_at: datetime | None = None
    """Accurate to a minute while deliveries succeed."""


class Webhook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription: which events are sent to which URL."""

    name: str
    url: str
    events: tuple[Kind, ...]
    queues: tuple[str, ...] | None = None
    """Filters job events by queue; None: any. The three filters do not apply to schedule and worker events."""
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """The job must have all of these tags."""
    include: tuple[Extra, ...] = ()
    """Large or private fields of a job to include."""
    note: str = ""
    created_at: datetime
    disabled_at: datetime | None = None
    disabled_reason: str = ""
    revision: int = 1

    def wants(self, kind: str, job: Job | None = None) -> bool:
        """Whether it is enabled and subscribes to this event."""
        if kind not in self.events or self.disabled_at is not None:
            return False
        return job is None or (
            (self.queues is None or job.queue in self.queues)
            and (self.tasks is None or job.task in self.tasks)
            and (self.tags is None or set(self.tags) <= set(job.tags))
        )


def audit_facts(shown: Any) -> dict[str, Any]:
    """The record as the audit trail stores it: without its revision, and with an abridged URL."""
    known: dict[str, Any] = to_builtins(shown)
    known.pop("revision", None)
    return known | ({"url": abridged_url(known["url"])} if "url" in known else {})


def abridged_url(url: str) -> str:
    """The URL without path and query, which many services treat as a secret."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/…"


class StoredWebhook(Struct, frozen=True, omit_defaults=True):
    """A stored webhook with its secrets, which are never shown."""

    webhook: Webhook
    keys: SigningSecrets
    revision: int = 1

    @property
    def name(self) -> str:
        return self.webhook.name

    @property
    def shown(self) -> Webhook:
        return replace(self.webhook, revision=self.revision)


WEBHOOKS = DocumentRepository("webhook", StoredWebhook, "webhook")
STANDINGS = DocumentRepository("webhook.standing", Standing, "webhook")


def check_hook_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"a {what}'s name is up to 100 letters, digits, dots, dashes and underscores, got {name!r:.80}: "
            "it is part of URLs"
        )
    return name


def check_choices(what: str, given: Any, among: Sequence[str], *, least: int = 0) -> tuple[Any, ...]:
    """The given choices in the order of `among`. Raises BadInput for any other."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) < least:
        raise BadInput(f"{what} takes a list of {least or 'any'} or more of: {', '.join(among)}; got {given!r:.80}")
    for one in given:
        if one not in among:
            raise BadInput(f"{what}: {one!r:.80} is none of: {', '.join(among)}")
    return tuple(one for one in among if one in given)


def check_names(what: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or not 0 < len(given) <= MAX_FILTER_NAMES:
        raise BadInput(f"{what} takes a list of 1 to {MAX_FILTER_NAMES} names, or None for any; got {given!r:.80}")
    return tuple(check_name(name, what.removesuffix("s")) for name in given)


def check_note(note: Any) -> str:
    if not isinstance(note, str) or len(note) > MAX_NOTE_CHARACTERS:
        raise BadInput(f"a note is text of at most {MAX_NOTE_CHARACTERS:,} characters")
    return note
