"""Cron: a trigger by cron expression, in the wall-clock time of a zone."""

from __future__ import annotations

import re
from datetime import MAXYEAR, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import msgspec

from ..errors import BadInput
from ..suggest import did_you_mean
from . import cron_clock_changes
from .bounds import MAX_NAME_CHARACTERS, quoted
from .cron_clock_changes import Effect
from .cron_fields import MAX_EXPRESSION_CHARACTERS, parse
from .cron_plan import CronPlan, DayMatch
from .cron_ticks import next_in, next_utc
from .trigger import Trigger
from .zone import zone_of

_PREFIX = re.compile(r"(?:CRON_TZ|TZ)=(\S*)\s+(.*)", re.DOTALL)
_YEAR = timedelta(days=366)


class Cron(Trigger, frozen=True, kw_only=True, tag="cron"):
    """The instants that a cron expression matches in the wall-clock time of `tz`."""

    expr: str
    day_match: DayMatch = "or"
    """If both day fields are set: whether a date must match one of them or both."""
    name: str = ""
    """The name that `H` is hashed from."""

    @property
    def hourly(self) -> bool:
        """Whether it restricts only minutes and seconds, so that every hour is alike."""
        *_, hour, day, month, weekday = ["", "", "", *self.expr.split()]
        return (hour, month) == ("*", "*") and {day, weekday} <= {"*", "?"}

    def __post_init__(self) -> None:
        expr, tz = _split_zone(self.expr, self.tz)
        msgspec.structs.force_setattr(self, "expr", expr)
        msgspec.structs.force_setattr(self, "tz", tz)
        if self.day_match not in get_args(DayMatch):
            raise BadInput(f"day_match is 'or' or 'and', not {self.day_match!r:.80}")
        if len(self.name) > MAX_NAME_CHARACTERS:
            raise BadInput(
                f"the name {quoted(self.name)} of a cron rule has more than {MAX_NAME_CHARACTERS} characters"
            )
        zone_of(tz)
        _ = self.plan

    @property
    def plan(self) -> CronPlan:
        """The expression as bit sets."""
        return _cached_plan(self.expr, self.day_match, self.name)

    def next(self, after: datetime) -> datetime | None:
        if after.utcoffset() is None:
            raise BadInput(f"{after} has no time zone: write datetime(…, tzinfo=UTC)")
        plan = _cached_plan(self.expr, self.day_match, self.name)
        return next_utc(plan, after) if self.tz == "UTC" else next_in(plan, after, zone_of(self.tz))

    def explain(self) -> str:
        from . import cron_description

        return cron_description.explain(self.plan, self.tz, self.name)

    def warnings(self) -> list[str]:
        from . import cron_description

        return cron_description.warnings(self.plan)

    def note(self, tick: datetime) -> str:
        return cron_clock_changes.note(self.plan, zone_of(self.tz), tick)

    def effects(self, *, after: datetime, until: datetime | None = None) -> list[Effect]:
        """The effects of clock changes within a year or until `until`; none near the first and last years."""
        if not 1 < after.year < MAXYEAR - 1:
            return []
        end = after + _YEAR if until is None else until
        return cron_clock_changes.effects(self.plan, zone_of(self.tz), after=after, until=end)

    def named(self, name: str) -> Cron:
        """The rule with `H` hashed from the name; unchanged if it has no `H`."""
        return msgspec.structs.replace(self, name=name) if self.plan.fields.hashed else self


def _with(rule: Cron, tz: str, day_match: DayMatch) -> Cron:
    """The rule with that zone and day_match, unless these are the defaults."""
    tz = rule.tz if tz == "UTC" else tz
    return msgspec.structs.replace(rule, tz=tz, day_match=rule.day_match if day_match == "or" else day_match)


def _split_zone(expr: Any, tz: Any) -> tuple[str, str]:
    """The expression without its CRON_TZ= prefix, and the zone that the prefix or `tz` names."""
    for value in (expr, tz):
        if not isinstance(value, str):
            what = "a cron expression and its zone are text, as in cron('0 9 * * *', tz='UTC')"
            raise BadInput(f"{what}, not {type(value).__name__}")
    if len(expr) > MAX_EXPRESSION_CHARACTERS:
        raise BadInput(
            f"cron {_quoted(expr)}: {len(expr):,} characters are too many: at most {MAX_EXPRESSION_CHARACTERS}"
        )
    match = _PREFIX.fullmatch(expr.strip())
    rest, zone = (match[2], match[1]) if match else (expr, tz)
    if zone != tz != "UTC":
        raise BadInput(f"cron {_quoted(expr)} names the zone {zone!r:.80}, and tz= says {tz!r:.80}: keep one of them")
    return (" ".join(rest.split()) if rest.isascii() else rest), zone


@lru_cache(maxsize=4096)
def _cached_plan(expr: str, day_match: DayMatch, name: str) -> CronPlan:
    """The plan of an expression. Cached here, so that triggers are stored, sent and compared without it."""
    try:
        return CronPlan(parse(expr, name), day_match)
    except BadInput as bad:
        raise BadInput(f"cron {_quoted(expr)}: {bad}") from None


def _quoted(expr: str) -> str:
    return repr(expr) if len(expr) <= 60 else f"{expr[:60]!r}…"


class _Constant:
    """A Cron that is created on access."""

    def __init__(self, expr: str) -> None:
        self._expr = expr

    def __get__(self, crons: Crons, owner: type) -> Cron:
        return Cron(expr=self._expr)


class Crons:
    """cron(), and constants for common expressions: `cron("0 9 * * mon-fri")`, `cron.HOURLY`.

    The constants are triggers in UTC; `cron(cron.DAILY, tz="Europe/London")` is the same rule in another zone.
    """

    EVERY_MINUTE = _Constant("* * * * *")
    EVERY_5_MINUTES = _Constant("*/5 * * * *")
    EVERY_10_MINUTES = _Constant("*/10 * * * *")
    EVERY_15_MINUTES = _Constant("*/15 * * * *")
    EVERY_30_MINUTES = _Constant("*/30 * * * *")
    HOURLY = _Constant("0 * * * *")
    DAILY = _Constant("0 0 * * *")
    WEEKDAYS = _Constant("0 0 * * mon-fri")
    WEEKLY = _Constant("0 0 * * sun")
    MONTHLY = _Constant("0 0 1 * *")
    QUARTERLY = _Constant("0 0 1 1,4,7,10 *")
    YEARLY = _Constant("0 0 1 1 *")

    def __call__(self, expr: str | Cron, *, tz: str = "UTC", day_match: DayMatch = "or") -> Cron:
        """A trigger by cron expression: `cron("0 9 * * mon-fri", tz="Europe/London")`.

        Five fields, or six with seconds first. Raises BadInput if it is not understood or never matches.
        """
        if isinstance(expr, Cron):
            return _with(expr, tz, day_match)
        return Cron(expr=expr, tz=tz, day_match=day_match)

    if not TYPE_CHECKING:  # so that type checkers report misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [one for one in vars(Crons) if one.isupper()]
            raise BadInput(f"cron.{name[:80]}: there is no such constant; {did_you_mean(name.upper(), known)}")


cron = Crons()
