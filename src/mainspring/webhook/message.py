"""Messages of webhooks: an event as masked data of limited size, and the job that delivers it. Pure."""

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

# Standard Webhooks recommends up to 20 kB, and many servers accept no more than 100 kB.
MAX_BODY_BYTES = 65_536
MAX_TEXT_CHARACTERS = 1_000
_KINDS = {State.COMPLETED: "job.completed", State.DEAD: "job.dead", State.CANCELLED: "job.cancelled"}


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to deliver. `kind`, `about` and `at` identify it: two processes that saw it make one delivery."""

    kind: str
    at: datetime
    about: str
    job: Job | None = None
    outcome: Outcome | None = None
    facts: Mapping[str, Any] = {}
    """The data of an event that is not about a job."""


def end_kind(job: Job, outcome: Outcome) -> str | None:
    """The event type of a run's end; None if there is none, because the job only waits again."""
    if outcome.state is not State.PENDING:
        return _KINDS.get(outcome.state)
    if job.cancel_reason is not None:  # the store does not let a cancelled job continue
        return "job.cancelled"
    postponed = outcome.failure is None or outcome.ending is Ending.RELEASED
    return None if postponed else "job.retrying"


def run_ended_event(kind: str, job: Job, outcome: Outcome) -> WebhookEvent:
    """The event of a run that ended with this outcome."""
    return WebhookEvent(kind=kind, at=outcome.finished_at, about=job.id, job=job, outcome=outcome)


def job_ended_event(kind: str, job: Job) -> WebhookEvent:
    """The event of a stored job that ended without a run."""
    return WebhookEvent(kind=kind, at=job.finished_at or job.created_at, about=job.id, job=job)


def tick_event(schedule: str, tick: Tick) -> WebhookEvent:
    """The event of a skipped or missed tick."""
    shown = msgspec.structs.replace(tick, reason=masked_text(tick.reason))
    facts = {"schedule": schedule, "tick": msgspec.to_builtins(shown)}
    return WebhookEvent(kind=f"schedule.{tick.what}", at=tick.seen_at, about=f"{schedule}:{tick.n}", facts=facts)


def delivery_job(hook: Webhook, event: WebhookEvent, now: datetime, **options: Any) -> NewJob:
    """The job that delivers the event; its idempotency key is the same in every process that saw the event."""
    values = {
        "webhook": hook.name,
        "type": event.kind,
        "timestamp": event.at,
        "data": event.facts if event.job is None else job_data(event.job, event.outcome, event.kind, hook.include),
    }
    return NewJob(
        id=new_id(now),
        task=TASK,
        queue=QUEUE,
        payload=encode(values).decode(),
        idempotency_key=f"{key_prefix(hook.name)}{event.kind}:{event.about}:{micros(event.at)}",
        **options,
    )


def key_prefix(name: str) -> str:
    """Prefix of the idempotency keys of a webhook's deliveries."""
    return f"webhook:{name}:"


def job_data(job: Job, outcome: Outcome | None, kind: str, include: Collection[Extra] = ()) -> dict[str, Any]:
    """A job's summary, with the large or private extras that the webhook includes, as far as they fit."""
    summary, extras = _summary(job, outcome, kind), _extras(job, outcome, include)
    if len(extras) < len(set(include)):
        summary["truncated"] = True
    while len(encode(summary | extras)) > MAX_BODY_BYTES:
        summary["truncated"] = True
        if extras:
            extras.pop(next(name for name in EXTRAS if name in extras))
        else:
            summary["tags"] = []
    return summary | extras


def _summary(job: Job, outcome: Outcome | None, kind: str) -> dict[str, Any]:
    retries = kind == "job.retrying" and outcome is not None
    facts: dict[str, Any] = {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": kind.partition(".")[2],
        "attempt": job.attempt,
        "priority": job.priority,
        "tags": [mask_text(tag) for tag in job.tags],
        "schedule": job.schedule,
        "scheduled_at": job.scheduled_at,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": outcome.finished_at if outcome else job.finished_at,
        "run_at": outcome.run_at if retries and outcome else None,
        "outcome": outcome_of(outcome.ending, outcome.failure) if outcome else None,
        "items": _items(outcome),
        "error": _error(outcome.failure if outcome else job.failure),
        "reason": None if job.cancel_reason is None else masked_text(job.cancel_reason),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _items(outcome: Outcome | None) -> dict[str, int] | None:
    if outcome is None or outcome.account is None or (items := outcome.account.items) is None:
        return None
    return {"success": items.success, "failed": items.failed, "skipped": items.skipped}


def _extras(job: Job, outcome: Outcome | None, include: Collection[Extra]) -> dict[str, Any]:
    """The masked extras. One that is too large is not even masked, since the end of a run waits for this."""
    result = outcome.result if outcome else job.result
    sources: dict[Extra, Callable[[], str]] = {
        "arguments": lambda: job.payload,
        "metadata": lambda: encode(job.metadata).decode(),
        "result": lambda: result or "null",
    }
    texts = {name: sources[name]() for name in EXTRAS if name in include}
    return {name: mask(decode_or_text(text)) for name, text in texts.items() if len(text) <= MAX_BODY_BYTES}


def _error(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"type": failure.type, "message": masked_text(failure.message)}


def masked_text(text: str) -> str:
    """The text masked, then cut: a cut may separate a secret from the name that gives it away."""
    return clean(mask_text(text), MAX_TEXT_CHARACTERS)
