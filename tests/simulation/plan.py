"""The plan of a simulation: everything that will happen, drawn from a seed; data only."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.ids import JobId
from mainspring.records.plan import Plan as FlowPlan

from .flow_plan import ACTIONS, draw_flow
from .schedule_plan import PlannedSchedule, SchedulePlan, draw_action, draw_schedule_plan
from .waiting_plan import draw_waiting_flow

QUEUES = ("default", "mail")
KEYS = ("k1", "k2", "k3")
# Time of work and faults; then the faults cease.
MIN_FAULT_SECONDS = 30.0
MAX_FAULT_SECONDS = 75.0
# Seeds with flows, with durable tasks, and with tasks that wait for signals.
FLOWS_SHARE = 0.4
STEPS_SHARE = 0.3
SIGNALS_SHARE = 0.3
# Seeds with batches.
BATCHES_SHARE = 0.25
# Seeds with flows that wait for signals.
WAITING_FLOWS_SHARE = 0.2


class Move(Struct, frozen=True, kw_only=True):
    """An event of the plan, `at` seconds after the beginning."""

    at: float


class Start(Move, frozen=True, kw_only=True):
    """A worker process starts. A crashed process never comes back; another one starts."""

    host: str
    slots: int
    skew: float
    drift: float
    release: int = 0
    """The release of the code that it runs."""

    def __str__(self) -> str:
        clock = f"clock {self.skew:+.1f} s and {self.drift * 1000:+.2f} ‰"
        return f"{self.host} starts: release {self.release}, {self.slots} slots, {clock}"


class Fault(Move, frozen=True, kw_only=True):
    """A fault of one process."""

    host: str


class Crash(Fault, frozen=True, kw_only=True):
    def __str__(self) -> str:
        return f"{self.host} crashes"


class Stop(Fault, frozen=True, kw_only=True):
    def __str__(self) -> str:
        return f"{self.host} gets a request to stop"


class Freeze(Fault, frozen=True, kw_only=True):
    span: float

    def __str__(self) -> str:
        return f"{self.host} is frozen for {self.span:.1f} s"


class Cut(Fault, frozen=True, kw_only=True):
    span: float
    hangs: bool

    def __str__(self) -> str:
        return f"{self.host} is cut off for {self.span:.1f} s, its calls {'hang' if self.hangs else 'are refused'}"


class Loss(Fault, frozen=True, kw_only=True):
    span: float
    share: float

    def __str__(self) -> str:
        return f"{self.host} loses {self.share:.0%} of its calls or their replies for {self.span:.1f} s"


class Slow(Fault, frozen=True, kw_only=True):
    span: float
    max_delay: float

    def __str__(self) -> str:
        return f"{self.host} has messages of up to {self.max_delay * 1000:.0f} ms for {self.span:.1f} s"


class CrashAtFiring(Fault, frozen=True, kw_only=True):
    """The process crashes at its next firing: before the call, after the write but before the reply, or after it."""

    point: Literal["before", "unanswered", "after"]

    def __str__(self) -> str:
        return f"{self.host} will crash at its next firing, {self.point}"


class Enqueue(Move, frozen=True, kw_only=True):
    client: str
    job: JobId
    task: str
    value: float
    options: Mapping[str, Any]

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return f"{self.client} enqueues {self.job}: {self.task}({self.value:g}){options}"


class EnqueueFlow(Move, frozen=True, kw_only=True):
    client: str
    job: JobId
    flow: FlowPlan
    options: Mapping[str, Any]

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        steps = "".join(f"\n{'':11}{n}: {step}" for n, step in enumerate(self.flow.steps))
        rest = msgspec.structs.replace(self.flow, steps=())
        return f"{self.client} enqueues the flow {self.job}{options}{steps}\n{'':11}{rest}"


class OperateFlow(Move, frozen=True, kw_only=True):
    """An operator's action on a flow, or on one job of its steps."""

    action: str
    flow: JobId
    step: int | None = None
    """Counts the jobs of its steps, from the beginning again if there are fewer."""

    def __str__(self) -> str:
        return f"operator: {self.action} {self.flow}" + ("" if self.step is None else f", job {self.step}")


class Signal(Move, frozen=True, kw_only=True):
    """A client gives a job the signal that it waits for, or will wait for."""

    client: str
    job: JobId
    value: str
    insists: bool = False
    """Whether it is given again until there is such a job."""

    def __str__(self) -> str:
        return f"{self.client} gives {self.job} the signal {self.value!r}"


class BeginBatch(Move, frozen=True, kw_only=True):
    client: str
    batch: JobId
    open_seconds: float
    queue: str

    def __str__(self) -> str:
        return f"{self.client} begins the batch {self.batch}, open for {self.open_seconds:g} s, queue={self.queue}"


class AddJob(Move, frozen=True, kw_only=True):
    """A client adds a job to a batch."""

    client: str
    batch: JobId
    job: JobId
    task: str
    value: float

    def __str__(self) -> str:
        return f"{self.client} adds {self.job} to {self.batch}: {self.task}({self.value:g})"


class EndBatch(Move, frozen=True, kw_only=True):
    """A client closes a batch."""

    client: str
    batch: JobId

    def __str__(self) -> str:
        return f"{self.client} closes {self.batch}"


class Operate(Move, frozen=True, kw_only=True):
    """An operator's action on a job or a queue."""

    action: str
    target: str

    def __str__(self) -> str:
        return f"operator: {self.action} {self.target}"


class Arrange(Move, frozen=True, kw_only=True):
    """An operator's action on a schedule."""

    action: str
    schedule: str
    given: Mapping[str, Any] = {}

    def __str__(self) -> str:
        given = "".join(f", {name}={value}" for name, value in self.given.items())
        return f"operator: {self.action} {self.schedule}{given}"


class Create(Move, frozen=True, kw_only=True):
    """An operator creates a schedule."""

    entry: PlannedSchedule

    def __str__(self) -> str:
        return f"operator: create {self.entry}"


class Nap(Move, frozen=True, kw_only=True):
    """Every machine sleeps, but not the store; each wakes at its own time."""

    span: float

    def __str__(self) -> str:
        return f"all machines sleep for {self.span:.1f} s"


class Plan(Struct, frozen=True, kw_only=True):
    """The whole plan of one seed."""

    seed: int
    settings: Mapping[str, Any]
    clients: Mapping[str, float]
    """The error of each client's clock in seconds, by name."""
    moves: tuple[Move, ...]
    faults_end: float
    """When the faults cease."""
    schedule_plan: SchedulePlan = SchedulePlan()

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value:g}" for name, value in self.settings.items())
        clients = ", ".join(f"{name} {skew:+.1f} s" for name, skew in self.clients.items())
        lines = [
            f"seed {self.seed}: {settings}; clocks: {clients}; it is {self.schedule_plan.begin:%Y-%m-%d %H:%M:%S.%f}"
        ]
        for n, release in enumerate(self.schedule_plan.releases):
            lines += [f"release {n}  {entry}" for entry in release]
        lines += [f"{move.at:9.3f}  {move}" for move in self.moves]
        return "\n".join([*lines, f"{self.faults_end:9.3f}  the faults cease"])


def draw(seed: int) -> Plan:
    """The plan of a seed; deterministic."""
    chance = Random(seed)
    lease = chance.choice((4.0, 6.0, 10.0, 15.0))
    settings = {
        "lease": lease,
        "beat": lease / chance.choice((2, 3, 4)),
        "sweep": chance.choice((1.0, 2.0, 5.0)),
        "poll_interval": chance.choice((2.0, 5.0, 10.0)),
        "max_crashes": chance.choice((1, 2, 3, 3, 4)),
        "grace": chance.choice((1.0, 5.0)),
    }
    faults_end = chance.uniform(MIN_FAULT_SECONDS, MAX_FAULT_SECONDS)
    clients = {name: _skew(chance) for name in ("c1", "c2")}
    moves: list[Move] = [*_work(chance, faults_end, lease), *_workers(chance, faults_end, lease)]
    # From a separate source: a change in how schedules are drawn does not change plans without schedules.
    chance = Random(f"{seed} schedules")
    night = chance.choice((0.0, 0.0, 0.0, 90.0, 600.0, 3600.0))
    schedule_plan = draw_schedule_plan(chance, faults_end + night, lease)
    if schedule_plan.names:
        moves += [*_arrangements(chance, faults_end, schedule_plan), *_firing_crashes(chance, moves, faults_end)]
        moves = [_with_release(chance, move, schedule_plan) for move in moves]
        if night:
            moves, faults_end = _with_night(chance, moves, faults_end, night)
    chance = Random(f"{seed} flows")
    if chance.random() < FLOWS_SHARE:
        moves += _flows(chance, faults_end)
    chance = Random(f"{seed} checkpoints")
    if chance.random() < STEPS_SHARE:
        moves += _durable(chance, faults_end, lease)
    chance = Random(f"{seed} signal")
    if chance.random() < SIGNALS_SHARE:
        moves += _signals(chance, faults_end)
    chance = Random(f"{seed} waiting flows")
    if chance.random() < WAITING_FLOWS_SHARE:
        moves += _waiting_flows(chance, faults_end)
    chance = Random(f"{seed} batches")
    if chance.random() < BATCHES_SHARE:
        moves += _batches(chance, faults_end)
    moves.sort(key=lambda move: move.at)
    return Plan(
        seed=seed,
        settings=settings,
        clients=clients,
        moves=tuple(moves),
        faults_end=faults_end,
        schedule_plan=schedule_plan,
    )


def _with_release(chance: Random, move: Move, schedule_plan: SchedulePlan) -> Move:
    """Draws the release of a process. Any may follow any other: deploys are rolled back too."""
    return replace(move, release=chance.randrange(len(schedule_plan.releases))) if isinstance(move, Start) else move


def _with_night(chance: Random, moves: list[Move], faults_end: float, night: float) -> tuple[list[Move], float]:
    at = round(chance.uniform(0.2, 0.8) * faults_end, 3)
    moves = [replace(move, at=round(move.at + night, 3)) if move.at > at else move for move in moves]
    return [*moves, Nap(at=at, span=night)], faults_end + night


def _at(chance: Random, end: float) -> float:
    return round(chance.uniform(0, end), 3)


def _skew(chance: Random) -> float:
    """The error of a clock: none, up to a second, or up to an hour."""
    return chance.choice((0.0, chance.uniform(-1, 1), chance.uniform(-3600, 3600)))


# clients and operators


def _work(chance: Random, faults_end: float, lease: float) -> list[Move]:
    jobs = [f"j{n:02}" for n in range(1, chance.randint(5, 25))]
    keyed = chance.random() < 0.5
    times = sorted(_at(chance, faults_end * 0.8) for _ in jobs)
    moves: list[Move] = [_enqueue(chance, job, at, lease, keyed) for job, at in zip(jobs, times, strict=True)]
    for _ in range(chance.choice((0, 0, 2, 4, 8))):
        action = chance.choice(("cancel", "retry", "retry"))
        moves.append(Operate(at=_at(chance, faults_end), action=action, target=chance.choice(jobs)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        queue, at = chance.choice(QUEUES), _at(chance, faults_end)
        again = min(faults_end, round(at + chance.uniform(1, 15), 3))
        moves += [Operate(at=at, action="pause", target=queue), Operate(at=again, action="resume", target=queue)]
    return moves


def _flows(chance: Random, faults_end: float) -> list[Move]:
    moves: list[Move] = []
    for n in range(1, chance.randint(2, 7)):
        flow, at, client = f"f{n:02}", _at(chance, faults_end * 0.7), chance.choice(("c1", "c2"))
        options = {"queue": chance.choice(QUEUES)}
        moves.append(EnqueueFlow(at=at, client=client, job=flow, flow=draw_flow(chance), options=options))
        for _ in range(chance.choice((0, 0, 2, 4, 6))):
            when = round(min(at + chance.expovariate(1 / 10), faults_end), 3)
            step = chance.choice((None, chance.randrange(12)))
            moves.append(OperateFlow(at=when, action=chance.choice(ACTIONS), flow=flow, step=step))
    return moves


def _durable(chance: Random, faults_end: float, lease: float) -> list[Move]:
    moves: list[Move] = []
    for n in range(1, chance.randint(2, 9)):
        job, at, client = f"d{n:02}", _at(chance, faults_end * 0.8), chance.choice(("c1", "c2"))
        value, options = round(chance.uniform(0.1, lease), 3), {"queue": chance.choice(QUEUES)}
        moves.append(Enqueue(at=at, client=client, job=job, task="durable", value=value, options=options))
        if chance.random() < 0.3:
            when = round(min(at + chance.expovariate(1 / 10), faults_end), 3)
            moves += [Operate(at=when, action="cancel", target=job), Operate(at=faults_end, action="retry", target=job)]
    return moves


def _signals(chance: Random, faults_end: float) -> list[Move]:
    moves: list[Move] = []
    for n in range(1, chance.randint(2, 9)):
        job, at, value = f"a{n:02}", _at(chance, faults_end * 0.7), round(chance.uniform(1.0, 15.0), 3)
        client, options = chance.choice(("c1", "c2")), {"queue": chance.choice(QUEUES)}
        moves.append(Enqueue(at=at, client=client, job=job, task="approved", value=value, options=options))
        for m in range(chance.choice((0, 1, 1, 2, 2))):
            when, client = round(at + chance.uniform(0.1, 1.5) * value, 3), chance.choice(("c1", "c2"))
            moves.append(Signal(at=min(when, faults_end), client=client, job=job, value=f"answer {m + 1}"))
        if chance.random() < 0.2:
            moves.append(Operate(at=_at(chance, faults_end), action="cancel", target=job))
    return moves


def _waiting_flows(chance: Random, faults_end: float) -> list[Move]:
    moves: list[Move] = []
    for n in range(1, chance.randint(2, 6)):
        flow, at, client = f"w{n:02}", _at(chance, faults_end * 0.7), chance.choice(("c1", "c2"))
        plan, timeout = draw_waiting_flow(chance)
        moves.append(EnqueueFlow(at=at, client=client, job=flow, flow=plan, options={"queue": chance.choice(QUEUES)}))
        for m in range(chance.choice((0, 1, 1, 2, 2))):
            when, client = round(at + chance.uniform(0.1, 1.8) * timeout, 3), chance.choice(("c1", "c2"))
            moves.append(Signal(at=min(when, faults_end), client=client, job=flow, value=f"answer {m + 1}"))
        # Without a timeout, one that is put back to work after the last answer would wait for ever.
        operations = chance.choice((0, 0, 1, 2)) if plan.steps[1].signal and plan.steps[1].signal.timeout else 0
        for _ in range(operations):
            when = round(min(at + chance.expovariate(1 / 10), faults_end), 3)
            step = chance.choice((None, chance.randrange(4)))
            moves.append(OperateFlow(at=when, action=chance.choice(ACTIONS), flow=flow, step=step))
        # One that waits without end is given its signal, or is stopped.
        moves.append(Signal(at=faults_end, client="c1", job=flow, value="the last answer", insists=True))
    return moves


def _batches(chance: Random, faults_end: float) -> list[Move]:
    moves: list[Move] = []
    for n in range(1, chance.randint(2, 5)):
        batch, at, client = f"b{n:02}", _at(chance, faults_end * 0.6), chance.choice(("c1", "c2"))
        queue, span = chance.choice(QUEUES), round(chance.uniform(0.5, 10.0), 3)
        open_seconds = chance.choice((600.0, 600.0, 10.0))
        moves.append(BeginBatch(at=at, client=client, batch=batch, open_seconds=open_seconds, queue=queue))
        for m in range(chance.choice((0, 1, 3, 6, 6))):
            task, value = chance.choice(
                (("quick", 0.0), ("slow", 1.5), ("flaky", 1.0), ("sleepy", 1.0), ("broken", 0.2))
            )
            when = round(at + chance.uniform(0.1, 1.0) * span, 3)
            job = f"{batch}-{m + 1}"
            moves.append(AddJob(at=when, client=client, batch=batch, job=job, task=task, value=value))
            if chance.random() < 0.2:
                late = round(min(when + chance.expovariate(1 / 10), faults_end), 3)
                moves.append(Operate(at=late, action=chance.choice(("cancel", "retry", "retry")), target=job))
        if chance.random() < 0.8 or open_seconds > 10:
            moves.append(EndBatch(at=round(at + span + 0.1, 3), client=client, batch=batch))
        if chance.random() < 0.2:
            moves.append(Operate(at=_at(chance, faults_end), action=chance.choice(("cancel", "retry")), target=batch))
    return moves


def _enqueue(chance: Random, job: JobId, at: float, lease: float, keyed: bool) -> Enqueue:
    task = chance.choice(("quick", "slow", "slow", "flaky", "broken", "sleepy", "late", "stubborn", "narrow", "narrow"))
    values = {
        "quick": 0.0,
        "slow": chance.uniform(0.3, 1.8 * lease),
        "narrow": chance.uniform(0.3, lease),
        "flaky": float(chance.randint(1, 3)),
        "broken": chance.uniform(0, 2),
        "sleepy": float(chance.randint(1, 3)),
        "late": chance.uniform(0.1, 3),
        "stubborn": chance.uniform(0.1, lease),
    }
    options: dict[str, Any] = {"queue": chance.choice(QUEUES)}
    if chance.random() < 0.3:
        options["priority"] = chance.randint(-2, 2)
    if chance.random() < 0.3:
        options["delay"] = round(chance.uniform(0.1, 20), 3)
    if chance.random() < 0.2:
        options["expires"] = round(chance.uniform(0.5, 20), 3)
    if keyed and chance.random() < 0.7:
        options[chance.choice(("unique_key", "unique_key", "idempotency_key"))] = chance.choice(KEYS)
        options["on_conflict"] = chance.choice(("return", "raise", "replace", "debounce"))
    elif chance.random() < 0.2:
        options["max_retries"] = chance.randint(0, 2)
    client = chance.choice(("c1", "c2"))
    return Enqueue(at=at, client=client, job=job, task=task, value=round(values[task], 3), options=options)


def _arrangements(chance: Random, faults_end: float, schedule_plan: SchedulePlan) -> list[Move]:
    moves: list[Move] = [Create(at=_at(chance, faults_end / 2), entry=entry) for entry in schedule_plan.users]
    for _ in range(chance.choice((0, 2, 5, 10, 20))):
        action, name, given = draw_action(chance, schedule_plan)
        moves.append(Arrange(at=_at(chance, faults_end), action=action, schedule=name, given=given))
    return moves


def _firing_crashes(chance: Random, moves: list[Move], faults_end: float) -> list[Move]:
    """Crashes of some processes at a firing; another process follows."""
    found: list[Move] = []
    for start in [move for move in moves if isinstance(move, Start) and chance.random() < 0.3]:
        at = round(chance.uniform(start.at, faults_end), 3)
        found.append(CrashAtFiring(at=at, host=start.host, point=chance.choice(("before", "unanswered", "after"))))
        again = round(at + chance.uniform(1, 15), 3)
        if again < faults_end:
            found.append(replace(start, at=again, host=f"{start.host}b"))
    return found


# workers and their faults


def _workers(chance: Random, faults_end: float, lease: float) -> list[Move]:
    """Up to five machines, each with its own clock, a succession of worker processes and their faults."""
    moves: list[Move] = []
    # A plan with few kinds of faults shows bugs that a mixture of all of them hides.
    kinds = [kind for kind in ("crash", "leave", "freeze", "cut", "loss", "slow") if chance.random() < 0.5]
    names = iter(f"w{n}" for n in range(1, 100))
    for _ in range(chance.randint(1, 5)):
        skew, drift = _skew(chance), chance.choice((0.0, chance.uniform(-0.001, 0.001)))
        at = chance.choice((0.0, 0.0, _at(chance, faults_end / 2)))
        while at < faults_end:
            name = next(names)
            moves.append(Start(at=at, host=name, slots=chance.randint(1, 5), skew=skew, drift=drift))
            ends, end = _end(chance, kinds, name, at, faults_end)
            moves += ends
            moves += _faults(chance, kinds, name, at, end, lease)
            at = end + chance.uniform(0.1, 10)
    for client in ("c1", "c2", "operator"):
        moves += _faults(chance, [kind for kind in kinds if kind != "freeze"], client, 0.0, faults_end, lease)
    return moves


def _end(chance: Random, kinds: list[str], host: str, at: float, faults_end: float) -> tuple[list[Move], float]:
    """How and when a process ends before the faults cease, if it does."""
    ways = [kind for kind in kinds if kind in ("crash", "leave")]
    when = round(at + chance.expovariate(1 / 20), 3)
    if not ways or when >= faults_end or chance.random() < 0.3:
        return [], faults_end
    return [Crash(at=when, host=host) if chance.choice(ways) == "crash" else Stop(at=when, host=host)], when


def _faults(chance: Random, kinds: list[str], host: str, start: float, end: float, lease: float) -> list[Move]:
    moves: list[Move] = []
    for kind in kinds:
        for _ in range(chance.choice((0, 1, 1, 2))):
            # One in four comes at the start of the process, before it knows anything.
            at = chance.choice((start, *(round(chance.uniform(start, end), 3) for _ in range(3))))
            span = chance.choice((0.3, 0.9, 1.1, 1.5, 2.5)) * lease
            match kind:
                case "freeze":
                    moves.append(Freeze(at=at, host=host, span=span))
                case "cut":
                    moves.append(Cut(at=at, host=host, span=span, hangs=chance.random() < 0.5))
                case "loss":
                    moves.append(Loss(at=at, host=host, span=span, share=chance.choice((0.1, 0.3, 0.6))))
                case "slow":
                    moves.append(
                        Slow(at=at, host=host, span=span, max_delay=chance.choice((0.2, 0.5, 1.0, 3.0)) * lease)
                    )
                case _:
                    pass
    return moves
