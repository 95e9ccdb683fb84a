"""Changes of jobs chosen by ids or by a filter: confirmed, applied and reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ..app import Mainspring
from ..control import MAX_PAGE_ROWS
from ..errors import InvalidTransition, JobExists
from ..events import JobsChanged
from ..ids import JobId
from ..records.job import ALLOWED, Action, Job, Shown
from ..records.query import Changed, Filter, Refusal
from ..task.handle import job_not_found
from .app_loader import store_name
from .confirm import confirm
from .filters import combine_options, filter_of, filter_options, filter_text
from .json_output import print_json
from .messages import Failed, hint
from .options import as_json, yes
from .progress import count_on_stderr

MAX_REFUSALS_SHOWN = 10
# A confirmation question counts no further.
MAX_COUNTED_JOBS = 10_000
FILTER_OPTIONS = "--state, --queue, --task, …"


class ChangeCommand(Struct, frozen=True, kw_only=True):
    """A change: its verb, how a job is afterwards, the states it needs, and the call that applies it."""

    verb: str
    done: str
    needs: Iterable[str]
    act: Callable[[Filter], Awaitable[Changed]]

    @classmethod
    def of(
        cls, action: Action, done: str, act: Callable[[Filter], Awaitable[Changed]], verb: str = ""
    ) -> ChangeCommand:
        return cls(verb=verb or action.value, done=done, needs=ALLOWED[action], act=act)


class ChangeSummary(Struct):
    done: list[JobId]
    refused: dict[JobId, str]
    stopping: int = 0
    """How many of `done` are running: their workers will end them."""


class JobChoice(Struct, frozen=True, kw_only=True):
    """The chosen jobs; `yes`: without a confirmation."""

    ids: tuple[JobId, ...]
    which: Filter
    yes: bool
    as_json: bool


which_jobs = combine_options(
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    click.option("--all", "every", is_flag=True, help="All of them; the options below narrow it."),
    filter_options,
    yes,
    as_json,
)


async def choose_jobs(app: Mainspring, usual: tuple[Shown, ...], given: dict[str, Any]) -> JobChoice:
    """The jobs that the options of `which_jobs` choose; a filter without states means the `usual` ones."""
    ids: tuple[JobId, ...] = tuple(dict.fromkeys(given.pop("ids")))
    every, yes, as_json = given.pop("every"), given.pop("yes"), given.pop("as_json")
    narrowed = any(value not in (None, ()) for value in given.values())
    if ids and (every or narrowed):
        raise click.UsageError("ids say which jobs are meant: --all and options that choose do not go with them")
    if not ids and not every and not narrowed:
        raise click.UsageError(f"which jobs? Give ids, or options that choose ({FILTER_OPTIONS}), or --all")
    if ids:
        return JobChoice(ids=ids, which=Filter(ids=ids), yes=True, as_json=as_json)
    which = await filter_of(app, given | {"states": given.get("states") or usual})
    return JobChoice(ids=(), which=which, yes=yes, as_json=as_json)


async def apply_change(app: Mainspring, change: ChangeCommand, choice: JobChoice) -> None:
    """Asks for a confirmation if jobs were chosen by a filter, applies the change and reports it.

    Raises Failed if a job was refused.
    """
    description, changed = filter_text(choice.which), Changed([], {})
    if (which := await _confirmed(app, change, choice)) is not None:
        with count_on_stderr(app, JobsChanged, change.verb):
            changed = await change.act(which)
    report = ChangeSummary(changed.done, {id: _refusal(change, id, why) for id, why in changed.refused.items()})
    report.refused |= await _unmatched(app, change, choice.ids, {*changed.done, *changed.refused})
    if change.verb == Action.CANCEL:
        report.stopping = len(set(changed.done) & await _running(app))
    if not report.done and not report.refused:
        hint(f"nothing to {change.verb} in {store_name(app)}: no job with {description}")
    _print_report(change, report, choice.as_json)


async def _confirmed(app: Mainspring, change: ChangeCommand, choice: JobChoice) -> Filter | None:
    """The filter to apply after a confirmation; None if no job matches."""
    if choice.yes:
        return choice.which
    # Jobs created while the question is open are not part of it.
    which = replace(choice.which, created_before=choice.which.created_before or app.clock.now())
    count = await _count(app, which)
    if not count:
        return None
    confirm(f"{change.verb} {_jobs_text(count)} ({filter_text(choice.which)}) in {store_name(app)}?")
    return which


async def first_jobs(app: Mainspring, which: Filter) -> list[Job]:
    """The first PAGE jobs, oldest first."""
    return await app.jobs.list(which, limit=MAX_PAGE_ROWS, newest=False, sort="created")


async def _count(app: Mainspring, which: Filter) -> int:
    """The number of jobs; MAX_COUNTED_JOBS + 1 if there are more."""
    count, after = 0, None
    while count <= MAX_COUNTED_JOBS:
        page = await app.jobs.list(which, limit=MAX_PAGE_ROWS, after=after, newest=False, sort="created")
        count, after = count + len(page), page.next
        if after is None:
            break
    return min(count, MAX_COUNTED_JOBS + 1)


def _jobs_text(count: int) -> str:
    if count > MAX_COUNTED_JOBS:
        return f"more than {MAX_COUNTED_JOBS:,} jobs"
    return f"{count:,} job{'s' * (count != 1)}"


async def _running(app: Mainspring) -> set[JobId]:
    found: set[JobId] = set()
    after = None
    while True:
        page = await app.jobs.list(Filter(states=("running",)), limit=MAX_PAGE_ROWS, after=after)
        found |= {job.id for job in page}
        after = page.next
        if after is None:
            return found


async def _unmatched(
    app: Mainspring, change: ChangeCommand, ids: Sequence[JobId], matched: set[JobId]
) -> dict[JobId, str]:
    """An error for each id that the change did not match: an unknown job, or one in another state."""
    errors: dict[JobId, str] = {}
    rest = tuple(id for id in ids if id not in matched)
    for some in (rest[start : start + MAX_PAGE_ROWS] for start in range(0, len(rest), MAX_PAGE_ROWS)):
        known = {job.id: job for job in await first_jobs(app, Filter(ids=some))}
        for id in some:
            errors[id] = _wrong_state(change, id, known[id].state) if id in known else str(job_not_found(id))
    return errors


def _refusal(change: ChangeCommand, id: JobId, refusal: Refusal) -> str:
    if refusal.error is not None:
        return f"cannot {change.verb} job {id}: {refusal.error}"
    if refusal.holder is not None:
        return f"cannot {change.verb} job {id}: {JobExists(refusal.key or '', refusal.holder)}"
    return _wrong_state(change, id, refusal.state)


def _wrong_state(change: ChangeCommand, id: JobId, state: str) -> str:
    return str(InvalidTransition(id, state, change.verb, ", ".join(sorted(change.needs))))


def _print_report(change: ChangeCommand, report: ChangeSummary, as_json: bool) -> None:
    """Prints what was done on stdout, and refusals on stderr."""
    refused = list(report.refused.values())
    if as_json:
        errors = [{"id": id, "error": error} for id, error in report.refused.items()]
        print_json({"action": change.verb, "done": report.done, "stopping": report.stopping, "refused": errors})
    else:
        _print_done(change, report)
    if len(refused) == 1 and not report.done:
        raise Failed(refused[0])
    for line in [] if as_json else refused[:MAX_REFUSALS_SHOWN]:
        hint(line)
    if len(refused) > MAX_REFUSALS_SHOWN and not as_json:
        hint(f"… and {len(refused) - MAX_REFUSALS_SHOWN:,} more like these")
    if refused:
        raise Failed(f"{len(refused):,} of {len(refused) + len(report.done):,} jobs refused")


def _print_done(change: ChangeCommand, report: ChangeSummary) -> None:
    if ended := len(report.done) - report.stopping:
        click.echo(f"{_jobs_are(ended)} {change.done}")
    if report.stopping:
        click.echo(f"{_jobs_are(report.stopping)} running, and will stop")


def _jobs_are(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
