"""What a beat finds out besides, so that a worker that hears has no need to look: what is due, who is silent."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...clock import micros
from ...records.worker import WorkerInfo
from .claim import ClaimRequest, read_claim_view
from .pool import Session


class BeatFindings(Struct, frozen=True):
    live_workers: int
    """Workers alive."""
    lost: bool
    """A silent worker holds runs."""
    due: bool
    """A claim of this worker would take something now, or a schedule is due: the word of it must have been lost."""


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
