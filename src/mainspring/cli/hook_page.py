"""Webhooks, their deliveries and triggers, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from rich.table import Table
from rich.text import Text

from ..codec import decode_or_text
from ..records.job import Job
from ..webhook.inbound import InboundTrigger
from ..webhook.record import Standing, Webhook, abridged_url
from . import render


def webhook_page(hook: Webhook, standing: Standing, now: datetime) -> Text:
    def at(instant: datetime | None) -> str:
        return "" if instant is None else render.exact(instant, now)

    state = "open" if hook.disabled_at is None else f"disabled {at(hook.disabled_at)}: {hook.disabled_reason}"
    facts = {
        "webhook": hook.name,
        "state": state,
        "url": abridged_url(hook.url),
        "events": " ".join(hook.events),
        "queues": _names(hook.queues),
        "tasks": _names(hook.tasks),
        "tags": _names(hook.tags),
        "include": " ".join(hook.include),
        "note": hook.note,
        "made": at(hook.created_at),
        "delivered": at(standing.delivered_at),
        "failed": at(standing.failed_at),
        "failures": f"{standing.failures:,} in a row" if standing.failures else "",
        "error": standing.error,
    }
    return render.facts(facts)


def trigger_page(trigger: InboundTrigger, now: datetime) -> Text:
    target = f"task {trigger.task}" if trigger.task is not None else f"schedule {trigger.schedule}"
    if trigger.signal is not None:
        target = f"signal {trigger.signal} of the job {trigger.job}"
    disabled_at = "" if trigger.disabled_at is None else render.exact(trigger.disabled_at, now)
    arguments = trigger.arguments
    parts = "the whole message" if arguments == "body" else _pairs(arguments)
    facts = {
        "trigger": trigger.name,
        "state": f"disabled {disabled_at}" if disabled_at else "open",
        "sets off": target,
        "queue": trigger.queue or "",
        "priority": "" if trigger.priority is None else str(trigger.priority),
        "arguments": parts,
        "kwargs": msgspec.json.encode(trigger.kwargs).decode() if trigger.kwargs else "",
        "note": trigger.note,
        "made": render.exact(trigger.created_at, now),
    }
    return render.facts(facts)


def delivery_table(jobs: Sequence[Job], now: datetime) -> Table:
    table = render.grid("job", "state", "event", "try", "when", "about", cut=("event", "about"))
    for job in jobs:
        payload = decode_or_text(job.payload)
        event = payload.get("type", "") if isinstance(payload, dict) else ""
        at = render.when(job.finished_at or job.started_at or job.created_at, now)
        about = _response_status(job) if job.result is not None else render.reason(job)
        table.add_row(
            job.id, render.job_state(job, now), render.line(str(event)), str(job.attempt), at, render.line(about)
        )
    return table


def _response_status(job: Job) -> str:
    response = decode_or_text(job.result or "null")
    return f"answered {response['status']}" if isinstance(response, dict) and "status" in response else ""


def _names(names: Sequence[str] | None) -> str:
    return "" if names is None else ", ".join(names)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={part}" for name, part in values.items())
