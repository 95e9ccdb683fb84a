"""What a webhook tells: an event as data, masked and not too long; and the job that delivers it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from ..clock import micros
from ..codec import decode_or_text, encode
from ..ids import new_id
from ..mask import mask, mask_text
from ..records.job import Job, NewJob, State
from ..records.outcome import Outcome, clean
from ..records.run import Ending, Failure, outcome_of
from ..schedule.record import Tick
from .record import EXTRAS, QUEUE, TASK, Extra, Webhook

# Bytes of a body. Standard Webhooks asks for messages of up to 20 kB or so, and many servers take no more than 100.
LIMIT = 65_536
TEXT_LIMIT = 1_000
_KINDS = {State.COMPLETED: "job.completed", State.DEAD: "job.dead", State.CANCELLED: "job.cancelled"}


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell: `about` and `at` say which, so that two who saw it tell it once."""

    kind: str
    at: datetime
    about: str
    job: Job | None = None
    outcome: Outcome | None = None
    facts: Mapping[str, Any] = {}
    """Where it is not about a job."""


def end_of(job: Job, outcome: Outcome) -> str | None:
    """What a run's end means to others; None: nothing, it only waits again."""
    if outcome.state is not State.PENDING:
        return _KINDS.get(outcome.state)
    if job.cancel_reason is not None:  # the store lets no job go on that was asked to stop
        return "job.cancelled"
    postponed = outcome.failure is None or outcome.ending is Ending.RELEASED
    return None if postponed else "job.retrying"


def ended(kind: str, job: Job, outcome: Outcome) -> WebhookEvent:
    return WebhookEvent(kind=kind, at=outcome.finished_at, about=job.id, job=job, outcome=outcome)


def stopped(kind: str, job: Job) -> WebhookEvent:
    """A job that ended without a run, as the store has it."""
    return WebhookEvent(kind=kind, at=job.finished_at or job.created_at, about=job.id, job=job)


def passed(schedule: str, tick: Tick) -> WebhookEvent:
    shown = msgspec.structs.replace(tick, reason=short(tick.reason))
    facts = {"schedule": schedule, "tick": msgspec.to_builtins(shown)}
    return WebhookEvent(kind=f"schedule.{tick.what}", at=tick.seen_at, about=f"{schedule}:{tick.n}", facts=facts)


def delivery(hook: Webhook, event: WebhookEvent, now: datetime, **options: Any) -> NewJob:
    """The job that tells this webhook; whoever else makes one for the same event makes the same."""
    values = {
        "webhook": hook.name,
        "type": event.kind,
        "timestamp": event.at,
        "data": event.facts if event.job is None else told(event.job, event.outcome, event.kind, hook.include),
    }
    return NewJob(
        id=new_id(now), task=TASK, queue=QUEUE, payload=encode(values).decode(),
        idempotency_key=f"{prefix(hook.name)}{event.kind}:{event.about}:{micros(event.at)}", **options,
    )  # fmt: skip


def prefix(name: str) -> str:
    """How the keys of a webhook's deliveries begin."""
    return f"webhook:{name}:"


def told(job: Job, outcome: Outcome | None, kind: str, include: Collection[Extra] = ()) -> dict[str, Any]:
    """A job's summary, and of what may be large or private only what was asked for, and as long as there is room."""
    summary, extras = _summary(job, outcome, kind), _extras(job, outcome, include)
    if len(extras) < len(set(include)):
        summary["truncated"] = True
    while len(encode(summary | extras)) > LIMIT:
        summary["truncated"] = True
        if extras:
            extras.pop(next(name for name in EXTRAS if name in extras))
        else:
            summary["tags"] = []
    return summary | extras


def _summary(job: Job, outcome: Outcome | None, kind: str) -> dict[str, Any]:
    again = kind == "job.retrying" and outcome is not None
    facts: dict[str, Any] = {
        "id": job.id, "task": job.task, "queue": job.queue, "state": kind.partition(".")[2], "attempt": job.attempt,
        "priority": job.priority, "tags": [mask_text(tag) for tag in job.tags], "schedule": job.schedule,
        "scheduled_at": job.scheduled_at, "created_at": job.created_at, "started_at": job.started_at,
        "finished_at": outcome.finished_at if outcome else job.finished_at,
        "run_at": outcome.run_at if again and outcome else None,
        "outcome": outcome_of(outcome.ending, outcome.failure) if outcome else None,
        "items": _items(outcome),
        "error": _error(outcome.failure if outcome else job.failure),
        "reason": None if job.cancel_reason is None else short(job.cancel_reason),
    }  # fmt: skip
    return {name: value for name, value in facts.items() if value is not None}


def _items(outcome: Outcome | None) -> dict[str, int] | None:
    if outcome is None or outcome.account is None or (items := outcome.account.items) is None:
        return None
    return {"success": items.success, "failed": items.failed, "skipped": items.skipped}


def _extras(job: Job, outcome: Outcome | None, include: Collection[Extra]) -> dict[str, Any]:
    """Masked. What would not fit is not even looked at: masking takes time, and the end of a run waits for it."""
    result = outcome.result if outcome else job.result
    known: dict[Extra, Callable[[], str]] = {
        "arguments": lambda: job.payload, "metadata": lambda: encode(job.metadata).decode(),
        "result": lambda: result or "null",
    }  # fmt: skip
    texts = {name: known[name]() for name in EXTRAS if name in include}
    return {name: mask(decode_or_text(text)) for name, text in texts.items() if len(text) <= LIMIT}


def _error(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"type": failure.type, "message": short(failure.message)}


def short(text: str) -> str:
    """Masked first: half a secret has no telling name."""
    return clean(mask_text(text), TEXT_LIMIT)
