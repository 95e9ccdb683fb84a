"""One action on some jobs: which, whether really, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ..app import Mainspring
from ..control import PAGE
from ..errors import InvalidTransition, JobExists
from ..events import JobsChanged
from ..ids import JobId
from ..records.job import ALLOWED, Action, Job, Shown
from ..records.query import Changed, Filter, Refusal
from ..task.handle import job_not_found
from . import records
from .confirm import confirm
from .failure import Failed, hint
from .filters import filter_of, filters, options, words
from .loading import place
from .options import as_json, yes
from .progress import counting

SHOWN_REFUSALS = 10
# A question counts no further.
COUNTED = 10_000
ABOUT = "--state, --queue, --task, …"


class ChangeCommand(Struct, frozen=True, kw_only=True):
    """What is done: its name, how a job is afterwards, in which states, and the call."""

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
    """Running jobs among those done: their worker ends them."""


class JobChoice(Struct, frozen=True, kw_only=True):
    """The jobs meant, and how the question is asked."""

    ids: tuple[JobId, ...]
    which: Filter
    yes: bool
    as_json: bool


which_jobs = options(
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    click.option("--all", "every", is_flag=True, help="All of them; the options below narrow it."),
    filters,
    yes,
    as_json,
)


async def chosen(app: Mainspring, usual: tuple[Shown, ...], given: dict[str, Any]) -> JobChoice:
    """From what `which_jobs` was given; a filter without states means the usual ones."""
    ids: tuple[JobId, ...] = tuple(dict.fromkeys(given.pop("ids")))
    every, yes, as_json = given.pop("every"), given.pop("yes"), given.pop("as_json")
    narrowed = any(value not in (None, ()) for value in given.values())
    if ids and (every or narrowed):
        raise click.UsageError("ids say which jobs are meant: --all and options that choose do not go with them")
    if not ids and not every and not narrowed:
        raise click.UsageError(f"which jobs? Give ids, or options that choose ({ABOUT}), or --all")
    if ids:
        return JobChoice(ids=ids, which=Filter(ids=ids), yes=True, as_json=as_json)
    which = await filter_of(app, given | {"states": given.get("states") or usual})
    return JobChoice(ids=(), which=which, yes=yes, as_json=as_json)


async def carry_out(app: Mainspring, deed: ChangeCommand, choice: JobChoice) -> None:
    """Asks if it may be many, does it, and says what was done; fails if anything was refused."""
    about, changed = words(choice.which), Changed([], {})
    if (which := await _agreed(app, deed, choice)) is not None:
        with counting(app, JobsChanged, deed.verb):
            changed = await deed.act(which)
    report = ChangeSummary(changed.done, {id: _refusal(deed, id, why) for id, why in changed.refused.items()})
    report.refused |= await _left(app, deed, choice.ids, {*changed.done, *changed.refused})
    if deed.verb == Action.CANCEL:
        report.stopping = len(set(changed.done) & await _running(app))
    if not report.done and not report.refused:
        hint(f"nothing to {deed.verb} in {place(app)}: no job with {about}")
    _tell(deed, report, choice.as_json)


async def _agreed(app: Mainspring, deed: ChangeCommand, choice: JobChoice) -> Filter | None:
    """What may be done; None if there is nothing to ask about."""
    if choice.yes:
        return choice.which
    # What comes while the question stands is not what it was about.
    which = replace(choice.which, created_before=choice.which.created_before or app.clock.now())
    count = await _count(app, which)
    if not count:
        return None
    confirm(f"{deed.verb} {_many(count)} ({words(choice.which)}) in {place(app)}?")
    return which


async def first(app: Mainspring, which: Filter) -> list[Job]:
    """The first thousand, first to last."""
    return await app.jobs.list(which, limit=PAGE, newest=False, sort="created")


async def _count(app: Mainspring, which: Filter) -> int:
    """Up to COUNTED, and one more if there are more."""
    count, after = 0, None
    while count <= COUNTED:
        page = await app.jobs.list(which, limit=PAGE, after=after, newest=False, sort="created")
        count, after = count + len(page), page.next
        if after is None:
            break
    return min(count, COUNTED + 1)


def _many(count: int) -> str:
    if count > COUNTED:
        return f"more than {COUNTED:,} jobs"
    return f"{count:,} job{'s' * (count != 1)}"


async def _running(app: Mainspring) -> set[JobId]:
    found: set[JobId] = set()
    after = None
    while True:
        page = await app.jobs.list(Filter(states=("running",)), limit=PAGE, after=after)
        found |= {job.id for job in page}
        after = page.next
        if after is None:
            return found


async def _left(app: Mainspring, deed: ChangeCommand, ids: Sequence[JobId], answered: set[JobId]) -> dict[JobId, str]:
    """Those asked for by id that were not even looked at: unknown, or none of this deed's business."""
    said: dict[JobId, str] = {}
    rest = tuple(id for id in ids if id not in answered)
    for some in (rest[start : start + PAGE] for start in range(0, len(rest), PAGE)):
        known = {job.id: job for job in await first(app, Filter(ids=some))}
        for id in some:
            said[id] = _unfit(deed, id, known[id].state) if id in known else str(job_not_found(id))
    return said


def _refusal(deed: ChangeCommand, id: JobId, refusal: Refusal) -> str:
    if refusal.error is not None:
        return f"cannot {deed.verb} job {id}: {refusal.error}"
    if refusal.holder is not None:
        return f"cannot {deed.verb} job {id}: {JobExists(refusal.key or '', refusal.holder)}"
    return _unfit(deed, id, refusal.state)


def _unfit(deed: ChangeCommand, id: JobId, state: str) -> str:
    return str(InvalidTransition(id, state, deed.verb, ", ".join(sorted(deed.needs))))


def _tell(deed: ChangeCommand, report: ChangeSummary, as_json: bool) -> None:
    """What was done on stdout, what was not on stderr."""
    refused = list(report.refused.values())
    if as_json:
        told = [{"id": id, "error": error} for id, error in report.refused.items()]
        records.emit({"action": deed.verb, "done": report.done, "stopping": report.stopping, "refused": told})
    else:
        _tell_done(deed, report)
    if len(refused) == 1 and not report.done:
        raise Failed(refused[0])
    for line in [] if as_json else refused[:SHOWN_REFUSALS]:
        hint(line)
    if len(refused) > SHOWN_REFUSALS and not as_json:
        hint(f"… and {len(refused) - SHOWN_REFUSALS:,} more like these")
    if refused:
        raise Failed(f"{len(refused):,} of {len(refused) + len(report.done):,} jobs refused")


def _tell_done(deed: ChangeCommand, report: ChangeSummary) -> None:
    if ended := len(report.done) - report.stopping:
        click.echo(f"{_jobs(ended)} {deed.done}")
    if report.stopping:
        click.echo(f"{_jobs(report.stopping)} running and told to stop")


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
