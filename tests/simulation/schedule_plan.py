"""The schedule plan: the schedules of a simulation and the operators' actions on them, drawn from the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app import Mainspring
from mainspring.clock import EPOCH, micros
from mainspring.schedule.options import check_options
from mainspring.testing.clock import START
from mainspring.trigger import AnyTrigger, Timetable, cron, every

TASKS = ("quick", "quick", "slow", "slow", "flaky", "broken", "late")
# Time zones, and instants at which their clocks are put forward or back.
CHANGES = tuple((zone, datetime.fromisoformat(at)) for zone, at in (
    ("Europe/London", "2030-03-31T01:00Z"), ("Europe/London", "2030-10-27T01:00Z"),
    ("America/New_York", "2030-03-10T07:00Z"), ("America/New_York", "2030-11-03T06:00Z"),
    ("Australia/Lord_Howe", "2030-04-06T15:00Z"), ("Australia/Lord_Howe", "2030-10-05T15:30Z"),
))  # fmt: skip
INTERVALS = ("0.7", "2", "3", "5", "7.5", "10", "20", "60", "900")
# Triggers with a tick in any window of 20 seconds.
OFTEN = (*INTERVALS[:-2], "*/5 * * * * *", "*/20 * * * * *")
_MIDNIGHT = START + timedelta(days=1)


class PlannedSchedule(Struct, frozen=True, kw_only=True):
    """One schedule, as a release declares it or a user creates it."""

    name: str
    when: str
    """Seconds, or a cron expression."""
    tz: str = "UTC"
    task: str = "quick"
    value: float = 0.0
    expires: float | None = None
    computed: bool = False
    options: Mapping[str, Any] = {}

    @property
    def trigger(self) -> AnyTrigger:
        return cron(self.when, tz=self.tz) if " " in self.when else every(float(self.when)).seconds

    def __str__(self) -> str:
        more = {"tz": self.tz, "expires": self.expires, "computed": self.computed, **self.options}
        options = "".join(
            f", {name}={_short(value)}" for name, value in more.items() if value not in ("UTC", None, False)
        )
        return f"{self.name}: {self.task}({self.value:g}) by {self.when!r}{options}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class SchedulePlan(Struct, frozen=True, kw_only=True):
    """The schedules that each release of the code declares, and those that users create at run time."""

    begin: datetime = START
    """True time at the beginning of the plan."""
    releases: tuple[tuple[PlannedSchedule, ...], ...] = ((),)
    users: tuple[PlannedSchedule, ...] = ()

    @property
    def names(self) -> list[str]:
        return sorted({entry.name for release in (*self.releases, self.users) for entry in release})


class InputError(Exception):
    """Raised by an input function for some ticks."""


def declare(app: Mainspring, entries: Sequence[PlannedSchedule]) -> None:
    """Declares the schedules of one release on an app."""
    for entry in entries:
        task, input = app.tasks[entry.task], dict(_input(entry))
        app.schedule(entry.name, entry.trigger, task.using(expires=entry.expires), **input, **entry.options)


def _input(entry: PlannedSchedule) -> Mapping[str, Any]:
    if not entry.computed:
        return {"kwargs": {"value": entry.value}}

    def compute(tick: datetime) -> Mapping[str, Any]:
        if micros(tick) // 700_000 % 4 == 0:
            raise InputError(f"no input at {tick:%M:%S}")
        return {"value": entry.value}

    return {"input": compute}


# from the seed


def draw_schedule_plan(chance: Random, span: float, lease: float) -> SchedulePlan:
    """The schedules of a plan that takes `span` seconds; one plan in four has none."""
    if chance.random() < 0.25:
        return SchedulePlan()
    zone, change = chance.choice((*CHANGES, ("UTC", _MIDNIGHT), ("UTC", _MIDNIGHT)))
    begin = change - timedelta(seconds=round(chance.uniform(0.0, 1.1 * span), 3))
    names = [f"s{n}" for n in range(1, chance.randint(2, 6))]
    first = [_draw_schedule(chance, name, names, begin, zone, lease) for name in names]
    releases = [tuple(first)]
    for _ in range(chance.choice((0, 1, 1, 2))):
        kept = [entry for entry in releases[-1] if chance.random() < 0.9]
        releases.append(tuple(_next_release(chance, entry, names, begin, zone, lease) for entry in kept))
    users = [f"u{n}" for n in range(1, chance.randint(1, 3))]
    made = tuple(
        replace(_draw_schedule(chance, name, names, begin, zone, lease), computed=False, expires=None) for name in users
    )
    return SchedulePlan(begin=begin, releases=tuple(releases), users=made)


def _next_release(
    chance: Random, entry: PlannedSchedule, names: list[str], begin: datetime, zone: str, lease: float
) -> PlannedSchedule:
    """The schedule in the next release: unchanged, or another one under its name."""
    return entry if chance.random() < 0.5 else _draw_schedule(chance, entry.name, names, begin, zone, lease)


def _draw_schedule(
    chance: Random, name: str, names: list[str], begin: datetime, zone: str, lease: float
) -> PlannedSchedule:
    when = _draw_trigger(chance, begin, zone)
    task = chance.choice(TASKS)
    value = {"slow": chance.uniform(0.3, 1.8 * lease), "flaky": float(chance.randint(1, 4)),
             "broken": chance.uniform(0, 1), "late": chance.uniform(0.1, 3)}.get(task, 0.0)  # fmt: skip
    entry = PlannedSchedule(
        name=name, when=when, tz=zone if " " in when else "UTC", task=task, value=round(value, 3),
        expires=round(chance.uniform(0.2, 8), 3) if chance.random() < 0.15 else None,
        computed=chance.random() < 0.15, options=draw_options(chance, name, names, begin, when),
    )  # fmt: skip
    return entry if _has_tick(entry) else replace(entry, options={})


def _has_tick(entry: PlannedSchedule) -> bool:
    """Whether at least one tick is not omitted."""
    given = check_options(entry.name, entry.options)
    narrowed = {name: given[name] for name in ("window", "exclude", "end_at") if name in given}
    return Timetable(trigger=entry.trigger, **narrowed).next(EPOCH) is not None


def _draw_trigger(chance: Random, begin: datetime, zone: str) -> str:
    if chance.random() < 0.6:
        return chance.choice(INTERVALS)
    wall = (begin + timedelta(seconds=chance.uniform(0, 90))).astimezone(ZoneInfo(zone))
    # A wall-clock time within the hour that clocks skip or repeat, or soon.
    minute, hour = chance.choice((0, 15, 30, wall.minute)), chance.choice((wall.hour, wall.hour, 1, 2))
    return chance.choice((
        "*/5 * * * * *", "*/20 * * * * *", "3-59/15 * * * * *", "* * * * *", f"{wall.second} * * * * *",
        f"{wall.second} {wall.minute} {wall.hour} * * *", f"0 {minute} {hour} * * *", f"{minute} {hour} * * *",
        f"0,20,40 {wall.minute} 0-23 * * *", "30 * * * *", f"10,50 15,45 {hour} * * *",
    ))  # fmt: skip


def draw_options(chance: Random, name: str, names: list[str], begin: datetime, when: str) -> dict[str, Any]:
    """Some options; most schedules have few of them."""
    options: dict[str, Any] = {}
    interval = when in INTERVALS
    for option, share in (
        ("overlap", 0.7), ("catch_up", 0.7), ("grace", 0.6), ("catch_up_window", 0.5), ("jitter", 0.2),
        ("window", 0.25 * (when in OFTEN)),
        ("exclude", 0.1), ("max_runs", 0.15), ("run_on_start", 0.2), ("after", 0.2 * interval),
        ("pause_after_failures", 0.2), ("depends_on", 0.15), ("end_at", 0.1),
    ):  # fmt: skip
        if chance.random() < share:
            options[option] = _draw_option(chance, option, name, names, begin, interval)
    # Without a window, a long night would bring thousands of jobs.
    if options.get("catch_up") == "all":
        options["catch_up_window"] = chance.choice((5.0, 20.0))
    return options


def _draw_option(chance: Random, option: str, name: str, names: list[str], begin: datetime, interval: bool) -> Any:
    match option:
        case "overlap":
            return chance.choice(("skip", "queue", "allow", "cancel"))
        case "catch_up":
            return chance.choice(("latest", "skip", "all"))
        case "grace":
            return chance.choice((0.5, 2.0, 10.0, 30.0))
        case "catch_up_window":
            return chance.choice((0.0, 5.0, 60.0, 600.0))
        case "jitter":
            return chance.choice((0.5, 5.0))
        case "window":
            opens, open = begin + timedelta(seconds=chance.randint(-60, 60)), chance.choice((20, 25, 60))
            outside = chance.choice(("skip", "skip", "move")) if interval else "skip"
            closes = opens + timedelta(seconds=open)
            return {"opens": f"{opens:%H:%M:%S}", "closes": f"{closes:%H:%M:%S}", "tz": "UTC", "outside": outside}
        case "exclude":
            return [(begin + timedelta(days=chance.choice((0, 1)))).astimezone(UTC).date()]
        case "max_runs":
            return chance.randint(1, 5)
        case "pause_after_failures":
            return chance.randint(1, 3)
        case "after":
            return "finish"
        case "depends_on":
            return [chance.choice([other for other in (*names, "nobody") if other != name])]
        case "end_at":
            return begin + timedelta(seconds=chance.randint(5, 90))
        case _:
            return True


ACTIONS = (
    "pause", "resume", "resume", "trigger", "reschedule", "update", "update", "delete", "backfill",
    "cancel job", "delete job", "retry job",
)  # fmt: skip


def draw_action(chance: Random, schedule_plan: SchedulePlan) -> tuple[str, str, Mapping[str, Any]]:
    """The action of an operator, its schedule and its arguments."""
    action, name = chance.choice(ACTIONS), chance.choice(schedule_plan.names)
    given: dict[str, Any] = {}
    match action:
        case "resume":
            given = {"catch_up": chance.random() < 0.5}
        case "reschedule":
            given = {"seconds": round(chance.uniform(0.5, 20), 3)}
        case "backfill":
            given = {"seconds": round(chance.uniform(5, 40), 3)}
        case "update":
            when = _draw_trigger(chance, schedule_plan.begin, "UTC") if chance.random() < 0.4 else ""
            given = draw_options(chance, name, schedule_plan.names, schedule_plan.begin, when)
            if when:
                given["trigger"] = when
            given = given or {"grace": 5.0}
            given.pop("run_on_start", None)
    return action, name, given
