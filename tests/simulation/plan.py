"""The plan of a simulation: everything that will happen, drawn from a seed. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.ids import JobId

from .schedule_plan import Agenda, Entry, draw_action, draw_agenda

QUEUES = ("default", "mail")
KEYS = ("k1", "k2", "k3")
# Seconds of a day's work and trouble; then the faults cease.
SHORT, LONG = 30.0, 75.0


class Move(Struct, frozen=True, kw_only=True):
    """Something that happens `at` seconds after the beginning."""

    at: float


class Start(Move, frozen=True, kw_only=True):
    """A worker process comes up; after a crash another one does, never the same."""

    host: str
    slots: int
    skew: float
    drift: float
    release: int = 0
    """Which release of the code it runs."""

    def __str__(self) -> str:
        clock = f"clock {self.skew:+.1f} s and {self.drift * 1000:+.2f} ‰"
        return f"{self.host} starts: release {self.release}, {self.slots} slots, {clock}"


class Fault(Move, frozen=True, kw_only=True):
    """Something that befalls one process."""

    host: str


class Crash(Fault, frozen=True, kw_only=True):
    def __str__(self) -> str:
        return f"{self.host} crashes"


class Leave(Fault, frozen=True, kw_only=True):
    def __str__(self) -> str:
        return f"{self.host} is told to stop"


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
    far: float

    def __str__(self) -> str:
        return f"{self.host} has messages of up to {self.far * 1000:.0f} ms for {self.span:.1f} s"


class Ambush(Fault, frozen=True, kw_only=True):
    """It crashes at its next firing: before the store hears of it, when that is done and not answered, or after."""

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
    """An operator makes a schedule."""

    entry: Entry

    def __str__(self) -> str:
        return f"operator: create {self.entry}"


class Nap(Move, frozen=True, kw_only=True):
    """Every machine sleeps, but not the store; each wakes in its own time."""

    span: float

    def __str__(self) -> str:
        return f"everybody is asleep for {self.span:.1f} s"


class Plan(Struct, frozen=True, kw_only=True):
    """All of it, for one seed."""

    seed: int
    settings: Mapping[str, Any]
    clients: Mapping[str, float]
    """Their names, and by how many seconds their clocks are wrong."""
    moves: tuple[Move, ...]
    quiet: float
    """When the faults cease."""
    agenda: Agenda = Agenda()

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value:g}" for name, value in self.settings.items())
        clients = ", ".join(f"{name} {skew:+.1f} s" for name, skew in self.clients.items())
        lines = [f"seed {self.seed}: {settings}; clocks: {clients}; it is {self.agenda.begin:%Y-%m-%d %H:%M:%S.%f}"]
        for n, release in enumerate(self.agenda.releases):
            lines += [f"release {n}  {entry}" for entry in release]
        lines += [f"{move.at:9.3f}  {move}" for move in self.moves]
        return "\n".join([*lines, f"{self.quiet:9.3f}  the faults cease"])


def draw(seed: int) -> Plan:
    """The plan of a seed, always the same one."""
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
    quiet = chance.uniform(SHORT, LONG)
    clients = {name: _skew(chance) for name in ("c1", "c2")}
    moves: list[Move] = [*_work(chance, quiet, lease), *_workers(chance, quiet, lease)]
    # From a source of their own: a plan without schedules stays as it is, whatever becomes of their drawing.
    chance = Random(f"{seed} schedules")
    night = chance.choice((0.0, 0.0, 0.0, 90.0, 600.0, 3600.0))
    agenda = draw_agenda(chance, quiet + night, lease)
    if agenda.names:
        moves += [*_arrangements(chance, quiet, agenda), *_ambushes(chance, moves, quiet)]
        moves = [_released(chance, move, agenda) for move in moves]
        if night:
            moves, quiet = _with_night(chance, moves, quiet, night)
    moves.sort(key=lambda move: move.at)
    return Plan(seed=seed, settings=settings, clients=clients, moves=tuple(moves), quiet=quiet, agenda=agenda)


def _released(chance: Random, move: Move, agenda: Agenda) -> Move:
    """Any release may follow any other: deploys are rolled back too."""
    return replace(move, release=chance.randrange(len(agenda.releases))) if isinstance(move, Start) else move


def _with_night(chance: Random, moves: list[Move], quiet: float, night: float) -> tuple[list[Move], float]:
    at = round(chance.uniform(0.2, 0.8) * quiet, 3)
    moves = [replace(move, at=round(move.at + night, 3)) if move.at > at else move for move in moves]
    return [*moves, Nap(at=at, span=night)], quiet + night


def _at(chance: Random, end: float) -> float:
    return round(chance.uniform(0, end), 3)


def _skew(chance: Random) -> float:
    """Right, a little wrong, or up to an hour wrong."""
    return chance.choice((0.0, chance.uniform(-1, 1), chance.uniform(-3600, 3600)))


# clients and operators


def _work(chance: Random, quiet: float, lease: float) -> list[Move]:
    jobs = [f"j{n:02}" for n in range(1, chance.randint(5, 25))]
    keyed = chance.random() < 0.5
    times = sorted(_at(chance, quiet * 0.8) for _ in jobs)
    moves: list[Move] = [_enqueue(chance, job, at, lease, keyed) for job, at in zip(jobs, times, strict=True)]
    for _ in range(chance.choice((0, 0, 2, 4, 8))):
        action = chance.choice(("cancel", "retry", "retry"))
        moves.append(Operate(at=_at(chance, quiet), action=action, target=chance.choice(jobs)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        queue, at = chance.choice(QUEUES), _at(chance, quiet)
        again = min(quiet, round(at + chance.uniform(1, 15), 3))
        moves += [Operate(at=at, action="pause", target=queue), Operate(at=again, action="resume", target=queue)]
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


def _arrangements(chance: Random, quiet: float, agenda: Agenda) -> list[Move]:
    moves: list[Move] = [Create(at=_at(chance, quiet / 2), entry=entry) for entry in agenda.users]
    for _ in range(chance.choice((0, 2, 5, 10, 20))):
        action, name, given = draw_action(chance, agenda)
        moves.append(Arrange(at=_at(chance, quiet), action=action, schedule=name, given=given))
    return moves


def _ambushes(chance: Random, moves: list[Move], quiet: float) -> list[Move]:
    """Some processes crash when they fire; another one follows."""
    found: list[Move] = []
    for start in [move for move in moves if isinstance(move, Start) and chance.random() < 0.3]:
        at = round(chance.uniform(start.at, quiet), 3)
        found.append(Ambush(at=at, host=start.host, point=chance.choice(("before", "unanswered", "after"))))
        again = round(at + chance.uniform(1, 15), 3)
        if again < quiet:
            found.append(replace(start, at=again, host=f"{start.host}b"))
    return found


# workers, and what becomes of them


def _workers(chance: Random, quiet: float, lease: float) -> list[Move]:
    """Up to five places for a worker; each has its own clock, its own succession of processes and its own troubles."""
    moves: list[Move] = []
    # A seed with few kinds of faults shows what a mixture of all of them hides.
    kinds = [kind for kind in ("crash", "leave", "freeze", "cut", "loss", "slow") if chance.random() < 0.5]
    names = iter(f"w{n}" for n in range(1, 100))
    for _ in range(chance.randint(1, 5)):
        skew, drift = _skew(chance), chance.choice((0.0, chance.uniform(-0.001, 0.001)))
        at = chance.choice((0.0, 0.0, _at(chance, quiet / 2)))
        while at < quiet:
            name = next(names)
            moves.append(Start(at=at, host=name, slots=chance.randint(1, 5), skew=skew, drift=drift))
            ends, end = _end(chance, kinds, name, at, quiet)
            moves += ends
            moves += _troubles(chance, kinds, name, at, end, lease)
            at = end + chance.uniform(0.1, 10)
    for client in ("c1", "c2", "operator"):
        moves += _troubles(chance, [kind for kind in kinds if kind != "freeze"], client, 0.0, quiet, lease)
    return moves


def _end(chance: Random, kinds: list[str], host: str, at: float, quiet: float) -> tuple[list[Move], float]:
    """How and when the process ends before the faults cease; perhaps it does not."""
    ways = [kind for kind in kinds if kind in ("crash", "leave")]
    when = round(at + chance.expovariate(1 / 20), 3)
    if not ways or when >= quiet or chance.random() < 0.3:
        return [], quiet
    return [Crash(at=when, host=host) if chance.choice(ways) == "crash" else Leave(at=when, host=host)], when


def _troubles(chance: Random, kinds: list[str], host: str, start: float, end: float, lease: float) -> list[Move]:
    moves: list[Move] = []
    for kind in kinds:
        for _ in range(chance.choice((0, 1, 1, 2))):
            # Every fourth comes with the process: nothing is known yet then.
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
                    moves.append(Slow(at=at, host=host, span=span, far=chance.choice((0.2, 0.5, 1.0, 3.0)) * lease))
                case _:
                    pass
    return moves
