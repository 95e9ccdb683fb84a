"""What a beat checks besides, so that a worker that listens need not poll: due work, and runs of silent workers.

The statement of the beat finds silent workers and due schedules, and whether the webhooks have changed.
"""

from __future__ import annotations

from datetime import datetime

from ...records.worker import WorkerInfo
from .claim import ClaimRequest, read_claim_view
from .pool import Session


async def finds_work(db: Session, worker: WorkerInfo, now: datetime) -> bool:
    """Whether a claim of this worker would find work: its notification must have been lost."""
    if worker.running >= worker.concurrency or worker.drained:
        return False
    request = ClaimRequest(worker.queues, worker.id, worker.tasks, 1, now)
    return (await read_claim_view(db, request)).has_work(request.now)
