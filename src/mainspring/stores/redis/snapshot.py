"""Snapshots: the values that a transaction has read, decoded and as stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job
from ...records.run import Execution
from ...schedule.record import Schedule
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .flow_rows import FlowRow
from .records import Raw, unpacked
from .worker_rows import workers_of

Found = tuple[Raw, Job | None]


class Snapshot:
    """The values of a read set, as stored and decoded; a decoded value is None if it cannot be decoded."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Found] = {}
        self.keys: dict[str, bytes | None] = {}
        self.schedules: dict[str, tuple[bytes | None, Schedule | None]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.circuits: dict[str, tuple[bytes, Circuit | None]] | None = None
        self.workers: dict[str, bytes | None] = {}
        self.runs: dict[JobId, list[Execution]] = {}
        self.flows: dict[JobId, FlowRow] = {}
        self.items: dict[JobId, dict[str, bytes]] = {}
        """What is counted beside the rows of flows, by the base of its shard."""
        self.steps: dict[Name, list[JobId]] = {}
        """The jobs of a flow's steps, by a name of read_sets.py."""
        self.lines: dict[JobId, list[bytes]] = {}
        """Log lines of a job that moves to another shard, as fields and values alternately."""
        self.chunks: dict[JobId, list[bytes]] = {}
        """Its output, likewise."""
        self.checkpoints: dict[JobId, list[bytes]] = {}
        """Its checkpoints, likewise."""

    # what is known so far, for the next stage of a read set

    def known_job(self, id: JobId) -> Job | None:
        found = self.jobs.get(id)
        return None if found is None else found[1]

    def known_holder(self, key: str) -> JobId | None:
        held = self.keys.get(key)
        return None if held is None else unpacked(held)

    def known_waiting(self, name: str) -> Sequence[str]:
        return self.waiting.get(name, ())

    def known_circuits(self) -> Collection[str]:
        return self.circuits or ()

    def is_read(self, name: Name) -> bool:
        match name.kind:
            case "job" | "seen_job":
                return name.name in self.jobs
            case "key":
                return name.name in self.keys
            case "schedule" | "fired_schedule" | "seen_schedule":
                return name.name in self.schedules
            case "waiting":
                return name.name in self.waiting
            case "worker":
                return name.name in self.workers
            case "circuits":
                return self.circuits is not None
            case "runs":
                return name.name in self.runs
            case "lines":
                return name.name in self.lines
            case "flow":
                return name.name in self.flows
            case "unfinished_steps" | "failed_steps" | "all_steps":
                return name in self.steps
        return True

    # the tables that a rule runs on

    def fill(self, tables: LoadedTables, names: Iterable[Name]) -> None:
        """Adds the values of these names to the tables."""
        for one in names:
            kind, name = one
            match kind:
                case "job" | "seen_job":
                    tables.add_job(name, self.jobs[name][1])
                case "key":
                    tables.add_holder(name, self.known_holder(name))
                case "schedule" | "fired_schedule" | "seen_schedule":
                    tables.add_schedule(name, self.schedules[name][1])
                case "waiting":
                    tables.add_waiting(name, self.waiting[name])
                case "worker":
                    row = workers_of({name: self.workers[name]}).get(name)
                    tables.add_worker(name, None if row is None else row.until)
                case "circuits":
                    known = (self.circuits or {}).items()
                    tables.add_circuits({task: circuit for task, (_, circuit) in known if circuit is not None})
                case "flow":
                    flow = self.flows[name]
                    tables.add_flow(name, flow.flow, flow.graph)
                case "unfinished_steps" | "failed_steps" | "all_steps":
                    found = (self.jobs[id][1] for id in self.steps[one])
                    tables.add_step_jobs(one, [job for job in found if job is not None])
                case "runs":
                    tables.add_runs(name, self.runs[name])
                case _:
                    pass
