"""How the PostgreSQL store claims jobs for a worker.

A plain claim is one statement (TAKE_PLAIN): it walks along mainspring_jobs_ready, locks due jobs with SKIP LOCKED, sets
them running under one new lease, notes the lease in mainspring_leases, and returns the rows. If there is anything
special to do first (overdue jobs to expire, suspects, half-open circuits), it takes nothing, and _claim_in_transaction
does all of it. The statements are in claim.sql. It repeats the rules rules.claim.claim and expire_due; test_twin.py
compares them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Unpack

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...clock import instant, micros, nearest_instant
from ...errors import ShuttingDown, StoreError
from ...failpoint import failpoint
from ...ids import JobId, Lease, WorkerId
from ...records.job import POISON_SUSPECT_CRASHES, UNREADABLE, Job, State
from ...records.limit import AT_ONCE
from ...records.unreadable import decoded
from ...records.worker import Claim
from ...survived_errors import SurvivedErrors
from ..rows import CLAIMED_COLUMNS, COLUMNS, claimed_job_of, job_of
from ..rules.limits import MAX_AHEAD_MICROS
from ..rules.loaded import ChangedJob
from . import schedules
from .flow_rows import lock_flows
from .handle import PostgresHandle, PostgresSettings
from .jobs import ALL_COLUMNS, OVERWRITE, apply_job_changes, write_jobs
from .limit_lines import give_back, write_limit_changes
from .limited_claim import DueJob, LimitedClaim, lock_totals
from .pool import Pool, Session
from .statement_file import read_statements
from .tables import LockedTables, write
from .url import PostgresUrl

_survey_errors = SurvivedErrors("backlog", "the next claim of a long backlog tries again")

# Jobs that one claim expires at most, so that a flood of them does not delay it.
MAX_EXPIRED_JOBS = 5000
# A full claim of at least this many jobs means a backlog.
MIN_BACKLOG_JOBS = 50
# With a backlog, a survey (read_claim_view) is made this often at most.
SURVEY_EVERY_SECONDS = 2.0
# The pause after a survey is at least this multiple of its duration.
SURVEY_REST_FACTOR = 50.0
# A survey that takes longer passes over many dead rows, if it is not the number of groups that takes the time.
SLOW_SURVEY_SECONDS = 0.01
SLOW_GROUP_SECONDS = 0.00002

_SQL = read_statements(
    "claim.sql",
    columns=COLUMNS,
    all_columns=ALL_COLUMNS,
    ended_columns=ALL_COLUMNS.replace("state", "'expired'", 1).replace("finished_at", "$1", 1),
    claimed_columns=CLAIMED_COLUMNS,
    overwrite=OVERWRITE.strip(),
    unreadable=UNREADABLE,
    ahead=MAX_AHEAD_MICROS,
    at_once=AT_ONCE,
)
_parts = _SQL.fragments
_AT_ALL = _SQL.statement("nothing_special", limits=_parts["no_limits"])
_BESIDE = _SQL.statement("nothing_special", limits=_SQL.statement("no_due_lines"))
TAKE_PLAIN = _SQL.statement("take", groups=_parts["all_groups"], guard=_AT_ALL, left=CLAIM_BYTES, next_line="NULL")
TAKE_KNOWN = _SQL.statement("take", groups=_parts["known_groups"], guard=_AT_ALL, left=CLAIM_BYTES, next_line="NULL")
# While there are jobs with a limit key.
TAKE_BESIDE = _SQL.statement(
    "take", groups=_parts["all_groups"], guard=_BESIDE, left=CLAIM_BYTES, next_line=_SQL.statement("next_line")
)
_TAKE_REST = _SQL.statement("take", groups=_parts["all_groups"], guard="true", left="$7::bigint", next_line="NULL")
# The first $6 jobs that _TAKE_REST would take, without a lock: for a claim that also takes jobs with a limit key.
_SEE_REST = _TAKE_REST.partition(",\n" + _parts["before_locks"])[0] + "\n" + _parts["seen"]
_TAKE_ONE = _SQL.statement("take_one")
_LOCK_WORKER = _SQL.statement("lock_worker")
_READ_VIEW = _SQL.statement("read_view")
_READ_LINES = _SQL.statement("read_lines")


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
        names = ("group", "suspect", "line", "look", "circuit", "alive", "expiry", "limits")
        kinds: dict[str, list[Any]] = {kind: [] for kind in names}
        for row in rows:
            kinds[row[0]].append(row)
        self.groups = kinds["group"]
        self.suspects = sorted(kinds["suspect"], key=_claim_order)
        self.lines = kinds["line"]
        self.looks = any(row[4] is not None for row in kinds["look"])
        self.has_limits = bool(kinds["limits"])
        self.open: dict[str, tuple[int, JobId | None]] = {
            task: (until, probe) for _, _, task, _, until, probe, *_ in sorted(kinds["circuit"], key=lambda row: row[2])
        }
        self.alive = bool(kinds["alive"])
        self.expiry: int | None = min((row[4] for row in kinds["expiry"] if row[4] is not None), default=None)

    @property
    def next_at(self) -> int | None:
        """When a claim will next find work; None if nothing waits."""
        due = [] if self.expiry is None else [self.expiry]
        for _, _, task, _, run_at, *_ in self.groups + self.suspects + self.lines:
            until, probe = self.open.get(task, (run_at, None))
            if probe is None:
                due.append(max(run_at, until))
        return min(due, default=None)

    def has_work(self, now: int) -> bool:
        """Whether a claim would find work now: jobs to take or to expire."""
        if self.looks or (self.expiry is not None and self.expiry <= now):
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
        slow = took > SLOW_SURVEY_SECONDS + SLOW_GROUP_SECONDS * len(view.groups)
        groups = view.groups if slow else ()
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


class PostgresClaim(PostgresHandle):
    """The verb `claim`."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._backlog = BacklogCursor()
        self._survey: asyncio.Task[None] | None = None
        self._warms = True
        # Whether there were jobs with a limit key when it was last looked.
        self._has_limits = False

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        request = ClaimRequest(queues, worker, tasks, limit, now)
        expired: list[JobId] = []
        # Nothing was due last time: read the view first, so that an idle worker sends one statement.
        rows = [] if self._idle else await self._take(request)
        next_at = rows[0]["next_at"] if rows else -1
        if next_at == -1:
            view = await self._hot(lambda db: read_claim_view(db, request))
            next_at = view.next_at if view.alive else None
            news, self._has_limits = view.has_limits and not self._has_limits, view.has_limits
            if (self._idle or news) and view.has_work(request.now):
                self._idle = False
                return await self.claim(queues, worker=worker, tasks=tasks, limit=limit, now=now)
            if not rows and view.has_work(request.now):
                claim = self._explained(Pool.transact_hot, lambda db: _claim_in_transaction(db, request))
                rows, next_at, expired = await claim
        self._idle = not rows
        failpoint("claim.after_commit")
        if self._idle and self._warms:
            self._warms = False
            await self._open().warm(2)  # one for a finish, one for the next claim beside it
        self._warms = self._warms or bool(rows)
        if expired:
            self._announce("final")
        pairs = [(row["id"], row) for row in rows]
        jobs, broken = decoded("job", pairs, lambda row: claimed_job_of(row, request.lease, worker, now))
        if broken:
            await self._transact(lambda db: set_aside(db, [one.name for one in broken], request.lease))
        self._leases.opened(worker, request.lease, len(jobs))
        # Not before now: jobs that other claims had locked may still be due.
        return Claim(jobs, None if next_at is None else max(now, nearest_instant(next_at)), expired, broken)

    async def _take(self, request: ClaimRequest) -> list[Any]:
        """Claims due jobs in one statement; takes nothing if something special has to be done first."""
        cursor, values = self._backlog, (*request.which, request.lease, request.limit)
        if self._has_limits:
            rows = await self._hot(lambda db: db.rows(TAKE_BESIDE, *values))
        elif positions := cursor.positions_for(request):
            rows = await self._hot(lambda db: db.rows(TAKE_KNOWN, *values, *positions))
            cursor.advance(rows, request.limit)
        else:
            rows = await self._hot(lambda db: db.rows(TAKE_PLAIN, *values))
        backlog = len(rows) == request.limit >= MIN_BACKLOG_JOBS
        if backlog and cursor.is_survey_due(self._clock.monotonic()) and (self._survey is None or self._survey.done()):
            self._survey = asyncio.get_running_loop().create_task(self._survey_backlog(request))
            if not self._clock.real:
                await self._survey
        return rows

    async def _survey_backlog(self, request: ClaimRequest) -> None:
        with _survey_errors.survive(StoreError), suppress(ShuttingDown):
            began = self._clock.monotonic()
            view = await self._hot(lambda db: read_claim_view(db, request))
            now, self._has_limits = self._clock.monotonic(), view.has_limits
            self._backlog.learn(view, request, now, now - began)


async def read_claim_view(db: Session, request: ClaimRequest) -> ClaimView:
    rows = await db.rows(_READ_VIEW, *request.which)
    if any(row[0] == "limits" for row in rows):
        rows += await db.rows(_READ_LINES, *request.which)
    return ClaimView(rows)


async def _claim_in_transaction(db: Session, request: ClaimRequest) -> tuple[list[Any], int | None, list[JobId]]:
    """The claimed rows, when to claim again, and the expired ids. Runs inside a transaction."""
    expired = await _expire(db, request.now)
    worker, now, *_ = request.which
    if not await db.value(_LOCK_WORKER, worker, now):
        return [], None, expired
    view = await read_claim_view(db, request)
    taken = await _take_probes_and_suspect(db, view, request)
    again = False
    if len(taken) < request.limit and (left := CLAIM_BYTES - _payload_bytes(taken)) > 0:
        rest, again = await _take_in_order(db, view, request, request.limit - len(taken), left)
        taken += rest
    taken.sort(key=lambda row: (row["rank"], row["run_at"], row["id"]))
    if len(taken) >= request.limit or _payload_bytes(taken) >= CLAIM_BYTES or len(expired) >= MAX_EXPIRED_JOBS or again:
        return taken, now, expired
    return taken, (await read_claim_view(db, request)).next_at, expired


async def _take_in_order(
    db: Session, view: ClaimView, request: ClaimRequest, limit: int, left: int
) -> tuple[list[Any], bool]:
    """The claimed rows, and whether others had locked some that may still be due."""
    values = (*request.which, request.lease)
    if not view.lines and not view.looks:
        return await db.rows(_TAKE_REST, *values, limit, left), False
    limited = LimitedClaim(db, request.which, request.lease, await lock_totals(db))
    await limited.read(limit)
    plain = [DueJob(*row) for row in await db.rows(_SEE_REST, *values, limit)] if view.groups else []
    ids, count = await limited.choose(plain, limit, left)
    rows = await limited.start(ids)
    await limited.write()
    if count:
        rows += await db.rows(_TAKE_REST, *values, count, left)
    return rows, limited.was_skipped or len(rows) < len(ids) + count


_EXPIRE = _SQL.statement("expire")
_FIND_OVERDUE_OF_OTHERS = _SQL.statement("find_overdue_of_others")
_LOCK_OVERDUE = _SQL.statement("lock_overdue")


async def _expire(db: Session, now: int) -> list[JobId]:
    found = await db.rows(_FIND_OVERDUE_OF_OTHERS, now, MAX_EXPIRED_JOBS)
    await schedules.lock_schedules(db, {schedule for _, schedule, _ in found if schedule is not None})
    await lock_flows(db, {flow for *_, flow in found if flow is not None})
    expired = [id for (id,) in await db.rows(_EXPIRE, now, MAX_EXPIRED_JOBS - len(found))]
    if found:
        jobs = [job_of(row) for row in await db.rows(_LOCK_OVERDUE, now, [id for id, *_ in found])]
        pairs = [(job, replace(job, state=State.EXPIRED, finished_at=instant(now))) for job in jobs]
        await write_jobs(db, pairs)
        await write_limit_changes(db, [ChangedJob(old.id, old, new) for old, new in pairs])
        await apply_job_changes(db, pairs)
        await _end_steps(db, jobs, instant(now))
        expired += [job.id for job in jobs]
    return sorted(expired)


async def _end_steps(db: Session, expired: Sequence[Job], at: datetime) -> None:
    """Moves the flows of steps whose jobs have expired."""
    tables = LockedTables()
    for job in expired:
        if job.step is not None:
            tables.flow_changes.note_end_of(job.step, State.EXPIRED, at)
    if tables.flow_changes.noted:
        await write(db, tables)


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
    if any(row[2] == task and row[4] <= request.now for row in view.lines):
        due += await _lines_of_task(db, task, request)
    if not due:
        return None
    rows = await _take_one(db, min(due, key=_claim_order), request)
    if not rows:
        return None
    await db.run(_SET_PROBE, task, rows[0]["id"])
    return rows[0]


async def _lines_of_task(db: Session, task: str, request: ClaimRequest) -> list[Any]:
    """The first job with a limit key that may be the probe of this task, as a row of the view; none if none may."""
    limited = LimitedClaim(db, request.which, request.lease, await lock_totals(db))
    await limited.read_task(task)
    if (first := limited.first_of_task(task, request.which[3])) is None:
        return []
    place = first.rank, min(first.turn, request.now), first.id
    return [("line", "", task, *place, *await limited.crashes_and_key_of(first.id))]


async def _take_one(db: Session, row: Any, request: ClaimRequest) -> list[Any]:
    *_, id, crashes, key = row
    if key is None:
        return await db.rows(_TAKE_ONE, request.which[0], request.now, id, crashes, request.lease)
    limited = LimitedClaim(db, request.which, request.lease, await lock_totals(db))
    await limited.read_group(key)
    if not limited.may_start(key, row[4]):
        return []
    if rows := await db.rows(_TAKE_ONE, request.which[0], request.now, id, crashes, request.lease):
        limited.note_start(key, id)
        await limited.write()
    return rows


def _claim_order(row: Any) -> tuple[int, int, JobId]:
    return row[3], row[4], row[5]


_SET_ASIDE = _SQL.statement("set_aside")
_END_PROBES = _SQL.statement("end_probes")


async def set_aside(db: Session, ids: Collection[JobId], lease: Lease = "") -> None:
    """Pauses jobs that a claim took, or an orphaned run has, and that cannot be decoded: no claim finds them then."""
    if ended := dict(await db.rows(_SET_ASIDE, list(ids), lease)):
        await give_back(db, ended)
    await db.run(_END_PROBES, list(ids))
