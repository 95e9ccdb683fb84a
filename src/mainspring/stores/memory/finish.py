"""What runs tell the memory store: how they ended, and how they go. The lease says which run."""

from __future__ import annotations

from msgspec.structs import replace

from ...records.job import State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ..rules import apply_outcome, is_newer_progress
from .enqueue import enqueue
from .jobs import JobTable
from .ledger import RunLedger
from .workers import WorkerTable


def finish_one(jobs: JobTable, workers: WorkerTable, ledger: RunLedger, outcome: Outcome) -> bool:
    """Whether the outcome is accepted; if so, it is written."""
    job = jobs.get(outcome.id)
    if job is None or job.state is not State.RUNNING or job.lease != outcome.lease:
        return False
    if outcome.silent and workers.alive(job.worker or "", outcome.finished_at):
        return False
    ledger.accept(job, outcome)
    jobs.put(apply_outcome(job, outcome))
    enqueue(jobs, outcome.then, outcome.finished_at)
    return True


def report_one(jobs: JobTable, ledger: RunLedger, report: RunReport) -> bool:
    """Whether the run goes on; if so, its lines and its progress are kept."""
    job = jobs.get(report.id)
    if job is None or job.state is not State.RUNNING or job.lease != report.lease:
        return False
    lines = ledger.lines[job.id]
    for line in report.lines:
        lines.setdefault((line.run, line.n), line)
    if is_newer_progress(report.progress, job.progress):
        jobs[job.id] = replace(job, progress=report.progress)
    return True
