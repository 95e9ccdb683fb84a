"""Description of a cron expression in English, and warnings about likely mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .cron_fields import DAY, KINDS, CronField, Field, Special
from .cron_plan import LENGTHS, CronPlan
from .wall_clock import MONTHS

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("", "first", "second", "third", "fourth", "fifth")
# Times of a day that are named one by one.
_MAX_NAMED_TIMES = 6
_FROM_MONDAY = (1, 2, 3, 4, 5, 6, 0)
_ALL_WEEKDAYS = 0b1111111
_BY_STEP = re.compile(r"(?:\*|\d+|[a-z]{3})/(\d+)")
_RESTARTS = {
    "second": "every minute",
    "minute": "every hour",
    "hour": "every day",
    "day of month": "on day 1 of every month",
    "month": "every January",
    "day of week": "every Sunday",
}


def explain(plan: CronPlan, tz: str, name: str) -> str:
    """Describes when it runs: times, days, zone, and the values of H."""
    zone = "" if tz == "UTC" else f", {tz}"
    return f"{_times(plan)}{_dates(plan)}{zone}{_hash_note(plan, name)}"


def members(bits: int) -> list[int]:
    """The numbers of the bits that are set."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def join_words(words: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


# times


def _times(plan: CronPlan) -> str:
    seconds, minutes, hours = members(plan.seconds), members(plan.minutes), members(plan.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MAX_NAMED_TIMES:
        return f"at {join_words([_clock(h, m, s) for h in hours for m in minutes for s in seconds])}"
    if seconds != [0]:
        return _by_second(seconds, minutes, hours)
    if len(minutes) == 1:
        return _by_hour(minutes[0], hours)
    if pace := _pace(minutes, 60, "minute"):
        return pace + _within(minutes, hours)
    return f"at minutes {_list(minutes)} of {_hours(hours)}"


def _by_second(seconds: list[int], minutes: list[int], hours: list[int]) -> str:
    pace = _pace(seconds, 60, "second")
    text = pace or f"at second{'s' * (len(seconds) > 1)} {_list(seconds)}"
    if len(minutes) < 60:
        return f"{text} of minute{'s' * (len(minutes) > 1)} {_list(minutes)} of {_hours(hours)}"
    return f"{text}{'' if pace else ' of every minute'}{_within(minutes, hours, seconds)}"


def _by_hour(minute: int, hours: list[int]) -> str:
    if pace := _pace(hours, 24, "hour"):
        return pace if minute == 0 else f"{pace} at minute {minute}"
    if run := _run(hours, 24):
        return f"every hour from {_clock(run[0], minute)} to {_clock(run[-1], minute)}"
    if step := _step(hours):
        return f"every {step} hours from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"
    return f"at minute {minute} of {_hours(hours)}"


def _pace(numbers: list[int], span: int, unit: str) -> str:
    """'every n units' if the numbers are evenly spaced all the way round; else empty."""
    step = span // len(numbers)
    if numbers != list(range(0, span, step)) or span % step:
        return ""
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _within(minutes: list[int], hours: list[int], seconds: Sequence[int] = ()) -> str:
    if len(hours) == 24:
        return ""
    if run := _run(hours, 24):
        return f" from {_clock(run[0], minutes[0], *seconds[:1])} to {_clock(run[-1], minutes[-1], *seconds[-1:])}"
    return f" in {_hours(hours)}"


def _hours(hours: list[int]) -> str:
    if len(hours) == 24:
        return "every hour"
    return f"hour{'s' * (len(hours) > 1)} {_list(hours)}"


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


# dates


def _dates(plan: CronPlan) -> str:
    day, month, weekday = plan.fields.day, plan.fields.month, plan.fields.weekday
    months = "" if month.bits.bit_count() == 12 else _named(members(month.bits), MONTHS)
    where = f" in {months}" if months else ""
    if plan.both_days and plan.day_match == "or":
        return f" on {_days(day, months)}, and also on {_weekdays(weekday)}{where}"
    if plan.both_days:
        return f" on {_days(day, months)}, but only if that is {_weekdays(weekday)}"
    if not day.free:
        return f" on {_days(day, months)}"
    if weekday.bits == _ALL_WEEKDAYS:
        return f"{' every day' if _is_exact(plan) else ''}{where}"
    return f"{', ' if ' to ' in _weekdays(weekday) else ' on '}{_weekdays(weekday)}{where}"


def _is_exact(plan: CronPlan) -> bool:
    return len(members(plan.seconds)) * len(members(plan.minutes)) * len(members(plan.hours)) <= _MAX_NAMED_TIMES


def _days(field: Field, months: str) -> str:
    """The days of the month, and the months."""
    numbers = members(field.bits)
    if months in MONTHS[1:] and not field.specials and len(numbers) == 1:
        return f"{numbers[0]} {months}"
    words = [f"day{'s' * (len(numbers) > 1)} {_list(numbers)}"] if numbers else []
    words += [_special_day(special) for special in field.specials]
    return f"{join_words(words)} of {months or 'the month'}"


def _special_day(special: Special) -> str:
    if special.kind == "nearest weekday":
        return f"the weekday nearest day {special.number}"
    last = f"the last day but {special.number}" if special.number else "the last day"
    if special.kind == "last":
        return last
    return f"the weekday nearest {last}" if special.number else "the last weekday"


def _weekdays(field: Field) -> str:
    words = [_named(_week(field), WEEKDAYS)] if field.bits else []
    for special in field.specials:
        which = _NTH[special.nth] if special.kind == "nth" else "last"
        words.append(f"the {which} {WEEKDAYS[special.number]} of the month")
    return join_words(words)


def _week(field: Field) -> list[int]:
    """Days of the week, Monday first."""
    return [day for day in _FROM_MONDAY if field.bits >> day & 1]


def _named(numbers: list[int], names: Sequence[str]) -> str:
    run = _run(sorted(numbers), len(set(names) - {""}))
    if run and len(run) > 2:
        return f"{names[run[0]]} to {names[run[-1]]}"
    return join_words([names[number] for number in numbers])


def _list(numbers: list[int]) -> str:
    """1, 5 to 9 and 20; a long sequence of steps is abbreviated."""
    if len(numbers) > _MAX_NAMED_TIMES and _step(numbers):
        return f"{', '.join(map(str, numbers[:3]))}, … {numbers[-1]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [[f"{run[0]} to {run[-1]}"] if len(run) > 2 else list(map(str, run)) for run in runs]
    return join_words([word for part in words for word in part])


def _run(numbers: list[int], span: int) -> list[int]:
    """The numbers as one unbroken run, which may wrap around; empty if they are not one, or are all."""
    breaks = [n for n, number in enumerate(numbers) if (numbers[n - 1] + 1 - number) % span]
    return numbers[breaks[0] :] + numbers[: breaks[0]] if len(breaks) == 1 else []


def _step(numbers: list[int]) -> int:
    """The distance between neighbours if it is constant and more than 1; else 0."""
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    return steps.pop() if len(numbers) > 2 and len(steps) == 1 and steps != {1} else 0


def _hash_note(plan: CronPlan, name: str) -> str:
    found = [
        f"{kind.name} {_list(members(field.bits))}"
        for kind, field in zip(KINDS, plan.fields, strict=True)
        if field.hashed
    ]
    return f" (H for {name!r}: {', '.join(found)})" if found else ""


# warnings


def warnings(plan: CronPlan) -> list[str]:
    """What the author may not have meant."""
    return [*_both_days(plan), *_uneven(plan), *_short_months(plan), *_many(plan)]


def _both_days(plan: CronPlan) -> Iterator[str]:
    if plan.both_days and plan.day_match == "or":
        yield "both day fields are set, and a date needs to meet only one of them; day_match='and' asks for both"
    elif plan.both_days:
        yield "both day fields are set, and a date must meet both of them; most crons ask for only one"


def _uneven(plan: CronPlan) -> Iterator[str]:
    """Warns of steps that are not even where their field wraps around."""
    above = {"second": plan.minutes, "minute": plan.hours}
    for kind, field in zip(KINDS, plan.fields, strict=True):
        match = _BY_STEP.fullmatch(field.text)
        numbers = members(field.bits)
        if match is None or len(numbers) < 2 or above.get(kind.name, 0).bit_count() == 1:
            continue
        step, rest = int(match[1]), numbers[0] + kind.span - numbers[-1]
        if kind is DAY and step > 1:
            yield f"{field.text} starts again {_RESTARTS[kind.name]}: it is not every {step} days"
        elif step != rest:
            units = f"{rest} {_unit(kind)}{'s' * (rest != 1)}"
            again = f"{field.text} starts again {_RESTARTS[kind.name]}"
            yield f"{again}: after {kind.name} {numbers[-1]} the next comes {units} later, not {step}"


def _unit(kind: CronField) -> str:
    return kind.name if kind.name in ("second", "minute", "hour", "month") else "day"


def _short_months(plan: CronPlan) -> Iterator[str]:
    if plan.both_days and plan.day_match == "or":
        return
    months, day = members(plan.fields.month.bits), plan.fields.day
    named = [int(item) for item in day.text.split(",") if item.isdigit() and int(item) > 28]
    for number in named:
        short = [month for month in months if LENGTHS[month] < number]
        if short == [2] and number == 29:
            yield "29 February comes in leap years only"
        elif short:
            yield f"day {number} does not come in {_named(short, MONTHS)}; L is the last day of any month"
    for special in plan.fields.weekday.specials:
        if special.nth == 5:
            yield f"a fifth {WEEKDAYS[special.number]} does not come in every month; {special.number}L is the last one"


def _many(plan: CronPlan) -> Iterator[str]:
    """Warns of a star where a zero was probably meant."""
    second, minute, hour = plan.fields[:3]
    if second.starred and second.free and plan.minutes.bit_count() == 1:
        yield f"second * runs 60 times within minute {minute.text}; 0 is once"
    elif minute.free and second.bits == 1 and plan.hours.bit_count() == 1:
        yield f"minute * runs 60 times within hour {hour.text}; 0 is once"
