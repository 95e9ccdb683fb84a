"""The metric families of the cluster, each with its name, help text and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.metadata import version

from prometheus_client.core import Metric

from ..records.job import SHOWN
from ..records.run import OUTCOMES, Ending
from ..records.tally import NOT_COUNTED, RunSums
from ..schedule.record import Schedule
from .families import FoldedLabels, Labels, counter, gauge, histogram, seconds
from .snapshot import ClusterSnapshot

STATUSES = tuple(name for name in OUTCOMES if name not in NOT_COUNTED)
QUEUE_STATES = ("pending", "scheduled", "retrying", "running")
RESULTS = ("success", "failed", "skipped")
# Leaderships are named in code, and are few.
MAX_LEADERS = 200
# From a millisecond to a good hour, in factors of two or four.
DURATIONS = seconds(10, 16, 2) | seconds(17, 24) | seconds(26, 32, 2)


def families(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    """All families. An empty store has every one, too, if only without a sample."""
    tasks, queues = FoldedLabels(sorted(_tasks(snapshot))), FoldedLabels(queue.name for queue in snapshot.queues)
    schedules = FoldedLabels(schedule.name for schedule in snapshot.schedules)
    flows = FoldedLabels(sorted(snapshot.flows))
    yield gauge(
        "mainspring_info", "The release that reports these figures.", ["version"], {(version("mainspring"),): 1}
    )
    yield from _runs(snapshot, tasks)
    yield from _queues(snapshot, queues)
    yield from _workers(snapshot)
    yield from _schedules(snapshot, schedules)
    yield gauge(
        "mainspring_circuit_open", "Whether the task's circuit breaker keeps its jobs from running.", ["job"],
        _largest(((tasks(one.task),), float(one.open_until is not None and one.open_until > snapshot.at))
              for one in snapshot.circuits),
    )  # fmt: skip
    yield gauge(
        "mainspring_flows_open",
        "Flows whose steps are under way; large figures are estimates.",
        ["flow"],
        _sums(((flows(name),), count) for name, count in snapshot.flows.items()),
    )
    yield gauge(
        "mainspring_metrics_folded", "Values of a label that are reported together as (other).", ["label"],
        {("job",): tasks.folded, ("queue",): queues.folded, ("schedule",): schedules.folded, ("flow",): flows.folded},
    )  # fmt: skip


def _tasks(snapshot: ClusterSnapshot) -> set[str]:
    return {tally.task for tally in snapshot.tallies} | {circuit.task for circuit in snapshot.circuits}


def _runs(snapshot: ClusterSnapshot, tasks: FoldedLabels) -> Iterator[Metric]:
    jobs: dict[str, RunSums] = {}
    for tally in snapshot.tallies:
        jobs.setdefault(tasks(tally.task), RunSums()).add(tally.sums)
    yield counter(
        "job_execution_total", "Ended runs by status; snoozed and released ones are not counted.", ["job", "status"],
        {(job, status): sums.endings.get(status, 0) for job, sums in jobs.items() for status in STATUSES},
    )  # fmt: skip
    yield histogram(
        "job_execution_duration_seconds", "Duration of those runs.", ["job"],
        {(job,): (sums.spread, sums.took / 1e6) for job, sums in jobs.items()}, DURATIONS,
    )  # fmt: skip
    yield gauge(
        "job_last_success_timestamp_seconds", "When a run last completed.", ["job"],
        {(job,): well / 1e6 for job, sums in jobs.items() if (well := _last_success(sums))},
    )  # fmt: skip
    yield counter(
        "job_items_processed_total", "Items counted by ctx.items().", ["job", "result"],
        {(job, result): sums.items.get(result, 0) for job, sums in jobs.items() if sums.items for result in RESULTS},
    )  # fmt: skip
    yield counter(
        "mainspring_job_retries_total", "Failed runs that are followed by another run.", ["job"],
        {(job,): sums.fates.get("pending", 0) for job, sums in jobs.items()},
    )  # fmt: skip
    yield counter(
        "mainspring_job_deaths_total", "Failed runs that were their job's last.", ["job"],
        {(job,): sums.fates.get("dead", 0) for job, sums in jobs.items()},
    )  # fmt: skip


def _last_success(sums: RunSums) -> int:
    """When a run last completed; with counts of an earlier release, the last run's end if all runs completed."""
    return sums.well or (sums.last if set(sums.endings) == {Ending.COMPLETED.value} else 0)


def _queues(snapshot: ClusterSnapshot, names: FoldedLabels) -> Iterator[Metric]:
    jobs: dict[Labels, float] = {}
    for queue in snapshot.queues:
        for state in QUEUE_STATES:
            key = (names(queue.name), state)
            jobs[key] = jobs.get(key, 0) + getattr(queue, state)
    yield gauge("mainspring_queue_jobs", "Unfinished jobs by queue.", ["queue", "state"], jobs)
    yield gauge(
        "mainspring_queue_oldest_seconds", "How long the oldest waiting job has been due.", ["queue"],
        {(queue,): age for queue, age in snapshot.oldest.items()},
    )  # fmt: skip
    yield gauge(
        "mainspring_queue_paused", "Whether the queue is paused.", ["queue"],
        _largest(((names(queue.name),), float(queue.paused)) for queue in snapshot.queues),
    )  # fmt: skip
    yield gauge(
        "mainspring_jobs", "Jobs by state, finished ones as long as they are retained; large figures are estimates.",
        ["state"], {(state,): snapshot.counts.get(state, 0) for state in SHOWN},
    )  # fmt: skip


def _workers(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    workers = [worker.info for worker in snapshot.workers]
    drained = [worker for worker in workers if worker.drained]
    for name, text, value in (
        ("mainspring_workers", "Workers whose lease has not lapsed.", len(workers)),
        ("mainspring_workers_drained", "Workers that claim no more jobs by command.", len(drained)),
        ("mainspring_workers_deaf", "Workers without notifications, which poll.", sum(one.deaf for one in workers)),
        ("mainspring_slots", "How many jobs may run at once.", sum(one.concurrency for one in workers)),
        ("mainspring_slots_leaked", "Slots held by runs that ignore their interruption.",
         sum(one.leaked for one in workers)),
        ("mainspring_running", "Running jobs, as of their workers' last beats.",
         sum(one.running for one in workers)),
        ("mainspring_workers_memory_bytes", "Resident memory of all workers.", sum(one.memory for one in workers)),
    ):  # fmt: skip
        yield gauge(name, text, (), {(): float(value)})
    leaders = [leader for leader in snapshot.leaders if leader.holder is not None][:MAX_LEADERS]
    yield gauge(
        "mainspring_leader", "The leader; without a sample there is none.", ["name", "holder"],
        {(leader.name, leader.holder or ""): 1.0 for leader in leaders},
    )  # fmt: skip
    yield gauge(
        "mainspring_leader_term", "The number of the term; it grows with each change of leader.", ["name"],
        {(leader.name,): float(leader.term) for leader in leaders},
    )  # fmt: skip


def _schedules(snapshot: ClusterSnapshot, names: FoldedLabels) -> Iterator[Metric]:
    for name, text, kinds in (
        ("mainspring_schedule_ticks_total", "What became of ticks.", ("fired", "skipped", "missed")),
        ("mainspring_schedule_runs_total", "How jobs of the schedule ended.", ("completed", "failed")),
    ):
        total: dict[Labels, float] = {}
        for one in snapshot.schedules:
            for kind in kinds:
                key = (names(one.name), kind)
                total[key] = total.get(key, 0) + getattr(one, kind)
        yield counter(name, text, ["schedule", "what" if "ticks" in name else "status"], total)
    for name, text, figure in _OF_SCHEDULES:
        figures = ((names(one.name), figure(one, snapshot)) for one in snapshot.schedules)
        yield gauge(
            name, text, ["schedule"], _largest(((label,), value) for label, value in figures if value is not None)
        )


def _overdue(one: Schedule, snapshot: ClusterSnapshot) -> float:
    """Seconds since the schedule was due. A held tick is not overdue: it does not wait for a worker."""
    if one.paused_at is not None or one.due_at is None:
        return 0.0
    return max(0.0, (snapshot.at - one.due_at).total_seconds())


def _lateness(one: Schedule, snapshot: ClusterSnapshot) -> float | None:
    if one.last_fired_at is None or one.last_run_at is None:
        return None
    return max(0.0, (one.last_fired_at - one.last_run_at).total_seconds())


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


_OF_SCHEDULES: tuple[tuple[str, str, Callable[[Schedule, ClusterSnapshot], float | None]], ...] = (
    ("mainspring_schedule_overdue_seconds", "How long a tick has been due without being fired.", _overdue),
    ("mainspring_schedule_lateness_seconds", "How long after its instant the newest tick was fired.", _lateness),
    ("mainspring_schedule_failures", "Consecutive failed runs.", lambda one, snapshot: one.failures),
    ("mainspring_schedule_paused", "Whether it is paused.", lambda one, snapshot: float(one.paused_at is not None)),
    ("mainspring_schedule_next_timestamp_seconds", "The next tick.",
     lambda one, snapshot: _stamp(one.next_run_at)),
    ("mainspring_schedule_last_success_timestamp_seconds", "When its last job completed.",
     lambda one, snapshot: _stamp(one.succeeded_at)),
)  # fmt: skip


def _sums(samples: Iterable[tuple[Labels, float]]) -> dict[Labels, float]:
    found: dict[Labels, float] = {}
    for key, value in samples:
        found[key] = found.get(key, 0) + value
    return found


def _largest(samples: Iterable[tuple[Labels, float]]) -> dict[Labels, float]:
    """The largest value of each label."""
    found: dict[Labels, float] = {}
    for key, value in samples:
        found[key] = max(value, found.get(key, value))
    return found
