"""The cluster's metric families, each with its name, its meaning and its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.metadata import version

from prometheus_client.core import Metric

from ..records.job import SHOWN
from ..records.run import OUTCOMES, Ending
from ..records.tally import NOT_COUNTED, RunSums
from ..schedule.record import Schedule
from .families import Fold, Labels, counter, gauge, histogram, seconds
from .snapshot import ClusterSnapshot

STATUSES = tuple(name for name in OUTCOMES if name not in NOT_COUNTED)
QUEUE_STATES = ("pending", "scheduled", "retrying", "running")
RESULTS = ("success", "failed", "skipped")
# Leaderships are named by code, and are few.
LEADERS = 200
# From a millisecond to a good hour, a factor of two or four apart.
DURATIONS = seconds(10, 16, 2) | seconds(17, 24) | seconds(26, 32, 2)


def families(seen: ClusterSnapshot) -> Iterator[Metric]:
    """All of them; every one is there in an empty store too, if only without a sample."""
    tasks, queues = Fold(sorted(_tasks(seen))), Fold(queue.name for queue in seen.queues)
    schedules = Fold(schedule.name for schedule in seen.schedules)
    yield gauge("mainspring_info", "The release that tells these figures.", ["version"], {(version("mainspring"),): 1})
    yield from _runs(seen, tasks)
    yield from _queues(seen, queues)
    yield from _workers(seen)
    yield from _schedules(seen, schedules)
    yield gauge(
        "mainspring_circuit_open", "Whether the task's breaker keeps its jobs from running.", ["job"],
        _most(((tasks(one.task),), float(one.open_until is not None and one.open_until > seen.at))
              for one in seen.circuits),
    )  # fmt: skip
    yield gauge(
        "mainspring_metrics_folded", "Values of a label that are told together as (other).", ["label"],
        {("job",): tasks.folded, ("queue",): queues.folded, ("schedule",): schedules.folded},
    )  # fmt: skip


def _tasks(seen: ClusterSnapshot) -> set[str]:
    return {tally.task for tally in seen.tallies} | {circuit.task for circuit in seen.circuits}


def _runs(seen: ClusterSnapshot, tasks: Fold) -> Iterator[Metric]:
    jobs: dict[str, RunSums] = {}
    for tally in seen.tallies:
        jobs.setdefault(tasks(tally.task), RunSums()).add(tally.sums)
    yield counter(
        "job_execution_total", "Runs that ended, by how; snoozed and released ones are not counted.", ["job", "status"],
        {(job, status): sums.endings.get(status, 0) for job, sums in jobs.items() for status in STATUSES},
    )  # fmt: skip
    yield histogram(
        "job_execution_duration_seconds", "How long those runs took.", ["job"],
        {(job,): (sums.spread, sums.took / 1e6) for job, sums in jobs.items()}, DURATIONS,
    )  # fmt: skip
    yield gauge(
        "job_last_success_timestamp_seconds", "When a run last completed.", ["job"],
        {(job,): well / 1e6 for job, sums in jobs.items() if (well := _last_success(sums))},
    )  # fmt: skip
    yield counter(
        "job_items_processed_total", "What ctx.items() was told.", ["job", "result"],
        {(job, result): sums.items.get(result, 0) for job, sums in jobs.items() if sums.items for result in RESULTS},
    )  # fmt: skip
    yield counter(
        "mainspring_job_retries_total", "Runs that went wrong and are followed by another.", ["job"],
        {(job,): sums.fates.get("pending", 0) for job, sums in jobs.items()},
    )  # fmt: skip
    yield counter(
        "mainspring_job_deaths_total", "Runs that went wrong and were their job's last.", ["job"],
        {(job,): sums.fates.get("dead", 0) for job, sums in jobs.items()},
    )  # fmt: skip


def _last_success(sums: RunSums) -> int:
    """Counts of an earlier release tell only when the last run ended: that will do where all of them completed."""
    return sums.well or (sums.last if set(sums.endings) == {Ending.COMPLETED.value} else 0)


def _queues(seen: ClusterSnapshot, names: Fold) -> Iterator[Metric]:
    jobs: dict[Labels, float] = {}
    for queue in seen.queues:
        for state in QUEUE_STATES:
            key = (names(queue.name), state)
            jobs[key] = jobs.get(key, 0) + getattr(queue, state)
    yield gauge("mainspring_queue_jobs", "Unfinished jobs by queue.", ["queue", "state"], jobs)
    yield gauge(
        "mainspring_queue_oldest_seconds", "For how long the job that waits longest has been due.", ["queue"],
        {(queue,): age for queue, age in seen.oldest.items()},
    )  # fmt: skip
    yield gauge(
        "mainspring_queue_paused", "Whether the queue gives no jobs.", ["queue"],
        _most(((names(queue.name),), float(queue.paused)) for queue in seen.queues),
    )  # fmt: skip
    yield gauge(
        "mainspring_jobs", "Jobs by state, finished ones as long as retention keeps them; large figures are estimates.",
        ["state"], {(state,): seen.counts.get(state, 0) for state in SHOWN},
    )  # fmt: skip


def _workers(seen: ClusterSnapshot) -> Iterator[Metric]:
    workers = [worker.info for worker in seen.workers]
    drained = [worker for worker in workers if worker.drained]
    for name, text, value in (
        ("mainspring_workers", "Workers whose lease has not lapsed.", len(workers)),
        ("mainspring_workers_drained", "Those that were told to take no more jobs.", len(drained)),
        ("mainspring_workers_deaf", "Those that listen for news in vain, and poll.", sum(one.deaf for one in workers)),
        ("mainspring_slots", "How many jobs may run at once.", sum(one.concurrency for one in workers)),
        ("mainspring_slots_leaked", "Slots held by runs that ignore their interruption.",
         sum(one.leaked for one in workers)),
        ("mainspring_running", "Jobs that run, as their workers said with their last beat.",
         sum(one.running for one in workers)),
        ("mainspring_workers_memory_bytes", "Resident memory of all workers.", sum(one.memory for one in workers)),
    ):  # fmt: skip
        yield gauge(name, text, (), {(): float(value)})
    leaders = [leader for leader in seen.leaders if leader.holder is not None][:LEADERS]
    yield gauge(
        "mainspring_leader", "Who leads; nobody does where there is no sample.", ["name", "holder"],
        {(leader.name, leader.holder or ""): 1.0 for leader in leaders},
    )  # fmt: skip
    yield gauge(
        "mainspring_leader_term", "The number of the term; it grows with each change of leader.", ["name"],
        {(leader.name,): float(leader.term) for leader in leaders},
    )  # fmt: skip


def _schedules(seen: ClusterSnapshot, names: Fold) -> Iterator[Metric]:
    for name, text, kinds in (
        ("mainspring_schedule_ticks_total", "What became of ticks.", ("fired", "skipped", "missed")),
        ("mainspring_schedule_runs_total", "How jobs of the schedule ended.", ("completed", "failed")),
    ):
        total: dict[Labels, float] = {}
        for one in seen.schedules:
            for kind in kinds:
                key = (names(one.name), kind)
                total[key] = total.get(key, 0) + getattr(one, kind)
        yield counter(name, text, ["schedule", "what" if "ticks" in name else "status"], total)
    for name, text, figure in _OF_SCHEDULES:
        figures = ((names(one.name), figure(one, seen)) for one in seen.schedules)
        yield gauge(name, text, ["schedule"], _most(((label,), value) for label, value in figures if value is not None))


def _overdue(one: Schedule, seen: ClusterSnapshot) -> float:
    """A held tick waits for something else than a worker."""
    if one.paused_at is not None or one.due_at is None:
        return 0.0
    return max(0.0, (seen.at - one.due_at).total_seconds())


def _lateness(one: Schedule, seen: ClusterSnapshot) -> float | None:
    if one.last_fired_at is None or one.last_run_at is None:
        return None
    return max(0.0, (one.last_fired_at - one.last_run_at).total_seconds())


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


_OF_SCHEDULES: tuple[tuple[str, str, Callable[[Schedule, ClusterSnapshot], float | None]], ...] = (
    ("mainspring_schedule_overdue_seconds", "For how long a tick has been due that nobody has fired.", _overdue),
    ("mainspring_schedule_lateness_seconds", "How long after its instant the newest tick was fired.", _lateness),
    ("mainspring_schedule_failures", "Runs in a row that failed.", lambda one, seen: one.failures),
    ("mainspring_schedule_paused", "Whether it makes no jobs.", lambda one, seen: float(one.paused_at is not None)),
    ("mainspring_schedule_next_timestamp_seconds", "The next tick.",
     lambda one, seen: _stamp(one.next_run_at)),
    ("mainspring_schedule_last_success_timestamp_seconds", "When a job of it last completed.",
     lambda one, seen: _stamp(one.succeeded_at)),
)  # fmt: skip


def _most(samples: Iterable[tuple[Labels, float]]) -> dict[Labels, float]:
    """The largest of those that share a label."""
    found: dict[Labels, float] = {}
    for key, value in samples:
        found[key] = max(value, found.get(key, value))
    return found
