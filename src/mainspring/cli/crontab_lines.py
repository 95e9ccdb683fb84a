"""The lines of a crontab, compared with the schedules of the store."""

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
# A flag that every line has which is not an interval; not a reason to report.
_NOT_AN_INTERVAL = "not an interval: "


class CrontabLine(Struct, frozen=True, kw_only=True):
    """One line, the schedule it describes, and its status.

    `new` can be created, `made` was created, `flagged` has to be reviewed, `refused` cannot be converted, `ignored` is
    not a schedule; `there` exists in the store, and `differs` if the store has another schedule of that name.
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


def to_line(entry: CrontabEntry, *, prefix: str, passes_user: bool) -> CrontabLine:
    """Converts an entry. `passes_user`: the task has a parameter `user`, which gets the user of the line."""
    reasons = tuple(flag for flag in entry.flags if not flag.startswith(_NOT_AN_INTERVAL))
    if entry.user and not passes_user:
        hint = "a task with a parameter `user` gets its name"
        reasons = (*reasons, f"runs as {entry.user} in cron, and as the worker's own user here: {hint}")
    user = {"user": entry.user} if entry.user and passes_user else {}
    trigger = entry.trigger if entry.interval is None else Every(seconds=entry.interval, anchor=EPOCH)
    status: Status = "flagged" if reasons else "new"
    if trigger is None:
        status = "refused" if entry.name else "ignored"
    return CrontabLine(
        number=entry.line,
        source=entry.source,
        status=status,
        name=f"{prefix}{entry.name}" if entry.name else "",
        trigger=trigger,
        kwargs={"command": entry.command, **user},
        reasons=reasons,
    )


def compare_lines(lines: Iterable[CrontabLine], rows: Sequence[Schedule], task: str | None) -> list[CrontabLine]:
    """The lines with the status of each in the store.

    A line was imported before if a schedule has its trigger and arguments: names may have changed with line numbers.
    Each schedule matches one line.
    """
    unmatched: dict[object, list[str]] = {}
    for row in rows:
        if task in (None, row.spec.task):
            unmatched.setdefault((row.spec.trigger, _canonical(decode_or_text(row.spec.payload))), []).append(row.name)
    known = {row.name: row for row in rows}
    return [_compare(line, unmatched, known) for line in lines]


def _compare(line: CrontabLine, unmatched: dict[object, list[str]], known: Mapping[str, Schedule]) -> CrontabLine:
    if line.trigger is None:
        return line
    same = unmatched.get((line.trigger, _canonical(line.kwargs)), [])
    if same:
        name = line.name if line.name in same else same[0]
        same.remove(name)
        return replace(line, status="there", name=name)
    if line.name in known:
        return with_conflict(line, f"{known[line.name].spec.task}, {known[line.name].spec.trigger.explain()}")
    return line


def _canonical(arguments: Any) -> bytes:
    return msgspec.json.encode(arguments, order="sorted")


def with_conflict(line: CrontabLine, existing: str) -> CrontabLine:
    reason = f"there is another schedule {line.name!r} ({existing}): update or delete that one, or give --prefix"
    return replace(line, status="differs", reasons=(*line.reasons, reason))
