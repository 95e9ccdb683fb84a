"""How the PostgreSQL store claims jobs for a worker, and records the worker's beats and commands.

A plain claim is one statement (TAKE_PLAIN): it walks along mainspring_jobs_ready, locks due jobs with SKIP LOCKED, sets
them running under one new lease, notes the lease in mainspring_leases, and returns the rows. If there is anything
special to do first (overdue jobs to expire, suspects, half-open circuits), it takes nothing, and `claim` does all of it
in one transaction. The statements are in claim.sql. It repeats the rules rules.claim.claim and expire_due; test_twin.py
compares them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...clock import instant, micros
from ...ids import JobId, Lease, WorkerId
from ...records.job import POISON_SUSPECT_CRASHES, UNREADABLE, State
from ...records.outcome import Outcome
from ...records.unreadable import readable
from ...records.worker import BeatReply, WorkerCommands, WorkerInfo
from ..rows import CLAIMED_COLUMNS, COLUMNS, job_of
from ..rules import SILENT_WORKER_RETENTION, next_commands
from . import schedules
from .feed import WATCHED
from .jobs import ALL_COLUMNS, OVERWRITE, apply_job_changes, write_jobs
from .pool import Session
from .statement_file import read_statements

# Jobs that one claim expires at most, so that a flood of them does not delay it.
MAX_EXPIRED_JOBS = 5000
# Leases that OpenLeases remembers.
MAX_KNOWN_LEASES = 10_000
# A full claim of at least this many jobs means a backlog.
MIN_BACKLOG_JOBS = 50
# With a backlog, a survey (read_claim_view) is made this often at most.
SURVEY_EVERY_SECONDS = 2.0
# The pause after a survey is at least this multiple of its duration.
SURVEY_REST_FACTOR = 50.0
# A survey that takes longer passes over many dead rows.
SLOW_SURVEY_SECONDS = 0.01

_encode = msgspec.json.encode
_decode_commands = msgspec.json.Decoder(WorkerCommands).decode

_SQL = read_statements(
    "claim.sql",
    columns=COLUMNS,
    all_columns=ALL_COLUMNS,
    ended_columns=ALL_COLUMNS.replace("state", "'expired'", 1).replace("finished_at", "$1", 1),
    claimed_columns=CLAIMED_COLUMNS,
    overwrite=OVERWRITE.strip(),
    watched=WATCHED,
    unreadable=UNREADABLE,
)
_parts = _SQL.fragments
TAKE_PLAIN = _SQL.statement("take", groups=_parts["all_groups"], guard=_parts["nothing_special"], left=CLAIM_BYTES)
TAKE_KNOWN = _SQL.statement("take", groups=_parts["known_groups"], guard=_parts["nothing_special"], left=CLAIM_BYTES)
_TAKE_REST = _SQL.statement("take", groups=_parts["all_groups"], guard="true", left="$7::bigint")
_TAKE_ONE = _SQL.statement("take_one")
_LOCK_WORKER = _SQL.statement("lock_worker")
_READ_VIEW = _SQL.statement("read_view")


class ClaimRequest:
    """The parameters of one claim, with its new lease."""

    def __init__(
        self, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
    ) -> None:
        self.limit, self.now, self.lease = limit, micros(now), os.urandom(8).hex()
        self.which = (worker, self.now, list(tasks), None if queues is None else list(queues))


class ClaimView:
    """What one worker can claim: groups and suspects, and the open circuits of their tasks."""

    def __init__(self, rows: list[Any]) -> None:
        kinds: dict[str, list[Any]] = {kind: [] for kind in ("group", "suspect", "circuit", "alive", "expiry")}
        for row in rows:
            kinds[row[0]].append(row)
        self.groups = kinds["group"]
        self.suspects = sorted(kinds["suspect"], key=_claim_order)
        self.open: dict[str, tuple[int, JobId | None]] = {
            task: (until, probe) for _, _, task, _, until, probe, _ in sorted(kinds["circuit"], key=lambda row: row[2])
        }
        self.alive = bool(kinds["alive"])
        self.expiry: int | None = kinds["expiry"][0][4]

    @property
    def next_at(self) -> int | None:
        """When a claim will next find work; None if nothing waits."""
        due = [] if self.expiry is None else [self.expiry]
        for _, _, task, _, run_at, *_ in self.groups + self.suspects:
            until, probe = self.open.get(task, (run_at, None))
            if probe is None:
                due.append(max(run_at, until))
        return min(due, default=None)

    def has_work(self, now: int) -> bool:
        """Whether a claim would find work now: jobs to take or to expire."""
        if self.expiry is not None and self.expiry <= now:
            return True
        return self.alive and self.next_at is not None and self.next_at <= now


class BacklogCursor:
    """Where the claims of a long backlog go on in each group.

    While an old transaction keeps VACUUM from removing claimed rows, every claim would pass over all of them. The
    cursor lets it begin behind them. It is used only then, because it misses jobs that arrive before it or in a new
    group; a survey every few seconds, beside the claims, finds these.
    """

    def __init__(self) -> None:
        self._after: dict[tuple[str, str, int], tuple[int, JobId]] = {}
        self._request_key: object = None
        self._survey_at = 0.0

    def is_survey_due(self, now: float) -> bool:
        """Whether it is time for the next survey."""
        return now >= self._survey_at

    def learn(self, view: ClaimView, request: ClaimRequest, now: float, took: float) -> None:
        """Takes over the groups of a survey if it was slow; else the next claims go without a cursor."""
        self._survey_at = now + max(SURVEY_EVERY_SECONDS, SURVEY_REST_FACTOR * took)
        self._request_key = request.which[2:]
        groups = view.groups if took > SLOW_SURVEY_SECONDS else ()
        self._after = {(queue, task, rank): (run_at, "") for _, queue, task, rank, run_at, *_ in groups}

    def positions_for(self, request: ClaimRequest) -> list[list[Any]] | None:
        """The groups and the position in each, as columns of TAKE_KNOWN. None if claims go without a cursor."""
        if not self._after or self._request_key != request.which[2:]:
            return None
        groups, positions = zip(*self._after.items(), strict=True)
        return [list(column) for column in (*zip(*groups, strict=True), *zip(*positions, strict=True))]

    def advance(self, rows: list[Any], limit: int) -> None:
        """Moves behind the claimed rows; a claim that is not full ends the backlog."""
        if len(rows) < limit:
            self._after = {}
        for row in rows if self._after else ():
            self._after[row["queue"], row["task"], row["rank"]] = (row["run_at"], row["id"])


class OpenLeases:
    """The number of running jobs of each lease claimed here, so that the last finish deletes the lease's row. A beat
    deletes the rows that are missed here."""

    def __init__(self) -> None:
        self._worker = ""
        self._out: dict[Lease, int] = {}

    def opened(self, worker: WorkerId, lease: Lease, jobs: int) -> None:
        if worker != self._worker or len(self._out) > MAX_KNOWN_LEASES:
            self._worker, self._out = worker, {}
        if jobs:
            self._out[lease] = jobs

    def finished(self, outcomes: Sequence[Outcome]) -> tuple[WorkerId, list[Lease]]:
        """The worker, and its leases that have no running job once these outcomes are stored."""
        for lease, ended in Counter(outcome.lease for outcome in outcomes).items():
            if lease in self._out:
                self._out[lease] -= ended
        over = [lease for lease, out in self._out.items() if out <= 0]
        for lease in over:
            del self._out[lease]
        return self._worker, over


async def take_plain(db: Session, request: ClaimRequest) -> list[Any]:
    """Claims due jobs in one statement; takes nothing if something special has to be done first."""
    return await db.rows(TAKE_PLAIN, *request.which, request.lease, request.limit)


async def take_known(db: Session, request: ClaimRequest, positions: list[list[Any]]) -> list[Any]:
    """Like take_plain, but goes on at the positions of a BacklogCursor."""
    return await db.rows(TAKE_KNOWN, *request.which, request.lease, request.limit, *positions)


async def read_claim_view(db: Session, request: ClaimRequest) -> ClaimView:
    return ClaimView(await db.rows(_READ_VIEW, *request.which))


async def claim(db: Session, request: ClaimRequest) -> tuple[list[Any], int | None, list[JobId]]:
    """The claimed rows, when to claim again, and the expired ids. Runs inside a transaction."""
    expired = await _expire(db, request.now)
    worker, now, *_ = request.which
    if not await db.value(_LOCK_WORKER, worker, now):
        return [], None, expired
    view = await read_claim_view(db, request)
    taken = await _take_probes_and_suspect(db, view, request)
    if len(taken) < request.limit and (left := CLAIM_BYTES - _payload_bytes(taken)) > 0:
        taken += await db.rows(_TAKE_REST, *request.which, request.lease, request.limit - len(taken), left)
    taken.sort(key=lambda row: (row["rank"], row["run_at"], row["id"]))
    if len(taken) >= request.limit or _payload_bytes(taken) >= CLAIM_BYTES or len(expired) >= MAX_EXPIRED_JOBS:
        return taken, now, expired
    return taken, (await read_claim_view(db, request)).next_at, expired


_EXPIRE = _SQL.statement("expire")
_FIND_OVERDUE_OF_SCHEDULES = _SQL.statement("find_overdue_of_schedules")
_LOCK_OVERDUE = _SQL.statement("lock_overdue")


async def _expire(db: Session, now: int) -> list[JobId]:
    found = await db.rows(_FIND_OVERDUE_OF_SCHEDULES, now, MAX_EXPIRED_JOBS)
    await schedules.lock_schedules(db, {schedule for _, schedule in found})
    expired = [id for (id,) in await db.rows(_EXPIRE, now, MAX_EXPIRED_JOBS - len(found))]
    if found:
        jobs = [job_of(row) for row in await db.rows(_LOCK_OVERDUE, now, [id for id, _ in found])]
        pairs = [(job, replace(job, state=State.EXPIRED, finished_at=instant(now))) for job in jobs]
        await write_jobs(db, pairs)
        await apply_job_changes(db, pairs)
        expired += [job.id for job in jobs]
    return sorted(expired)


async def _take_probes_and_suspect(db: Session, view: ClaimView, request: ClaimRequest) -> list[Any]:
    """Takes a probe for each half-open circuit, and one suspect."""
    taken: list[Any] = []
    suspects = [row for row in view.suspects if row[4] <= request.now]
    for task, (until, probe) in view.open.items():
        if (
            probe is not None
            or until > request.now
            or len(taken) >= request.limit
            or _payload_bytes(taken) >= CLAIM_BYTES
        ):
            continue
        row = await _probe(db, view, task, [row for row in suspects if row[2] == task], request)
        if row is not None:
            taken.append(row)
            if row["crashes"] >= POISON_SUSPECT_CRASHES:
                suspects = []
    suspects = [row for row in suspects if row[2] not in view.open]
    if suspects and len(taken) < request.limit and _payload_bytes(taken) < CLAIM_BYTES:
        taken += await _take_one(db, suspects[0], request)
    return taken


def _payload_bytes(rows: Sequence[Any]) -> int:
    return sum(len(row["payload"].encode()) + len(row["options"].encode()) for row in rows)


_LOCK_HALF_OPEN = _SQL.statement("lock_half_open")
_LOCK_HEAD = _SQL.statement("lock_head")
_SET_PROBE = _SQL.statement("set_probe")


async def _probe(db: Session, view: ClaimView, task: str, suspects: list[Any], request: ClaimRequest) -> Any:
    if not await db.value(_LOCK_HALF_OPEN, task, request.now):
        return None
    groups = [row for row in view.groups if row[2] == task and row[4] <= request.now]
    heads = [await db.row(_LOCK_HEAD, queue, request.now, task, rank) for _, queue, _, rank, *_ in groups]
    due = [head for head in heads if head is not None] + suspects
    if not due:
        return None
    rows = await _take_one(db, min(due, key=_claim_order), request)
    if not rows:
        return None
    await db.run(_SET_PROBE, task, rows[0]["id"])
    return rows[0]


async def _take_one(db: Session, row: Any, request: ClaimRequest) -> list[Any]:
    return await db.rows(_TAKE_ONE, request.which[0], request.now, row[5], row[6], request.lease)


def _claim_order(row: Any) -> tuple[int, int, JobId]:
    return row[3], row[4], row[5]


# beats

_FORGET_SILENT = _SQL.statement("forget_silent")
_BEAT = _SQL.statement("beat")
_END_WORKER = _SQL.statement("end_worker")
_CLEAR_LEASES = _SQL.statement("clear_leases")
_RUNS_OF_WORKER = _SQL.statement("runs_of_worker")


async def beat(db: Session, worker: WorkerInfo, until: int, now: int) -> BeatReply:
    """Extends the worker's life to `until`, or ends it. Returns its runs, their cancel reasons and its commands."""
    silent = now - round(SILENT_WORKER_RETENTION.total_seconds() * 1e6)
    await db.run(_FORGET_SILENT, silent)
    if until > now:
        orders = await db.value(_BEAT, worker.id, until, _encode(worker).decode())
    else:
        orders = await db.value(_END_WORKER, worker.id)
    watched = await db.value(_CLEAR_LEASES, worker.id)
    runs: list[tuple[JobId, Lease, str | None]] = [(*row,) for row in await db.rows(_RUNS_OF_WORKER, worker.id)]
    cancels = {id: reason for id, _, reason in runs if reason is not None}
    watched_until = None if watched is None else instant(watched)
    return BeatReply({id: lease for id, lease, _ in runs}, cancels, commands_of(orders), watched_until=watched_until)


_ORPHANED_RUNS = _SQL.statement("orphaned_runs")


async def orphaned_runs(db: Session, now: int, limit: int) -> list[Any]:
    return await db.rows(_ORPHANED_RUNS, now, limit)


_SET_ASIDE = _SQL.statement("set_aside")
_END_PROBES = _SQL.statement("end_probes")


async def set_aside(db: Session, ids: Collection[JobId], lease: Lease = "") -> None:
    """Pauses jobs that a claim took, or an orphaned run has, and that cannot be decoded: no claim finds them then."""
    await db.run(_SET_ASIDE, list(ids), lease)
    await db.run(_END_PROBES, list(ids))


def commands_of(text: str | None) -> WorkerCommands:
    """The commands of a worker; none if they cannot be decoded."""
    found = [] if text is None else readable("orders of worker", [("", text)], _decode_commands)
    return found[0] if found else WorkerCommands()


_LOCK_ORDERS = _SQL.statement("lock_orders")
_SET_ORDERS = _SQL.statement("set_orders")


async def set_commands(
    db: Session, workers: Collection[WorkerId] | None, orders: WorkerCommands, now: int, seen: WorkerCommands | None
) -> list[WorkerId]:
    """Stores commands for live workers (all if `workers` is None); returns their ids. Runs inside a transaction."""
    rows = await db.rows(_LOCK_ORDERS, now, None if workers is None else list(workers))
    given = {id: new for id, text in rows if (new := next_commands(commands_of(text), orders, seen)) is not None}
    if given:
        await db.run(_SET_ORDERS, list(given), [_encode(new).decode() for new in given.values()])
    return sorted(given)
