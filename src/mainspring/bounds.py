"""Bounds on the size and the time spans of what a client may send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# The longest span of a job: its delay, timeout, expiry or backoff, or that of a Retry or Snooze. A job can be run later
# than that with run_at.
MAX_SPAN_SECONDS = 366 * 86_400.0
# Jobs of a batch that are stored at once.
BATCH_PAGE_JOBS = 1000
# The longest span of a schedule or a key, as long as the longest interval.
MAX_LONG_SPAN_SECONDS = 36_525 * 86_400.0
# The name of a queue, task, schedule, tag or leader.
MAX_NAME_CHARACTERS = 200
MAX_KEY_CHARACTERS = 512
MAX_TAGS = 100
# A job's metadata, as JSON.
MAX_METADATA_BYTES = 65_536
# An operator's reason for an action.
MAX_REASON_CHARACTERS = 1024
# A note on a schedule, a webhook or a trigger.
MAX_NOTE_CHARACTERS = 1000
# The fixed arguments of a trigger, as JSON, and the values it takes from a message.
MAX_TRIGGER_BYTES = 65_536
# Payloads and metadata in one claim: a job is claimed only while the jobs before it have fewer bytes than this.
CLAIM_BYTES = 16 << 20
# A text whose secrets are masked. A longer one is hidden: each pattern scans it all, and blocks the process meanwhile.
MAX_TEXT_CHARACTERS = 1 << 20
# Parts of one JSON document. Decoding blocks the whole process, and each part costs up to a third of a microsecond.
# Lists and objects.
MAX_CONTAINERS = 200_000
# Members of objects.
MAX_MEMBERS = 200_000
# Texts, including the names of members.
MAX_TEXTS = 300_000

_LAST = datetime.max.replace(tzinfo=UTC)


def has_too_many_parts(text: str) -> bool:
    """Whether decoding a JSON text would block the process for too long. Brackets and quotes within texts count too."""
    if len(text) <= MAX_CONTAINERS:
        return False
    return text.count("[") + text.count("{") > MAX_CONTAINERS or text.count('"') // 2 > MAX_TEXTS


def later(now: datetime, seconds: float) -> datetime:
    """The instant `seconds` after `now`. The span is bounded: a job of an earlier release may have any span."""
    span = timedelta(seconds=min(max(seconds, 0.0), MAX_SPAN_SECONDS))
    try:
        return now + span
    except OverflowError:
        return _LAST
