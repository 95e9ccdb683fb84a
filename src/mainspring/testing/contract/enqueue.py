"""enqueue: every field of a job is stored, and an id that exists is the same job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import asdict

from ...errors import BadInput
from ...records.job import MAX_PRIORITY, MIN_PRIORITY, Action, Enqueued, State
from ...records.outcome import Done, decide
from ...records.query import Filter, Update
from ...retry import Backoff
from ...store import TransactionalStore
from .build import (
    NOW,
    REACHABLE,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
    claim_ids,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves

PAYLOADS = [
    "{}",
    '{ "n":  123456789012345678901234567890, "x": 1.10, "a": 1, "a": 2 }',
    r'["\u0000", "\\", "\"", "é \u00e9 日本 🕰"]',
    '"é 日本 🕰 \u2028 \x7f ˈ"',
    "not JSON: %s :1 ? $1 'quoted' {brace}\n\ttab",
    "",
    "x" * 100_000,
]


class EnqueueContract(Contract):
    @proves("V10")
    async def test_enqueue_stores_every_field_of_a_job(self) -> None:
        async with self.opened() as store:
            new = new_job(
                task="mail.send",
                payload='{"to": "ü@example.org"}',
                queue="post ⏱",
                priority=-7,
                run_at=later(5),
                expires_at=later(500),
                timeout=2.5,
                max_retries=9,
                backoff=Backoff.linear(2, max=60, jitter=0.5),
                tags=("b", "a", "ü"),
                metadata={"trace": {"id": "x", "spans": [1, 2.5, None, True]}, "ü": ""},
                unique_key="unique",
                idempotency_key="idempotent",
                enqueued_by="key:ü",
            )
            await put(store, new)
            job = await read_job(store, new.id)
            stored = asdict(new)
            del stored["on_conflict"], stored["debounce_limit"], stored["plan"]
            assert {name: getattr(job, name) for name in stored} == stored

    @proves("V10")
    @pytest.mark.parametrize("year", [1, 1969, 9999])
    async def test_a_job_may_be_due_in_any_year(self, year: int) -> None:
        async with self.opened() as store:
            run_at = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
            old, new = new_job(run_at=run_at), new_job()
            await put(store, old, new)
            assert (await read_job(store, old.id)).run_at == run_at
            due = [job.id for job in await store.jobs(Filter(), now=NOW, limit=9, newest=False, sort="due")]
            assert due == ([new.id, old.id] if year == 9999 else [old.id, new.id])
            assert await claim_ids(store) == due[: 1 if year == 9999 else 2]

    @proves("V10")
    @pytest.mark.parametrize("beside", [{}, {"fingerprint": "abc"}, {"metadata": {"a": 1}}], ids=str)
    async def test_enqueued_by_is_kept_through_a_run(self, beside: dict[str, Any]) -> None:
        async with self.opened() as store:
            job = await start(store, enqueued_by="key:deploy", **beside)
            assert job.enqueued_by == "key:deploy"
            await finish_run(store, job, Done())
            assert (await read_job(store, job.id)).enqueued_by == "key:deploy"

    @proves("E14")
    async def test_enqueued_by_changes_when_a_job_is_replaced(self) -> None:
        async with self.opened() as store:
            first = new_job(unique_key="k", enqueued_by="key:a")
            await put(store, first)
            await put(store, new_job(unique_key="k", on_conflict="replace", enqueued_by="key:b"))
            assert (await read_job(store, first.id)).enqueued_by == "key:b"
            await put(store, new_job(unique_key="k", on_conflict="replace"))
            assert (await read_job(store, first.id)).enqueued_by is None

    @proves("E4")
    async def test_a_new_job_is_pending_and_was_created_now(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(5)))
            job = await read_job(store, job_id)
            assert (job.state, job.created_at, job.run_at) == (State.PENDING, NOW, later(5))

    @proves("E4")
    async def test_a_new_job_has_no_run_fields(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            job = await read_job(store, job_id)
            assert (job.attempt, job.crashes, job.runs) == (0, 0, 0)
            assert {job.lease, job.worker, job.started_at, job.finished_at} == {None}
            assert {job.cancel_reason, job.result, job.failure} == {None}

    @proves("E4")
    async def test_a_job_without_a_time_is_due_at_once(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            assert (await read_job(store, job_id)).run_at == NOW

    @proves("V9")
    async def test_metadata_is_copied_by_the_store(self) -> None:
        async with self.opened() as store:
            metadata = {"spans": [1]}
            (job_id,) = await put(store, new_job(metadata=metadata))
            metadata["spans"].append(2)
            assert (await read_job(store, job_id)).metadata == {"spans": [1]}

    @proves("V10")
    @pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
    async def test_a_payload_is_opaque_text(self, payload: str) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(payload=payload))
            assert (await read_job(store, job_id)).payload == payload

    @proves("V10")
    @pytest.mark.parametrize("timeout", [UNSET, None, 0.25, 3600.0])
    async def test_a_timeout_may_be_unset_or_none_or_a_number(self, timeout: Any) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(timeout=timeout))
            stored = (await read_job(store, job_id)).timeout
            assert stored is timeout or stored == timeout

    @proves("V10")
    @pytest.mark.parametrize("max_retries", [None, 0, 7])
    async def test_max_retries_zero_differs_from_none(self, max_retries: int | None) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(max_retries=max_retries))
            assert (await read_job(store, job_id)).max_retries == max_retries

    @proves("V10")
    @pytest.mark.parametrize("backoff", [None, Backoff(), Backoff.constant(5), Backoff.linear(2)])
    async def test_a_backoff_is_kept(self, backoff: Backoff | None) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(backoff=backoff))
            assert (await read_job(store, job_id)).backoff == backoff

    @proves("V10")
    @pytest.mark.parametrize("priority", [MIN_PRIORITY, -1, 0, MAX_PRIORITY])
    async def test_the_whole_range_of_priorities_is_kept(self, priority: int) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(priority=priority))
            assert (await read_job(store, job_id)).priority == priority

    @proves("V10")
    @pytest.mark.parametrize("at", [NOW.replace(microsecond=1), NOW.replace(microsecond=999_999)])
    async def test_instants_keep_their_microseconds(self, at: datetime) -> None:
        async with self.opened() as store:
            far = at + timedelta(days=3650)
            (job_id,) = await put(store, new_job(run_at=at, expires_at=far), now=at)
            job = await read_job(store, job_id)
            assert (job.run_at, job.created_at, job.expires_at) == (at, at, far)

    @proves("V10")
    async def test_instants_are_returned_in_utc(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(1), expires_at=later(2)))
            job = await read_job(store, job_id)
            assert {job.run_at.tzname(), job.created_at.tzname()} == {"UTC"}
            assert job.expires_at is not None
            assert job.expires_at.tzname() == "UTC"

    @proves("E1")
    async def test_enqueue_returns_one_answer_per_job_in_order(self) -> None:
        async with self.opened() as store:
            first, second, twin = new_job(), new_job(unique_key="key"), new_job(unique_key="key")
            assert await store.enqueue([second, twin, first], now=NOW) == [
                Enqueued(second.id),
                Enqueued(second.id, "duplicate", "key"),
                Enqueued(first.id),
            ]

    @proves("V11")
    async def test_enqueue_of_no_jobs_is_no_error(self) -> None:
        async with self.opened() as store:
            assert await store.enqueue([], now=NOW) == []

    @proves("V1")
    async def test_a_thousand_jobs_pass_through_every_verb_at_once(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(1000)))
            assert len(await store.jobs(Filter(ids=tuple(ids)), now=NOW, limit=2000)) == 1000
            await beat(store)
            taken = (await claim(store, limit=2000)).jobs
            assert [job.id for job in taken] == ids
            assert len((await beat(store)).holds) == 1000
            assert await store.finish([decide(job, Done(), now=NOW) for job in taken]) == set(ids)
            deleted = await store.change(Action.DELETE, Filter(ids=tuple(ids)), now=NOW, limit=2000)
            assert deleted.done == ids

    @proves("E9", "V3")
    async def test_enqueue_of_a_repeated_batch_is_idempotent(self) -> None:
        async with self.opened() as store:
            batch = [new_job(unique_key="key"), new_job(unique_key="key"), new_job()]
            answers = await store.enqueue(batch, now=NOW)
            assert await store.enqueue(batch, now=later(1)) == answers
            assert len(await all_jobs(store)) == 2

    @proves("E9")
    async def test_an_id_repeated_in_one_batch_is_one_job(self) -> None:
        async with self.opened() as store:
            job = new_job()
            assert await store.enqueue([job, job], now=NOW) == [Enqueued(job.id)] * 2
            assert len(await all_jobs(store)) == 1

    @proves("E9")
    @pytest.mark.parametrize("state", REACHABLE)
    async def test_enqueue_of_an_existing_id_changes_nothing(self, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state)
            again = new_job(id=before.id, payload='"another"', priority=9, run_at=later(9))
            assert await store.enqueue([again], now=later(5)) == [Enqueued(before.id)]
            assert await read_job(store, before.id) == before

    @proves("E9")
    async def test_enqueue_of_an_existing_id_is_idempotent_after_a_change_of_queue(self) -> None:
        async with self.opened() as store:
            # Several, since a store may put some of them into the shard of the first queue.
            queues = [f"other{n}" for n in range(8)]
            jobs = [new_job() for _ in queues]
            await put(store, *jobs)
            for job, queue in zip(jobs, queues, strict=True):
                await act(store, Action.UPDATE, job.id, update=Update(queue=queue))
                assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]
            assert sorted(one.queue for one in await all_jobs(store)) == queues

    @proves("E9")
    async def test_enqueue_of_an_existing_id_does_not_conflict_with_its_own_key(self) -> None:
        async with self.opened() as store:
            job = new_job(unique_key="key", idempotency_key="once", on_conflict="raise")
            await put(store, job)
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E9")
    async def test_enqueue_of_an_existing_id_is_idempotent_after_its_key_went_to_another_job(self) -> None:
        async with self.opened() as store:
            job = new_job(unique_key="key", on_conflict="raise")
            await put(store, job)
            await act(store, Action.CANCEL, job.id)
            await put(store, new_job(unique_key="key"))
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E16")
    async def test_a_job_enqueued_within_a_transaction_is_visible_only_after_its_commit(self) -> None:
        async with self.opened() as store:
            if not store.capabilities.transactions:
                return
            database, run, job = cast(TransactionalStore, store), await start(store), new_job()
            async with database.transaction() as mine:
                assert await store.enqueue([job], now=NOW, within=mine.connection) == [Enqueued(job.id)]
                assert [found.id for found in await all_jobs(store)] == [run.id]
            assert [found.id for found in await all_jobs(store)] == [run.id]  # it was rolled back
            async with database.transaction() as mine:
                await store.enqueue([job], now=NOW, within=mine.connection)
                assert await mine.commit(decide(run, Done(), now=NOW), [])
            assert [found.id for found in await all_jobs(store)] == [run.id, job.id]

    @proves("E17")
    async def test_enqueue_within_anything_but_a_transaction_is_refused_and_writes_nothing(self) -> None:
        async with self.opened() as store:
            with pytest.raises(BadInput):
                await store.enqueue([new_job()], now=NOW, within=object())
            assert await all_jobs(store) == []
