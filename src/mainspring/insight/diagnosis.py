"""Diagnosis of an app: findings about its store, workers, jobs and schedules. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from ..records.circuit import Circuit
from ..records.finding import Finding, worst_verdict
from ..records.job import FINAL, Job, State
from ..records.queue import Queue
from ..records.schema import Schema
from ..records.worker import WorkerRow
from ..schedule.record import Schedule, Status
from .stats import Stats
from .why import Code, JobSurroundings, reasons
from .wrong_counts import WrongCounts

# A store that takes longer to answer is slow.
SLOW_ANSWER = timedelta(seconds=1)
# Difference between the clocks of the store and this machine that needs no warning.
MAX_SKEW = timedelta(seconds=1)
# A due job that waits longer is a warning.
MAX_BACKLOG_AGE = timedelta(minutes=5)
# A schedule that is due for longer is overdue: a worker should have fired it.
OVERDUE_AFTER = timedelta(minutes=1)
# Names in a finding; the rest are counted.
MAX_NAMED = 3


class ScheduleFact(Struct, frozen=True, gc=False):
    """The facts of one schedule; a hundred thousand of them take about ten megabytes."""

    name: str
    task: str
    status: Status
    due_at: datetime | None
    computed: bool
    failures: int | None
    """Consecutive failures that paused it; None if failures did not pause it."""

    @classmethod
    def of(cls, row: Schedule) -> ScheduleFact:
        failures = row.failures if row.tripped else None
        return cls(row.name, row.spec.task, row.status, row.due_at, row.spec.computed, failures)


class DoctorFacts(Struct, frozen=True, kw_only=True):
    """The facts that findings() needs; each list of jobs is bounded."""

    now: datetime
    answered: timedelta
    """How long the store took to answer."""
    skew: timedelta
    """The store's clock minus this machine's."""
    schema: Schema
    stats: Stats
    workers: Sequence[WorkerRow]
    running: Sequence[Job]
    lost: Sequence[Job]
    """Running jobs whose worker sends no heartbeat."""
    due: Sequence[Job]
    """Due jobs of queues that are not paused, the longest due first; jobs that no worker takes come first."""
    circuits: Sequence[Circuit]
    schedules: Sequence[ScheduleFact] = ()
    """All schedules."""
    oldest: datetime | None = None
    """When the oldest finished job ended."""
    overdue: Sequence[tuple[State, str]] | None = None
    """States and tasks with jobs past their retention; None if the rules are not known here."""
    orphaned: Sequence[tuple[State, str]] = ()
    """The same, for tasks that neither this app nor a live worker knows."""
    wrong_counts: WrongCounts | None = None
    """What recounts of limits have corrected lately."""


def findings(facts: DoctorFacts) -> list[Finding]:
    """One finding for each check, including those that are ok."""
    return [
        _schema(facts),
        _clock(facts),
        _workers(facts),
        _slots(facts),
        _leases(facts),
        _backlog(facts),
        _tasks(facts),
        _queues(facts),
        _schedules(facts),
        _breakers(facts),
        _dead(facts),
        _retention(facts),
        _limits(facts),
    ]


def store_finding(shown_url: str, answered: timedelta) -> Finding:
    """The finding about the time that the store took to answer."""
    text = f"{shown_url} answers in {_span(answered)}"
    if answered < SLOW_ANSWER:
        return Finding("store", "ok", text)
    return Finding("store", "warn", text, "look at its machine: load, disk, network")


def _schema(facts: DoctorFacts) -> Finding:
    found = facts.schema
    if found.version == found.newest:
        return Finding("schema", "ok", f"{found.version}, the newest")
    if found.usable:
        return Finding(
            "schema", "ok", f"{found.version}, of a later release; this one knows {found.newest}, which will do"
        )
    way = "mainspring migrate up" if found.version < found.newest else "upgrade mainspring here"
    return Finding("schema", "bad", f"{found.version}, this release works with {found.newest}", way)


def _clock(facts: DoctorFacts) -> Finding:
    if abs(facts.skew) < MAX_SKEW:
        return Finding("clock", "ok", "agrees with the store's")
    side = "behind" if facts.skew > timedelta(0) else "ahead of"
    text = f"this machine is {_span(abs(facts.skew))} {side} the store; it is corrected for"
    return Finding("clock", "warn", text, "keep both in time with NTP")


def _workers(facts: DoctorFacts) -> Finding:
    alive, waits = len(facts.workers), facts.stats.scheduled + facts.stats.retrying
    if alive:
        slots = sum(worker.info.concurrency for worker in facts.workers)
        text, deaf = f"{alive} alive with {_count(slots, 'slot')}", [w.info.id for w in facts.workers if w.info.deaf]
        if not deaf:
            return Finding("workers", "ok", text)
        way = "their notifications do not arrive: the doctor's listener check, run on their machine, tells why"
        return Finding("workers", "warn", f"{text}; without notifications, so that they poll: {_list_names(deaf)}", way)
    start = "mainspring worker MODULE:ATTR"
    if facts.due:
        return Finding("workers", "bad", f"none is alive, and {_are(_due(facts))} due", start)
    if waits:
        return Finding("workers", "warn", f"none is alive, and {_count(waits, 'job')} will be due", start)
    if ticking := [row for row in facts.schedules if row.due_at is not None]:
        return Finding("workers", "warn", f"none is alive, and {_count(len(ticking), 'schedule')} will be due", start)
    return Finding("workers", "ok", "none is alive, and nothing waits")


def _slots(facts: DoctorFacts) -> Finding:
    leaky = [worker.info for worker in facts.workers if worker.info.leaked]
    if not leaky:
        return Finding("slots", "ok", "none leaked")
    text = _list_names(f"{info.id}: {info.leaked} of {info.concurrency} leaked" for info in leaky)
    stuck = any(info.leaked >= info.concurrency for info in leaky)
    remedy = "restart it: runs there ignore their interruption; executor='process' makes them killable"
    return Finding("slots", "bad" if stuck else "warn", text, remedy)


def _leases(facts: DoctorFacts) -> Finding:
    if facts.lost:
        silent = _list_names(sorted({job.worker or "?" for job in facts.lost}))
        text = f"{_count(len(facts.lost), 'running job')} of silent workers: {silent}"
        if facts.workers:
            return Finding("leases", "warn", text, "live workers take them over within seconds: look again")
        return Finding("leases", "bad", text, "start a worker, which takes them over: mainspring worker MODULE:ATTR")
    if not facts.running:
        return Finding("leases", "ok", "nothing runs")
    longest = min(facts.running, key=lambda job: job.started_at or facts.now)
    ran = _span(facts.now - (longest.started_at or facts.now))
    text = f"{_count(facts.stats.running, 'job')} running, the longest for {ran} ({longest.task} {longest.id})"
    return Finding("leases", "ok", text)


def _backlog(facts: DoctorFacts) -> Finding:
    if not facts.due:
        return Finding("backlog", "ok", "nothing is due")
    waited = facts.now - facts.due[0].run_at
    text = f"{_are(_due(facts))} due, the oldest for {_span(waited)}"
    if waited < MAX_BACKLOG_AGE:
        return Finding("backlog", "ok", text)
    return Finding("backlog", "warn", text, "more slots or workers; mainspring top shows what they do")


def _due(facts: DoctorFacts) -> int:
    """A lower bound of due jobs: due retries count only as far as they were listed."""
    return max(len(facts.due), sum(queue.pending for queue in facts.stats.queues if not queue.paused))


_STUCK: Mapping[Code, tuple[str, str]] = {
    "unknown_task": ("no live worker knows {task}", "deploy a worker that has it, or cancel its jobs"),
    "queue_not_served": ("no live worker serves queue {queue} for {task}", "start one that does: --queues {queue}"),
    "draining": ("every worker for {task} is drained", "resume one: mainspring workers resume ID; or start another"),
}


def _tasks(facts: DoctorFacts) -> Finding:
    """Due jobs that no live worker will take; if none is alive, that is another finding."""
    surroundings = JobSurroundings(now=facts.now, paused=(), workers=facts.workers, running=facts.running)
    stuck: Counter[tuple[Code, str, str]] = Counter()
    for job in facts.due:
        stuck.update(
            (reason.code, job.task, job.queue) for reason in reasons(job, surroundings) if reason.code in _STUCK
        )
    if not stuck:
        return Finding("tasks", "ok", "each that is due has a worker" if facts.workers else "no worker to ask")
    texts = [
        f"{_STUCK[code][0].format(task=task, queue=queue)} ({_are(count)} due)"
        for (code, task, queue), count in stuck.most_common()
    ]
    ways = {_STUCK[code][1].format(queue=queue) for code, _, queue in stuck}
    only_drained = all(code == "draining" for code, _, _ in stuck)
    return Finding("tasks", "warn" if only_drained else "bad", _list_names(texts), "; ".join(sorted(ways)))


def _queues(facts: DoctorFacts) -> Finding:
    paused = [queue for queue in facts.stats.queues if queue.paused]
    if not paused:
        return Finding("queues", "ok", "none is paused")
    text = "paused: " + _list_names(f"{queue.name} ({_count(_waiting(queue), 'job')} waiting)" for queue in paused)
    if not any(_waiting(queue) for queue in paused):
        return Finding("queues", "ok", text)
    return Finding("queues", "warn", text, f"mainspring queues resume {paused[0].name}")


def _waiting(queue: Queue) -> int:
    return queue.pending + queue.retrying


def _schedules(facts: DoctorFacts) -> Finding:
    """Everything that prevents schedules from running, the worst first."""
    if not facts.schedules:
        return Finding("schedules", "ok", "there are none")
    troubles = [trouble for trouble in (_overdue(facts), _unknown(facts), _tripped(facts)) if trouble is not None]
    if not troubles:
        return Finding("schedules", "ok", _ticking(facts))
    text, remedy = ("; ".join(getattr(trouble, part) for trouble in troubles) for part in ("text", "remedy"))
    return Finding("schedules", worst_verdict(troubles), text, remedy)


def _overdue(facts: DoctorFacts) -> Finding | None:
    late = [row for row in facts.schedules if row.due_at is not None and facts.now - row.due_at >= OVERDUE_AFTER]
    if not late:
        return None
    named = _list_names(f"{row.name} for {_span(facts.now - (row.due_at or facts.now))}" for row in late)
    way = "start a worker, which fires them: mainspring worker MODULE:ATTR"
    if facts.workers and all(row.computed for row in late):
        way = "their input is computed in code: start a worker of the app that declares them"
    elif facts.workers:
        way = "no live worker fires them: look at the workers' logs"
    return Finding("schedules", "bad", f"overdue: {named}", way)


def _unknown(facts: DoctorFacts) -> Finding | None:
    """Schedules whose task no live worker knows; if none is alive, that is another finding."""
    known = {task for worker in facts.workers for task in worker.info.tasks}
    lost = [row for row in facts.schedules if row.status == "active" and row.task not in known]
    if not lost or not facts.workers:
        return None
    named = _list_names(f"{row.name} ({row.task})" for row in lost)
    way = f"deploy a worker that has it, or mainspring schedules delete {lost[0].name}"
    return Finding("schedules", "bad", f"no live worker knows the task of {named}", way)


def _tripped(facts: DoctorFacts) -> Finding | None:
    """Schedules that failures paused; those paused by hand need no finding."""
    tripped = [row for row in facts.schedules if row.failures is not None]
    if not tripped:
        return None
    named = _list_names(f"{row.name} ({row.failures} in a row)" for row in tripped)
    way = f"fix what they run, then mainspring schedules resume {tripped[0].name}"
    return Finding("schedules", "warn", f"paused by failures: {named}", way)


def _ticking(facts: DoctorFacts) -> str:
    counts = Counter(row.status for row in facts.schedules)
    text = ", ".join(f"{counts[status]:,} {status}" for status in ("active", "paused", "ended") if counts[status])
    coming = [(row.due_at, row.name) for row in facts.schedules if row.due_at is not None]
    if not coming:
        return text
    at, name = min(coming)
    return f"{text}; {name} is next, in {_span(max(timedelta(0), at - facts.now))}"


def _breakers(facts: DoctorFacts) -> Finding:
    open = [circuit for circuit in facts.circuits if circuit.open_until is not None]
    if not open:
        return Finding("breakers", "ok", "none is open")
    text = "open: " + _list_names(
        f"{circuit.task} ({_count(circuit.failures, 'failure')} in a row)" for circuit in open
    )
    remedy = "fix what the task needs; after its cooldown one job is tried automatically"
    return Finding("breakers", "warn", text, remedy)


def _dead(facts: DoctorFacts) -> Finding:
    if not facts.stats.dead:
        return Finding("dead", "ok", "none")
    text = _count(facts.stats.dead, "job")
    return Finding("dead", "warn", text, "mainspring dead list; mainspring dead redrive --all")


def _retention(facts: DoctorFacts) -> Finding:
    if facts.overdue:
        kept = _list_names(f"{state} {task}" for state, task in facts.overdue)
        remedy = "a worker removes them by itself, if its archive hook does not raise; or mainspring prune"
        return Finding("retention", "warn", f"kept for longer than they should be: {kept}", remedy)
    if facts.orphaned:
        groups = _list_names(f"{state} {task}" for state, task in facts.orphaned)
        text = f"kept for longer than they should be, as no live worker knows their task: {groups}"
        tasks = dict.fromkeys(task for _, task in facts.orphaned)
        remedy = f"start one; or, if no app has it any more: mainspring prune --task {' --task '.join(tasks)}"
        return Finding("retention", "warn", text, remedy)
    finished = sum(int(getattr(facts.stats, state)) for state in FINAL)
    if facts.oldest is None:
        return Finding("retention", "ok", "no finished jobs")
    unknown = "" if facts.overdue is not None else "; --app checks them against its rules"
    text = f"{_count(finished, 'finished job')}, the oldest from {_span(facts.now - facts.oldest)} ago{unknown}"
    return Finding("retention", "ok", text)


def _limits(facts: DoctorFacts) -> Finding:
    wrong = facts.wrong_counts
    if wrong is None:
        return Finding("limits", "ok", "no recount has found a group that was counted wrong")
    ago = _span(max(facts.now - wrong.at, timedelta(0)))
    text = f"{_count(wrong.corrected, 'group')} counted wrong and corrected, last {ago} ago: {', '.join(wrong.names)}"
    remedy = "nothing has to be repaired; if it comes again, report it with the log of a worker"
    return Finding("limits", "warn", text, remedy)


# words


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _are(number: int) -> str:
    return f"{_count(number, 'job')} {'is' if number == 1 else 'are'}"


def _list_names(items: Iterable[str]) -> str:
    names = list(items)
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{max(1.0, seconds * 1000):.0f}ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"
