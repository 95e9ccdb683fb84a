"""Schedules as the API takes and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from ...schedule.record import CatchUp, Overlap, Schedule, Spec, Status
from ...trigger import AnyTrigger, Preview, Window, cron
from ..access.redaction import shown_data, shown_mapping, shown_text
from ..unchanged import kept, kept_arguments
from .values import SpanText

Span = Annotated[float, Meta(ge=0, description="Seconds.")] | SpanText


class Policies(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is left out is as it was, or the default."""

    kwargs: dict[str, Any] | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_window: Span | UnsetType = UNSET
    grace: Span | UnsetType = UNSET
    jitter: Span | UnsetType = UNSET
    window: Window | UnsetType | None = UNSET
    exclude: list[date] | UnsetType = UNSET
    start_at: datetime | UnsetType | None = UNSET
    end_at: datetime | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    run_on_start: bool | UnsetType = UNSET
    after: Literal["start", "finish"] | UnsetType = UNSET
    pause_after_failures: int | UnsetType | None = UNSET
    depends_on: list[str] | UnsetType = UNSET
    adapt: Span | UnsetType | None = UNSET
    spread: bool | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout: Span | UnsetType | None = UNSET
    max_retries: int | UnsetType = UNSET
    expires: Span | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET

    def given(self, spec: Spec | None = None) -> dict[str, Any]:
        """As app.schedules takes them; what is masked is as the schedule has it."""
        found = {name: value for name, value in asdict(self).items() if value is not UNSET}
        if "kwargs" in found:
            found["kwargs"] = kept_arguments(found["kwargs"], "{}" if spec is None else spec.payload)
        if "metadata" in found:
            found["metadata"] = kept(found["metadata"], None if spec is None else spec.metadata)
        if isinstance(found.get("trigger"), str):
            found["trigger"] = cron(found["trigger"])
        return found


class Rules(Policies, kw_only=True, forbid_unknown_fields=True):
    """When a schedule runs and by which policies, said anew."""

    trigger: AnyTrigger | str | UnsetType = UNSET
    """A trigger with its kind, or a cron expression."""


class NewSchedule(Policies, kw_only=True, forbid_unknown_fields=True):
    name: str
    task: str
    trigger: AnyTrigger | str
    """A trigger with its kind, or a cron expression."""

    def given(self, spec: Spec | None = None) -> dict[str, Any]:
        return {name: value for name, value in super().given(spec).items() if name not in ("name", "task")}


class SpecView(Spec, frozen=True, kw_only=True, omit_defaults=False):
    payload: Any = UNSET
    """The arguments of its jobs, as data."""
    meaning: str = ""
    """Its rule in words."""


class ScheduleView(Schedule, frozen=True, kw_only=True, omit_defaults=False):
    """A schedule with what follows from it."""

    spec: SpecView
    status: Status  # pyright: ignore[reportIncompatibleMethodOverride]  # said, where a Schedule reckons it
    warnings: Sequence[str] = ()
    """What its author may not have meant."""


class TickView(Struct, frozen=True):
    """A tick to come."""

    at: datetime
    local: str
    """The same instant on the clocks of its zone."""
    note: str
    """What a change of the clocks does to it; empty: nothing."""


def schedule_view(row: Schedule) -> ScheduleView:
    rule = row.spec.trigger.named(row.name)
    spec = asdict(row.spec) | {
        "payload": shown_data(row.spec.payload), "metadata": shown_mapping(row.spec.metadata),
        "meaning": rule.explain(),
    }  # fmt: skip
    known = asdict(row) | {"spec": SpecView(**spec), "note": shown_text(row.note)}
    return ScheduleView(**known, status=row.status, warnings=rule.warnings())


def tick_views(coming: Sequence[Preview]) -> list[TickView]:
    return [TickView(one.at, one.local.isoformat(), one.note) for one in coming]
