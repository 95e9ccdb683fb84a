"""New jobs without keys as commands: a unit of the two-phase commit, and the arguments of enqueue.lua."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...clock import micros
from ...records.job import Job, NewJob
from ...records.limit import KEY_SEPARATOR
from .index import Command, group, has_creation_time, limited_entry, limited_group, step_entry
from .records import claim_key, new_record, packed, record_of, was_never_claimed
from .shard import Shard
from .two_phase import Condition, Unit, has

# Jobs per call of a script: the server does nothing else meanwhile.
MAX_JOBS = 1_000
Pairs = list[str | bytes]
Paired = Sequence[tuple[NewJob, bytes]]


def unit_of_jobs(shares: dict[Shard, list[tuple[NewJob, bytes]]], now: int) -> Unit:
    """The unit that adds these jobs if none of their ids exists."""
    conditions, commands = list[Condition](), list[Command]()
    for shard, jobs in shares.items():
        for _, id in jobs:
            conditions += (has(f"{shard.base}:job", id, None), has(f"{shard.base}:moved", id, None))
        for start in range(0, len(jobs), MAX_JOBS):
            commands += _commands(shard.base, jobs[start : start + MAX_JOBS], now)
        names = {_order_of(job) for job, _ in jobs}
        commands += [("GROUP", f"{shard.base}:{name}") for name in names]
    return Unit(conditions, commands)


def _commands(base: str, jobs: Paired, now: int) -> Iterator[Command]:
    """The commands that enqueue.lua runs for new jobs."""
    records, groups = by_group(jobs, now)
    yield "HSET", f"{base}:job", *records
    for name, made, ready, later, listed in groups:
        order, _, _ = name.partition(KEY_SEPARATOR)
        its = "\0".join(name.split("\0")[:2])
        yield "SADD", f"{base}:groups", its
        for key, pairs in (
            (f"made:{its}", made),
            (f"ready:{order}", ready),
            (f"later:{order}", later),
            (f"limited:{its}", listed),
        ):
            if pairs:
                yield "ZADD", f"{base}:{key}", *pairs


def _order_of(job: NewJob) -> str:
    """The group in whose order of claims the job is, with its key if it has a limit."""
    if job.limit_key is None:
        return group(job.queue, job.task)
    return limited_group(job.queue, job.task, job.limit_key)


def by_group(jobs: Paired, now: int) -> tuple[list[bytes], Collection[tuple[str, Pairs, Pairs, Pairs, Pairs]]]:
    """Ids and records alternately; for each group its name and the ZADD arguments of its sets made, ready, later and
    limited."""
    records: list[bytes] = []
    groups: dict[tuple[str, str, str | None], tuple[str, Pairs, Pairs, Pairs, Pairs]] = {}
    for job, id in jobs:
        run_at = now if job.run_at is None else micros(job.run_at)
        records += (id, new_record(job, now))
        names = job.queue, job.task, job.limit_key
        if (lists := groups.get(names)) is None:
            lists = groups[names] = (_order_of(job), [], [], [], [])
        _, made, ready, later, listed = lists
        made += ("0", id)
        entry = claim_key(job.priority, run_at, id)
        if job.limit_key is not None:
            listed += (str(run_at), entry)
            entry = limited_entry(job.limit_key, entry)
        if run_at > now:
            later += (str(run_at), entry)
        else:
            ready += ("0", entry)
    return records, groups.values()


def new_step_command(base: str, job: Job, now: int) -> Command | None:
    """The command that adds the job of a step, if it has no index entries but those of every such job."""
    step, id = job.step, packed(job.id)
    if step is None or job.tags or job.schedule is not None or job.expires_at is not None or not was_never_claimed(job):
        return None
    if job.unique_key is not None or job.idempotency_key is not None or job.limit_key is not None:
        return None
    if not has_creation_time(id, micros(job.created_at)):
        return None
    run_at = micros(job.run_at)
    which, score = ("ready", 0) if run_at <= now else ("later", run_at)
    head, entry = claim_key(job.priority, run_at, b""), step_entry(step.position, id)
    return "NEW", f"{base}:{group(job.queue, job.task)}", which, score, head, record_of(job), step.flow, entry
