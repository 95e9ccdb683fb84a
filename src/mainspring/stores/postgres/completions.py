"""Writes plain completions, fenced by the lease: the rows move from mainspring_jobs to mainspring_finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import asyncpg
import msgspec

from ...clock import micros
from ...failpoint import failpoint
from ...ids import JobId, Lease, WorkerId
from ...records.outcome import Outcome
from ...records.tally import sums_by_minute
from ..rows import notes_text
from .item_counts import count_values
from .jobs import OVERWRITE
from .limit_lines import give_back_parts
from .pool import BIGINT_ARRAY, SEPARATOR, Session
from .tally import count_columns

_COPIED_COLUMNS = """id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress"""
# A plain completion: the row moves to the table of finished jobs, where it is also the record of its last run. The
# fence: the run with this lease is still running. The outcome of each job is looked up by id in one JSON object; with a
# join the planner might scan all outcomes for each job.
_GONE = f"""gone AS (DELETE FROM ONLY mainspring_jobs AS job WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))
        AND state = 'running' AND lease = $2::jsonb -> id ->> 0 RETURNING job.*, $2::jsonb -> id AS outcome)"""
_KEEP = f"""INSERT INTO mainspring_finished ({_COPIED_COLUMNS}, state, ending, finished_at, result)
    SELECT {_COPIED_COLUMNS}, 'completed', 'completed', (outcome ->> 1)::bigint, outcome ->> 2 FROM gone"""
# A run with notes: an execution row has them, so the job's own row is not marked as the record of its last run.
_NOTED = """noted AS (INSERT INTO mainspring_executions
        SELECT id, runs, attempt, 'completed', worker, lease, started_at, (outcome ->> 1)::bigint,
            coalesce(octet_length(outcome ->> 2), 0), NULL, outcome ->> 3
        FROM gone WHERE outcome ->> 3 IS NOT NULL ON CONFLICT DO NOTHING)"""
_KEEP_NOTED = _KEEP.replace(
    "'completed', 'completed'", "'completed', CASE WHEN outcome ->> 3 IS NULL THEN 'completed' END"
)
COMPLETE = f"WITH {_GONE} {_KEEP} {OVERWRITE} RETURNING id"
_COMPLETE_NOTED = f"WITH {_GONE}, {_NOTED} {_KEEP_NOTED} {OVERWRITE} RETURNING id"
_COUNT_AND_FREE = f"""counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::{BIGINT_ARRAY}, $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))"""
_NO_CIRCUIT = "NOT EXISTS (SELECT 1 FROM mainspring_circuits)"
# All of it in one statement. If an outcome is not accepted, or a circuit exists, it divides by zero: nothing is
# written, and write_outcomes handles the batch. $1 has the ids in their order, $2 the ends of the runs, $9 the leases,
# $10 the results by id (null: none). The index returns the rows in the order of their ids, so the n-th row has the n-th
# end. That, and the fence, is what the last line proves: the ids and leases of the rows are those of the outcomes.
COMPLETE_ALL = f"""WITH ended AS MATERIALIZED (SELECT string_to_array($2, '{SEPARATOR}')::bigint[] AS at),
    gone AS (DELETE FROM ONLY mainspring_jobs WHERE id = ANY(string_to_array($1, '{SEPARATOR}')) AND state = 'running'
        RETURNING {_COPIED_COLUMNS}),
    kept AS (INSERT INTO mainspring_finished ({_COPIED_COLUMNS}, state, ending, finished_at, result)
        SELECT {_COPIED_COLUMNS}, 'completed', 'completed', ((SELECT at FROM ended))[row_number() OVER ()],
            CASE WHEN $10::jsonb IS NOT NULL THEN $10::jsonb ->> id END FROM gone),
    {_COUNT_AND_FREE}
    SELECT 1 / (coalesce(string_agg(id, '{SEPARATOR}') = $1 AND string_agg(lease, '{SEPARATOR}') = $9, false)
        AND {_NO_CIRCUIT})::integer FROM gone"""
# The same for items of maps whose ends are counted beside the flow (item_counts.py): $11 has flows, $12 positions and
# $13 numbers of ends, of $14 maps. Their rows are locked first. If one may not count as many, no job is found.
COMPLETE_ITEMS = COMPLETE_ALL.replace(
    "    gone AS (",
    f"""    counted_ends AS (
        UPDATE mainspring_item_counts AS counts SET ended = counts.ended + given.ended
        FROM unnest(string_to_array($11, '{SEPARATOR}'), string_to_array($12, '{SEPARATOR}')::bigint[],
            string_to_array($13, '{SEPARATOR}')::bigint[]) AS given (flow, position, ended)
        WHERE counts.flow = given.flow AND counts.position = given.position
            AND counts.ended + given.ended <= counts.allowed RETURNING 1),
    gone AS (""",
    1,
).replace(
    "AND state = 'running'\n", "AND state = 'running'\n            AND (SELECT count(*) FROM counted_ends) = $14\n", 1
)
# The same for jobs with a limit key. Their places are given back: $11 has limit keys, $12 how many.
COMPLETE_LIMITED = COMPLETE_ALL.replace("FROM ONLY mainspring_jobs", "FROM mainspring_limited").replace(
    "    SELECT 1 / (", f"    , {give_back_parts('$11', '$12')}\n    SELECT 1 / (", 1
)
# The same if some of the runs have notes.
COMPLETE_ALL_NOTED = f"""WITH {_GONE}, {_NOTED}, kept AS ({_KEEP_NOTED}),
    {_COUNT_AND_FREE}
    SELECT 1 / (count(*) = $9 AND {_NO_CIRCUIT})::integer FROM gone"""

_encode = msgspec.json.encode


async def complete_items(db: Session, outcomes: Sequence[Outcome], worker: WorkerId, leases: list[Lease]) -> bool:
    """Like complete_all(), for items without notes. Returns False also if an end may not be counted beside its flow."""
    failpoint("finish.mid_batch")
    ids, ends, fence, results = _outcome_columns(outcomes)
    counts = (*count_columns(sums_by_minute(outcomes)), worker, leases)
    try:
        await db.rows(COMPLETE_ITEMS, ids, ends, *counts, fence, results, *count_values(outcomes))
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


async def complete_limited(db: Session, outcomes: Sequence[Outcome], worker: WorkerId, leases: list[Lease]) -> bool:
    """Like complete_all(), for jobs with a limit key, without notes."""
    failpoint("finish.mid_batch")
    ids, ends, fence, results = _outcome_columns(outcomes)
    counts = (*count_columns(sums_by_minute(outcomes)), worker, leases)
    ended = sorted(Counter(outcome.limit_key or "" for outcome in outcomes).items())
    try:
        given_back = [key for key, _ in ended], [str(count) for _, count in ended]
        await db.rows(COMPLETE_LIMITED, ids, ends, *counts, fence, results, *given_back)
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


async def complete_all(db: Session, outcomes: Sequence[Outcome], worker: WorkerId | None, leases: list[Lease]) -> bool:
    """Writes plain completions of different jobs in one statement, which also counts them, and deletes leases without
    running jobs. Returns False if one is not accepted, or a circuit exists: then nothing is written, and a transaction
    has to be rolled back."""
    failpoint("finish.mid_batch")
    others = (*count_columns(sums_by_minute(outcomes)), worker, leases)
    try:
        if any(outcome.account for outcome in outcomes):
            await db.rows(COMPLETE_ALL_NOTED, *_outcome_values(outcomes), *others, len(outcomes))
        else:
            ids, ends, fence, results = _outcome_columns(outcomes)
            await db.rows(COMPLETE_ALL, ids, ends, *others, fence, results)
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


def _outcome_columns(outcomes: Sequence[Outcome]) -> tuple[str, str, str, str | None]:
    """The ids, ends and leases of COMPLETE_ALL in the order of the ids, and the results."""
    rows = sorted([(outcome.id, str(micros(outcome.finished_at)), outcome.lease) for outcome in outcomes])
    ids, ends, leases = zip(*rows, strict=True)
    results = {outcome.id: outcome.result for outcome in outcomes if outcome.result is not None}
    texts = SEPARATOR.join(ids), SEPARATOR.join(ends), SEPARATOR.join(leases)
    return *texts, _encode(results).decode() if results else None


def _outcome_values(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    ends: dict[JobId, tuple[Lease, int, str | None, str | None] | tuple[Lease, int, str | None]] = {
        outcome.id: (outcome.lease, micros(outcome.finished_at), outcome.result)
        if outcome.account is None
        else (outcome.lease, micros(outcome.finished_at), outcome.result, notes_text(outcome.account))
        for outcome in outcomes
    }
    return SEPARATOR.join(ends), _encode(ends).decode()


async def complete(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    noted = any(outcome.account for outcome in outcomes)
    rows = await db.rows(_COMPLETE_NOTED if noted else COMPLETE, *_outcome_values(outcomes))
    failpoint("finish.mid_batch")
    return {id for (id,) in rows}
