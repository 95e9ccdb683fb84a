"""Every record of a store, decoded, as JSON in public field names."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import msgspec

from golden.fill import POSTED_ID
from mainspring import AuditFilter, Filter, Job, Mainspring
from mainspring.clock import EPOCH
from mainspring.store import Store

# By record class and attribute, the name in expected.json. A renamed attribute gets a line here; expected.json stays.
RENAMED: dict[tuple[str, str], str] = {("Job", "detached"): "beside"}
KINDS = (
    "answer", "depth", "etag", "key", "key_use", "queue_pauses", "session", "trigger", "trigger.call", "webhook",
    "webhook.standing", "welcome",
)  # fmt: skip
# Drawn at random by each store.
_LEASE = re.compile(r'("lease": )"[0-9a-f]{16}"')
_WORKER = re.compile(r'"golden-\d+-[0-9a-f]{8}"')


def plain(value: Any) -> Any:
    """Records as objects, by public name; what is at its default is left out."""
    if isinstance(value, msgspec.Struct):
        return {
            RENAMED.get((type(value).__name__, name), name): plain(one)
            for name in value.__struct_fields__
            if (one := getattr(value, name)) is not msgspec.UNSET and one not in (None, (), {}, "", 0, False)
        }
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return msgspec.to_builtins(value)


def text_of(found: dict[str, Any]) -> str:
    text = json.dumps(plain(found), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return _WORKER.sub('"golden-worker"', _LEASE.sub(r'\1"lease"', text))


async def decoded(app: Mainspring, now: datetime) -> str:
    """What every reading verb answers, as text that is the same for every store."""
    store = await app.connect()
    return text_of(await _records(app, store, now))


def _job(job: Job) -> dict[str, Any]:
    """Stores may differ in what they read of a job whose record cannot be decoded, and that was set aside."""
    found: dict[str, Any] = plain(job)
    return {name: one for name, one in found.items() if not job.unreadable or name not in ("lease", "started_at")}


async def _records(app: Mainspring, store: Store, now: datetime) -> dict[str, Any]:
    jobs = await store.jobs(Filter(), now=now, limit=1000)
    rows = await store.schedules(limit=1000)
    tomorrow, feed = now + timedelta(days=1), await store.news(after=0, limit=1000)
    overview = await store.overview(now=now)
    return {
        "jobs": [_job(job) for job in jobs],
        "shown": {job.id: [job.shown(now), job.outcome(now), list(job.actions(now))] for job in jobs},
        "executions": {job.id: runs for job in jobs if (runs := await store.executions(job.id))},
        "logs": {job.id: lines for job in jobs if (lines := await store.logs(job.id, limit=1000))},
        "schedules": rows,
        "rules": {row.name: [row.status, row.explain()] for row in rows},
        "ticks": {row.name: await store.ticks(row.name, limit=1000) for row in rows},
        "due": [row.name for row in (await store.due(now=tomorrow, limit=1000, computed=["computed"])).schedules],
        "leaders": await store.terms(now=now),
        "queues": await app.queues.list(),
        "pauses": {name: await app.queues.pauses(name) for name in ("mail", "sync")},
        "depth": await app.queues.history(),
        "workers": await store.workers(now=now),
        "silent": [job.id for job in await store.orphaned(now=tomorrow, limit=1000)],
        "counts": overview.states,
        "tallies": {span: await store.tallies(span, since=EPOCH) for span in ("minute", "hour", "day", "ever")},
        "circuits": overview.circuits,
        "dead": await store.dead_groups(limit=1000),
        "finished": sorted(await store.finished_groups()),
        "documents": {
            kind: [[one.name, one.revision, one.expires_at] for one in await store.documents(kind, now=now, limit=1000)]
            for kind in KINDS
        },
        "keys": await app.keys.list(),
        "webhooks": await app.webhooks.list(),
        "standings": await app.webhooks.standings(),
        "triggers": await app.triggers.list(),
        "audit": await store.audit(AuditFilter(), limit=1000),
        "watched": feed.wanted_until,
        "feed": {"news": feed.news, "first": feed.first, "last": feed.last},
        "enqueued by hand": [await app.audit.enqueued_by(job) for job in jobs if job.payload == '{"to":"by hand"}'],
        "posted": await app.jobs.get(POSTED_ID),
    }
