"""Version skew: how long a job waits for a worker with the version of its task that made its payload."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Outcome, decide
from mainspring.records.run import Ending, Failure
from mainspring.records.skew import MAX_DELAY_SECONDS, UndecodablePayload, argument_names, waiting_since
from mainspring.stores.rules import apply_action, apply_outcome
from mainspring.testing.contract.build import NOW, later

HERE, ELSEWHERE = "0011223344", "aabbccddee"
BAD = Failure("BadPayload", "the payload does not fit task 'mail': Object contains unknown field `cc`")
HOUR = 3600.0


def a_job(**fields: Any) -> Job:
    given = {"task": "mail", "payload": '{"to":"a","cc":"b"}', "queue": "q", "priority": 0, "state": State.RUNNING}
    times = {"run_at": NOW, "created_at": NOW, "started_at": NOW}
    return Job(**{"id": "j", **given, **times, "attempt": 1, "runs": 1, "fingerprint": ELSEWHERE, **fields})


def ended(job: Job, now: datetime = NOW, skew: float = HOUR) -> Outcome:
    return decide(job, UndecodablePayload(BAD, HERE, "(to: str)", skew), now=now)


def again(job: Job, skew: float = HOUR) -> tuple[Job, Outcome]:
    """The job in its next run, after another outcome of an undecodable payload."""
    outcome = ended(job, job.started_at or NOW, skew)
    next = apply_outcome(job, outcome)
    return replace(next, state=State.RUNNING, started_at=next.run_at, attempt=1, runs=job.runs + 1), outcome


def test_an_undecodable_payload_of_the_same_version_is_dead_at_once() -> None:
    outcome = ended(a_job(fingerprint=HERE))
    assert (outcome.state, outcome.ending, outcome.failure) == (State.DEAD, Ending.FAILED, BAD)


@pytest.mark.parametrize("fingerprint", [HERE, ELSEWHERE, None])
def test_without_skew_every_undecodable_payload_is_dead_at_once(fingerprint: str | None) -> None:
    outcome = ended(a_job(fingerprint=fingerprint), skew=0)
    assert (outcome.state, outcome.failure) == (State.DEAD, BAD)


@pytest.mark.parametrize("fingerprint", [ELSEWHERE, None], ids=["another version", "not known"])
def test_an_undecodable_payload_of_another_version_is_postponed_without_an_attempt(fingerprint: str | None) -> None:
    outcome = ended(a_job(fingerprint=fingerprint))
    assert (outcome.state, outcome.ending, outcome.refund) == (State.PENDING, Ending.RELEASED, True)
    assert outcome.run_at is not None
    assert later(0.7) <= outcome.run_at <= later(1)


def test_version_skew_failure_names_both_versions_their_parameters_and_the_deadline() -> None:
    failure = ended(a_job()).failure
    assert failure is not None
    assert failure.type == "VersionSkew"
    assert failure.message == (
        "the payload does not fit task 'mail': Object contains unknown field `cc`; its arguments (to, cc) were made by "
        "version aabbccddee, this worker has version 0011223344 (to: str). If no worker can read it by "
        "2030-01-01 13:00:00Z, it is dead"
    )


def test_version_skew_failure_states_that_the_version_is_unknown() -> None:
    failure = ended(a_job(fingerprint=None)).failure
    assert failure is not None
    assert "(to, cc) were made by a version of the task that is not known, this worker has" in failure.message


@pytest.mark.parametrize(
    ("skew", "runs"), [(1.0, 3), (HOUR, 110), (86_400.0, 360), (7 * 86_400.0, 500)], ids=["1 s", "1 h", "1 d", "1 w"]
)
def test_a_postponed_job_is_dead_after_skew_and_a_bounded_number_of_runs(skew: float, runs: int) -> None:
    job, outcomes = a_job(), list[Outcome]()
    while not outcomes or outcomes[-1].state is not State.DEAD:
        job, outcome = again(job, skew)
        outcomes.append(outcome)
        assert len(outcomes) <= runs
    assert outcomes[-1].finished_at == later(skew)


def test_delays_of_a_postponed_job_grow_up_to_a_maximum() -> None:
    job, delays = a_job(), list[float]()
    while job.state is not State.DEAD and (job.started_at or NOW) < later(HOUR - 120):
        began = job.started_at or NOW
        job, outcome = again(job)
        delays.append(((outcome.run_at or began) - began).total_seconds())
    assert max(delays) <= MAX_DELAY_SECONDS
    assert max(delays[:4]) <= 1
    assert min(delays[-20:]) >= 0.7 * MAX_DELAY_SECONDS


def test_the_pace_of_a_worker_delays_a_postponed_job_up_to_its_deadline() -> None:
    outcome = decide(a_job(), UndecodablePayload(BAD, HERE, "(to: str)", HOUR, pace=90.0), now=NOW)
    assert outcome.run_at == later(90)
    outcome = decide(a_job(), UndecodablePayload(BAD, HERE, "(to: str)", 60.0, pace=90.0), now=NOW)
    assert outcome.run_at == later(60)


def test_delays_of_postponed_jobs_have_jitter() -> None:
    times = {ended(a_job(id=f"j{n}")).run_at for n in range(100)}
    assert len(times) > 90


def test_the_failure_of_a_dead_postponed_job_has_the_wait_and_a_remedy() -> None:
    waiting = replace(a_job(), failure=Failure("VersionSkew", "…", since=later(-HOUR)))
    outcome = ended(waiting)
    assert (outcome.state, outcome.ending) == (State.DEAD, Ending.FAILED)
    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.since) == ("VersionSkew", None)
    assert outcome.failure.message.endswith(
        "this worker has version 0011223344 (to: str). No worker could read it for 1:00:00 (setting skew): deploy "
        "workers of the version that made it, or change its arguments; then retry it"
    )


def test_a_failure_other_than_version_skew_does_not_count_as_postponed() -> None:
    failed = replace(a_job(), failure=Failure("ValueError", "no"))
    assert waiting_since(failed) is None
    failure = ended(failed).failure
    assert failure is not None
    assert failure.since == NOW


def test_a_retry_of_a_dead_postponed_job_restarts_the_wait() -> None:
    dead = apply_outcome(a_job(), ended(replace(a_job(), failure=Failure("VersionSkew", "…", since=later(-HOUR)))))
    retried = apply_action(Action.RETRY, dead, later(100), "")
    assert waiting_since(retried) is None
    run = replace(retried, state=State.RUNNING, started_at=later(200), attempt=1)
    outcome = ended(run, later(200))
    assert outcome.state is State.PENDING
    assert outcome.failure is not None
    assert outcome.failure.since == later(200)


def test_a_postponed_job_waits_at_most_a_second_after_the_clock_was_set_back() -> None:
    waiting = replace(a_job(), failure=Failure("VersionSkew", "…", since=later(600)))
    outcome = ended(waiting)
    assert outcome.run_at is not None
    assert NOW < outcome.run_at <= NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        ("{}", "()"),
        ('{"a":1,"b":2}', "(a, b)"),
        ("[1]", "()"),
        ("no JSON", "()"),
        (f'{{"{"x" * 100}":1}}', f"({'x' * 60})"),
        (str({f"a{n}": 1 for n in range(50)}).replace("'", '"'), f"({', '.join(f'a{n}' for n in range(20))}, …)"),
    ],
    ids=["empty", "two", "a list", "text", "long", "many"],
)
def test_argument_names_of_a_payload_are_bounded(payload: str, names: str) -> None:
    assert argument_names(payload) == names
