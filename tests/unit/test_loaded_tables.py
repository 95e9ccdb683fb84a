"""Tables over loaded values: rules read nothing that was not named, and a refused batch changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from mainspring.records.circuit import Breaker
from mainspring.records.job import Action, Job, NewJob, State
from mainspring.records.outcome import Done, decide
from mainspring.stores.rules import to_job
from mainspring.stores.rules.change import change
from mainspring.stores.rules.enqueue import enqueue
from mainspring.stores.rules.finish import finish_one
from mainspring.stores.rules.keys import keys_held_by, keys_of
from mainspring.stores.rules.loaded import LoadedTables, NotRead
from mainspring.stores.rules.read_sets import KnownValues, Name, ReadSet, of_new_jobs, of_outcome

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def new_job(id: str, **fields: object) -> NewJob:
    return NewJob(id=id, task="task", payload="null", **fields)  # type: ignore[arg-type]


def running(id: str) -> Job:
    job = to_job(new_job(id), NOW)
    return replace(job, state=State.RUNNING, lease="lease", worker="worker", started_at=NOW, runs=1, attempt=1)


@pytest.mark.parametrize("kind", ["job", "key", "schedule", "waiting", "circuits", "worker", "runs"])
def test_a_value_outside_of_the_read_set_is_not_read(kind: str) -> None:
    tables = LoadedTables()
    reads = {
        "job": lambda: tables.job("one"),
        "key": lambda: tables.holder(new_job("one", unique_key="key")),
        "schedule": lambda: tables.revision("every day"),
        "waiting": lambda: tables.waiting("every day"),
        "circuits": lambda: tables.circuit("task"),
        "worker": lambda: tables.is_silent("worker", NOW),
        "runs": lambda: tables.is_recorded(decide(running("one"), Done(), now=NOW)),
    }
    with pytest.raises(NotRead, match="the read set lacks the"):
        reads[kind]()


def test_a_refused_batch_leaves_no_change() -> None:
    tables, holder = LoadedTables(), to_job(new_job("holder", unique_key="held"), NOW)
    tables.add_job("holder", holder)
    for id in ("one", "two"):
        tables.add_job(id, None)
    tables.add_holder("uheld", "holder")
    tables.add_holder("ufree", None)
    wanted = [new_job("one", unique_key="free"), new_job("two", unique_key="held", on_conflict="raise")]
    answers = enqueue(tables, wanted, NOW)
    assert [(one.id, one.status) for one in answers] == [("one", "refused"), ("holder", "refused")]
    assert tables.changed_jobs() == []
    assert tables.holder(wanted[0]) == (None, None)


def test_a_key_follows_the_job_that_holds_it() -> None:
    tables, job = LoadedTables(), to_job(new_job("one", unique_key="key", idempotency_key="ever"), NOW)
    tables.add_job("one", job)
    for key in keys_of(job):
        tables.add_holder(key, "one")
    assert list(keys_held_by(job)) == ["ukey", "iever"]
    change(tables, Action.CANCEL, [job], NOW)
    assert tables.holder(new_job("two", unique_key="key", idempotency_key="ever")) == (None, None)


def test_a_holder_that_let_go_of_its_key_after_the_key_was_read_holds_nothing() -> None:
    tables, job = LoadedTables(), to_job(new_job("one", unique_key="key"), NOW)
    tables.add_job("one", replace(job, state=State.COMPLETED, finished_at=NOW))
    tables.add_holder("ukey", "one")
    assert tables.holder(new_job("two", unique_key="key")) == (None, None)


def test_an_unchanged_circuit_is_not_written() -> None:
    tables, job = LoadedTables(), running("one")
    tables.add_job("one", job)
    tables.add_circuits({})
    outcome = replace(decide(job, Done(), now=NOW), breaker=Breaker(failures=1, cooldown=1.0))
    assert finish_one(tables, outcome)
    assert tables.changed_circuits() == {}
    assert [change.new and change.new.state for change in tables.changed_jobs()] == [State.COMPLETED]
    assert tables.counted == [outcome]


def test_an_expired_holder_is_named_as_a_job_that_may_be_written() -> None:
    tables, wanted = LoadedTables(), new_job("two", unique_key="key")
    reads = ReadSet([wanted], lambda job, known: of_new_jobs([job], known, NOW))
    assert reads.missing(tables) == [Name("seen_job", "two"), Name("key", "ukey")]
    expired = replace(to_job(new_job("one", unique_key="key"), NOW), expires_at=NOW - timedelta(seconds=1))
    tables.add_job("two", None)
    tables.add_holder("ukey", "one")
    tables.add_job("one", expired)
    assert reads.missing(tables) == []
    assert reads.names[0][-1] == Name("job", "one")


def test_a_late_outcome_reads_the_runs_of_its_job_and_nothing_that_follows() -> None:
    tables = LoadedTables()
    outcome = replace(decide(running("one"), Done(), now=NOW), then=(new_job("two", unique_key="key"),))

    def needs(item: object, known: KnownValues) -> object:
        return of_outcome(outcome, known, False)

    tables.add_job("one", None)
    names = ReadSet([outcome], needs).missing(tables)  # type: ignore[arg-type]
    assert names == [Name("circuits", ""), Name("runs", "one")]
