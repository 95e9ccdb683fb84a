"""What a beat checks besides, so that a worker that listens need not poll: due work, and runs of silent workers."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...clock import micros
from ...records.worker import WorkerInfo
from .claim import ClaimRequest, read_claim_view
from .pool import Session


class BeatFindings(Struct, frozen=True):
    live_workers: int
    """Number of live workers."""
    lost: bool
    """A silent worker has runs to rescue."""
    due: bool
    """A claim of this worker would find work, or a schedule is due: its notification must have been lost."""


_FINDINGS = """WITH alive AS (SELECT id FROM mainspring_workers WHERE until > $1)
    SELECT (SELECT count(*) FROM alive),
        EXISTS (SELECT 1 FROM mainspring_leases WHERE worker <> ALL (ARRAY(SELECT id FROM alive))),
        EXISTS (SELECT 1 FROM mainspring_schedules WHERE due_at <= $1 AND NOT computed)"""


async def find_on_beat(db: Session, worker: WorkerInfo, now: datetime) -> BeatFindings:
    live_workers, lost, due = await db.row(_FINDINGS, micros(now))
    if not due and worker.running < worker.concurrency and not worker.drained:
        request = ClaimRequest(worker.queues, worker.id, worker.tasks, 1, now)
        due = (await read_claim_view(db, request)).has_work(request.now)
    return BeatFindings(live_workers, lost, due)
