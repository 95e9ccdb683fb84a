"""Options of a schedule: checked, and turned into its Spec before anything is stored."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Literal, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..bounds import MAX_LONG_SPAN_SECONDS
from ..clock import is_instant
from ..codec import encode_call
from ..errors import BadInput, BadPayload
from ..span import Span, seconds
from ..suggest import did_you_mean, nearest_name
from ..task.options import CheckedOptions, CommonOptions, check_name, check_public, checked_options, stored_options
from ..task.task import Task
from ..trigger import AnyTrigger, Every, Timetable, Trigger, Window, every
from ..trigger.bounds import LAST_YEAR, MAX_DEPENDENCIES, MAX_EXCLUDED_DATES, check_count
from ..trigger.every import MAX_INTERVAL
from ..trigger.period import Period
from .record import CATCH_UPS, OVERLAPS, CatchUp, Overlap, Spec

_MAX_INTERVAL_SECONDS = MAX_INTERVAL.total_seconds()
Input = Callable[[datetime], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


class ScheduleOptions(CommonOptions, total=False):
    """The options of a schedule, all optional."""

    kwargs: Mapping[str, Any]
    input: Input
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window: Span
    grace: Span
    jitter: Span
    window: Window | tuple[str, ...] | Mapping[str, Any] | None
    exclude: date | Iterable[date]
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    run_on_start: bool
    after: Literal["start", "finish"]
    pause_after_failures: int | None
    depends_on: str | Iterable[str]
    adapt: Span | None
    spread: bool
    expires: Span | None


class DeclaredSchedule(Struct, frozen=True):
    """A schedule declared in code: its spec, and the function that computes its input, if it has one."""

    spec: Spec
    input: Input | None = None


def declare(
    name: str, trigger: Any, task: Task[Any, Any] | str, given: Mapping[str, Any], limit: int
) -> DeclaredSchedule:
    """Checks a declaration. Raises BadInput with the name of the option that is wrong."""
    check_name(name, "schedule name")
    values = check_options(name, given)
    input, kwargs = values.pop("input", None), values.pop("kwargs", None)
    if input is not None and kwargs is not None:
        raise BadInput(f"schedule {name!r}: give kwargs= or input=, not both; the function may return them all")
    payload = "{}" if input is not None else encode_arguments(name, task, kwargs or {}, limit)
    checked_trigger, job_options = check_trigger(name, trigger), _job_options(name, task)
    fingerprint = None if input is not None else task_fingerprint(task)
    spec = Spec(
        trigger=checked_trigger,
        payload=payload,
        computed=input is not None,
        fingerprint=fingerprint,
        **{**job_options, **values},
    )
    return DeclaredSchedule(check_spec(name, spec), input)


def encode_arguments(name: str, task: Task[Any, Any] | str, kwargs: Mapping[str, Any], limit: int) -> str:
    """The payload of the schedule's jobs."""
    if not isinstance(kwargs, Mapping):
        raise BadInput(f"schedule {name!r}: kwargs takes a mapping of argument names to values, got {kwargs!r:.80}")
    try:
        return task.arguments.encode((), kwargs, limit) if isinstance(task, Task) else encode_call(task, kwargs, limit)
    except BadPayload as bad:
        raise BadPayload(f"schedule {name!r}: {bad}; arguments are given as kwargs= or made by input=") from None


def task_fingerprint(task: Task[Any, Any] | str) -> str | None:
    """Fingerprint of the task's arguments; None if its code is not in this process."""
    return task.arguments.fingerprint if isinstance(task, Task) else None


def _job_options(name: str, task: Task[Any, Any] | str) -> dict[str, Any]:
    """The options that the schedule's jobs take from the task."""
    if isinstance(task, str):
        return {"task": check_public(check_name(task, "task name"), f"schedule {name!r}")}
    if not isinstance(task, Task):
        raise BadInput(f"schedule {name!r} takes a task, got {task!r:.80}; make one of it with @app.task")
    own, asked = task.options, task.job_options
    for option in ("delay", "run_at", "within", "unique_key", "idempotency_key"):
        if getattr(asked, option) != getattr(CheckedOptions(), option):
            raise BadInput(
                f"schedule {name!r}: option {option} does not belong here: "
                "its ticks decide when a job runs, and that it runs once"
            )
    if isinstance(own.expires, datetime):
        raise BadInput(f"schedule {name!r}: expires must be a span, e.g. '1h', since its jobs are made later")
    stored = {name: value for name, value in stored_options(own, asked).items() if name in Spec.__struct_fields__}
    return {"task": task.name, "expires": own.expires, **stored}


def check_call_options(call: str, options: Mapping[str, Any], own: Collection[str]) -> None:
    """Raises BadInput for a misspelt option of the call itself; check_options() handles those of the schedule."""
    for option in options:
        if option not in _CHECKS and (meant := nearest_name(option, (*own, *_CHECKS))) in own:
            raise BadInput(f"{call} has no option {option!r}; did you mean {meant!r}?")


def interval_of(span: Any, units: Mapping[str, float], options: Mapping[str, Any]) -> Every:
    """The interval of an app.every() call, given as a span or as units."""
    check_call_options("app.every()", options, (*units, "name"))
    given = {unit: number for unit, number in units.items() if number}
    if span is None and not given:
        raise BadInput("app.every() needs an interval, e.g. app.every(minutes=5) or app.every('5m')")
    if isinstance(span, int | float):
        raise BadInput(
            f"app.every({span!r}): give the unit, e.g. app.every(minutes={span!r}) or app.every('{span!r}m')"
        )
    found = every(span, **given) if span is not None else every(**given)
    if not isinstance(found, Every):
        raise BadInput(f"app.every() takes a text such as '5m', a timedelta, or units by name; got {span!r:.80}")
    return found


def check_trigger(name: str, trigger: Any, what: str = "") -> AnyTrigger:
    """Raises BadInput, with a hint, if it is not a trigger."""
    if isinstance(trigger, Trigger):
        return cast(AnyTrigger, trigger)
    match trigger:
        case str():
            hint = f"cron({trigger!r})"
        case timedelta():
            hint = "every(timedelta(…))"
        case datetime():
            hint = "at(datetime(…))"
        case Period():
            hint = f"{trigger!r}.minutes"
        case _:
            hint = "cron('0 9 * * *'), every(5).minutes or at(…)"
    raise BadInput(f"{what or f'schedule {name!r}'} takes a trigger, e.g. {hint}; got {trigger!r:.80}")


def check_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Checks options and converts them to the types of Spec."""
    values: dict[str, Any] = {}
    for option, value in given.items():
        check = _CHECKS.get(option)
        if check is None:
            raise BadInput(f"schedule {name!r} has no option {option!r}; {did_you_mean(option, _CHECKS)}")
        try:
            values[option] = check(value)
        except (BadInput, TypeError) as bad:
            raise BadInput(f"option {option} of schedule {name!r}: {bad}") from None
    return values


def check_spec(name: str, spec: Spec) -> Spec:
    """Raises BadInput for options that contradict each other, and for a timetable without ticks."""
    if not isinstance(spec.trigger, Every):
        for option, wanted in (("after", spec.after == "finish"), ("adapt", spec.adapt), ("spread", spec.spread)):
            if wanted:
                rule = spec.trigger.explain()
                raise BadInput(f"schedule {name!r}: {option} needs an interval, e.g. every(5).minutes, not {rule!r}")
    else:
        _check_interval(name, spec, spec.trigger)
    if not spec.grace and spec.catch_up == "skip":
        raise BadInput(f"schedule {name!r}: with grace=0 every tick is late, and catch_up='skip' then fires none")
    if name in spec.depends_on:
        raise BadInput(f"schedule {name!r} cannot depend on itself")
    try:
        Timetable(
            trigger=spec.trigger,
            name=name,
            window=spec.window,
            start_at=spec.start_at,
            end_at=spec.end_at,
            exclude=spec.exclude,
            jitter=spec.jitter,
        ).check()
    except BadInput as bad:
        raise BadInput(f"schedule {name!r}: {bad}") from None
    return spec


def _check_interval(name: str, spec: Spec, trigger: Every) -> None:
    if spec.adapt is not None and not trigger.seconds <= spec.adapt <= _MAX_INTERVAL_SECONDS:
        raise BadInput(
            f"schedule {name!r}: adapt ({spec.adapt:g} s) is the longest its interval may grow to: "
            f"from the interval itself ({trigger.seconds:g} s) to {_MAX_INTERVAL_SECONDS:g} s"
        )
    if spec.spread and spec.after == "finish":
        raise BadInput(f"schedule {name!r}: spread needs ticks on a grid; after='finish' has none, so leave one out")
    if trigger.anchor is not None:
        for option, wanted in (("spread", spec.spread), ("after", spec.after == "finish")):
            if wanted:
                rule = trigger.explain()
                raise BadInput(f"schedule {name!r}: {option} sets its ticks, and so does {rule!r}: leave one out")


def change_spec(name: str, spec: Spec, given: Mapping[str, Any], task: Task[Any, Any] | None, limit: int) -> Spec:
    """The spec with these options changed."""
    check_public(spec.task, f"schedule {name!r}")
    changes = dict(given)
    trigger, kwargs = changes.pop("trigger", UNSET), changes.pop("kwargs", UNSET)
    if "input" in changes:
        raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
    values = check_options(name, changes)
    if trigger is not UNSET:
        values["trigger"] = check_trigger(name, trigger)
    if kwargs is not UNSET:
        if spec.computed:
            raise BadInput(f"schedule {name!r} computes its input in code, so it takes no kwargs")
        values["payload"] = encode_arguments(name, task or spec.task, kwargs, limit)
        values["fingerprint"] = task_fingerprint(task or spec.task)
    return check_spec(name, replace(spec, **values))


def _positive(value: Any) -> float:
    span = seconds(value, "it")
    if span <= 0:
        raise BadInput(f"must be more than 0 seconds, got {value!r}")
    return span


def _span(value: Any) -> float:
    return seconds(value, "it", MAX_LONG_SPAN_SECONDS)


def _cap(value: Any) -> float:
    """The cap of a growing interval; check_spec() compares it with the interval."""
    span = seconds(value, "it", math.inf)
    if span <= 0:
        raise BadInput(f"must be more than 0 seconds, got {value!r}")
    return span


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise BadInput(f"a whole number of at least 1, got {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"is True or False, got {value!r}")
    return value


def _one_of(*choices: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value not in choices:
            raise BadInput(f"is one of {', '.join(choices)}; got {value!r}")
        return value

    return check


def _instant(value: Any) -> datetime:
    if not is_instant(value):
        raise BadInput(f"needs a datetime with a time zone, e.g. datetime(2030, 1, 1, tzinfo=UTC), got {value!r}")
    return value  # type: ignore[no-any-return]


def _start(value: Any) -> datetime:
    if _instant(value).year > LAST_YEAR:
        raise BadInput(f"is in the year {LAST_YEAR} at the latest, got {value}")
    return value  # type: ignore[no-any-return]


def _dates(value: Any) -> tuple[date, ...]:
    dates = [value] if isinstance(value, date) or not isinstance(value, Iterable) else list(value)
    check_count("dates", dates, MAX_EXCLUDED_DATES, "leave out those that are past")
    if not all(isinstance(day, date) and not isinstance(day, datetime) for day in dates):
        raise BadInput(f"takes dates, e.g. [date(2030, 12, 25)]; got {value!r:.80}")
    return tuple(sorted(set(dates)))


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    check_count("schedules", names, MAX_DEPENDENCIES, "let one schedule stand for several")
    return tuple(dict.fromkeys(check_name(one, "schedule name") for one in names))


def _of_jobs(name: str) -> Callable[[Any], Any]:
    """The check of an option that the schedule's jobs take."""
    return lambda value: checked_options({name: value}, "its jobs")[name]


def _input(value: Any) -> Any:
    if not callable(value) or not _takes_one(value):
        raise BadInput(f"takes a function of one argument, the tick's instant, that returns kwargs; got {value!r:.80}")
    return value


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature
        return True
    return True


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "kwargs": _optional(lambda value: value),
    "input": _optional(_input),
    "overlap": _one_of(*OVERLAPS),
    "catch_up": _one_of(*CATCH_UPS),
    "catch_up_window": _span,
    "grace": _span,
    "jitter": _span,
    "window": _optional(Window.of),
    "exclude": _dates,
    "start_at": _optional(_start),
    "end_at": _optional(_instant),
    "max_runs": _optional(_count),
    "run_on_start": _flag,
    "after": _one_of("start", "finish"),
    "pause_after_failures": _optional(_count),
    "depends_on": _names,
    "adapt": _optional(_cap),
    "spread": _flag,
    **{name: _of_jobs(name) for name in ("queue", "priority", "timeout", "max_retries", "tags", "metadata")},
    "expires": _optional(_positive),
}
