"""Brief jobs: lists of jobs without their long fields."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET

from ...records.job import BRIEF_CHARACTERS, LEFT_OUT, Job, NewJob, State
from ...records.outcome import Done
from ...records.query import SORTS, Filter, Sort
from ...store import Store
from .build import NOW, Contract, finish_run, job_in_state, later, new_job, put, start
from .sentences import proves

TICK = later(-60)


async def whole_and_brief(store: Store, sort: Sort = "created", **filters: Any) -> tuple[list[Job], list[Job]]:
    """The jobs that match, whole and brief."""
    which, now = Filter(**filters), later(1)
    whole = await store.jobs(which, now=now, limit=100, sort=sort)
    return whole, await store.jobs(which, now=now, limit=100, sort=sort, brief=True)


def large_job(**values: Any) -> NewJob:
    given: dict[str, Any] = {
        "payload": f'{{"text":"{"p" * BRIEF_CHARACTERS}"}}',
        "metadata": {"note": "m" * BRIEF_CHARACTERS, "n": [[1]]},
        "tags": ("a", "b"),
        "schedule": "nightly",
        "scheduled_at": TICK,
        "timeout": 5.0,
        "max_retries": 2,
        "fingerprint": "abc",
        "enqueued_by": "key:a",
    }
    return new_job(**(given | values))


class BriefContract(Contract):
    @proves("J5")
    async def test_a_small_job_is_the_same_when_brief(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(metadata={"a": 1}, tags=("x",), payload='{"a":1}'), new_job())
            for state in set(State) - {State.WAITING}:
                await job_in_state(store, state)
            for sort in SORTS:
                whole, brief = await whole_and_brief(store, sort)
                assert brief == whole
                assert all(job.is_whole for job in brief)

    @proves("J5")
    async def test_long_fields_are_left_out_of_a_brief_job(self) -> None:
        async with self.opened() as store:
            await put(store, large_job())
            (whole,), (brief,) = await whole_and_brief(store)
            assert whole.is_whole
            assert not brief.is_whole
            assert (brief.payload, brief.metadata) == ("", {})
            assert brief.metadata is LEFT_OUT
            assert (brief.tags, brief.schedule, brief.scheduled_at) == (("a", "b"), "nightly", TICK)
            assert (brief.timeout, brief.max_retries, brief.fingerprint) == (UNSET, None, None)
            assert brief.enqueued_by is None
            for name in ("id", "task", "queue", "state", "run_at", "created_at", "attempt", "unique_key", "failure"):
                assert getattr(brief, name) == getattr(whole, name)

    @proves("J5")
    async def test_each_long_field_of_a_job_is_left_out_independently(self) -> None:
        async with self.opened() as store:
            await put(
                store, large_job(payload="{}"), large_job(metadata={"a": 1}), large_job(payload="{}", metadata={})
            )
            _, (metadata, payload, neither) = await whole_and_brief(store)
            assert (metadata.payload, metadata.metadata is LEFT_OUT) == ("{}", True)
            assert (payload.payload, payload.metadata, payload.max_retries) == ("", {"a": 1}, 2)
            assert neither.is_whole

    @proves("J5")
    async def test_a_long_result_is_left_out_of_a_brief_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Done("r" * (BRIEF_CHARACTERS + 1)), now=NOW)
            for sort in ("created", "finished"):
                (whole,), (brief,) = await whole_and_brief(store, sort)
                assert len(whole.result or "") > BRIEF_CHARACTERS
                assert (brief.result, brief.state, brief.finished_at) == ("", whole.state, whole.finished_at)

    @proves("J4", "J5")
    async def test_brief_jobs_come_in_the_same_order_with_every_filter(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(large_job(run_at=later(n % 3), queue="ab"[n % 2]) for n in range(9)))
            filter_sets: list[dict[str, Any]] = [
                {},
                {"ids": tuple(ids)},
                {"tags": ("a",)},
                {"queues": ("a",)},
                {"tasks": ("task",)},
                {"states": ("pending", "scheduled")},
                {"created_after": NOW},
            ]
            for filters in filter_sets:
                for sort in ("created", "due"):
                    whole, brief = await whole_and_brief(store, sort, **filters)
                    assert [job.id for job in brief] == [job.id for job in whole]
                    assert len(whole) == (5 if "queues" in filters else 9), filters
                    assert not any(job.is_whole for job in brief)

    @proves("J5")
    async def test_brief_jobs_of_an_older_release_have_no_huge_metadata(self) -> None:
        """Older releases did not limit metadata: 8 MiB each."""
        async with self.opened() as store:
            huge = {"text": "x" * (1 << 20), "rows": [[]] * 100_000, "nul": "\u0001"}
            await put(store, *(large_job(metadata=huge) for _ in range(4)), new_job())
            brief = await store.jobs(Filter(), now=NOW, limit=50, brief=True)
            assert [job.metadata is LEFT_OUT for job in brief] == [True] * 4 + [False]
            assert isinstance(brief[0].scheduled_at, datetime)
