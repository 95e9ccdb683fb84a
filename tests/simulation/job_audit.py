"""The audit of jobs at the end: rules that only the whole story of a job shows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from mainspring.records.flow import CANCEL_STEPS, CLOSE_BATCH, FLOW_DEADLINE
from mainspring.records.job import Job, State
from mainspring.records.run import Ending, Execution

from .audited_store import AuditedStore
from .auditor import Auditor
from .tasks import FLOWS, RETRIES, UNRECORDED
from .tick_audit import audit_ticks

_FAILED = (Ending.FAILED, Ending.TIMEOUT)


async def audit_jobs(auditor: Auditor, store: AuditedStore, max_crashes: int) -> None:
    """Checks I1, I2, I3 and I6 after the faults have ceased and the cluster has settled."""
    jobs = {job.id: job for job in store.peek()}
    for id in sorted(auditor.acknowledged.keys() - jobs.keys() - auditor.gone):
        auditor.fail("I1", id, "was acknowledged, but is not in the store")
    made = {
        id for id, job in jobs.items() if job.step is not None or job.task in (CANCEL_STEPS, CLOSE_BATCH, FLOW_DEADLINE)
    }
    for id in sorted(jobs.keys() - auditor.requested - auditor.schedule_log.jobs.keys() - made):
        auditor.fail("I1", id, "is in the store, but was never requested")
    audit_ticks(auditor.schedule_log, auditor.fail, await store.time())
    auditor.flow_log.check_end(jobs)
    auditor.step_log.check_end(jobs)
    auditor.signal_log.check_end(jobs)
    auditor.batch_log.check_end(jobs)
    for job in jobs.values():
        # The job that looks after an open batch finds it closed when it is due.
        if not job.state.final and job.task != CLOSE_BATCH:
            auditor.fail("I2", job.id, f"is {job.state} at the end, held by {job.worker}")
        if job.state is State.COMPLETED and job.task not in UNRECORDED and job.id not in auditor.returned:
            auditor.fail("I1", job.id, "is completed, but no run of it returned")
        _check_counts(auditor, job, await store.executions(job.id), max_crashes)


def _check_counts(auditor: Auditor, job: Job, runs: list[Execution], max_crashes: int) -> None:
    """Checks I3: each life has at most the first attempt, its retries and its crashes, apart from refunded runs."""
    allowed = 1 + (RETRIES[job.task] if job.max_retries is None else job.max_retries)
    if auditor.starts[job.id] > job.runs:
        auditor.fail("I3", job.id, f"was started {auditor.starts[job.id]} times and claimed {job.runs} times")
    failed = crashed = 0
    bounds = [0, *auditor.lives[job.id], len(runs)]
    for first, end in pairwise(bounds):
        endings = Counter(run.ending for run in runs[first:end])
        failed, crashed = sum(endings[ending] for ending in _FAILED), endings[Ending.CRASHED]
        if failed > allowed or crashed > max_crashes:
            limits = f"{allowed} and {max_crashes} allowed"
            auditor.fail("I3", job.id, f"failed {failed} times and crashed {crashed} times, {limits}")
    if job.state is State.DEAD and runs and job.task not in FLOWS:
        last = runs[-1].ending
        if (last in _FAILED and failed < allowed) or (last is Ending.CRASHED and crashed < max_crashes):
            used = f"{failed} of {allowed} attempts and {crashed} of {max_crashes} crashes"
            auditor.fail("I3", job.id, f"is dead after {used}")
