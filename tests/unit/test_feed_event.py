"""Feed events: their conversion from events, what they never contain, and filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import BadInput, Failure, State
from mainspring.events import (
    Event,
    JobEnded,
    JobEnqueued,
    JobLost,
    JobReported,
    JobsChanged,
    JobsExpired,
    JobStarted,
    LeaderChanged,
    Pruned,
    QueuePaused,
    QueueResumed,
    SchedulePaused,
    SchedulesChanged,
    TickFired,
    TickPassed,
    WorkersOrdered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
    ended_event,
)
from mainspring.feed.event import DROPPED, RESET, TYPES, FeedEvent, FeedFilter, Summary, decode, encode, feed_filter
from mainspring.feed.from_events import CONVERTERS, MAX_LINES, MAX_NAMES, MAX_TEXT_CHARACTERS
from mainspring.records.job import Action, Job
from mainspring.records.outcome import Outcome
from mainspring.records.run import Ending, LogLine, OutputChunk, Progress, RunReport
from mainspring.records.step import StepRef, position_of
from mainspring.schedule.record import Tick

NOW = datetime(2030, 1, 1, 9, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)
JOB = Job(
    id="j1", task="send", payload='{"password":"hunter2"}', queue="mail", priority=0, state=State.RUNNING, run_at=NOW,
    created_at=NOW, schedule="daily", attempt=2, runs=2, lease="l", worker="ada", started_at=NOW - timedelta(seconds=3),
    metadata={"token": "hunter2"},
)  # fmt: skip


def told(event: Event) -> list[FeedEvent]:
    tell = next(CONVERTERS[kind] for kind in type(event).__mro__ if kind in CONVERTERS)
    return list(tell(event))


def outcome(state: State, ending: Ending, **more: Any) -> JobEnded:
    return ended_event(NOW, JOB, Outcome(id="j1", lease="l", state=state, ending=ending, finished_at=NOW, **more))


def shown(state: Any, **more: Any) -> Summary:
    given = {"attempt": 2, "run_at": NOW, "worker": "ada", "schedule": "daily"} | more
    return Summary(id="j1", task="send", queue="mail", state=state, **given)


FAILURE = Failure("ValueError", "no route", "Traceback …")
TICK = Tick(n=1, at=NOW, seen_at=NOW, what="fired", job_id="j1")
NEW: dict[str, Any] = {"at": NOW, "id": "j2", "task": "send", "queue": "mail"}
RUN: dict[str, Any] = {"job": shown("completed"), "ending": "completed", "duration": 3.0}
SAID: list[tuple[Event, str, dict[str, Any]]] = [
    (JobEnqueued(status="new", **NEW), "job.enqueued",
     {"job": Summary(id="j2", task="send", queue="mail", state="pending"), "status": "new"}),
    (JobEnqueued(status="new", run_at=LATER, schedule="daily", **NEW), "job.enqueued",
     {"job": Summary(id="j2", task="send", queue="mail", state="scheduled", run_at=LATER, schedule="daily"),
      "status": "new"}),
    (outcome(State.WAITING, Ending.SUSPENDED, refund=True), "job.suspended",
     {**RUN, "job": shown("waiting"), "ending": "suspended"}),
    (JobEnqueued(status="duplicate", **NEW), "job.enqueued",
     {"job": Summary(id="j2", task="send", queue="mail"), "status": "duplicate"}),
    (JobStarted(at=NOW, job=JOB), "job.started", {"job": shown("running")}),
    (outcome(State.COMPLETED, Ending.COMPLETED, result='"hunter2"'), "job.completed", RUN),
    (outcome(State.PENDING, Ending.FAILED, failure=FAILURE, run_at=LATER), "job.retrying",
     RUN | {"job": shown("retrying", run_at=LATER), "ending": "failed", "error": Failure("ValueError", "no route")}),
    (outcome(State.DEAD, Ending.TIMEOUT, failure=FAILURE), "job.dead",
     RUN | {"job": shown("dead"), "ending": "timeout", "error": Failure("ValueError", "no route")}),
    (outcome(State.CANCELLED, Ending.CANCELLED, failure=Failure("Cancelled", "enough")), "job.cancelled",
     RUN | {"job": shown("cancelled"), "ending": "cancelled", "error": Failure("Cancelled", "enough")}),
    (outcome(State.PENDING, Ending.SNOOZED, run_at=LATER, refund=True), "job.snoozed",
     RUN | {"job": shown("retrying", run_at=LATER, attempt=1), "ending": "snoozed"}),
    (outcome(State.PENDING, Ending.RELEASED, run_at=NOW, refund=True), "job.released",
     RUN | {"job": shown("retrying", attempt=1), "ending": "released"}),
    (JobLost(at=NOW, job=JOB), "job.lost", {"job": shown(None)}),
    (JobsExpired(at=NOW, ids=("j1", "j2")), "job.expired", {"ids": ("j1", "j2")}),
    (JobsChanged(at=NOW, action=Action.PAUSE, ids=("j1",)), "job.changed", {"ids": ("j1",), "action": "pause"}),
    (Pruned(at=NOW, count=7), "job.pruned", {"count": 7}),
    (TickFired(at=NOW, schedule="daily", tick=TICK), "schedule.fired", {"schedule": "daily", "tick": TICK}),
    (TickPassed(at=NOW, schedule="daily", tick=TICK), "schedule.passed", {"schedule": "daily", "tick": TICK}),
    (SchedulePaused(at=NOW, schedule="daily", note="3 failures"), "schedule.paused",
     {"schedule": "daily", "reason": "3 failures"}),
    (SchedulesChanged(at=NOW, action="update", names=("daily",)), "schedule.changed",
     {"schedules": ("daily",), "action": "update"}),
    (QueuePaused(at=NOW, queue="mail"), "queue.paused", {"queue": "mail"}),
    (QueueResumed(at=NOW, queue="mail"), "queue.resumed", {"queue": "mail"}),
    (WorkerStarted(at=NOW, worker="ada"), "worker.started", {"worker": "ada"}),
    (WorkerStopping(at=NOW, worker="ada", running=2, grace=30.0), "worker.stopping",
     {"worker": "ada", "running": 2, "grace": 30.0}),
    (WorkerStopped(at=NOW, worker="ada"), "worker.stopped", {"worker": "ada"}),
    (WorkersOrdered(at=NOW, action="drain", workers=("ada",)), "worker.changed",
     {"workers": ("ada",), "action": "drain"}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "type", "fields"), SAID, ids=[f"{n}-{type}" for n, (_, type, _) in enumerate(SAID)])
def test_each_event_is_converted_to_its_feed_event(event: Event, type: str, fields: dict[str, Any]) -> None:
    assert told(event) == [FeedEvent(type=type, at=NOW, **fields)]


def test_an_event_of_a_step_names_its_flow() -> None:
    step = replace(JOB, step=StepRef("f1", position_of(2), "flows"))
    notices = [*told(JobStarted(at=NOW, job=step)), *told(JobLost(at=NOW, job=step))]
    assert [notice.job for notice in notices] == [shown("running", flow="f1"), shown(None, flow="f1")]


def test_a_leader_change_has_its_term() -> None:
    (notice,) = told(LeaderChanged(at=NOW, name="reindex", holder="ada", term=3, leading=True))
    leader = notice.leader
    assert leader is not None
    assert (notice.type, leader.name, leader.holder, leader.term, leader.leading) == (
        "leader.changed", "reindex", "ada", 3, True,
    )  # fmt: skip


def test_output_is_announced_by_its_last_number_without_its_text() -> None:
    chunks = (OutputChunk(6, 2, LATER, '"secret"'), OutputChunk(7, 2, NOW, '"secret"'))
    report = RunReport(id="j1", lease="l", chunks=chunks)
    assert told(JobReported(at=NOW, job=JOB, report=report)) == [
        FeedEvent(type="job.output", at=NOW, job=shown("running"), chunk=7)
    ]


def test_every_feed_type_has_a_converter() -> None:
    line, progress, chunk = LogLine(2, 1, NOW, 20, "hi"), Progress(2, NOW, 1.0), OutputChunk(1, 2, NOW, '"hi"')
    report = RunReport(id="j1", lease="l", lines=(line,), progress=progress, chunks=(chunk,))
    both = told(JobReported(at=NOW, job=JOB, report=report))
    leader = told(LeaderChanged(at=NOW, name="a", holder="b", term=1, leading=False))
    types = {type for _, type, _ in SAID} | {notice.type for notice in [*both, *leader]}
    assert types | {DROPPED, RESET} == set(TYPES)


def reported(*texts: str, **more: Any) -> list[FeedEvent]:
    lines = tuple(LogLine(2, n, NOW, 20, text) for n, text in enumerate(texts, 1))
    return told(JobReported(at=NOW, job=JOB, report=RunReport(id="j1", lease="l", lines=lines, **more)))


def test_log_lines_and_progress_are_separate_events_in_order() -> None:
    first, second, third = reported("one", "two", progress=Progress(2, NOW, 1.0, 4.0, "rows"))
    assert [notice.type for notice in (first, second, third)] == ["job.log", "job.log", "job.progress"]
    assert first.line is not None
    assert second.line is not None
    assert (first.line.text, second.line.n) == ("one", 2)
    assert third.progress == Progress(2, NOW, 1.0, 4.0, "rows")
    assert third.job == shown("running")


def test_feed_events_of_a_report_with_too_many_lines_keep_the_newest() -> None:
    notices = reported(*(f"line {n}" for n in range(MAX_LINES + 40)))
    assert (len(notices), notices[0].left_out, notices[1].left_out) == (MAX_LINES, 40, 0)
    assert notices[-1].line is not None
    assert notices[-1].line.text == f"line {MAX_LINES + 39}"


def test_many_job_ids_are_split_over_several_events() -> None:
    ids = tuple(f"j{n}" for n in range(2 * MAX_NAMES + 1))
    notices = told(JobsChanged(at=NOW, action=Action.CANCEL, ids=ids))
    assert [len(notice.ids) for notice in notices] == [MAX_NAMES, MAX_NAMES, 1]
    assert sum((notice.ids for notice in notices), ()) == ids


SECRET = "login failed: password=hunter2"
LEAKS: list[Event] = [
    JobStarted(at=NOW, job=JOB),
    outcome(State.COMPLETED, Ending.COMPLETED, result='"hunter2"'),
    outcome(State.DEAD, Ending.FAILED, failure=Failure("ValueError", SECRET, "stack: hunter2")),
    outcome(State.DEAD, Ending.FAILED, failure=Failure("ValueError", "x" * (MAX_TEXT_CHARACTERS - 8) + SECRET)),
    JobReported(at=NOW, job=JOB, report=RunReport(
        id="j1", lease="l", lines=(LogLine(2, 1, NOW, 20, SECRET),), progress=Progress(2, NOW, 1.0, None, SECRET))),
    TickPassed(at=NOW, schedule="daily", tick=Tick(n=1, at=NOW, seen_at=NOW, what="skipped", reason=SECRET)),
    SchedulePaused(at=NOW, schedule="daily", note=SECRET),
]  # fmt: skip


@pytest.mark.parametrize("event", LEAKS, ids=lambda event: type(event).__name__)
def test_feed_events_contain_no_payload_result_or_secret(event: Event) -> None:
    assert "hunter" not in "".join(encode(notice) for notice in told(event))


def test_a_long_text_in_a_feed_event_is_truncated() -> None:
    (notice,) = reported("x" * 5000)
    assert notice.line is not None
    assert len(notice.line.text) == MAX_TEXT_CHARACTERS + 1


def test_an_encoded_feed_event_decodes_to_itself() -> None:
    notices = [notice for event, _, _ in SAID for notice in told(event)] + reported(
        "hi", progress=Progress(2, NOW, 1.0)
    )
    assert [decode(encode(notice)) for notice in notices] == notices


def test_unknown_fields_of_a_feed_event_are_ignored() -> None:
    assert decode('{"type":"moon.rose","at":"2030-01-01T09:00:00Z","phase":"full"}') == FeedEvent(
        type="moon.rose", at=NOW
    )
    assert decode("no notice at all") is None
    assert decode('{"type":7}') is None


# filters

STARTED = FeedEvent(type="job.started", at=NOW, job=shown("running"))
CHANGED = FeedEvent(type="job.changed", at=NOW, ids=("j1", "j2"), action="pause")
FIRED = FeedEvent(type="schedule.fired", at=NOW, schedule="daily", tick=TICK)
DECLARED = FeedEvent(type="schedule.changed", at=NOW, schedules=("daily", "weekly"))
PAUSED = FeedEvent(type="queue.paused", at=NOW, queue="mail")
DEAD = FeedEvent(type="job.dead", at=NOW, job=shown("dead", flow="f1"))
SUSPENDED = FeedEvent(type="job.suspended", at=NOW, job=Summary(id="f1", task="ship", queue="flows", state="waiting"))
WISHES: list[tuple[dict[str, list[str]], set[str]]] = [
    ({}, {"STARTED", "CHANGED", "FIRED", "DECLARED", "PAUSED", "DEAD", "SUSPENDED"}),
    ({"types": ["job"]}, {"STARTED", "CHANGED", "DEAD", "SUSPENDED"}),
    ({"types": ["job.started", "queue"]}, {"STARTED", "PAUSED"}),
    ({"types": ["job.failed"]}, {"DEAD"}),
    ({"jobs": ["j2"]}, {"CHANGED"}),
    ({"jobs": ["j1"]}, {"CHANGED", "STARTED", "DEAD"}),
    ({"queues": ["mail", "other"]}, {"STARTED", "PAUSED", "DEAD"}),
    ({"tasks": ["send"]}, {"STARTED", "DEAD"}),
    ({"tasks": ["other"]}, set()),
    ({"schedules": ["weekly"]}, {"DECLARED"}),
    ({"schedules": ["daily"]}, {"STARTED", "FIRED", "DECLARED", "DEAD"}),
    ({"states": ["dead", "cancelled"]}, {"DEAD"}),
    ({"flows": ["f1"]}, {"DEAD", "SUSPENDED"}),
    ({"flows": ["j2"]}, {"CHANGED"}),
    ({"types": ["job"], "states": ["running"], "queues": ["mail"]}, {"STARTED"}),
]
NAMED = {
    "STARTED": STARTED, "CHANGED": CHANGED, "FIRED": FIRED, "DECLARED": DECLARED, "PAUSED": PAUSED, "DEAD": DEAD,
    "SUSPENDED": SUSPENDED,
}  # fmt: skip


@pytest.mark.parametrize(("names", "met"), WISHES, ids=str)
def test_a_feed_filter_is_conjunctive(names: dict[str, list[str]], met: set[str]) -> None:
    wish = feed_filter(**names)
    assert {name for name, notice in NAMED.items() if wish.matches(notice)} == met


def test_dropped_and_reset_events_pass_every_feed_filter() -> None:
    wish = feed_filter(types=["queue"], jobs=["j9"])
    assert wish.matches(FeedEvent(type=DROPPED, at=NOW, count=3))
    assert wish.matches(FeedEvent(type=RESET, at=NOW, reason="too_old"))


def test_a_feed_filter_with_an_unknown_type_or_state_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BadInput, match=r"no event type 'job\.strated'; did you mean 'job\.started'"):
        feed_filter(types=["job.strated"])
    with pytest.raises(BadInput, match="unknown state 'done'"):
        feed_filter(states=["done"])
    with pytest.raises(BadInput, match="types takes a list, got 'job'"):
        feed_filter(types="job")
    assert feed_filter(types=None, jobs=[]) == FeedFilter()
