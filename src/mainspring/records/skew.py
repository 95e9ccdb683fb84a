"""Version skew: what becomes of a job whose payload another version of its task has made. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from ..retry import Backoff
from .job import Job
from .run import Failure

VERSION_SKEW = "VersionSkew"
# The delay is a share of the time that the job has waited: a quarter at first, from one second to a minute, and a
# sixtieth after an hour. So it is soon taken in a short deploy, and its history stays short in a long one: 90 runs in
# an hour, 310 in a day, 450 in a week.
FIRST_SHARE, LAST_SHARE = 1 / 4, 1 / 60
MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
MAX_NAMES = 20


class UndecodablePayload(Struct, frozen=True):
    """The payload does not fit the task as this worker has it; another version of the task may still take it."""

    failure: Failure
    fingerprint: str | None = None
    """Of the task here. If it is the job's own, no other version will take the payload either."""
    parameters: str = ""
    skew: float = 0.0
    """Seconds that the job may wait for another version."""
    pace: float = 0.0
    """Seconds before which it is not to be tried again, since this worker has others to try."""


def judge_skew(job: Job, ended: UndecodablePayload, now: datetime) -> tuple[Failure, datetime | None]:
    """Why the payload does not fit this worker's version of the task, and when a worker tries again; None: never.

    A payload that was made by the same version is never tried again, any other one until `skew` seconds after the first
    run that could not read it.
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
        told = f"{text}. No worker could read it for {timedelta(seconds=int(waited))} (setting skew)"
        way = "deploy workers of the version that made it, or change its arguments; then retry it"
        return Failure(VERSION_SKEW, f"{told}: {way}"), None
    wait = max(ended.pace, Backoff.constant(_delay(waited)).delay(job.runs, seed=job.id))
    text = f"{text}. If no worker can read it by {end:%Y-%m-%d %H:%M:%S}Z, it is dead"
    return Failure(VERSION_SKEW, text, since=since), min(now + timedelta(seconds=wait), end)


def _delay(waited: float) -> float:
    soon = min(max(waited * FIRST_SHARE, MIN_DELAY_SECONDS), MAX_DELAY_SECONDS)
    return max(soon, waited * LAST_SHARE)


def waiting_since(job: Job) -> datetime | None:
    """Since when it waits for a worker with another version of its task; None: it does not."""
    failure = job.failure
    return failure.since if failure is not None and failure.type == VERSION_SKEW else None


def argument_names(payload: str) -> str:
    """The names of a payload's arguments: (to, cc)."""
    try:
        names = list(msgspec.json.decode(payload, type=dict[str, msgspec.Raw]))
    except msgspec.DecodeError:
        names = []
    more = ["…"] if len(names) > MAX_NAMES else []
    return f"({', '.join([*(name[:60] for name in names[:MAX_NAMES]), *more])})"
