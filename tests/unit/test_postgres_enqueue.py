"""Which batches the PostgreSQL store inserts with the shared fields sent once."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import fields, replace

from mainspring.records.job import NewJob
from mainspring.records.limit import limit_key_of
from mainspring.records.plan import Plan, PlannedStep
from mainspring.records.step import StepRef, StepValue
from mainspring.retry import Backoff
from mainspring.stores.postgres.enqueue import are_alike
from mainspring.stores.postgres.pool import SEPARATOR

JOB = NewJob(id="1", task="send", payload="{}")
AT = datetime(2026, 1, 1, tzinfo=UTC)
OWN = {"id": "2", "payload": "[]"}
OTHER: dict[str, Any] = {
    "task": "pack",
    "queue": "mail",
    "priority": 1,
    "run_at": AT,
    "expires_at": AT,
    "timeout": None,
    "max_retries": 0,
    "backoff": Backoff(),
    "tags": ("red",),
    "metadata": {"a": 1},
    "schedule": "daily",
    "scheduled_at": AT,
    "detached": True,
    "fingerprint": "f",
    "enqueued_by": "key:deploy",
    "step": StepRef("f", 1, "default"),
    "refs": {"/a": StepValue(0)},
    "plan": Plan((PlannedStep("a", "a"),)),
    "limit_key": limit_key_of("task:send", "ada"),
}
# A batch with keys is written by the rule.
KEYS = {"unique_key", "idempotency_key", "on_conflict", "debounce_limit", "collect"}


def test_jobs_that_differ_in_id_and_payload_are_alike() -> None:
    assert are_alike([JOB, replace(JOB, **OWN)])


@pytest.mark.parametrize("name", OTHER)
def test_jobs_that_differ_in_another_field_are_not_alike(name: str) -> None:
    assert not are_alike([JOB, replace(JOB, **{name: OTHER[name]})])


def test_jobs_with_metadata_are_not_alike() -> None:
    assert not are_alike([replace(JOB, metadata={"a": 1}), replace(JOB, metadata={"a": True})])


def test_every_field_of_a_job_is_compared() -> None:
    assert {field.name for field in fields(NewJob)} == {*OWN, *OTHER, *KEYS}


@pytest.mark.parametrize("name", ["id", "payload"])
def test_jobs_with_the_separator_in_a_text_are_not_alike(name: str) -> None:
    assert not are_alike([JOB, replace(JOB, **{**OWN, name: f"a{SEPARATOR}b"})])
