"""The memory store's table of flows, with the jobs of their steps."""

from __future__ import annotations

from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import Flow
from ...records.step import StepRef
from ..graph_cache import no_steps


class FlowTable:
    """Every flow by the id of its own job."""

    def __init__(self) -> None:
        self.rows: dict[JobId, Flow] = {}
        self.graphs: dict[JobId, Graph] = {}
        self._jobs: dict[JobId, dict[int, JobId]] = {}

    def add_job(self, ref: StepRef, id: JobId) -> None:
        self._jobs.setdefault(ref.flow, {})[ref.position] = id

    def drop_job(self, ref: StepRef) -> None:
        jobs = self._jobs.get(ref.flow, {})
        jobs.pop(ref.position, None)
        if not jobs:
            self._jobs.pop(ref.flow, None)

    def put(self, flow: Flow) -> None:
        self.rows[flow.id] = flow
        if not flow.planned:
            self.graphs[flow.id] = no_steps()

    def drop(self, id: JobId) -> None:
        self.rows.pop(id, None)
        self.graphs.pop(id, None)

    def jobs(self, flow: JobId, first: int, last: int) -> list[JobId]:
        """The ids of the jobs at these positions, by position."""
        jobs = self._jobs.get(flow, {})
        return [jobs[position] for position in sorted(jobs) if first <= position <= last]
