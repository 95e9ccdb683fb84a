"""Tables and pages about flows: how far each is, and one with its steps as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..ids import JobId
from ..insight.flow_tree import about_step, numbers_needed, others_text, tree_lines
from ..insight.flow_view import FlowCounts, FlowView, StepState, StepView
from ..insight.why import Reason
from ..records.job import Job
from .job_page import job_heading, why_lines
from .messages import clean
from .render import STATES, WIDE_COLUMNS, console, exact, facts, grid, job_state, line, span, when

# Steps that a page shows.
MAX_SHOWN_STEPS = 300
STEP_STATES: Mapping[StepState, tuple[str, str]] = {
    **{name: STATES[name] for name in ("waiting", "pending", "scheduled", "retrying", "running", "paused")},
    **{name: STATES[name] for name in ("completed", "dead", "cancelled")},
    "not_run": ("–", "red"),
    "skipped": ("→", "dim"),
}


def flow_table(jobs: Sequence[Job], progress: Mapping[JobId, FlowCounts], now: datetime) -> Table:
    table = grid("id", "state", "flow", "steps", "dead", "items", "made", cut=("flow",))
    for column in table.columns[3:6]:
        column.justify = "right"
    for job in jobs:
        counts = progress.get(job.id)
        cells = ["", "", ""] if counts is None else _cells(counts)
        name = line(str(job.metadata.get("flow", job.task)))
        table.add_row(clean(job.id), job_state(job, now), name, *cells, when(job.created_at, now))
    return table


def _cells(counts: FlowCounts) -> list[str]:
    items = "" if counts.items is None else f"{counts.items.ended:,}/{counts.items.made:,}"
    return [f"{counts.done:,}/{counts.steps:,}", f"{counts.dead:,}" if counts.dead else "", items]


def flow_page(job: Job, view: FlowView, reasons: Sequence[Reason], now: datetime) -> list[RenderableType]:
    ended = sum(step.state in ("completed", "dead", "not_run", "cancelled", "skipped") for step in view.steps)
    about = {
        "flow": str(job.metadata.get("flow", "")),
        "steps": f"{ended:,} of {len(view.steps):,} have ended",
        "planned": exact(view.began_at, now),
        "ended": "" if view.ended_at is None else exact(view.ended_at, now),
        "cancel reason": job.cancel_reason or "",
        "replay of": clean(view.replay_of or ""),
    }
    page: list[RenderableType] = [job_heading(job, now), facts(about), Text(), _steps(view.steps, now)]
    if len(view.steps) > MAX_SHOWN_STEPS:
        page.append(Text(f"… {len(view.steps) - MAX_SHOWN_STEPS:,} steps more; --json has all", style="dim"))
    if reasons:
        page += [Text(), Text("WHY", style="dim"), why_lines(reasons, now)]
    return page


def _steps(steps: Sequence[StepView], now: datetime) -> Table:
    wide = console().width >= WIDE_COLUMNS
    table = grid("step", "state", "took", *(["job"] if wide else []), "about", cut=("step", "about"))
    for one in tree_lines(numbers_needed(steps))[:MAX_SHOWN_STEPS]:
        step = steps[one.number]
        symbol, style = STEP_STATES[step.state]
        state = Text(f"{symbol} {step.state.replace('_', ' ')}", style=style, no_wrap=True)
        about = [text for text in [about_step(step), *others_text([steps[n].name for n in one.others])] if text]
        name = Text.assemble((one.prefix, "dim"), clean(step.name), no_wrap=True, overflow="ellipsis")
        cells = [_took(step, now), *([clean(step.job_id or "")] if wide else [])]
        table.add_row(name, state, *cells, line(", ".join(about)))
    return table


def _took(step: StepView, now: datetime) -> str:
    if step.started_at is None:
        return ""
    end = step.finished_at or (now if step.state == "running" else None)
    return "" if end is None else span((end - step.started_at).total_seconds())
