"""What users say about a schedule, checked and turned into its Spec before anything is written."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypedDict, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..bounds import MAX_LONG_SPAN_SECONDS
from ..clock import is_instant
from ..codec import encode_call
from ..errors import BadInput, BadPayload
from ..span import Span, seconds
from ..suggest import did_you_mean, nearest_name
from ..task.options import TaskOptions, check_name, check_public, checked_options
from ..task.task import Task
from ..trigger import AnyTrigger, Every, Timetable, Trigger, Window, every
from ..trigger.bounds import LAST_YEAR, MAX_DEPENDENCIES, MAX_EXCLUDED_DATES, check_count
from ..trigger.every import LONGEST
from ..trigger.period import Period
from .record import CATCH_UPS, OVERLAPS, CatchUp, Overlap, Spec

_LONGEST = LONGEST.total_seconds()
Input = Callable[[datetime], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


class ScheduleOptions(TypedDict, total=False):
    """The policies of a schedule, all of them optional."""

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
    queue: str
    priority: int
    timeout: Span | None
    max_retries: int
    expires: Span | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class Declared(Struct, frozen=True):
    """A schedule of the code: what it says, and the function that makes its input, if there is one."""

    spec: Spec
    input: Input | None = None


def declared(name: str, trigger: Any, task: Task[Any, Any] | str, given: Mapping[str, Any], limit: int) -> Declared:
    """Everything a schedule is made of; refuses each bad part by name."""
    check_name(name, "schedule name")
    values = checked(name, given)
    input, kwargs = values.pop("input", None), values.pop("kwargs", None)
    if input is not None and kwargs is not None:
        raise BadInput(f"schedule {name!r}: give kwargs= or input=, not both; the function may return them all")
    payload = "{}" if input is not None else payload_of(name, task, kwargs or {}, limit)
    when, what = checked_trigger(name, trigger), _job(name, task)
    made_by = None if input is not None else fingerprint_of(task)
    spec = Spec(trigger=when, payload=payload, computed=input is not None, fingerprint=made_by, **{**what, **values})
    return Declared(fitting(name, spec), input)


def payload_of(name: str, task: Task[Any, Any] | str, kwargs: Mapping[str, Any], limit: int) -> str:
    if not isinstance(kwargs, Mapping):
        raise BadInput(f"schedule {name!r}: kwargs takes a mapping of argument names to values, got {kwargs!r:.80}")
    try:
        return task.arguments.encode((), kwargs, limit) if isinstance(task, Task) else encode_call(task, kwargs, limit)
    except BadPayload as bad:
        raise BadPayload(f"schedule {name!r}: {bad}; arguments are given as kwargs= or made by input=") from None


def fingerprint_of(task: Task[Any, Any] | str) -> str | None:
    """None: the code of the task is not here."""
    return task.arguments.fingerprint if isinstance(task, Task) else None


def _job(name: str, task: Task[Any, Any] | str) -> dict[str, Any]:
    """What of a schedule is the same in all its jobs."""
    if isinstance(task, str):
        return {"task": check_public(check_name(task, "task name"), f"schedule {name!r}")}
    if not isinstance(task, Task):
        raise BadInput(f"schedule {name!r} takes a task, got {task!r:.80}; make one of it with @app.task")
    own, asked = task.options, task.job_options
    for option in ("delay", "run_at", "within", "unique_key", "idempotency_key"):
        if getattr(asked, option) != getattr(TaskOptions(), option):
            raise BadInput(f"schedule {name!r}: option {option} does not belong here; its ticks say when, and once")
    if isinstance(own.expires, datetime):
        raise BadInput(f"schedule {name!r}: expires must be a span here: every job of it is made later")
    return {
        "task": task.name, "queue": own.queue, "priority": own.priority, "timeout": asked.timeout,
        "max_retries": asked.max_retries, "backoff": cast(Any, asked.backoff), "expires": own.expires,
        "tags": own.tags, "metadata": own.metadata,
    }  # fmt: skip


def check_own(call: str, options: Mapping[str, Any], own: Collection[str]) -> None:
    """Refuses a misspelt option of the call itself; those of the schedule are refused with its name, later."""
    for option in options:
        if option not in _CHECKS and (meant := nearest_name(option, (*own, *_CHECKS))) in own:
            raise BadInput(f"{call} has no option {option!r}; did you mean {meant!r}?")


def interval(span: Any, units: Mapping[str, float], options: Mapping[str, Any]) -> Every:
    """The interval that app.every() was given, in one way or the other."""
    check_own("app.every()", options, (*units, "name"))
    given = {unit: number for unit, number in units.items() if number}
    if span is None and not given:
        raise BadInput("app.every() needs an interval, e.g. app.every(minutes=5) or app.every('5m')")
    if isinstance(span, int | float):
        raise BadInput(f"app.every({span!r}): say the unit, e.g. app.every(minutes={span!r}) or app.every('{span!r}m')")
    found = every(span, **given) if span is not None else every(**given)
    if not isinstance(found, Every):
        raise BadInput(f"app.every() takes a text such as '5m', a timedelta, or units by name; got {span!r:.80}")
    return found


def checked_trigger(name: str, trigger: Any, what: str = "") -> AnyTrigger:
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


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Policies as the engine wants them."""
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


def fitting(name: str, spec: Spec) -> Spec:
    """Refuses parts that do not go together, and a timetable that never comes to a tick."""
    if not isinstance(spec.trigger, Every):
        for option, wanted in (("after", spec.after == "finish"), ("adapt", spec.adapt), ("spread", spec.spread)):
            if wanted:
                said = spec.trigger.explain()
                raise BadInput(f"schedule {name!r}: {option} needs an interval, e.g. every(5).minutes, not {said!r}")
    else:
        _fitting_interval(name, spec, spec.trigger)
    if not spec.grace and spec.catch_up == "skip":
        raise BadInput(f"schedule {name!r}: with grace=0 every tick is late, and catch_up='skip' then fires none")
    if name in spec.depends_on:
        raise BadInput(f"schedule {name!r} cannot depend on itself")
    try:
        Timetable(
            trigger=spec.trigger, name=name, window=spec.window, start_at=spec.start_at, end_at=spec.end_at,
            exclude=spec.exclude, jitter=spec.jitter,
        ).check()  # fmt: skip
    except BadInput as bad:
        raise BadInput(f"schedule {name!r}: {bad}") from None
    return spec


def _fitting_interval(name: str, spec: Spec, trigger: Every) -> None:
    if spec.adapt is not None and not trigger.seconds <= spec.adapt <= _LONGEST:
        raise BadInput(
            f"schedule {name!r}: adapt ({spec.adapt:g} s) is the longest its interval may grow to: "
            f"from the interval itself ({trigger.seconds:g} s) to {_LONGEST:g} s"
        )
    if spec.spread and spec.after == "finish":
        raise BadInput(f"schedule {name!r}: spread needs ticks on a grid; after='finish' has none, so leave one out")
    if trigger.anchor is not None:
        for option, wanted in (("spread", spec.spread), ("after", spec.after == "finish")):
            if wanted:
                said = trigger.explain()
                raise BadInput(f"schedule {name!r}: {option} says when it ticks, and so does {said!r}: leave one out")


def amended(name: str, spec: Spec, given: Mapping[str, Any], task: Task[Any, Any] | None, limit: int) -> Spec:
    """The spec with some of it said anew."""
    check_public(spec.task, f"schedule {name!r}")
    changes = dict(given)
    trigger, kwargs = changes.pop("trigger", UNSET), changes.pop("kwargs", UNSET)
    if "input" in changes:
        raise BadInput(f"schedule {name!r}: an input function is given in code, with app.schedule(…)")
    values = checked(name, changes)
    if trigger is not UNSET:
        values["trigger"] = checked_trigger(name, trigger)
    if kwargs is not UNSET:
        if spec.computed:
            raise BadInput(f"schedule {name!r} computes its input in code, so it takes no kwargs")
        values["payload"] = payload_of(name, task or spec.task, kwargs, limit)
        values["fingerprint"] = fingerprint_of(task or spec.task)
    return fitting(name, replace(spec, **values))


def _positive(value: Any) -> float:
    span = seconds(value, "it")
    if span <= 0:
        raise BadInput(f"must be more than 0 seconds, got {value!r}")
    return span


def _span(value: Any) -> float:
    return seconds(value, "it", MAX_LONG_SPAN_SECONDS)


def _cap(value: Any) -> float:
    """The cap of an interval; fitting() compares the two."""
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
    """An option that its jobs have as any other, checked as theirs is."""
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
    except ValueError:  # some builtins do not say
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
