"""Snapshots: the values that a transaction has read, decoded and as stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job
from ...records.run import Execution
from ...schedule.record import Schedule
from .records import Raw

Kind = Literal["job", "key", "schedule", "seen", "waiting", "worker", "circuits", "circuit", "runs", "lines"]
Found = tuple[Raw, Job | None]


class Name(NamedTuple):
    """The name of a value that a rule reads.

    A `schedule` may be written, a `seen` schedule is only read; `waiting` are the schedules that wait on one;
    `circuits` are all circuits, and `circuit` is one that the rule may write.
    """

    kind: Kind
    name: str


class Snapshot:
    """Values by kind and name. A rule that needs a value that is not here has an incomplete read set."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Found] = {}
        self.keys: dict[str, bytes | None] = {}
        self.schedules: dict[str, tuple[bytes | None, Schedule | None]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.circuits: dict[str, tuple[bytes, Circuit | None]] | None = None
        """The decoded circuit is None if it cannot be decoded; so it is with schedules."""
        self.workers: dict[str, bytes | None] = {}
        self.runs: dict[JobId, list[Execution]] = {}
        self.lines: dict[JobId, list[bytes]] = {}
        """Log lines of a job that moves to another shard, as fields and values alternately."""

    def job(self, id: JobId) -> Job | None:
        """None if there is no such job, or it was not read yet."""
        found = self.jobs.get(id)
        return None if found is None else found[1]

    def schedule(self, name: str) -> Schedule | None:
        """None if there is no such schedule, or it was not read yet."""
        found = self.schedules.get(name)
        return None if found is None else found[1]

    def __contains__(self, wanted: Name) -> bool:
        kind, name = wanted
        match kind:
            case "job":
                return name in self.jobs
            case "key":
                return name in self.keys
            case "schedule" | "seen":
                return name in self.schedules
            case "waiting":
                return name in self.waiting
            case "worker":
                return name in self.workers
            case "circuits":
                return self.circuits is not None
            case "runs":
                return name in self.runs
            case "lines":
                return name in self.lines
        return True

    def part(self, names: Iterable[Name]) -> Snapshot:
        """A snapshot with only these names."""
        part = Snapshot()
        for kind, name in names:
            match kind:
                case "job":
                    part.jobs[name] = self.jobs[name]
                case "key":
                    part.keys[name] = self.keys[name]
                case "schedule" | "seen":
                    part.schedules[name] = self.schedules[name]
                case "waiting":
                    part.waiting[name] = self.waiting[name]
                case "worker":
                    part.workers[name] = self.workers[name]
                case "circuits":
                    part.circuits = self.circuits
                case "runs":
                    part.runs[name] = self.runs[name]
                case "lines":
                    part.lines[name] = self.lines[name]
        return part
