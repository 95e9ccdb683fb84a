"""The lines of a crontab, and what is to become of each: pure, but for the schedules there are already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..clock import EPOCH
from ..codec import decode_or_text
from ..schedule.record import Schedule
from ..trigger import AnyTrigger, Every
from ..trigger.crontab import CrontabEntry

Status = Literal["made", "new", "there", "differs", "flagged", "refused", "ignored"]
STATUSES: tuple[Status, ...] = get_args(Status)
# Said of every line that is no interval: no reason to look twice at it.
_NOT_AN_INTERVAL = "not an interval: "


class CrontabLine(Struct, frozen=True, kw_only=True):
    """One line, the schedule it means, and what becomes of it.

    `new` may be made, `flagged` needs a look, `refused` cannot be converted, `ignored` asks for nothing; `there` is
    one that the store has, `differs` one whose name it has for another.
    """

    number: int
    source: str
    status: Status
    name: str = ""
    trigger: AnyTrigger | None = None
    kwargs: Mapping[str, str] = {}
    reasons: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        return "" if self.trigger is None else self.trigger.named(self.name).explain()


def line_of(entry: CrontabEntry, *, prefix: str, passes_user: bool) -> CrontabLine:
    """What the reader says of it; `passes_user`: whoever runs the command is told whose it is."""
    reasons = tuple(flag for flag in entry.flags if not flag.startswith(_NOT_AN_INTERVAL))
    if entry.user and not passes_user:
        way = "a task with a parameter `user` is told"
        reasons = (*reasons, f"runs as {entry.user} in cron, and as the worker's own user here: {way}")
    user = {"user": entry.user} if entry.user and passes_user else {}
    trigger = entry.trigger if entry.interval is None else Every(seconds=entry.interval, anchor=EPOCH)
    status: Status = "flagged" if reasons else "new"
    if trigger is None:
        status = "refused" if entry.name else "ignored"
    return CrontabLine(
        number=entry.line, source=entry.source, status=status, name=f"{prefix}{entry.name}" if entry.name else "",
        trigger=trigger, kwargs={"command": entry.command, **user}, reasons=reasons,
    )  # fmt: skip


def compared(lines: Iterable[CrontabLine], rows: Sequence[Schedule], task: str | None) -> list[CrontabLine]:
    """The lines beside the schedules that are there: what was imported before is known by what it says.

    Names may have changed with the numbers of lines. Each schedule stands for one line.
    """
    left: dict[object, list[str]] = {}
    for row in rows:
        if task in (None, row.spec.task):
            left.setdefault((row.spec.trigger, _canonical(decode_or_text(row.spec.payload))), []).append(row.name)
    known = {row.name: row for row in rows}
    return [_beside(line, left, known) for line in lines]


def _beside(line: CrontabLine, left: dict[object, list[str]], known: Mapping[str, Schedule]) -> CrontabLine:
    if line.trigger is None:
        return line
    same = left.get((line.trigger, _canonical(line.kwargs)), [])
    if same:
        name = line.name if line.name in same else same[0]
        same.remove(name)
        return replace(line, status="there", name=name)
    if line.name in known:
        return differing(line, f"{known[line.name].spec.task}, {known[line.name].spec.trigger.explain()}")
    return line


def _canonical(arguments: Any) -> bytes:
    return msgspec.json.encode(arguments, order="sorted")


def differing(line: CrontabLine, what: str) -> CrontabLine:
    reason = f"there is another schedule {line.name!r} ({what}): update or delete that one, or give --prefix"
    return replace(line, status="differs", reasons=(*line.reasons, reason))
