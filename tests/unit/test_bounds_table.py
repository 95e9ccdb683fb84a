"""The table of bounds in docs/security.md has the values of the code."""

from __future__ import annotations

from pathlib import Path

from mainspring.api import deadline
from mainspring.api import event_stream as stream
from mainspring.api import request_limits as head
from mainspring.api.routes import enqueue, job_actions, jobs, session, triggers
from mainspring.api.routes import job_bulk as bulk
from mainspring.api.routes import job_filters as filters
from mainspring.api.service import MAX_BODY_BYTES
from mainspring.bounds import (
    CLAIM_BYTES,
    MAX_CONTAINERS,
    MAX_MEMBERS,
    MAX_METADATA_BYTES,
    MAX_SPAN_SECONDS,
    MAX_TAGS,
    MAX_TEXTS,
)
from mainspring.codec import MAX_DEPTH
from mainspring.config import Settings
from mainspring.control import computation, schedule_ticks
from mainspring.control.checks import MAX_PAGE_ROWS
from mainspring.mask import MAX_PARTS, MAX_TEXT_CHARACTERS
from mainspring.trigger import bounds, cron_fields
from mainspring.worker.judge import MAX_RELEASES

PAGE_OF_DOCS = Path(__file__).parents[2] / "docs" / "security.md"


def longest(annotated: object) -> int:
    """The max_length of an annotated type."""
    return next(one.max_length for one in annotated.__metadata__ if one.max_length is not None)  # type: ignore[attr-defined]


def most(annotated: object) -> int:
    found = annotated.__metadata__[0]  # type: ignore[attr-defined]
    return int(found.le if found.le is not None else found.max_items)


BOUNDS: dict[str, float] = {
    "request line and headers": head.MAX_HEAD_BYTES,
    "seconds until they have arrived": head.HEAD_SECONDS,
    "seconds from then on until the body has": head.BODY_SECONDS,
    "sessions that a key opens one after the other": session.MAX_OPENED,
    "body": MAX_BODY_BYTES,
    "lists and objects in a body": MAX_CONTAINERS,
    "members of the objects in a body": MAX_MEMBERS,
    "texts in a body, names of members among them": MAX_TEXTS,
    "levels of a body": MAX_DEPTH,
    "message to `/hooks`": triggers.MAX_MESSAGE_BYTES,
    "body of a sign-in": session.MAX_SIGN_IN_BYTES,
    "arguments of a job": Settings().payload_limit,
    "jobs in one request": enqueue.MAX_BATCH_JOBS,
    "ids in one bulk action": bulk.MAX_BULK_JOBS,
    "values of one filter in a query": filters.MAX_FILTER_VALUES,
    "values of one filter in a body": bulk.MAX_BULK_JOBS,
    "rows of a page": most(jobs.Limit),
    "log lines of a page": most(jobs.Lines),
    "characters of a page with `full`": jobs.MAX_ANSWER_CHARACTERS,
    "characters of a name": bounds.MAX_NAME_CHARACTERS,
    "characters of a unique or idempotency key": longest(enqueue.Key),
    "characters of a reason to cancel": job_actions.MAX_REASON_CHARACTERS,
    "seconds of a job's `delay`, `timeout`, `expires`, `debounce_limit` or `backoff`": MAX_SPAN_SECONDS,
    "bytes of a job's metadata, as JSON": MAX_METADATA_BYTES,
    "tags of a job": MAX_TAGS,
    "bytes of jobs that one claim takes": CLAIM_BYTES,
    "releases of a job in a row before one counts as a failure": MAX_RELEASES,
    "characters of a cron expression": cron_fields.MAX_EXPRESSION_CHARACTERS,
    "times of a calendar": bounds.MAX_TIMES,
    "weekdays of a rule": bounds.MAX_WEEKDAYS,
    "excluded dates of a schedule": bounds.MAX_EXCLUDED_DATES,
    "schedules that one depends on": bounds.MAX_DEPENDENCIES,
    "ticks of a preview": MAX_PAGE_ROWS,
    "ticks of a backfill": schedule_ticks.MAX_TICKS,
    "seconds of a computation": computation.DEADLINE_SECONDS,
    "seconds of a read": deadline.RESPONSE_DEADLINE_SECONDS,
    "seconds of `wait`": jobs.MAX_WAIT_SECONDS,
    "live streams of one principal": stream.MAX_PRINCIPAL_STREAMS,
    "live streams of a server": stream.MAX_PROCESS_STREAMS,
    "seconds between two checks of a stream's key": stream.CHECK_SECONDS,
    "characters of a text that is shown": MAX_TEXT_CHARACTERS,
    "parts of a value that is shown": MAX_PARTS,
}


def rows() -> dict[str, str]:
    text = PAGE_OF_DOCS.read_text(encoding="utf-8")
    table = text.partition("| what | at most |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {what: bound.split()[0].strip(",") for what, bound, *_ in cells}


def test_the_table_of_bounds_in_the_documentation_matches_the_code() -> None:
    found = rows()
    assert {what: found.get(what) for what in BOUNDS} == {what: f"{bound:,.0f}" for what, bound in BOUNDS.items()}
    assert set(found) == set(BOUNDS)
