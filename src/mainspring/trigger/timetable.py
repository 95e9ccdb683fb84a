"""Timetable: a trigger's ticks, limited by a start, an end, a window and excluded dates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import cached_property
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import force_setattr

from ..clock import EPOCH
from ..errors import BadInput
from .bounds import MAX_EXCLUDED_DATES, check_count
from .trigger import Preview, Trigger, count, hash_below, latest
from .wall_clock import DAY, EARLIEST, LATEST, MICROSECOND, ZERO, date_text, first_instant, time_text, to_utc
from .window import Window
from .zone import MAX_DAYLIGHT_SHIFT, zone_of

# Consecutive ticks that may be omitted, e.g. five years of days; after that the timetable has no next tick.
_MAX_OMITTED_TICKS = 2000
_MAX_JITTER_SECONDS = 7 * 86_400


OmitReason = Literal["window", "excluded"]


class Omitted(Struct, frozen=True):
    """Ticks of the trigger that the timetable omits, for one reason."""

    reason: OmitReason
    count: int
    first_at: datetime
    last_at: datetime


class Timetable(Struct, frozen=True, dict=True):
    """When a schedule fires: its trigger's ticks from `start_at` to `end_at`, both included.

    Ticks on excluded dates, in the trigger's zone, are omitted. Ticks outside the window are omitted too, or moved
    to the window's next opening that is not on an excluded date; several may become one. For a moved tick,
    `start_at` applies to its original instant and `end_at` to the new one. `jitter` delays jobs: see `offset`.
    """

    trigger: Trigger
    name: str = ""
    anchor_at: datetime | None = None
    window: Window | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    exclude: tuple[date, ...] = ()
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.trigger, Trigger):
            raise BadInput(f"{self.trigger!r} is not a trigger: write every(5).minutes, at(...) or cron(...)")
        if self.window is not None and not isinstance(self.window, Window):
            raise BadInput(f"{self.window!r} is not a window: use Window.of(...)")
        for name, at in (("anchor_at", self.anchor_at), ("start_at", self.start_at), ("end_at", self.end_at)):
            if at is not None and (exact := to_utc(at, name)) is not at:
                force_setattr(self, name, exact)
        if self.start_at and self.end_at and self.end_at < self.start_at:
            raise BadInput(f"end_at {self.end_at} is before start_at {self.start_at}: exchange them")
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, int | float):
            raise BadInput(f"jitter is a number of seconds, got {self.jitter!r}")
        if not 0 <= self.jitter <= _MAX_JITTER_SECONDS:
            raise BadInput(f"jitter is from 0 to {_MAX_JITTER_SECONDS} seconds (a week), got {self.jitter}")
        check_count("excluded dates", self.exclude, MAX_EXCLUDED_DATES, "leave out those that are past")
        for day in self.exclude:
            if isinstance(day, datetime) or not isinstance(day, date):
                raise BadInput(f"exclude has dates, as date(2026, 12, 25); got {day!r}")

    def check(self, after: datetime | None = None) -> None:
        """Raises BadInput if there is no tick after `after`, by default its start or anchor."""
        after = after or (self.start_at and self._begin(EARLIEST)) or self.anchor_at or EPOCH
        if self.next(after) is not None:
            return
        rule, bare = self._rule.explain(), self._rule.next(self._begin(after))
        if bare is None:
            raise BadInput(f"{rule}: has no tick after {_instant_text(after)}; choose a later time")
        reasons = {one.reason for one in self.omitted(after, bare + 365 * DAY)}
        if "window" in reasons and self._window:
            raise BadInput(f"{rule}: never falls inside the window {self._window.explain()}; widen it")
        if "excluded" in reasons:
            raise BadInput(f"{rule}: falls on excluded dates only; exclude fewer of them")
        raise BadInput(f"{rule}: has no tick until end_at, {_instant_text(self.end_at or bare)}; choose a later end")

    # ticks

    def next(self, after: datetime) -> datetime | None:
        """The first tick after `after`; None if there is none, or if too many in a row are omitted."""
        after, until = to_utc(after, "the instant"), self._end(LATEST)
        tick = self._next_moved(after, until) if self._moves else self._next_kept(self._begin(after), until)
        return tick if tick is not None and tick <= until else None

    def count(self, after: datetime, until: datetime, *, limit: int) -> int:
        """The number of ticks after `after`, up to and including `until`; at most `limit`."""
        if self._unrestricted:
            return self._rule.count(self._begin(after), self._end(until), limit=limit)
        return count(self.next, after, until, limit)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick after `after`, up to and including `until`; None if there is none."""
        if self._unrestricted:
            return self._rule.latest(self._begin(after), self._end(until))
        return latest(self.next, after, until)

    def preview(self, n: int = 10, *, after: datetime) -> list[Preview]:
        """The next `n` ticks with notes; fewer if the timetable ends earlier."""
        shown: list[Preview] = []
        tick = self.next(after)
        while tick is not None and len(shown) < n:
            shown.append(Preview(tick, tick.astimezone(self._zone), self._note(tick)))
            tick = self.next(tick)
        return shown

    def omitted(self, after: datetime, until: datetime, *, limit: int = 1000) -> list[Omitted]:
        """The ticks omitted after `after`, up to and including `until`, by reason.

        Exact up to `limit` ticks in all. Moved ticks are not omitted.
        """
        if self._unrestricted:
            return []
        omitted: dict[OmitReason, list[datetime]] = {"excluded": [], "window": []}
        for reason, tick in islice(self._omitted_ticks(after, until), limit):
            omitted[reason].append(tick)
        return [Omitted(reason, len(ticks), ticks[0], ticks[-1]) for reason, ticks in omitted.items() if ticks]

    # jitter

    @property
    def offset(self) -> timedelta:
        """The delay from a tick to its job: whole milliseconds below `jitter`, hashed from the name."""
        return timedelta(milliseconds=hash_below(self.name, int(self.jitter * 1000))) if self.jitter else ZERO

    def fire_at(self, tick: datetime) -> datetime:
        """When the tick's job is due. The tick keeps its own instant."""
        return tick + self.offset

    # implementation

    @property
    def _rule(self) -> Trigger:
        # Not a cached_property: it takes a lock on some releases of Python, and this is a hot path.
        rule: Trigger | None = vars(self).get("rule")
        if rule is None:
            rule = self.trigger.named(self.name)
            rule = vars(self)["rule"] = rule if self.anchor_at is None else rule.anchored(self.anchor_at)
        return rule

    @cached_property
    def _zone(self) -> ZoneInfo:
        return zone_of(self._rule.tz)

    @cached_property
    def _window(self) -> Window | None:
        return self.window and self.window.zoned(self._rule.tz)

    @property
    def _unrestricted(self) -> bool:
        return self.window is None and not self.exclude

    @property
    def _moves(self) -> bool:
        return self.window is not None and self.window.outside == "move"

    def _begin(self, after: datetime) -> datetime:
        """`after`, but not before the start."""
        return after if self.start_at is None else max(after, max(self.start_at, EARLIEST) - MICROSECOND)

    def _end(self, until: datetime) -> datetime:
        return until if self.end_at is None else min(until, self.end_at)

    @cached_property
    def _excluded_dates(self) -> frozenset[date]:
        return frozenset(self.exclude)

    @cached_property
    def _excluded_in_order(self) -> list[date]:
        return sorted(self.exclude)

    def _excluded(self, at: datetime) -> bool:
        return bool(self.exclude) and at.astimezone(self._zone).date() in self._excluded_dates

    def _closed(self, at: datetime) -> bool:
        return self._window is not None and not self._window.inside(at)

    def _next_day(self, tick: datetime) -> datetime:
        """The last instant before the next date that is not excluded; never before the tick, so that the search
        advances."""
        day = tick.astimezone(self._zone).date() + DAY
        while day in self._excluded_dates:
            day += DAY
        midnight = datetime.combine(day, time(0))
        return max(tick, first_instant(midnight, self._zone) - MICROSECOND)

    def _next_kept(self, cursor: datetime, until: datetime) -> datetime | None:
        """The first tick after `cursor`, up to `until`, that is neither omitted nor moved."""
        for _ in range(_MAX_OMITTED_TICKS):
            tick = self._rule.next(cursor)
            if tick is None or tick > until:
                return None
            if self._excluded(tick):
                cursor = self._next_day(tick)
            elif self._closed(tick):
                cursor = self._opening(tick, excluded=True) - MICROSECOND
            else:
                return tick
        return None

    def _next_moved(self, after: datetime, until: datetime) -> datetime | None:
        """Like _next_kept(), but ticks outside the window are moved to its next opening."""
        # A tick that is moved to an opening after `after` is itself after the previous opening.
        cursor = self._begin(self._opened(after) - MICROSECOND)
        for _ in range(_MAX_OMITTED_TICKS):
            tick = self._rule.next(cursor)
            if tick is None or tick > until:
                return None
            if self._excluded(tick):
                cursor = self._next_day(tick)
            elif self._closed(tick):
                opening = self._opening(tick)
                # A window that opened on an excluded date may still be open on the next one: its ticks come first.
                return self._next_kept(max(tick, after), min(opening, until)) or opening
            elif tick > after:
                return tick
            else:
                cursor = max(tick, min(self._closing(tick) - MICROSECOND, after))
        return None

    def _opening(self, after: datetime, *, excluded: bool = False) -> datetime:
        """The next opening of the window; with `excluded`, also on an excluded date."""
        assert self._window is not None
        opening = self._window.opening(after)
        while opening is not None and not excluded and self._excluded(opening):
            opening = self._window.opening(self._next_day(opening))
        return opening or LATEST

    def _opened(self, at: datetime) -> datetime:
        """The last opening at or before `at` that is not on an excluded date, or an earlier instant."""
        assert self._window is not None
        opened = self._window.opened(at)
        while opened is not None and self._excluded(opened):
            at = self._first_of_excluded(opened) - MICROSECOND
            opened = self._window.opened(at)
        return opened or at

    def _first_of_excluded(self, at: datetime) -> datetime:
        """The first instant of the consecutive excluded dates that end with the date of `at`; never after `at`."""
        day = at.astimezone(self._zone).date()
        while day - DAY in self._excluded_dates:
            day -= DAY
        return min(at, first_instant(datetime.combine(day, time(0)), self._zone))

    def _closing(self, at: datetime) -> datetime:
        span = self._window and self._window.span(at)
        return span.closes_at if span else LATEST

    def _omitted_ticks(self, after: datetime, until: datetime) -> Iterator[tuple[OmitReason, datetime]]:
        cursor, until = self._begin(to_utc(after, "the instant")), self._end(until)
        while (tick := self._rule.next(cursor)) is not None and tick <= until:
            cursor = tick
            if self._excluded(tick):
                yield "excluded", tick
            elif not self._moves and self._closed(tick):
                yield "window", tick
            else:
                cursor = max(tick, self._safe_until(tick) - MICROSECOND)

    def _safe_until(self, tick: datetime) -> datetime:
        """An instant up to which no tick after this one, which is kept, is omitted."""
        # Clocks set back over midnight show the previous date again, so that date counts for some hours more.
        today = (tick - MAX_DAYLIGHT_SHIFT).astimezone(self._zone).date()
        n = bisect_left(self._excluded_in_order, today)
        day = self._excluded_in_order[n] if n < len(self._excluded_in_order) else None
        midnight = first_instant(datetime.combine(day, time(0)), self._zone) if day else LATEST
        return midnight if self._moves else min(midnight, self._closing(tick))

    def _note(self, tick: datetime) -> str:
        if self._rule.next(tick - MICROSECOND) == tick:
            return self._rule.note(tick)
        return "outside the window: moved to its opening"


def _instant_text(at: datetime) -> str:
    return f"{date_text(at)}, {time_text(at)} UTC"
