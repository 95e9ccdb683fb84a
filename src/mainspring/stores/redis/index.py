"""The index of jobs: the sets that hold a job's id, as a function of the job. A change writes the difference."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from ...clock import micros
from ...ids import JobId
from ...records.job import FINAL, POISON_SUSPECT_CRASHES, Job, State
from ...records.limit import KEY_SEPARATOR, group_key, limit_name
from ..rules.flow_changes import RETRIED_STATES
from .records import claim_key, packed

Command = tuple[str | bytes | int, ...]
# Largest difference between the time in an id and created_at; jobs beyond it are also in the set `odd`.
ID_TIME_TOLERANCE_MICROS = 60_000_000
# The prefix of the sets of a limit's running jobs: their ids behind the keys.
RUNNING_OF = "running:"
# Final states that are rare among all jobs, and so also have sets in the order of creation.
LISTED = ("dead", "cancelled")


class IndexEntry(NamedTuple):
    """A member of a set or a sorted set. "ready" means `ready:`, or `later:` if the score is a later instant.

    "limited" means the same sets of a limited group: its key is the name of the group and the key in it.
    """

    kind: Literal["set", "sorted", "ready", "limited"]
    key: str
    member: bytes
    score: int = 0


def group(queue: str, task: str) -> str:
    """The name of the group of a queue and a task: jobs that are claimed alike."""
    return f"{queue}\0{task}"


def limited_group(queue: str, task: str, limit_key: str) -> str:
    """The name of a limited group with a key in it, as turns.lua takes it apart."""
    return f"{queue}\0{task}\0{limit_key}"


def limited_entry(limit_key: str, entry: bytes) -> bytes:
    """An entry, or an id, as the sets of a limited group have it: behind the key."""
    key = group_key(limit_key).encode()
    return len(key).to_bytes(2, "big") + key + entry


def bounds_of(key: str) -> tuple[bytes, bytes]:
    """The range of the key's entries in the sets of a limited group."""
    prefix = limited_entry(f"{KEY_SEPARATOR}{key}", b"")
    return b"[" + prefix, b"(" + prefix + b"\xff\xff\xff"


def has_creation_time(id: bytes, created_at: int) -> bool:
    """Whether the time in the id is created_at, within the tolerance."""
    return len(id) == 16 and abs(int.from_bytes(id[:6], "big") * 1000 - created_at) <= ID_TIME_TOLERANCE_MICROS


def id_range(created_after: datetime | None, created_before: datetime | None) -> tuple[bytes, bytes]:
    """The bounds, for ZRANGEBYLEX, of ids with a creation time between the two instants."""
    low, high = b"-", b"+"
    if created_after is not None and (first := micros(created_after) - ID_TIME_TOLERANCE_MICROS) > 0:
        low = b"[" + (first // 1000).to_bytes(6, "big")
    if (
        created_before is not None
        and 0 <= (last := (micros(created_before) + ID_TIME_TOLERANCE_MICROS) // 1000 + 1) < 2**48
    ):
        high = b"(" + last.to_bytes(6, "big")
    return low, high


StepsSet = Literal["open", "failed", "done"]
STEPS_SETS: tuple[StepsSet, ...] = ("open", "failed", "done")
"""The sets with the jobs of a flow's steps in the order of their positions; a job is in one of them."""


def steps_set(state: State) -> StepsSet:
    if not state.final:
        return "open"
    return "failed" if state in RETRIED_STATES else "done"


def steps_key(flow: JobId, which: StepsSet) -> str:
    return f"steps:{which}:{flow}"


def step_entry(position: int, id: bytes = b"") -> bytes:
    """The member of a set of steps: all its scores are equal, since a score has too few bits for a position."""
    return position.to_bytes(8, "big") + id


def index_entries(job: Job) -> Iterator[IndexEntry]:
    """All entries of a job."""
    id, its = packed(job.id), group(job.queue, job.task)
    yield IndexEntry("sorted", f"made:{its}", id)
    yield IndexEntry("set", "groups", its.encode())
    if not has_creation_time(id, micros(job.created_at)):
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
    if job.step is not None:
        yield IndexEntry("sorted", steps_key(job.step.flow, steps_set(job.state)), step_entry(job.step.position, id))
    yield from _by_state(job, id, its)


def _by_state(job: Job, id: bytes, its: str) -> Iterator[IndexEntry]:
    if job.crashes >= POISON_SUSPECT_CRASHES and job.state in (State.PENDING, State.RUNNING):
        yield IndexEntry("set", "suspect", id)
    if job.state is State.PENDING:
        run_at = micros(job.run_at)
        if job.crashes < POISON_SUSPECT_CRASHES:
            yield from _in_order(job, run_at, id, its)
        if job.expires_at is not None:
            yield IndexEntry("sorted", "expiring", id, micros(job.expires_at))
        if job.attempt and job.crashes < POISON_SUSPECT_CRASHES:
            yield IndexEntry("sorted", f"again:{job.queue}", id, run_at)
    elif job.state is State.RUNNING:
        yield IndexEntry("set", f"held:{job.worker}", id)
        yield IndexEntry("set", "holders", (job.worker or "").encode())
        if job.limit_key is not None:
            yield IndexEntry("sorted", f"{RUNNING_OF}{limit_name(job.limit_key)}", limited_entry(job.limit_key, id))
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


def _in_order(job: Job, run_at: int, id: bytes, its: str) -> Iterator[IndexEntry]:
    """The entries of a pending job in the order of claims. Lists find those with a limit in `limited`."""
    entry = claim_key(job.priority, run_at, id)
    if job.limit_key is None:
        yield IndexEntry("ready", its, entry, run_at)
    else:
        yield IndexEntry("sorted", f"limited:{its}", entry, run_at)
        name = limited_group(job.queue, job.task, job.limit_key)
        yield IndexEntry("limited", name, limited_entry(job.limit_key, entry), run_at)


def final_entries(id: bytes, task: str) -> Iterator[IndexEntry]:
    """All entries that a finished job may have, for one whose record does not tell its state."""
    for state in sorted(FINAL):
        yield IndexEntry("sorted", f"ended:{state.value}\0{task}", id)
        yield IndexEntry("sorted", f"final:{state.value}\0{task}", id)


# Registers: sets of names, and the prefix of the keys that they name. A name stays until tidy.lua finds no such key.
REGISTERS = {"groups": "made:", "holders": "held:", "parks": "parked:", "ends": "ended:", "kinds": "dead:"}


def index_commands(base: str, old: Job | None, new: Job | None, now: int) -> Iterator[Command]:
    """Commands that turn the entries of the old job into those of the new one."""
    before = set() if old is None else set(index_entries(old))
    after = set() if new is None else set(index_entries(new))
    changed_groups, freed = set[str](), list[str]()
    for entry in before - after:
        if entry.key in REGISTERS:
            continue
        match entry.kind:
            case "set":
                yield "SREM", f"{base}:{entry.key}", entry.member
            case "sorted":
                yield "ZREM", f"{base}:{entry.key}", entry.member
                if entry.key.startswith(RUNNING_OF) and old is not None:
                    freed.append(limited_group(old.queue, old.task, old.limit_key or ""))
            case "ready":
                yield "ZREM", f"{base}:ready:{entry.key}", entry.member
                yield "ZREM", f"{base}:later:{entry.key}", entry.member
                changed_groups.add(entry.key)
            case "limited":
                name = entry.key.partition(KEY_SEPARATOR)[0]
                yield "ZREM", f"{base}:ready:{name}", entry.member
                yield "ZREM", f"{base}:later:{name}", entry.member
                changed_groups.add(entry.key)
    for entry in after - before:
        match entry.kind:
            case "set":
                yield "SADD", f"{base}:{entry.key}", entry.member
            case "sorted":
                yield "ZADD", f"{base}:{entry.key}", entry.score, entry.member
            case "ready" | "limited":
                yield in_order_command(base, entry, now)
                changed_groups.add(entry.key)
    for name in freed:
        yield "FREE", f"{base}:{name}"
    for name in changed_groups:
        yield "GROUP", f"{base}:{name}"


def in_order_command(base: str, entry: IndexEntry, now: int) -> Command:
    """Adds an entry of the kinds "ready" and "limited"."""
    where, score = ("ready", 0) if entry.score <= now else ("later", entry.score)
    name = entry.key if entry.kind == "ready" else entry.key.partition(KEY_SEPARATOR)[0]
    return "ZADD", f"{base}:{where}:{name}", score, entry.member
