"""New jobs without keys as commands: a unit of the two-phase commit, and the arguments of enqueue.lua."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...clock import micros
from ...records.job import Job, NewJob
from .index import Command, group, has_creation_time, step_entry
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
        names = {group(job.queue, job.task) for job, _ in jobs}
        commands += [("GROUP", f"{shard.base}:{name}") for name in names]
    return Unit(conditions, commands)


def _commands(base: str, jobs: Paired, now: int) -> Iterator[Command]:
    """The commands that enqueue.lua runs for new jobs."""
    records, groups = by_group(jobs, now)
    yield "HSET", f"{base}:job", *records
    for name, made, ready, later in groups:
        yield "SADD", f"{base}:groups", name
        for key, pairs in (("made", made), ("ready", ready), ("later", later)):
            if pairs:
                yield "ZADD", f"{base}:{key}:{name}", *pairs


def by_group(jobs: Paired, now: int) -> tuple[list[bytes], Collection[tuple[str, Pairs, Pairs, Pairs]]]:
    """Ids and records alternately; for each group its name and the ZADD arguments of its sets made, ready and later."""
    records: list[bytes] = []
    groups: dict[tuple[str, str], tuple[str, Pairs, Pairs, Pairs]] = {}
    for job, id in jobs:
        run_at = now if job.run_at is None else micros(job.run_at)
        records += (id, new_record(job, now))
        names = job.queue, job.task
        if (lists := groups.get(names)) is None:
            lists = groups[names] = (group(*names), [], [], [])
        _, made, ready, later = lists
        made += ("0", id)
        if run_at > now:
            later += (str(run_at), claim_key(job.priority, run_at, id))
        else:
            ready += ("0", claim_key(job.priority, run_at, id))
    return records, groups.values()


def new_step_command(base: str, job: Job, now: int) -> Command | None:
    """The command that adds the job of a step, if it has no index entries but those of every such job."""
    step, id = job.step, packed(job.id)
    if step is None or job.tags or job.schedule is not None or job.expires_at is not None or not was_never_claimed(job):
        return None
    if job.unique_key is not None or job.idempotency_key is not None:
        return None
    if not has_creation_time(id, micros(job.created_at)):
        return None
    run_at = micros(job.run_at)
    which, score = ("ready", 0) if run_at <= now else ("later", run_at)
    head, entry = claim_key(job.priority, run_at, b""), step_entry(step.position, id)
    return "NEW", f"{base}:{group(job.queue, job.task)}", which, score, head, record_of(job), step.flow, entry
