"""Bounds on what a client may send, in size and in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# A span of one job: its delay, timeout, expiry, backoff, or what a Retry or a Snooze asks for. Who wants a job later
# than that names the instant, with run_at.
MAX_SPAN_SECONDS = 366 * 86_400.0
# A span of a schedule or a key, as long as the longest interval.
MAX_LONG_SPAN_SECONDS = 36_525 * 86_400.0
# Queues, tasks, schedules, tags, leaders.
MAX_NAME_CHARACTERS = 200
MAX_KEY_CHARACTERS = 512
MAX_TAGS = 100
# As JSON.
MAX_METADATA_BYTES = 65_536
# What an operator gives as the reason of an action; a note on a schedule, a webhook or a trigger.
MAX_REASON_CHARACTERS, MAX_NOTE_CHARACTERS = 1024, 1000
# The fixed arguments of a trigger, as JSON, and what it takes out of a message.
MAX_TRIGGER_BYTES = 65_536
# Payloads and metadata in one claim: a job is taken only while those before it have fewer bytes than this.
CLAIM_BYTES = 16 << 20
# Lists and objects of one JSON document, members of its objects, and its texts, the names of members among them:
# decoding is one step for the whole process, and each of these costs up to a third of a microsecond in it.
MAX_CONTAINERS, MAX_MEMBERS, MAX_TEXTS = 200_000, 200_000, 300_000

_LAST = datetime.max.replace(tzinfo=UTC)


def has_too_many_parts(text: str) -> bool:
    """Whether decoding a JSON text would hold up the process, by the signs in it: those within texts count, too."""
    if len(text) <= MAX_CONTAINERS:
        return False
    return text.count("[") + text.count("{") > MAX_CONTAINERS or text.count('"') // 2 > MAX_TEXTS


def later(now: datetime, seconds: float) -> datetime:
    """The instant after a span of one job, which a stored job of an earlier release may have without a bound."""
    span = timedelta(seconds=min(max(seconds, 0.0), MAX_SPAN_SECONDS))
    try:
        return now + span
    except OverflowError:
        return _LAST
