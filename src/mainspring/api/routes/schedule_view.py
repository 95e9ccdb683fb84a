"""Schedules in requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from ...schedule.record import CatchUp, Overlap, Schedule, Spec, Status
from ...trigger import AnyTrigger, Preview, Window, cron
from ..access.redaction import mask_note, redact_data, redact_mapping
from ..masked_values import restore_arguments, restore_masked
from .field_types import SpanText

Span = Annotated[float, Meta(ge=0, description="Seconds.")] | SpanText


class ScheduleFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The options of a schedule. An absent field is unchanged, or the default for a new schedule."""

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
        """The given fields as keyword arguments of app.schedules. Masked values are restored from `spec`."""
        found = {name: value for name, value in asdict(self).items() if value is not UNSET}
        if "kwargs" in found:
            found["kwargs"] = restore_arguments(found["kwargs"], "{}" if spec is None else spec.payload)
        if "metadata" in found:
            found["metadata"] = restore_masked(found["metadata"], None if spec is None else spec.metadata)
        if isinstance(found.get("trigger"), str):
            found["trigger"] = cron(found["trigger"])
        return found


class ScheduleEdit(ScheduleFields, kw_only=True, forbid_unknown_fields=True):
    """New values for a schedule. Absent fields stay unchanged."""

    trigger: AnyTrigger | str | UnsetType = UNSET
    """A trigger with its kind, or a cron expression."""


class NewSchedule(ScheduleFields, kw_only=True, forbid_unknown_fields=True):
    name: str
    task: str
    trigger: AnyTrigger | str
    """A trigger with its kind, or a cron expression."""

    def given(self, spec: Spec | None = None) -> dict[str, Any]:
        return {name: value for name, value in super().given(spec).items() if name not in ("name", "task")}


class SpecView(Spec, frozen=True, kw_only=True, omit_defaults=False):
    payload: Any = UNSET
    """The arguments of its jobs, as JSON."""
    meaning: str = ""
    """The trigger in words."""


class ScheduleView(Schedule, frozen=True, kw_only=True, omit_defaults=False):
    """A schedule with derived fields."""

    spec: SpecView
    status: Status  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here, a property in Schedule
    warnings: Sequence[str] = ()
    """Effects of the trigger that may be unintended."""


class TickView(Struct, frozen=True):
    """A future tick."""

    at: datetime
    local: str
    """The same instant in local time."""
    note: str
    """The effect of a clock change on it; empty if there is none."""


def schedule_view(row: Schedule) -> ScheduleView:
    rule = row.spec.trigger.named(row.name)
    spec = asdict(row.spec) | {
        "payload": redact_data(row.spec.payload),
        "metadata": redact_mapping(row.spec.metadata),
        "meaning": rule.explain(),
    }
    fields = asdict(row) | {"spec": SpecView(**spec), "note": mask_note(row.note)}
    return ScheduleView(**fields, status=row.status, warnings=rule.warnings())


def tick_views(coming: Sequence[Preview]) -> list[TickView]:
    return [TickView(one.at, one.local.isoformat(), one.note) for one in coming]
