"""The audit log: an entry before every change, its outcome after it, and the retention of entries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from mainspring import (
    ApiKeyNotFound,
    AuditEntry,
    AuditFilter,
    BadInput,
    Filter,
    InvalidTransition,
    JobNotFound,
    Mainspring,
    ScheduleNotFound,
    StoreUnavailable,
    act_as,
    cron,
    every,
)
from mainspring.clock import EPOCH
from mainspring.control import ScheduleFilter
from mainspring.control.audit_words import target_text
from mainspring.records.document import Document
from mainspring.records.worker import WorkerInfo
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, VirtualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    app = Mainspring(url, clock=clock)

    @app.task(queue="mail", max_retries=0)
    async def send(to: str, copies: int = 1) -> None:
        if to == "nobody":
            raise ValueError("no address")

    return app


class Told(NamedTuple):
    entry: AuditEntry
    asked: dict[str, Any]
    outcome: Any


async def trail(app: Mainspring, **which: Any) -> list[Told]:
    found = await app.audit.list(AuditFilter(**which))
    return [Told(one, json.loads(one.asked), json.loads(one.outcome or "null")) for one in found]


async def only(app: Mainspring, **which: Any) -> Told:
    (told,) = await trail(app, **which)
    return told


async def waiting(app: Mainspring, n: int = 1, to: str = "ada") -> list[str]:
    handles = await app.enqueue_many(app.tasks["send"].using(delay=HOUR).job(to) for _ in range(n))
    return [handle.id for handle in handles]


async def dead(app: Mainspring, n: int = 1) -> list[str]:
    handles = await app.enqueue_many(app.tasks["send"].job("nobody") for _ in range(n))
    await app.drain()
    return [handle.id for handle in handles]


async def alive(app: Mainspring, *names: str) -> None:
    store, now = await app.connect(), app.clock.now()
    for name in names:
        info = WorkerInfo(
            id=name, host="host", pid=1, queues=None, tasks=("send",), concurrency=3, started_at=now, running=0
        )
        await store.beat(info, until=now + HOUR, now=now)


# what is recorded


async def test_an_audit_entry_has_actor_time_action_target_and_outcome(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        (id,) = await waiting(app)
        with act_as("ada"):
            await app.jobs.cancel(id, reason="too late")
        entry, asked, outcome = await only(app)
        assert (entry.who, entry.at, entry.action, entry.target) == ("ada", clock.now(), "jobs.cancel", id)
        assert asked == {"reason": "too late"}
        assert outcome == {"done": 1, "refused": 0, "ids": [id]}


async def test_changes_without_an_actor_and_reads_are_not_audited(app: Mainspring) -> None:
    async with app:
        await app.jobs.cancel((await waiting(app))[0])
        await app.queues.pause("mail")
        with act_as("ada"):
            await waiting(app)
            await app.jobs.list()
            await app.schedules.list()
        assert await trail(app) == []


async def test_nested_act_as_audits_the_innermost_actor_until_its_block_ends(app: Mainspring) -> None:
    async with app:
        with act_as("ada"):
            with act_as("bob"):
                await app.queues.pause("a")
            await app.queues.pause("b")
        await app.queues.pause("c")
        assert [(told.entry.who, told.entry.target) for told in await trail(app)] == [("ada", "b"), ("bob", "a")]


async def test_concurrent_actors_are_recorded_separately(app: Mainspring) -> None:
    async def act(who: str) -> None:
        with act_as(who):
            for _ in range(3):
                await app.queues.pause(who)

    async with app:
        await asyncio.gather(act("ada"), act("bob"))
        found = await trail(app)
        assert len(found) == 6
        assert all(told.entry.who == told.entry.target for told in found)


@pytest.mark.parametrize("who", ["", " \n", 7, b"ada"])
def test_an_invalid_actor_name_is_refused(who: Any) -> None:
    with pytest.raises(BadInput, match="takes a name, such as"), act_as(who):
        pass


async def test_a_long_actor_name_is_truncated_and_an_unprintable_one_is_escaped(app: Mainspring) -> None:
    async with app:
        with act_as("x" * 300):
            await app.queues.pause("a")
        with act_as("a\x00\ud800"):
            await app.queues.pause("b")
        strange, long = await trail(app)
        assert len(long.entry.who) <= 200
        assert strange.entry.who == "a\\x00\\ud800"


def test_changes_by_synchronous_code_are_audited(app: Mainspring) -> None:
    with act_as("ada"):
        app.sync.queues.pause("mail")
    (entry,) = app.sync.audit.list(AuditFilter(who="ada"))
    assert (entry.action, entry.target) == ("queues.pause", "mail")
    app.sync.close()


READING = {
    "get", "list", "why", "logs", "tail", "groups", "running", "ticks", "stats", "preview", "distribution",
    "counts", "wait", "history", "page", "executions", "enqueued_by", "pauses", "filtered_counts",
}  # fmt: skip
# Methods that audited methods call.
PARTS = {"change_with", "enqueue"}


def test_every_method_of_control_that_changes_something_is_audited(app: Mainspring) -> None:
    schedules = (app.schedules, app.schedules.many)
    parts = (app.jobs, app.dead, app.queues, *schedules, app.workers, app.executions, app.audit)
    methods = [(name, value) for part in parts for name, value in vars(type(part)).items() if name[0] != "_"]
    assert {name for name, method in methods if not hasattr(method, "__wrapped__")} == READING | PARTS
    assert not READING & {name for name, method in methods if hasattr(method, "__wrapped__")}


# jobs


@pytest.mark.parametrize(
    ("action", "act"),
    [
        ("jobs.cancel", lambda app, which: app.jobs.cancel(which)),
        ("jobs.pause", lambda app, which: app.jobs.pause(which)),
        ("jobs.update", lambda app, which: app.jobs.update(which, priority=3, arguments={"to": "bob"})),
        ("jobs.reschedule", lambda app, which: app.jobs.reschedule(which, HOUR)),
        ("jobs.delete", lambda app, which: app.jobs.delete(which)),
    ],
)
async def test_a_bulk_action_on_jobs_is_one_audit_entry_with_the_filter_and_the_ids(
    app: Mainspring, action: str, act: Callable[..., Awaitable[Any]]
) -> None:
    async with app:
        ids = await waiting(app, 3)
        with act_as("ada"):
            await act(app, Filter(queues=("mail",)))
        entry, _, outcome = await only(app)
        assert (entry.action, entry.target) == (action, '{"queues":["mail"]}')
        assert outcome == {"done": 3, "refused": 0, "ids": ids}


async def test_resumed_retried_and_redriven_jobs_are_audited(app: Mainspring) -> None:
    async with app:
        ids = [*(await waiting(app)), *(await dead(app, 2))]
        await app.jobs.pause(ids[0])
        with act_as("ada"):
            await app.jobs.resume(ids[0])
            await app.jobs.retry(ids[1])
            await app.dead.redrive((await app.dead.groups())[0], arguments={"to": "bob"})
        redriven, retried, resumed = await trail(app)
        assert [one.entry.action for one in (redriven, retried, resumed)] == ["jobs.retry", "jobs.retry", "jobs.resume"]
        assert (resumed.outcome["ids"], retried.outcome["ids"]) == (ids[:1], ids[1:2])
        assert redriven.entry.target == '{"task":"send","error":"ValueError: no address"}'
        assert (redriven.asked, redriven.outcome["ids"]) == ({"arguments": {"to": "bob"}}, ids[2:])


async def test_an_audit_entry_names_a_hundred_ids_and_counts_all(app: Mainspring) -> None:
    async with app:
        ids = await waiting(app, 120)
        with act_as("ada"):
            await app.jobs.cancel(Filter())
        entry, _, outcome = await only(app)
        assert (entry.target, outcome["done"], outcome["ids"]) == ("{}", 120, ids[:100])


async def test_refused_jobs_are_counted_in_the_audit_entry(app: Mainspring) -> None:
    async with app:
        (over,), ids = await dead(app), await waiting(app, 2)
        with act_as("ada"):
            await app.jobs.pause(Filter(ids=(over, *ids)))
        assert (await only(app)).outcome == {"done": 2, "refused": 1, "ids": ids}


async def test_an_audit_entry_of_a_filter_with_one_id_is_found_by_that_id(app: Mainspring) -> None:
    async with app:
        (id,) = await waiting(app)
        with act_as("ada"):
            await app.jobs.cancel(Filter(ids=(id,)))
        assert (await only(app, target=id)).outcome["done"] == 1


async def test_a_refused_change_is_audited_with_its_error(app: Mainspring) -> None:
    async with app:
        (id,) = await dead(app)
        with act_as("ada"):
            with pytest.raises(InvalidTransition):
                await app.jobs.pause(id)
            with pytest.raises(JobNotFound):
                await app.jobs.cancel("none")
            with pytest.raises(BadInput):
                await app.jobs.cancel(7)  # type: ignore[arg-type]
        bad, missing, refused = await trail(app)
        assert refused.outcome["error"].startswith(f"InvalidTransition: cannot pause job {id}")
        assert (refused.outcome["done"], refused.outcome["refused"]) == (0, 1)
        assert missing.outcome["error"].startswith("JobNotFound: there is no job 'none'")
        assert (bad.entry.target, bad.outcome["error"][:9]) == ("7", "BadInput:")


async def test_audited_arguments_and_targets_are_truncated(app: Mainspring) -> None:
    async with app:
        ids = await waiting(app, 2)
        which = Filter(ids=(*ids, *(f"ü{n}" for n in range(500))))
        with act_as("ada"):
            await app.jobs.update(which, arguments={"to": 'ü"\\' * 9000}, tags=("x",))
        entry, asked, outcome = await only(app)
        assert len(entry.asked.encode()) <= 10_240
        assert asked["tags"] == ["x"]
        assert asked["arguments"].startswith('{"to":"ü')
        assert "characters left out" in asked["arguments"]
        assert len(entry.target) <= 1000
        assert outcome["done"] == 2


async def test_the_audit_target_of_many_ids_or_names_names_some_and_counts_all(app: Mainspring) -> None:
    async with app:
        ids = await waiting(app, 120)
        for n in range(60):
            await app.schedules.create(
                f"a-schedule-with-a-rather-long-name-{n:03}", every(1).days, "send", kwargs={"to": "ada"}
            )
        names = tuple(row.name for row in await app.schedules.list())
        with act_as("ada"):
            await app.jobs.cancel(Filter(ids=tuple(ids)))
            await app.schedules.many.delete(ScheduleFilter(names=names))
        deleted, cancelled = [one.entry for one in await trail(app)]
        assert target_text(cancelled.action, cancelled.target) == f"120 jobs: {', '.join(ids[:3])}, and 117 more"
        assert target_text(deleted.action, deleted.target) == f"60 schedules: {', '.join(names[:3])}, and 57 more"
        assert max(len(cancelled.target), len(deleted.target)) <= 1000


@pytest.mark.parametrize("odd", [object(), {1j: 2}, "\ud800", float("nan"), [[]]])
async def test_arguments_that_are_no_json_do_not_prevent_the_audit_entry(app: Mainspring, odd: Any) -> None:
    async with app:
        (id,) = await waiting(app)
        with act_as("ada"), pytest.raises(BadInput):
            await app.jobs.update(id, arguments=[odd])  # type: ignore[arg-type]
        assert (await only(app)).entry.target == id


# schedules


async def test_every_change_of_a_schedule_is_audited_with_before_and_after(
    app: Mainspring, clock: VirtualClock
) -> None:
    async with app:
        with act_as("ada"):
            await app.schedules.create("hourly", every(1).hours, "send", kwargs={"to": "ada"})
            await app.schedules.pause("hourly", note="why not")
            await app.schedules.resume("hourly")
            await app.schedules.update("hourly", overlap="queue", trigger=cron("0 9 * * *"))
            await app.schedules.reschedule("hourly", clock.now() + timedelta(minutes=5))
            handle = await app.schedules.trigger("hourly", kwargs={"to": "bob"})
            await app.schedules.delete("hourly")
        told = {one.entry.action.removeprefix("schedules."): one for one in await trail(app)}
        assert {one.entry.target for one in told.values()} == {"hourly"}
        assert told["create"].asked["kwargs"] == {"to": "ada"}
        assert told["create"].outcome["before"] is None
        assert told["create"].outcome["after"]["spec"]["task"] == "send"
        assert told["pause"].asked == {"note": "why not"}
        paused = told["pause"].outcome
        assert (paused["before"]["paused_at"], paused["before"]["note"]) == (None, "")
        assert paused["after"]["note"] == "why not"
        assert set(paused["after"]) == {"paused_at", "note", "due_at"}
        assert told["resume"].outcome["after"]["paused_at"] is None
        update = told["update"].outcome
        assert (update["before"]["spec"]["overlap"], update["after"]["spec"]["overlap"]) == ("skip", "queue")
        assert set(update["after"]["spec"]) == {"overlap", "trigger"}
        assert told["reschedule"].outcome["after"]["next_run_at"] == "2030-01-01T00:05:00Z"
        assert told["trigger"].outcome["after"]["last_job_id"] == handle.id
        assert told["trigger"].asked == {"kwargs": {"to": "bob"}}
        assert told["delete"].outcome["before"]["name"] == "hourly"
        assert told["delete"].outcome["after"] is None


async def test_a_backfill_is_one_audit_entry_and_a_dry_run_is_none(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        start = clock.now()
        await app.schedules.create("hourly", every(1).hours, "send", kwargs={"to": "ada"})
        clock.advance(hours=5)
        with act_as("ada"):
            await app.schedules.backfill("hourly", start, dry_run=True)
            filled = await app.schedules.backfill("hourly", start, start + timedelta(hours=4))
        entry, asked, outcome = await only(app)
        assert (entry.action, entry.target) == ("schedules.backfill", "hourly")
        assert asked == {"start": "2030-01-01T00:00:00Z", "end": "2030-01-01T04:00:00Z"}
        assert outcome["after"]["ticks"] - outcome["before"]["ticks"] == len(filled.made) > 0


async def test_a_rebalance_is_audited_with_the_next_ticks_it_has_moved(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        for n in range(4):
            await app.schedules.create(f"s{n}", every(1).hours, "send", kwargs={"to": "ada"})
            await app.schedules.update(f"s{n}", spread=True)
        clock.advance(minutes=1)
        with act_as("ada"):
            await app.schedules.rebalance(dry_run=True)
            moves = (await app.schedules.rebalance()).moves
        entry, _, outcome = await only(app)
        assert (entry.action, entry.target) == ("schedules.rebalance", "{}")
        assert outcome["before"].keys() == outcome["after"].keys() == {move.name for move in moves} != set()


async def test_a_change_without_effect_is_audited_with_an_empty_outcome(app: Mainspring) -> None:
    async with app:
        await app.schedules.create("hourly", every(1).hours, "send", kwargs={"to": "ada"})
        with act_as("ada"):
            await app.schedules.resume("hourly")
            with pytest.raises(ScheduleNotFound):
                await app.schedules.delete("none")
        missing, nothing = await trail(app)
        assert nothing.outcome == {}
        assert missing.outcome["error"].startswith("ScheduleNotFound: there is no schedule 'none'")


# queues and workers


async def test_pause_and_resume_of_a_queue_are_audited_with_before_and_after(app: Mainspring) -> None:
    async with app:
        with act_as("ada"):
            await app.queues.pause("mail")
            await app.queues.resume("mail")
        resumed, paused = await trail(app)
        assert (paused.entry.action, paused.entry.target) == ("queues.pause", "mail")
        assert paused.outcome == {"before": {"paused": False}, "after": {"paused": True}}
        assert resumed.outcome == {"before": {"paused": True}, "after": {"paused": False}}


async def test_commands_to_workers_are_audited_by_worker(app: Mainspring) -> None:
    async with app:
        await alive(app, "w1", "w2")
        with act_as("ada"):
            await app.workers.resize("w1", 7)
            await app.workers.drain(None)
            await app.workers.resume("w2")
        resumed, drained, resized = await trail(app)
        assert (resized.entry.action, resized.entry.target) == ("workers.resize", "w1")
        assert (resized.asked, resized.outcome["after"]) == ({"concurrency": 7}, {"w1": {"concurrency": 7}})
        assert (drained.entry.action, drained.entry.target) == ("workers.drain", "{}")
        assert drained.outcome["after"] == {"w1": {"drained": True}, "w2": {"drained": True}}
        assert resumed.outcome == {"before": {"w2": {"drained": True}}, "after": {"w2": {"drained": False}}}


async def test_stop_commands_and_later_refusals_are_audited(app: Mainspring) -> None:
    async with app, app.worker() as worker:
        with act_as("ada"):
            await app.workers.stop(worker.id)
            with pytest.raises(InvalidTransition):
                await app.workers.resume(worker.id)
        refused, stopped = await trail(app)
        assert (stopped.entry.action, stopped.entry.target) == ("workers.stop", worker.id)
        assert stopped.outcome == {"before": {worker.id: {"stopped": False}}, "after": {worker.id: {"stopped": True}}}
        assert refused.outcome["error"].startswith(f"InvalidTransition: cannot resume worker {worker.id}")


async def test_an_api_key_is_audited_without_its_secret(app: Mainspring) -> None:
    async with app:
        with act_as("ada"):
            secret = await app.keys.create("deploy", "operator", ["jobs:write"])
            with pytest.raises(ApiKeyNotFound):
                await app.keys.revoke(secret)
            await app.keys.revoke("deploy")
        revoked, made = await trail(app)
        assert (made.entry.action, made.entry.target) == ("keys.create", "deploy")
        assert made.asked == {"role": "operator", "scopes": ["jobs:write"]}
        assert (made.outcome["before"], made.outcome["after"]["role"]) == (None, "operator")
        assert (revoked.entry.action, revoked.entry.target, revoked.asked) == ("keys.revoke", "deploy", {})
        assert (revoked.outcome["before"]["name"], revoked.outcome["after"]) == ("deploy", None)
        assert secret.rpartition("_")[2] not in repr((revoked, made))


# trouble


class Faulty(NamedTuple):
    app: Mainspring
    faults: Faults
    id: str


async def faulty(clock: VirtualClock) -> Faulty:
    faults = Faults()
    app = Mainspring(FaultStore(open_store("memory://", clock=clock), faults), clock=clock)  # type: ignore[arg-type]
    app.task(name="send")(lambda: None)
    return Faulty(app, faults, (await app.tasks["send"].using(delay=HOUR).enqueue()).id)


async def test_a_change_is_not_made_if_its_audit_entry_cannot_be_written(clock: VirtualClock) -> None:
    app, faults, id = await faulty(clock)
    faults.fail("record")
    with act_as("ada"), pytest.raises(StoreUnavailable):
        await app.jobs.cancel(id)
    assert (await app.jobs.get(id)).state == "pending"
    assert await trail(app) == []


async def test_the_audit_entry_is_written_before_the_change(clock: VirtualClock) -> None:
    app, faults, id = await faulty(clock)

    class Died(BaseException):
        pass

    faults.fail("change", error=Died)
    with act_as("ada"), pytest.raises(Died):
        await app.jobs.cancel(id)
    told = await only(app)
    assert (told.entry.target, told.entry.outcome) == (id, None)
    assert (await app.jobs.get(id)).state == "pending"


async def test_a_change_is_made_even_if_its_audit_outcome_cannot_be_written(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app, faults, id = await faulty(clock)
    faults.fail("record", after=1)
    with act_as("ada"):
        assert (await app.jobs.cancel(id)).done == [id]
    assert (await only(app)).entry.outcome is None
    assert "the outcome of jobs.cancel by ada is not in the audit trail" in caplog.text


async def test_the_audit_entry_of_a_change_that_fails_half_way_counts_the_changed_jobs(clock: VirtualClock) -> None:
    app, faults, _ = await faulty(clock)
    await app.enqueue_many(app.tasks["send"].using(delay=HOUR).job() for _ in range(1500))
    faults.fail("change", after=3)
    with act_as("ada"), pytest.raises(StoreUnavailable):
        await app.jobs.cancel(Filter())
    outcome = (await only(app)).outcome
    assert outcome["error"].startswith("Fault: injected")
    assert (outcome["done"], len(outcome["ids"])) == (50 + 100 + 200, 100)


# reading and forgetting


async def test_the_audit_log_is_read_in_pages_and_by_filter(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        for name in ("a", "b", "c"):
            with act_as("ada" if name != "b" else "bob"):
                await app.queues.pause(name)
            clock.advance(hours=1)
        page = await app.audit.list(limit=2)
        assert [entry.target for entry in page] == ["c", "b"]
        assert [entry.target for entry in await app.audit.list(limit=2, before=page[-1].id)] == ["a"]
        assert [one.entry.target for one in await trail(app, who="bob")] == ["b"]
        assert [one.entry.target for one in await trail(app, since=clock.now() - HOUR)] == ["c"]
        assert await trail(app, action="jobs") == []
        with pytest.raises(BadInput, match="limit must be from 1 to 1000"):
            await app.audit.list(limit=0)


async def test_audit_entries_are_kept_for_audit_days(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, audit_days=2)
    async with app:
        for name in ("a", "b"):
            with act_as("ada"):
                await app.queues.pause(name)
            clock.advance(days=1, seconds=1)
        assert await app.prune() == 0
        assert [one.entry.target for one in await trail(app)] == ["b"]


async def test_a_worker_prunes_old_audit_entries_and_expired_documents(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, beat=200, lease=600, poll_interval=300, sweep=300)
    app.task(name="nothing")(lambda: None)
    async with app:
        with act_as("ada"):
            await app.queues.pause("other")
        store, now = await app.connect(), clock.now()
        await store.put_documents([Document(kind="k", name="a", text="", expires_at=now + HOUR)], now=now)
        clock.advance(days=365)
        async with app.worker():
            await clock.elapse(minutes=16)
        assert await trail(app) == []
        assert (await store.prune({}, audited_since=EPOCH, now=clock.now())).rows == 0
