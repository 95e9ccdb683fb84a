"""Every reason why a job is not running."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest

from mainspring import Mainspring, Reason, State
from mainspring.insight.why import Code, JobSurroundings, LimitFacts, reasons
from mainspring.records.circuit import Circuit
from mainspring.records.flow import OLDER_RELEASE
from mainspring.records.job import Collecting, Job
from mainspring.records.limit import LimitGroup, StoredLimit
from mainspring.records.run import Failure
from mainspring.records.worker import WorkerCommands, WorkerRow
from mainspring.store import Store
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import A_MINUTE_LATER, NOW, a_worker, job_in_state, new_job, put


def a_job(id: str = "j", **fields: Any) -> Job:
    given = {"task": "task", "payload": "{}", "queue": "default", "priority": 0, "state": State.PENDING}
    return Job(**{"id": id, **given, "run_at": NOW, "created_at": NOW, **fields})


def live(name: str = "ada", orders: WorkerCommands = WorkerCommands(), **fields: Any) -> WorkerRow:  # noqa: B008
    return WorkerRow(a_worker(name, **fields), A_MINUTE_LATER, orders)


def runs(n: int, worker: str = "ada", **fields: Any) -> list[Job]:
    return [a_job(f"r{k}", state=State.RUNNING, worker=worker, **fields) for k in range(n)]


def why(job: Job, **facts: Any) -> list[Reason]:
    return reasons(job, JobSurroundings(**{"now": NOW, "paused": (), "workers": [live()], "running": [], **facts}))


SOON = NOW + timedelta(seconds=90)
DIED = Failure("ValueError", "no")
HOLDER = a_job("h", unique_key="k")

GROUP = LimitGroup(limit_key="task:task\nada", running=2, waiting=1, next_at=SOON, holders=("r0", "r1"))

# Code, job and facts; then the text, the end and the holders of the reason.
CASES: list[tuple[Code, Job, dict[str, Any], str, Any, tuple[str, ...]]] = [
    ("next", a_job(), {}, "nothing keeps it: a worker takes it at its next claim", None, ()),
    (
        "running",
        a_job(state=State.RUNNING, worker="ada", attempt=2, started_at=NOW),
        {},
        "it has been running on ada since 2030-01-01 12:00:00Z, attempt 2",
        None,
        (),
    ),
    (
        "not_due",
        a_job(run_at=SOON, failure=Failure(OLDER_RELEASE, "workers of an older release are alive: bob")),
        {},
        "workers of an older release are alive: bob; it is tried again at 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
    (
        "collecting",
        a_job(run_at=SOON, unique_key="k", collect=Collecting(size=40, delay=90, max_bytes=100, count=3)),
        {},
        "it collects items: 3 of 40 so far; without more of them it is due at 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
    (
        "stopping",
        a_job(state=State.RUNNING, worker="ada", started_at=NOW, cancel_reason="wrong customer"),
        {},
        "it was asked to cancel (wrong customer); its worker interrupts it at its next heartbeat",
        None,
        (),
    ),
    ("paused", a_job(state=State.PAUSED), {}, "the job is paused; resume it to let it run", None, ()),
    ("waiting", a_job(state=State.WAITING), {}, "it waits for other steps of its flow", None, ()),
    (
        "final",
        a_job(state=State.DEAD, finished_at=NOW, failure=DIED),
        {},
        "it has been dead since 2030-01-01 12:00:00Z: ValueError: no",
        None,
        (),
    ),
    (
        "final",
        a_job(state=State.COMPLETED, finished_at=NOW, failure=DIED),  # the failure of an earlier attempt
        {},
        "it completed at 2030-01-01 12:00:00Z",
        None,
        (),
    ),
    (
        "key_held",
        a_job(state=State.DEAD, finished_at=NOW, unique_key="k"),
        {"holder": HOLDER},
        "it cannot be retried while key 'k' is held by job h (pending)",
        None,
        ("h",),
    ),
    (
        "expired",
        a_job(expires_at=NOW),
        {},
        "it was not started before 2030-01-01 12:00:00Z, and never will be",
        None,
        (),
    ),
    (
        "asleep",
        a_job(run_at=SOON),
        {"asleep": True},
        "it sleeps until 2030-01-01 12:01:30Z, and then goes on",
        SOON,
        (),
    ),
    ("not_due", a_job(run_at=SOON), {}, "it is due at 2030-01-01 12:01:30Z", SOON, ()),
    (
        "not_due",
        a_job(run_at=SOON, attempt=1),
        {},
        "its next attempt is due at 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
    (
        "version_skew",
        a_job(run_at=SOON, failure=Failure("VersionSkew", "it does not fit", since=NOW), fingerprint="aabbccddee"),
        {"workers": [live(fingerprints=("0011223344",))]},
        "no worker could read its arguments since 2030-01-01 12:00:00Z: it does not fit. No live worker has version "
        "aabbccddee of task 'task': deploy one, or change the arguments; it is tried again at 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
    (
        "version_skew",
        a_job(failure=Failure("VersionSkew", "it does not fit", since=NOW), fingerprint="aabbccddee"),
        {"workers": [live(f"w{n}", fingerprints=("aabbccddee",)) for n in range(5)]},
        "no worker could read its arguments since 2030-01-01 12:00:00Z: it does not fit. Version aabbccddee of task "
        "'task' is live on w0, w1, w2 and 2 more",
        None,
        (),
    ),
    (
        "version_skew",
        a_job(failure=Failure("VersionSkew", "it does not fit", since=NOW)),
        {},
        "no worker could read its arguments since 2030-01-01 12:00:00Z: it does not fit. Which version made them is "
        "not known: deploy workers that take them, or change them",
        None,
        (),
    ),
    ("queue_paused", a_job(), {"paused": {"default"}}, "queue 'default' is paused; resume it to go on", None, ()),
    ("no_worker", a_job(), {"workers": []}, "no worker is alive: start one with `mainspring worker`", None, ()),
    (
        "unknown_task",
        a_job(task="new"),
        {"workers": [live(), live("bob")]},
        "none of the 2 live workers knows task 'new': deploy one that does",
        None,
        (),
    ),
    (
        "unknown_task",
        a_job(task="new"),
        {},
        "the only live worker does not know task 'new': deploy one that does",
        None,
        (),
    ),
    (
        "queue_not_served",
        a_job(),
        {"workers": [live(queues=("mail",)), live("bob", tasks=("other",))]},
        "no live worker that knows task 'task' serves queue 'default'",
        None,
        (),
    ),
    (
        "draining",
        a_job(),
        {"workers": [live(orders=WorkerCommands(drained=True)), live("bob", drained=True)]},
        "every worker that could take it is drained; resume one",
        None,
        (),
    ),
    (
        "draining",
        a_job(),
        {"workers": [live(orders=WorkerCommands(stopped=True)), live("bob", drained=True)]},
        "every worker that could take it is drained; resume one",
        None,
        (),
    ),
    (
        "draining",
        a_job(),
        {"workers": [live(orders=WorkerCommands(stopped=True))]},
        "every worker that could take it is stopping; start another",
        None,
        (),
    ),
    (
        "workers_full",
        a_job(),
        {"workers": [live(concurrency=3, leaked=1)], "running": runs(2)},
        "all 3 slots of worker ada are taken, 1 of them leaked",
        None,
        ("r0", "r1"),
    ),
    (
        "workers_full",
        a_job(),
        {"workers": [live(concurrency=10, orders=WorkerCommands(concurrency=2))], "running": runs(2)},
        "all 2 slots of worker ada are taken",
        None,
        ("r0", "r1"),
    ),
    (
        "limit_reached",
        a_job(),
        {"workers": [live(limits={"task": 2})], "running": runs(2) + runs(1, task="other")},
        "worker ada runs 2 of task 'task', its limit",
        None,
        ("r0", "r1"),
    ),
    (
        "limit_reached",
        a_job(),
        {"workers": [live(queue_limits={"default": 1})], "running": runs(1, task="other")},
        "worker ada runs 1 of queue 'default', its limit",
        None,
        ("r0",),
    ),
    (
        "breaker_open",
        a_job(),
        {"circuit": Circuit("task", 5, SOON)},
        "task 'task' failed 5 times in a row, so its breaker is open until 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
    (
        "breaker_open",
        a_job(),
        {"circuit": Circuit("task", 5, NOW, "probe")},
        "task 'task' failed 5 times in a row, so its breaker is open; job probe is trying whether it works again",
        None,
        ("probe",),
    ),
    (
        "suspect",
        a_job(crashes=2),
        {"running": runs(1, crashes=2)},
        "it has crashed 2 times, and worker ada runs such jobs singly",
        None,
        ("r0",),
    ),
    (
        "limit_full",
        a_job(limit_key="task:task\nada"),
        {"limit": LimitFacts(StoredLimit(name="task:task", running=2), GROUP, 2)},
        "limit 'task:task' for 'ada' lets 2 run at once, and as many do",
        None,
        ("r0", "r1"),
    ),
    (
        "limit_full",
        a_job(limit_key="task:task\n"),
        {"limit": LimitFacts(StoredLimit(name="task:task", running=0), None, 0)},
        "limit 'task:task' lets none start: raise it to go on",
        None,
        (),
    ),
    (
        "limit_full",
        a_job(limit_key="task:task\nada"),
        {"limit": LimitFacts(StoredLimit(name="task:task", total=7), None, 7)},
        "limit 'task:task' lets 7 run in all, and as many do",
        None,
        (),
    ),
    (
        "limit_rate",
        a_job(limit_key="task:task\nada"),
        {"limit": LimitFacts(StoredLimit(name="task:task", rate=100, per=60.0), GROUP, 0)},
        "limit 'task:task' for 'ada' starts 100 in 60 s: the next one at 2030-01-01 12:01:30Z",
        SOON,
        (),
    ),
]


@pytest.mark.parametrize(("code", "job", "facts", "text", "until", "holders"), CASES, ids=[case[0] for case in CASES])
def test_a_reason_has_its_code_text_until_and_holders(
    code: Code, job: Job, facts: dict[str, Any], text: str, until: Any, holders: tuple[str, ...]
) -> None:
    assert why(job, **facts)[-1] == Reason(code=code, text=text, until=until, holders=holders)


# Those of flows and their steps: see test_flow_reasons.py.
FLOW_CODES = {"waits_for_steps", "waits_for_signal", "cancelling", "step_skipped", "step_not_run"}


def test_every_reason_code_has_a_test_case() -> None:
    assert {case[0] for case in CASES} | FLOW_CODES == set(get_args(Code))


def test_why_returns_all_reasons() -> None:
    job = a_job(run_at=SOON, task="new")
    found = why(job, paused={"default"}, circuit=Circuit("new", 5, SOON))
    assert [reason.code for reason in found] == ["not_due", "queue_paused", "breaker_open", "unknown_task"]


def test_a_worker_with_a_free_slot_is_no_reason_to_wait() -> None:
    full = live(concurrency=1)
    assert why(a_job(), workers=[full, live("bob")], running=runs(1))[0].code == "next"


@pytest.mark.parametrize("circuit", [Circuit("task", 2), Circuit("task", 5, NOW)], ids=["closed", "half open"])
def test_a_closed_circuit_is_no_reason_to_wait(circuit: Circuit) -> None:
    assert why(a_job(), circuit=circuit)[0].code == "next"


def test_a_reason_names_at_most_ten_holders() -> None:
    (reason,) = why(a_job(), workers=[live(concurrency=50)], running=runs(50))
    assert len(reason.holders) == 10


# app.jobs.why()


async def test_why_gathers_facts_from_the_store(app: Mainspring, store: Store, clock: VirtualClock) -> None:
    async with app:
        job = await job_in_state(store, State.PENDING)
        await app.queues.pause("default")
        assert [reason.code for reason in await app.jobs.why(job.id)] == ["queue_paused", "no_worker"]
        await store.beat(a_worker(), until=A_MINUTE_LATER, now=NOW)
        await app.queues.resume("default")
        assert [reason.code for reason in await app.jobs.why(job.id)] == ["next"]
        clock.advance(minutes=1)
        assert [reason.code for reason in await app.jobs.why(job.id)] == ["no_worker"]


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_why_names_the_job_that_holds_the_key_of_a_dead_job(
    app: Mainspring, store: Store, clock: VirtualClock, key: str
) -> None:
    async with app:
        dead = await job_in_state(store, State.DEAD, **{key: "order:1"})
        assert [reason.code for reason in await app.jobs.why(dead.id)] == ["final"]
        await job_in_state(store, State.PENDING, **{key: "order:10"})
        assert [reason.code for reason in await app.jobs.why(dead.id)] == ["final"]
        holder = await job_in_state(store, State.PENDING, **{key: "order:1"})
        found = await app.jobs.why(dead.id)
    assert [(reason.code, reason.holders) for reason in found] == [("final", ()), ("key_held", (holder.id,))]


async def test_why_finds_the_key_holder_among_thousands_of_longer_keys(
    app: Mainspring, store: Store, clock: VirtualClock
) -> None:
    async with app:
        dead = await job_in_state(store, State.DEAD, unique_key="a")
        await put(store, *(new_job(unique_key=f"a{n}") for n in range(1200)))
        holder = await job_in_state(store, State.PENDING, unique_key="a")
        found = await app.jobs.why(dead.id)
    assert found[-1].holders == (holder.id,)
