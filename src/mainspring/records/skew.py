"""Version skew: what happens to a job whose payload was made by another version of its task. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from ..retry import Backoff
from .job import Job
from .run import Failure

VERSION_SKEW = "VersionSkew"
# The delay before the next run is a share of the time that the job has waited: a quarter at first, between one second
# and one minute, and a sixtieth after an hour. So the job runs soon in a short deploy, and its history stays short in a
# long one: 90 runs in an hour, 310 in a day, 450 in a week.
FIRST_SHARE = 1 / 4
LAST_SHARE = 1 / 60
MIN_DELAY_SECONDS = 1.0
MAX_DELAY_SECONDS = 60.0
# Argument names in a message.
MAX_NAMES = 20


class UndecodablePayload(Struct, frozen=True):
    """The payload does not fit this worker's version of the task. Another version may accept it."""

    failure: Failure
    fingerprint: str | None = None
    """The fingerprint of this worker's version. If the job has the same one, no other version accepts the payload."""
    parameters: str = ""
    skew: float = 0.0
    """Seconds that the job may wait for another version."""
    pace: float = 0.0
    """Minimum seconds until the next try, since this worker has other such jobs to try."""


def judge_skew(job: Job, ended: UndecodablePayload, now: datetime) -> tuple[Failure, datetime | None]:
    """The failure of a run that could not decode its payload, and when the job is tried again (None: never).

    A payload that the same version made is never tried again. Any other one is, until `skew` seconds after the first
    run that could not decode it.
    """
    if not ended.skew or (job.fingerprint is not None and job.fingerprint == ended.fingerprint):
        return ended.failure, None
    since = waiting_since(job) or job.started_at or now
    end, waited = since + timedelta(seconds=ended.skew), (now - since).total_seconds()
    made = "a version of the task that is not known" if job.fingerprint is None else f"version {job.fingerprint}"
    text = (
        f"{ended.failure.message}; its arguments {argument_names(job.payload)} were made by {made}, "
        f"this worker has version {ended.fingerprint} {ended.parameters}"
    )
    if now >= end:
        text = f"{text}. No worker could read it for {timedelta(seconds=int(waited))} (setting skew)"
        remedy = "deploy workers of the version that made it, or change its arguments; then retry it"
        return Failure(VERSION_SKEW, f"{text}: {remedy}"), None
    wait = max(ended.pace, Backoff.constant(_delay(waited)).delay(job.runs, seed=job.id))
    text = f"{text}. If no worker can read it by {end:%Y-%m-%d %H:%M:%S}Z, it is dead"
    return Failure(VERSION_SKEW, text, since=since), min(now + timedelta(seconds=wait), end)


def _delay(waited: float) -> float:
    """Seconds until the next try of a job that has waited this many seconds."""
    delay = min(max(waited * FIRST_SHARE, MIN_DELAY_SECONDS), MAX_DELAY_SECONDS)
    return max(delay, waited * LAST_SHARE)


def waiting_since(job: Job) -> datetime | None:
    """Since when the job waits for a worker with another version of its task. None if it does not."""
    failure = job.failure
    return failure.since if failure is not None and failure.type == VERSION_SKEW else None


def argument_names(payload: str) -> str:
    """The names of a payload's arguments, as text: (to, cc)."""
    try:
        names = list(msgspec.json.decode(payload, type=dict[str, msgspec.Raw]))
    except msgspec.DecodeError:
        names = []
    more = ["…"] if len(names) > MAX_NAMES else []
    return f"({', '.join([*(name[:60] for name in names[:MAX_NAMES]), *more])})"
