"""Where a job can be found, as a function of the job alone: what changes of it is what has to be written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from ...clock import micros
from ...records.job import FINAL, IDEMPOTENT_STATES, POISON_SUSPECT_CRASHES, UNFINISHED, Job, State
from .records import packed, place

Arguments = tuple[str | bytes | int, ...]
# Microseconds by which the time in an id may differ from when the job was made; others are in a set of their own.
NEAR = 60_000_000
# Final states of which there are few among many, and so they are kept in the order of creation, too.
LISTED = ("dead", "cancelled")


class IndexEntry(NamedTuple):
    """A member of a set, a sorted set, or of one of the two that claims read."""

    kind: Literal["set", "sorted", "ready"]
    key: str
    member: bytes
    score: int = 0


def group(queue: str, task: str) -> str:
    return f"{queue}\0{task}"


def tells(id: bytes, created_at: int) -> bool:
    """Whether the id says, near enough, when its job was made."""
    return len(id) == 16 and abs(int.from_bytes(id[:6], "big") * 1000 - created_at) <= NEAR


def ids_of(created_after: datetime | None, created_before: datetime | None) -> tuple[bytes, bytes]:
    """Between which ids those lie that tell when their jobs were made, as ranges are asked for."""
    low, high = b"-", b"+"
    if created_after is not None and (first := micros(created_after) - NEAR) > 0:
        low = b"[" + (first // 1000).to_bytes(6, "big")
    if created_before is not None and 0 <= (last := (micros(created_before) + NEAR) // 1000 + 1) < 2**48:
        high = b"(" + last.to_bytes(6, "big")
    return low, high


def spots(job: Job) -> Iterator[IndexEntry]:
    id, its = packed(job.id), group(job.queue, job.task)
    yield IndexEntry("sorted", f"made:{its}", id)
    yield IndexEntry("set", "groups", its.encode())
    if not tells(id, micros(job.created_at)):
        yield IndexEntry("sorted", "odd", id)
    for tag in job.tags:
        yield IndexEntry("sorted", f"tag:{tag}", id)
    if job.schedule is not None:
        yield IndexEntry("sorted", f"made-by:{job.schedule}", id)
    if job.failure is not None:
        yield IndexEntry("sorted", f"error:{job.failure.kind}", id)
    for key in (job.unique_key, job.idempotency_key):
        if key is not None:
            yield IndexEntry("sorted", "keys", key.encode() + b"\0" + id)
    yield from _by_state(job, id, its)


def _by_state(job: Job, id: bytes, its: str) -> Iterator[IndexEntry]:
    if job.crashes >= POISON_SUSPECT_CRASHES and job.state in (State.PENDING, State.RUNNING):
        yield IndexEntry("set", "suspect", id)
    if job.state is State.PENDING:
        run_at = micros(job.run_at)
        if job.crashes < POISON_SUSPECT_CRASHES:
            yield IndexEntry("ready", its, place(job.priority, run_at, id), run_at)
        if job.expires_at is not None:
            yield IndexEntry("sorted", "expiring", id, micros(job.expires_at))
        if job.attempt and job.crashes < POISON_SUSPECT_CRASHES:
            yield IndexEntry("sorted", f"again:{job.queue}", id, run_at)
    elif job.state is State.RUNNING:
        yield IndexEntry("set", f"held:{job.worker}", id)
        yield IndexEntry("set", "holders", (job.worker or "").encode())
    elif not job.state.final:
        yield IndexEntry("set", f"parked:{job.state.value}\0{job.queue}", id)
        yield IndexEntry("set", "parks", f"{job.state.value}\0{job.queue}".encode())
    else:
        at = 0 if job.finished_at is None else micros(job.finished_at)
        yield IndexEntry("sorted", f"ended:{job.state.value}\0{job.task}", id, at)
        yield IndexEntry("set", "ends", f"{job.state.value}\0{job.task}".encode())
        if job.state.value in LISTED:
            yield IndexEntry("sorted", f"final:{job.state.value}\0{job.task}", id)
        if job.state is State.DEAD and job.failure is not None:
            yield IndexEntry("sorted", f"dead:{job.task}\0{job.failure.kind}", id, at)
            yield IndexEntry("set", "kinds", f"{job.task}\0{job.failure.kind}".encode())


def final_spots(id: bytes, task: str) -> Iterator[IndexEntry]:
    """Where a job may be that has ended, if its record does not say how."""
    for state in sorted(FINAL):
        yield IndexEntry("sorted", f"ended:{state.value}\0{task}", id)
        yield IndexEntry("sorted", f"final:{state.value}\0{task}", id)


# Names of what there may be something of, and what its key begins with. They stay until tidy.lua finds nothing there.
REGISTERS = {"groups": "made:", "holders": "held:", "parks": "parked:", "ends": "ended:", "kinds": "dead:"}


def moves(base: str, old: Job | None, new: Job | None, now: int) -> Iterator[Arguments]:
    """The commands that put every entry of the old job where the new one's are."""
    before = set() if old is None else set(spots(old))
    after = set() if new is None else set(spots(new))
    stirred = set()
    for spot in before - after:
        if spot.key in REGISTERS:
            continue
        match spot.kind:
            case "set":
                yield "SREM", f"{base}:{spot.key}", spot.member
            case "sorted":
                yield "ZREM", f"{base}:{spot.key}", spot.member
            case "ready":
                yield "ZREM", f"{base}:ready:{spot.key}", spot.member
                yield "ZREM", f"{base}:later:{spot.key}", spot.member
                stirred.add(spot.key)
    for spot in after - before:
        match spot.kind:
            case "set":
                yield "SADD", f"{base}:{spot.key}", spot.member
            case "sorted":
                yield "ZADD", f"{base}:{spot.key}", spot.score, spot.member
            case "ready":
                where = "ready" if spot.score <= now else "later"
                yield "ZADD", f"{base}:{where}:{spot.key}", spot.score if where == "later" else 0, spot.member
                stirred.add(spot.key)
    for name in stirred:
        yield "GROUP", f"{base}:{name}"


def held_keys(job: Job) -> Iterator[str]:
    """The keys that nobody else may use because of this job."""
    if job.unique_key is not None and job.state in UNFINISHED:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None and job.state in IDEMPOTENT_STATES:
        yield f"i{job.idempotency_key}"
