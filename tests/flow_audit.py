"""Compares the flows of a store with their ideal, after everything has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from msgspec import json

from flow_ideal import Ending, EndState, Ideal
from mainspring.ids import JobId
from mainspring.records.flow import FAN_OUT, FlowWithPlan
from mainspring.records.job import Job, State
from mainspring.records.step import MAX_POSITION
from mainspring.store import FlowStore, Store
from mainspring.stores import open_store

PAGE_JOBS = 1000
_ENDED: Mapping[State, EndState] = {
    State.COMPLETED: "completed", State.DEAD: "dead", State.EXPIRED: "dead", State.CANCELLED: "cancelled",
}  # fmt: skip


async def audit_flows(url: str, jobs: Mapping[JobId, Job]) -> int:
    """Checks every flow among these jobs, and returns how many there are. None was cancelled or put back to work."""
    store = open_store(url)
    await store.open()
    try:
        found = await cast(FlowStore, store).flows(list(jobs))
        for flow in found:
            check_flow(flow, jobs[flow.row.id], await steps_of(store, flow.row.id))
        return len(found)
    finally:
        await store.close()


async def steps_of(store: Store, flow: JobId) -> list[Job]:
    """All jobs of the flow's steps, by position."""
    found, first = list[Job](), 0
    while page := await cast(FlowStore, store).step_jobs(flow, first=first, last=MAX_POSITION, limit=PAGE_JOBS):
        found += page
        assert page[-1].step is not None
        first = page[-1].step.position + 1
    return found


def check_flow(flow: FlowWithPlan, own: Job, steps: list[Job]) -> None:
    """The flow has ended as its ideal: it has the same jobs, statuses, counts and result."""
    refs = {job.id: job.step for job in steps if job.step is not None}
    twice = [position for position, count in Counter(ref.position for ref in refs.values()).items() if count > 1]
    assert not twice, f"L2: flow {own.id} has two jobs at {twice}"
    left = [job.id for job in steps if not job.state.final]
    assert not left, f"L5: {left} of flow {own.id} have not ended"
    by_job = {(refs[job.id].life, refs[job.id].number) for job in steps if job.task == FAN_OUT}
    ideal = Ideal(flow.plan, by_job)
    waiting = {(refs[job.id].life, refs[job.id].number, refs[job.id].index): job for job in steps}
    while ready := [
        place for place in waiting if place in ideal.jobs or (place[:2] in by_job and place[1] in ideal.steps)
    ]:
        # The job that makes items ends after it has made them all.
        for life, n, index in sorted(ready, key=lambda place: (place[2] == 0, place)):
            job = waiting.pop((life, n, index))
            if (life, n) in by_job and index:
                ideal.make_item(n)
            if job.task != FAN_OUT and not job.refs:
                assert json.decode(job.payload) == ideal.arguments(n, index), f"L2: {job} has other arguments"
            ideal.end(n, index, _ending(job))
    assert not waiting, f"L1: {list(waiting.values())} of flow {own.id} had not to be"
    assert ideal.over, f"L3: steps of flow {own.id} are missing: {ideal.jobs}"
    assert flow.row.statuses == "".join(ideal.statuses), f"L3: flow {own.id} is {flow.row}"
    for n, step in ideal.steps.items():
        if step.items is not None:
            counts = flow.row.counts[n]
            assert (counts.made, counts.ended) == (len(step.items), len(step.items)), f"L3: step {n} counts {counts}"
    state, value = ideal.verdict()
    assert (own.state, json.decode(own.result or "null")) == (state, value), f"L3: flow {own.id} ended as {own}"


def _ending(job: Job) -> Ending:
    skipped = job.state is State.COMPLETED and job.failure is not None and job.failure.type == "Skipped"
    return Ending(_ENDED[job.state], json.decode(job.result or "null"), skipped)
