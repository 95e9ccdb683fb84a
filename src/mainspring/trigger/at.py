"""At: a trigger with one tick."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec.structs import force_setattr

from ..clock import is_instant
from ..errors import BadInput
from .trigger import Trigger
from .wall_clock import ZERO, clock_shift, date_text, instants, time_text, to_utc
from .zone import zone_of


class At(Trigger, frozen=True, kw_only=True, tag="at"):
    """One tick: an instant or, if `when` has no offset, a wall-clock time in the zone.

    A wall-clock time is stored as such, so it stays correct if the zone's rules change before it. A time in a
    daylight-saving gap is the first instant after the gap; of a repeated time, the first occurrence counts.
    """

    when: datetime

    def __post_init__(self) -> None:
        zone = zone_of(self.tz)
        if not isinstance(self.when, datetime):
            raise BadInput(f"at() needs a datetime, got {self.when!r}")
        if self.when.utcoffset() is not None and not is_instant(self.when):
            raise _out_of_range(self.when)
        if self.when.tzinfo is not None:
            force_setattr(self, "when", to_utc(self.when, "the instant"))
        elif not _instants(self.when, zone):
            raise BadInput(
                f"{date_text(self.when)}, {time_text(self.when)} does not exist in {self.tz}: choose another day"
            )

    @property
    def tick(self) -> datetime:
        """The instant, in UTC."""
        return self.when if self.when.tzinfo is not None else instants(self.when, zone_of(self.tz))[0]

    def next(self, after: datetime) -> datetime | None:
        tick = self.tick
        return tick if tick > to_utc(after, "the instant") else None

    def explain(self) -> str:
        local = self.tick.astimezone(zone_of(self.tz))
        return f"once, on {date_text(local)} at {time_text(local)}, {self.tz}"

    def note(self, tick: datetime) -> str:
        if (
            self.when.tzinfo is not None
            or tick != self.tick
            or not (change := clock_shift(self.when, zone_of(self.tz)))
        ):
            return ""
        wall = f"{date_text(self.when)}, {time_text(self.when)}"
        if change < ZERO:
            return f"{wall} comes twice: runs the first time"
        return f"{wall} does not exist: runs at {time_text(tick.astimezone(zone_of(self.tz)))}"

    def warnings(self) -> list[str]:
        return [note] if (note := self.note(self.tick)) else []


def _instants(when: datetime, zone: ZoneInfo) -> list[datetime]:
    try:
        return instants(when, zone)
    except OverflowError:
        raise _out_of_range(when) from None


def _out_of_range(when: datetime) -> BadInput:
    return BadInput(f"{when} is not within the years 1 to 9999 in UTC: choose another day")


def at(when: datetime | str, *, tz: str | None = None) -> At:
    """A trigger that ticks once: at an aware datetime, or at("2030-01-01T09:00", tz="Europe/London")."""
    if isinstance(when, str):
        when = _parse(when)
    if not isinstance(when, datetime):
        raise BadInput(f"at({when!r}) is not an instant: write at(datetime(2030, 1, 1, 9, tzinfo=UTC))")
    if when.tzinfo is None and tz is None:
        raise BadInput(
            f"at({when.isoformat()!r}) could be anywhere: give the zone, as at(datetime(..., tzinfo=UTC)) "
            "or at('2030-01-01T09:00', tz='Europe/London')"
        )
    if isinstance(when.tzinfo, ZoneInfo) and tz is None:
        return _of_zone(when, when.tzinfo)
    return At(when=when, tz=tz or "UTC")


def _of_zone(when: datetime, zone: ZoneInfo) -> At:
    """Keeps the zone's name and the wall-clock time, except for the second occurrence of a repeated time."""
    if zone.key is None:
        return At(when=when)
    wall = when.replace(tzinfo=None)
    return At(when=when if when.fold or zone.key == "UTC" else wall, tz=zone.key)


def _parse(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"at({text!r}) is not an instant: write '2030-01-01T09:00' or '2030-01-01T09:00+01:00'"
        ) from None
