"""What a webhook is: where to tell what, to whom in confidence, and how that has gone. No I/O, no clock."""

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

# The task that delivers, and the queue of its jobs.
TASK, QUEUE = "mainspring.webhook", "webhooks"

Kind = Literal[
    "job.completed", "job.dead", "job.cancelled", "job.expired", "job.retrying",
    "schedule.missed", "schedule.skipped", "schedule.paused",
    "worker.started", "worker.stopped",
]  # fmt: skip
EVENTS: tuple[Kind, ...] = get_args(Kind)
# What goes with a test, and cannot be asked for.
TEST = "webhook.test"
Extra = Literal["arguments", "metadata", "result"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
# As each event may be a job for every webhook.
MOST = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Redacted:
    """Something on its way that no trail repeats."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "***"


def secret_of(given: str | None) -> str:
    """One that was chosen, or a new one."""
    from .signature import checked_secret, new_secret

    return new_secret() if given is None else checked_secret(given)


class SigningSecret(Struct, frozen=True, omit_defaults=True):
    """A secret, and until when it holds; None: until another takes its place."""

    secret: str
    until: datetime | None = None


class SigningSecrets(Struct, frozen=True, omit_defaults=True):
    """The newest first."""

    keys: tuple[SigningSecret, ...] = ()

    def valid(self, now: datetime) -> list[str]:
        return [key.secret for key in self.keys if key.until is None or key.until > now]

    def rotated(self, secret: str, until: datetime) -> SigningSecrets:
        """With a new one; the one before it holds until then, and any older one no longer."""
        return SigningSecrets((SigningSecret(secret), *(replace(key, until=until) for key in self.keys[:1])))


class Standing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How deliveries have gone; a figure for people, which a crash may leave behind by one."""

    name: str
    revision: int = 1
    failures: int = 0
    """In a row, up to now."""
    failed_at: datetime | None = None
    error: str = ""
    delivered_at: datetime | None = None
    """To the minute, while all goes well."""


class Webhook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    url: str
    events: tuple[Kind, ...]
    queues: tuple[str, ...] | None = None
    """Of which jobs it is told; None: all. Schedules and workers pass these three filters."""
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """All of them must be on the job."""
    include: tuple[Extra, ...] = ()
    """What of a job goes along that may be large or private."""
    note: str = ""
    created_at: datetime
    disabled_at: datetime | None = None
    disabled_reason: str = ""
    revision: int = 1

    def wants(self, kind: str, job: Job | None = None) -> bool:
        if kind not in self.events or self.disabled_at is not None:
            return False
        return job is None or (
            (self.queues is None or job.queue in self.queues)
            and (self.tasks is None or job.task in self.tasks)
            and (self.tags is None or set(self.tags) <= set(job.tags))
        )


def facts(shown: Any) -> dict[str, Any]:
    """For the audit trail: that it was changed says nothing of how."""
    known: dict[str, Any] = to_builtins(shown)
    known.pop("revision", None)
    return known | ({"url": abridged(known["url"])} if "url" in known else {})


def abridged(url: str) -> str:
    """Whose it is. The rest of it is a secret to many a service: who knows it may write there."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/…"


class StoredWebhook(Struct, frozen=True, omit_defaults=True):
    """A webhook as the store has it: with its secrets, which nobody else gets to see."""

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


def checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"a {what}'s name is up to 100 letters, digits, dots, dashes and underscores, got {name!r:.80}: "
            "it is part of URLs"
        )
    return name


def chosen(what: str, given: Any, among: Sequence[str], *, least: int = 0) -> tuple[Any, ...]:
    """Some of a closed list, in the order of the list."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) < least:
        raise BadInput(f"{what} takes a list of {least or 'any'} or more of: {', '.join(among)}; got {given!r:.80}")
    for one in given:
        if one not in among:
            raise BadInput(f"{what}: {one!r:.80} is none of: {', '.join(among)}")
    return tuple(one for one in among if one in given)


def names(what: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or not 0 < len(given) <= MOST:
        raise BadInput(f"{what} takes a list of 1 to {MOST} names, or None for any; got {given!r:.80}")
    return tuple(check_name(name, what.removesuffix("s")) for name in given)


def noted(note: Any) -> str:
    if not isinstance(note, str) or len(note) > MAX_NOTE_CHARACTERS:
        raise BadInput(f"a note is text of at most {MAX_NOTE_CHARACTERS:,} characters")
    return note
