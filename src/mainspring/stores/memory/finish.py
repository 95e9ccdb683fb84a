"""How the memory store finishes runs, and records their log lines and progress.

The lease is the fence: an outcome or report is accepted only while the job is running under the lease that it names. An
outcome on behalf of a silent worker is accepted only if that worker is still silent.
"""

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
    """Writes the outcome if the fence accepts it, and returns whether it does."""
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
    """Records the log lines and progress if the run still goes on, and returns whether it does."""
    job = jobs.get(report.id)
    if job is None or job.state is not State.RUNNING or job.lease != report.lease:
        return False
    lines = ledger.lines[job.id]
    for line in report.lines:
        lines.setdefault((line.run, line.n), line)
    if is_newer_progress(report.progress, job.progress):
        jobs[job.id] = replace(job, progress=report.progress)
    return True
