"""How the PostgreSQL store finishes runs, and records their log lines and progress.

Plain completions that nothing follows are one statement (COMPLETE_ALL), fenced by the lease: the rows move from
mainspring_jobs to mainspring_finished. Any other batch is a transaction, in which plain completions are one statement
too. A batch with outcomes of flows is several transactions (_parts). Reports are written without reading whole jobs.
This repeats the rules rules.finish.finish_one and report_one, and test_twin.py compares
them. What follows a completion (schedules, flows, circuits, further jobs), and every other outcome, is written by the
rule.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...clock import micros
from ...ids import JobId, Lease, WorkerId
from ...records.circuit import Circuit
from ...records.job import State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...records.worker import CarryOn, Finished
from ..rows import json_of, progress_or_none, report_rows
from ..rules import is_newer_progress, is_plain_completion, next_circuit
from ..rules.finish import finish_one, follow_completion, has_only_checkpoints
from ..rules.outcome import is_last_crash
from ..rules.read_sets import KnownValues, Name, of_completion, of_completions, of_outcome
from .circuits import circuits, lock_circuits
from .completions import complete, complete_all, complete_items, complete_limited
from .flow_latch import PostgresFlowLatch
from .flow_rows import keep_graphs
from .item_counts import CountedMaps
from .jobs import has_keys, lock_running_jobs
from .notifier import is_due_soon
from .pool import Pool, Session
from .step_ends import NotAccepted, write_step_ends
from .tables import LockedTables, fetch, load, load_runs, write


class PostgresFinish(PostgresFlowLatch):
    """The verbs `finish` and `report`."""

    async def finish(self, outcomes: Sequence[Outcome], *, carry_on: CarryOn | None = None) -> Finished:
        if not outcomes:
            self._open()
            return Finished()
        worker, leases = self._leases.finished(outcomes)
        if _are_simple(outcomes):
            stands = await self._finish_simple(outcomes, worker, leases)
        else:
            stands = await self._finish_parts(_parts(outcomes, self._counted_maps), worker, leases)
        self._after_finish(outcomes)
        return Finished(stands)

    async def _finish_simple(self, outcomes: Sequence[Outcome], worker: WorkerId, leases: list[Lease]) -> set[JobId]:
        if await self._hot(lambda db: complete_all(db, outcomes, worker, leases)):
            return {outcome.id for outcome in outcomes}
        return await self._transact(lambda db: write_outcomes(db, outcomes))

    async def _finish_parts(self, parts: Parts, worker: WorkerId, leases: list[Lease]) -> set[JobId]:
        """Writes the parts side by side: while the rules are applied to one, the server writes another."""
        if not (parts.simple or parts.steps or parts.others or parts.limited):
            return await self._finish_items(parts.items, worker, leases)
        if not (parts.simple or parts.steps or parts.others or parts.items):
            return await self._finish_limited(parts.limited, worker, leases)
        # The lease of a part may have runs of another one that is not written: the next beat deletes it.
        calls = [self._finish_simple(parts.simple, worker, [])] if parts.simple else []
        calls += [self._finish_items(parts.items, worker, [])] if parts.items else []
        calls += [self._finish_limited(parts.limited, worker, [])] if parts.limited else []
        calls += [self._finish_steps(some) for some in parts.steps]
        calls += [self._finish_others(parts.others)] if parts.others else []
        answers = await asyncio.gather(*calls, return_exceptions=True)
        stands = set[JobId]()
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            stands |= answer
        return stands

    async def _finish_items(self, outcomes: Sequence[Outcome], worker: WorkerId, leases: list[Lease]) -> set[JobId]:
        if await self._hot(lambda db: complete_items(db, outcomes, worker, leases)):
            return {outcome.id for outcome in outcomes}
        self._counted_maps.forget(outcomes)
        return await self._finish_steps(outcomes)

    async def _finish_limited(self, outcomes: Sequence[Outcome], worker: WorkerId, leases: list[Lease]) -> set[JobId]:
        if await self._hot(lambda db: complete_limited(db, outcomes, worker, leases)):
            return {outcome.id for outcome in outcomes}
        return await self._transact(lambda db: write_outcomes(db, outcomes))

    async def _finish_steps(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        try:
            tables = await self._explained(Pool.transact_in_order, lambda db: write_step_ends(db, outcomes))
        except NotAccepted:
            return await self._finish_others(outcomes)
        self._counted_maps.learn(tables)
        return {outcome.id for outcome in outcomes}

    async def _finish_others(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        planned = [outcome.finished_at for outcome in outcomes if outcome.plan is not None or outcome.awaits]
        older = await self._older_workers(max(planned)) if planned else ()
        stands, tables = await self._transact(lambda db: _write_by_rule(db, outcomes, older))
        keep_graphs(tables, tables.written_plans)
        self._counted_maps.learn(tables)
        return stands

    def _after_finish(self, outcomes: Sequence[Outcome]) -> None:
        if any(_makes_work(outcome) for outcome in outcomes):
            self._idle = False
            self._announce("new")
        self._announce("final")

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        if reports and all(map(has_only_checkpoints, reports)):
            return await self._hot(lambda db: _save_checkpoints(db, reports))
        stands = await self._transact(lambda db: save_reports(db, reports))
        self._announce("final")
        return stands


def _makes_work(outcome: Outcome) -> bool:
    """Whether the outcome makes a job claimable or a schedule due."""
    again = outcome.state is State.PENDING and is_due_soon(outcome.run_at, outcome.finished_at)
    again = again or outcome.limit_key is not None  # a place is free
    return again or bool(outcome.then or outcome.breaker or outcome.schedule or _is_of_flow(outcome))


def _is_of_flow(outcome: Outcome) -> bool:
    """Whether the outcome may begin a flow, move or conclude one."""
    waits = outcome.state is State.WAITING or is_last_crash(outcome)
    return waits or outcome.step is not None or outcome.concludes is not None


def _are_simple(outcomes: Sequence[Outcome]) -> bool:
    """Whether all outcomes are plain completions of different jobs, without a schedule or jobs that follow."""
    if not all(map(_is_simple, outcomes)):
        return False
    return len({outcome.id for outcome in outcomes}) == len(outcomes)


def _is_simple(outcome: Outcome) -> bool:
    if outcome.then or outcome.schedule is not None or outcome.step is not None or outcome.limit_key is not None:
        return False
    return is_plain_completion(outcome)


class Parts(NamedTuple):
    """The outcomes of a batch that can be written side by side."""

    simple: Sequence[Outcome]
    """Plain completions that nothing follows."""
    items: Sequence[Outcome]
    """Plain ends of items that may be counted beside their flow."""
    limited: Sequence[Outcome]
    """Plain completions of jobs with a limit key that nothing follows."""
    steps: Sequence[Sequence[Outcome]]
    """Other plain ends of steps; those of one flow are together."""
    others: Sequence[Outcome]


# From this many ends of steps on, they are written in two transactions.
MIN_HALVED_ENDS = 100


def _parts(outcomes: Sequence[Outcome], counted: CountedMaps) -> Parts:
    """Everything is one part if the batch has nothing of flows and limits, or two outcomes for one job."""
    apart = any(_is_of_flow(outcome) or outcome.limit_key is not None for outcome in outcomes)
    if not apart or len({outcome.id for outcome in outcomes}) < len(outcomes):
        return Parts((), (), (), (), outcomes)
    simple, items, limited, others = list[Outcome](), list[Outcome](), list[Outcome](), list[Outcome]()
    steps = dict[JobId, list[Outcome]]()
    for outcome in outcomes:
        if not is_plain_completion(outcome) or outcome.then or outcome.schedule is not None:
            others.append(outcome)
        elif outcome.limit_key is not None:
            (limited if outcome.step is None and outcome.account is None else others).append(outcome)
        elif outcome.step is None:
            simple.append(outcome)
        elif outcome.account is None and counted.has(outcome):
            items.append(outcome)
        else:
            steps.setdefault(outcome.step.flow, []).append(outcome)
    return Parts(simple, items, limited, _halves(list(steps.values())), others)


def _halves(by_flow: Sequence[Sequence[Outcome]]) -> list[list[Outcome]]:
    """The outcomes in two parts of different flows; in one if they are few."""
    whole = [outcome for some in by_flow for outcome in some]
    if len(by_flow) < 2 or len(whole) < MIN_HALVED_ENDS:
        return [whole] if whole else []
    first, second = list[Outcome](), list[Outcome]()
    for some in by_flow:
        (first if len(first) < len(whole) // 2 else second).extend(some)
    return [part for part in (first, second) if part]


async def write_outcomes(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    """Writes the outcomes that the fence accepts; returns the ids whose outcome is the recorded end of its run. Runs
    inside a transaction."""
    return (await _write_by_rule(db, outcomes, ()))[0]


async def _write_by_rule(
    db: Session, outcomes: Sequence[Outcome], older_workers: Sequence[WorkerId]
) -> tuple[set[JobId], LockedTables]:
    """As write_outcomes(); returns the tables, too."""
    plain = [] if _must_run_in_order(outcomes) else [one for one in outcomes if is_plain_completion(one)]
    plain = [outcome for outcome in plain if outcome.limit_key is None]
    by_sql = {outcome.id for outcome in plain}
    times = Counter(outcome.id for outcome in outcomes)

    def needs(outcome: Outcome, known: KnownValues) -> Iterator[Name]:
        if outcome.id in by_sql:
            return of_completion(outcome, known)
        return of_outcome(outcome, known, times[outcome.id] > 1)

    def accept(outcome: Outcome) -> bool:
        if outcome.id not in by_sql:
            return finish_one(tables, outcome)
        if outcome.id in completed:
            follow_completion(tables, outcome)
        return outcome.id in completed

    tables = LockedTables()
    tables.older_workers = older_workers
    if len(by_sql) == len(outcomes) and not any(outcome.then for outcome in outcomes):
        await fetch(db, tables, of_completions(outcomes))
    else:
        await load(db, outcomes, needs, tables, running=True)
    completed = await complete(db, plain) if plain else set()
    if missing := by_sql - completed:
        # An outcome need not name the limit of its job.
        found = await lock_running_jobs(db, missing)
        by_sql -= found.keys()
        for job in found.values():
            tables.add_locked(job)
    await _lock_changing_circuits(db, tables, outcomes)
    # Some may have come late or are repeated: those that are the recorded end of their run stand.
    await load_runs(db, tables, {outcome.id for outcome in plain} - completed)
    stands = {outcome.id for outcome in outcomes if accept(outcome) or tables.is_recorded(outcome)}
    await write(db, tables, "finish.mid_batch")
    return stands, tables


async def _lock_changing_circuits(db: Session, tables: LockedTables, outcomes: Sequence[Outcome]) -> None:
    """Locks and reads the circuits again if one of the outcomes may change one."""
    known = {circuit.task: circuit for circuit in tables.circuits()}
    if any(_changes_circuit(known, outcome) for outcome in outcomes):
        await lock_circuits(db)
        tables.add_circuits({circuit.task: circuit for circuit in await circuits(db)})


def _changes_circuit(known: dict[str, Circuit], outcome: Outcome) -> bool:
    # A worker that releases an unknown run cannot name the task; if the run was a probe, it is over all the same.
    task = outcome.task or next((task for task, circuit in known.items() if circuit.probe == outcome.id), "")
    return next_circuit(known.get(task), outcome) != known.get(task)


def _must_run_in_order(outcomes: Sequence[Outcome]) -> bool:
    """Whether every outcome has to be written by the rule: a job that follows one of them may need a key that a job of
    the batch holds until it ends; or two of them are for the same job."""
    keyed = any(has_keys(outcome.then) for outcome in outcomes)
    return keyed or len({outcome.id for outcome in outcomes}) < len(outcomes)


# reports

_PROGRESS = """SELECT id, lease, progress FROM mainspring_jobs WHERE id = ANY($1) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE"""
_LINE = "INSERT INTO mainspring_logs VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"

_CHECKPOINT = "INSERT INTO mainspring_checkpoints VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"
# A run waits until its checkpoint is stored, so this is one statement. Its lock keeps the end of the run out until the
# commit. Numbers are sent as texts: for arrays of them the driver queries the server.
_SAVE_CHECKPOINTS = """WITH held AS MATERIALIZED (SELECT id, lease FROM mainspring_jobs
        WHERE id = ANY($1) AND state = 'running' ORDER BY id FOR NO KEY UPDATE),
    told AS MATERIALIZED (SELECT one.* FROM
        unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
            AS one (id, lease, name, n, at, value) JOIN held USING (id, lease)),
    kept AS (INSERT INTO mainspring_checkpoints SELECT id, name, n::integer, at::bigint, value FROM told
        ORDER BY n::integer ON CONFLICT DO NOTHING)
    SELECT DISTINCT id FROM told"""


async def _save_checkpoints(db: Session, reports: Sequence[RunReport]) -> set[JobId]:
    """As save_reports(), for reports that have only checkpoints. No reader waits for these."""
    rows = [
        (report.id, report.lease, one.name, str(one.n), str(micros(one.at)), one.value)
        for report in reports
        for one in report.checkpoints
    ]
    return {id for (id,) in await db.rows(_SAVE_CHECKPOINTS, *map(list, zip(*rows, strict=True)))}


async def save_reports(db: Session, reports: Sequence[RunReport]) -> set[JobId]:
    """Records what running jobs report; returns the ids of the runs that still go on.
    Runs inside a transaction."""
    if not reports:
        return set()
    rows = await db.rows(_PROGRESS, [report.id for report in reports])
    running = {id: (lease, progress_or_none(id, text)) for id, lease, text in rows}
    accepted = [report for report in reports if report.id in running and running[report.id][0] == report.lease]
    if lines := [row for report in accepted for row in report_rows(report)]:
        await db.many(_LINE, lines)
    checkpoints = [
        (report.id, one.name, one.n, micros(one.at), one.value) for report in accepted for one in report.checkpoints
    ]
    if checkpoints:
        await db.many(_CHECKPOINT, checkpoints)
    for report in accepted:
        lease, stored = running[report.id]
        if is_newer_progress(report.progress, stored):
            running[report.id] = (lease, report.progress)
            sql = "UPDATE mainspring_jobs SET progress = $2 WHERE id = $1"
            await db.run(sql, report.id, json_of(report.progress))
    return {report.id for report in accepted}
