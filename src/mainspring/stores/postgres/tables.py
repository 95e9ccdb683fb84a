"""Locks and loads what a rule reads, inside a transaction, and writes what the rule changed.

The number of statements does not depend on the size of the batch. Locks are taken in the order of jobs.py: keys,
schedules, flows, jobs, circuits; and within each kind in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...clock import instant
from ...failpoint import failpoint
from ...ids import JobId
from ...records.job import Job
from ...records.run import Execution
from ..rows import execution_row
from ..rules.flows import settle_flows
from ..rules.keys import keys_held_by
from ..rules.read_sets import Item, Kind, Name, Needs, ReadSet
from . import schedules
from .circuits import circuits, write_circuits
from .flow_latch import RAISE_LIMITS_LATCH
from .flow_rows import add_flow_jobs, add_flows, drop_flow_jobs, find_steps, write_flows
from .item_counts import CountedTables
from .jobs import (
    delete_jobs,
    find_jobs,
    insert_jobs,
    lock_jobs,
    lock_names,
    lock_running_jobs,
    lock_unfinished_first,
    write_jobs,
)
from .limit_lines import write_limit_changes
from .pool import Session
from .runs import runs_of
from .tally import add_counts


class LockedTables(CountedTables):
    """Loaded tables. A job that a rule may write counts as read once it is locked."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: set[JobId] = set()
        self.written_plans: Mapping[JobId, int] = {}
        """The sizes of the plans that were written, by flow."""

    def add_locked(self, job: Job) -> None:
        """Adds a job that was locked."""
        self.add_job(job.id, job)
        self.locked.add(job.id)

    def is_read(self, name: Name) -> bool:
        if name.kind == "job" and self.known_job(name.name) is not None:
            return name.name in self.locked
        return super().is_read(name)


async def load(
    db: Session,
    items: Sequence[Item],
    needs: Needs[Item],
    tables: LockedTables | None = None,
    *,
    keys_locked: bool = False,
    running: bool = False,
) -> LockedTables:
    """Everything that these items read; `tables` may have some of it already.

    With `keys_locked` the caller has locked the keys. With `running` the jobs of the items are locked without reading
    them before, since the items name their schedules, and count as absent if they are not running.
    """
    loaded, reads = tables or LockedTables(), ReadSet(items, needs)
    while missing := reads.missing(loaded):
        await fetch(db, loaded, missing, keys_locked=keys_locked, running=running)
    return loaded


async def fetch(
    db: Session, tables: LockedTables, names: Iterable[Name], *, keys_locked: bool = False, running: bool = False
) -> None:
    """Adds the values of these names: one stage of load()."""
    wanted: dict[Kind, list[str]] = {}
    for kind, name in names:
        wanted.setdefault(kind, []).append(name)
    if not keys_locked:
        await lock_names(db, [key[1:] for key in wanted.get("key", ())])
    await _lock_schedules(db, tables, wanted)
    if ids := wanted.get("flow"):
        await add_flows(db, tables, ids)
    await _load_jobs(db, tables, wanted, running)
    await _load_others(db, tables, wanted)


async def _lock_schedules(db: Session, tables: LockedTables, wanted: dict[Kind, list[str]]) -> None:
    names, waited_on = wanted.get("schedule", []), wanted.get("waiting", [])
    revisions = [*wanted.get("fired_schedule", ()), *wanted.get("seen_schedule", ())]
    if names or waited_on or revisions:
        await schedules.lock_rows(db, tables, names, waited_on, revisions)


async def _load_jobs(db: Session, tables: LockedTables, wanted: dict[Kind, list[str]], running: bool) -> None:
    """Reads holders of keys and jobs that are not known yet, and locks those that are known and may be written."""
    keys, jobs = wanted.get("key", []), wanted.get("job", [])
    known = [id for id in jobs if tables.known_job(id) is not None]
    unknown = [id for id in jobs if tables.known_job(id) is None]
    ids = [*wanted.get("seen_job", ()), *(() if running else unknown)]
    for id in ids:
        tables.add_job(id, None)
    for key in keys:
        tables.add_holder(key, None)
    asked = set(keys)
    for job in await find_jobs(db, keys, ids):
        tables.add_job(job.id, job)
        for key in asked.intersection(keys_held_by(job)):
            tables.add_holder(key, job.id)
    if running and unknown:
        found = await lock_running_jobs(db, unknown)
        # One that is not running may just have been read as the holder of a key: the next stage locks it.
        _add_locked(tables, [id for id in unknown if id in found or tables.known_job(id) is None], found)
    if known:
        _add_locked(tables, known, await lock_jobs(db, known))


def _add_locked(tables: LockedTables, ids: Iterable[JobId], found: dict[JobId, Job]) -> None:
    for id in ids:
        tables.add_job(id, found.get(id))
        tables.locked.add(id)


async def _load_others(db: Session, tables: LockedTables, wanted: dict[Kind, list[str]]) -> None:
    if workers := wanted.get("worker"):
        rows = await db.rows("SELECT id, until FROM mainspring_workers WHERE id = ANY($1)", workers)
        until = {id: instant(at) for id, at in rows}
        for id in workers:
            tables.add_worker(id, until.get(id))
    if "circuits" in wanted:
        tables.add_circuits({circuit.task: circuit for circuit in await circuits(db)})
    if ids := wanted.get("runs"):
        await load_runs(db, tables, ids)


async def load_runs(db: Session, tables: LockedTables, ids: Iterable[JobId]) -> None:
    """Adds the recorded runs of these jobs."""
    runs: dict[JobId, list[Execution]] = {id: [] for id in ids}
    for run in await runs_of(db, list(runs)) if runs else ():
        runs[run.job_id].append(run)
    for id, some in runs.items():
        tables.add_runs(id, some)


async def settle(db: Session, tables: LockedTables) -> None:
    """Applies to flows what the rules did to the jobs of their steps."""
    for names in settle_flows(tables):
        await _fetch_for_flows(db, tables, names)


async def _fetch_for_flows(db: Session, tables: LockedTables, names: Iterable[Name]) -> None:
    """Adds the values of these names. Jobs are locked without reading them before, since their flows are locked."""
    wanted: dict[Kind, list[Name]] = {}
    for name in names:
        wanted.setdefault(name.kind, []).append(name)
    await _lock_schedules(db, tables, {"schedule": [name.name for name in wanted.get("schedule", ())]})
    if flows := wanted.get("flow"):
        await add_flows(db, tables, [name.name for name in flows])
    if jobs := [name.name for name in wanted.get("job", ())]:
        _add_locked(tables, jobs, await lock_unfinished_first(db, jobs))
    for kind in ("unfinished_steps", "failed_steps", "all_steps"):
        if steps := wanted.get(kind):
            await _add_steps(db, tables, steps)


async def _add_steps(db: Session, tables: LockedTables, names: Sequence[Name]) -> None:
    """Locks and adds the jobs of flows' steps, after the flows that are steps themselves."""
    found, waiting = await find_steps(db, names)
    if flows := [id for id in waiting if not tables.is_read(Name("flow", id))]:
        await add_flows(db, tables, flows)
    ids = [id for some in found.values() for id in some]
    locked = await lock_jobs(db, ids) if ids else {}
    _add_locked(tables, ids, locked)
    for name, some in found.items():
        tables.add_step_jobs(name, [locked[id] for id in some if id in locked])


_DROP_CHECKPOINTS = "DELETE FROM mainspring_checkpoints WHERE job_id = ANY($1)"
_ADD_RUN = "INSERT INTO mainspring_executions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


async def write(db: Session, tables: LockedTables, at: str | None = None) -> None:
    """Settles the flows, and writes what the rules changed. `at` is a failpoint in the middle of it."""
    await settle(db, tables)
    changed, rows = tables.changed_jobs(), tables.changed_schedules()
    await db.many(_ADD_RUN, [execution_row(run) for run in tables.executions])
    if at is not None and (changed or rows):
        failpoint(at)
    await schedules.write_schedules(db, rows)
    # First those that exist, as one of them may release a key.
    await write_jobs(db, [(old, new) for _, old, new in changed if old is not None and new is not None])
    if tables.without_checkpoints:
        await db.run(_DROP_CHECKPOINTS, list(tables.without_checkpoints))
    added = [new for _, old, new in changed if old is None and new is not None]
    await insert_jobs(db, added)
    if any(job.limit_key is not None for job in added):
        await db.run(RAISE_LIMITS_LATCH)
    await add_flow_jobs(db, added)
    await write_limit_changes(db, changed)
    if gone := [id for id, _, new in changed if new is None]:
        await delete_jobs(db, gone)
        await drop_flow_jobs(db, [old for _, old, new in changed if old is not None and new is None])
    tables.written_plans = await write_flows(db, tables)
    await schedules.record_ticks(db, tables.ticks)
    await write_circuits(db, tables.changed_circuits())
    await add_counts(db, tables.counted)
