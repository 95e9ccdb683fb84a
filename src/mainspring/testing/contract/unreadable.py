"""Unreadable records: one that cannot be decoded does not stop anything else."""

from __future__ import annotations

from msgspec.structs import replace

from ...ids import JobId
from ...records.document import Document, DocumentDrop
from ...records.job import UNREADABLE, Action, State
from ...records.outcome import Discard, Done
from ...records.query import Filter
from ...store import Store
from .build import (
    NOW,
    Contract,
    a_schedule,
    act,
    all_jobs,
    beat,
    claim,
    claim_ids,
    finish_run,
    fire,
    later,
    make_suspect,
    new_job,
    open_circuit,
    put,
    read_job,
    start,
)
from .sentences import proves


class UnreadableContract(Contract):
    """For a store that stores records as text or bytes; a subclass defines how to spoil one."""

    async def spoil_job(self, job_id: JobId) -> None:
        """Makes the job's record unreadable, whatever its state."""
        raise NotImplementedError(f"{type(self).__name__} must define spoil_job()")

    async def spoil_schedule(self, name: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define spoil_schedule()")

    async def spoil_worker(self, id: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define spoil_worker()")

    async def spoil_document(self, kind: str, name: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define spoil_document()")

    @proves("V4", "V5")
    async def test_a_claim_sets_an_unreadable_job_aside_and_takes_the_others(self) -> None:
        async with self.opened() as store:
            first, broken, last = await put(store, *(new_job(priority=n) for n in (2, 1, 0)))
            await self.spoil_job(broken)
            await beat(store)
            found = await claim(store)
            assert [job.id for job in found.jobs] == [first, last]
            assert [(one.kind, one.name) for one in found.unreadable] == [("job", broken)]
            assert all(one.error for one in found.unreadable)
            again = await claim(store)
            assert (again.jobs, again.unreadable) == ([], [])
            for job in found.jobs:
                assert await finish_run(store, job, Done()) == {job.id}

    @proves("V4")
    async def test_many_unreadable_jobs_do_not_stop_claims(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(priority=9 - n) for n in range(10)))
            for job_id in ids[:9]:
                await self.spoil_job(job_id)
            await beat(store)
            taken = [job.id for _ in range(9) for job in (await claim(store, limit=2)).jobs]
            assert taken == ids[9:]

    @proves("V4", "V5")
    async def test_an_unreadable_suspect_does_not_stop_claims(self) -> None:
        async with self.opened() as store:
            broken, (other,) = await make_suspect(store), await put(store, new_job())
            await self.spoil_job(broken)
            assert [one for _ in range(2) for one in await claim_ids(store)] == [other]
            assert (await read_job(store, broken)).state is State.PAUSED

    @proves("V4")
    async def test_an_unreadable_probe_is_replaced_by_another_job(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            broken, other = await put(store, new_job(priority=1), new_job())
            await self.spoil_job(broken)
            await beat(store, until=later(60), now=later(11))
            taken = [job.id for _ in range(2) for job in (await claim(store, now=later(11))).jobs]
            assert taken == [other]

    @proves("V5")
    async def test_an_unreadable_job_is_shown_with_the_reason(self) -> None:
        async with self.opened() as store:
            broken, other = await put(store, new_job(), new_job())
            await self.spoil_job(broken)
            for state in (State.PENDING, State.PAUSED):
                jobs = {job.id: job for job in await all_jobs(store)}
                assert jobs.keys() == {broken, other}
                assert jobs[broken].unreadable
                assert not jobs[other].unreadable
                failure = jobs[broken].failure
                assert failure is not None
                assert failure.type == UNREADABLE
                assert failure.message
                if state is State.PENDING:
                    await claim_ids(store)
                else:
                    assert jobs[broken].state is State.PAUSED
                    assert jobs[broken].actions(NOW) == (Action.DELETE,)

    @proves("V5")
    async def test_an_unreadable_job_that_was_set_aside_is_counted_as_paused(self) -> None:
        async with self.opened() as store:
            broken, _ = await put(store, new_job(), new_job())
            await self.spoil_job(broken)
            await claim_ids(store)
            assert (await store.overview(now=NOW)).states == {"paused": 1, "running": 1}
            (queue,) = (await store.overview(now=NOW)).queues
            assert (queue.pending, queue.running) == (0, 1)

    @proves("V5")
    async def test_doctor_names_unreadable_records_until_they_are_deleted(self) -> None:
        async with self.opened() as store:
            assert await self._records(store) == ("ok", False)
            (broken,) = await put(store, new_job())
            await self.spoil_job(broken)
            await claim_ids(store)
            text = next(one for one in await store.diagnose() if one.about == "records")
            assert text.verdict == "bad"
            assert broken in text.text
            assert broken in text.remedy
            assert (await act(store, Action.DELETE, broken)).done == [broken]
            assert await self._records(store) == ("ok", False)
            assert await all_jobs(store) == []

    async def _records(self, store: Store) -> tuple[str, bool]:
        found = next(one for one in await store.diagnose() if one.about == "records")
        return found.verdict, bool(found.remedy)

    @proves("V5")
    async def test_an_unreadable_job_can_only_be_deleted(self) -> None:
        async with self.opened() as store:
            (broken,) = await put(store, new_job())
            await self.spoil_job(broken)
            await claim_ids(store)
            for action in (Action.RESUME, Action.CANCEL, Action.PAUSE):
                changed = await act(store, action, broken)
                assert changed.done == []
                assert changed.refused[broken].error
            assert (await read_job(store, broken)).unreadable

    @proves("V4", "V5")
    async def test_a_change_by_filter_skips_an_unreadable_job(self) -> None:
        async with self.opened() as store:
            broken, other = await put(store, new_job(), new_job())
            await self.spoil_job(broken)
            changed = await store.change(Action.CANCEL, Filter(), now=NOW, limit=10, reason="why")
            assert changed.done == [other]
            assert list(changed.refused) == [broken]

    @proves("V5")
    async def test_an_unreadable_job_of_a_silent_worker_is_set_aside(self) -> None:
        async with self.opened() as store:
            broken, other = (await start(store)).id, (await start(store)).id
            await self.spoil_job(broken)
            assert [job.id for job in await store.orphaned(now=later(120), limit=10)] == [other]
            assert (await read_job(store, broken)).state is State.PAUSED
            assert [job.id for job in await store.orphaned(now=later(120), limit=10)] == [other]

    @proves("V4")
    async def test_an_outcome_of_an_unreadable_job_is_accepted(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            await self.spoil_job(job.id)
            assert job.id in await finish_run(store, job, Done())
            assert await finish_run(store, other, Done()) == {other.id}

    @proves("V4")
    async def test_an_unreadable_finished_job_stops_neither_lists_nor_retention(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            for one in (job, other):
                await finish_run(store, one, Done())
            await self.spoil_job(job.id)
            found = await store.prunable(State.COMPLETED, "task", keep=0, before=later(60), limit=10)
            assert {one.id for one in found} == {job.id, other.id}
            assert {one.id for one in await all_jobs(store)} == {job.id, other.id}
            await store.executions(job.id)

    @proves("V5")
    async def test_a_key_of_an_unreadable_job_is_still_held(self) -> None:
        async with self.opened() as store:
            (broken,) = await put(store, new_job(unique_key="key"))
            await self.spoil_job(broken)
            (answer,) = await store.enqueue([new_job(unique_key="key", on_conflict="replace")], now=NOW)
            assert (answer.id, answer.status) == (broken, "duplicate")

    @proves("V6")
    async def test_an_unreadable_schedule_does_not_stop_the_others(self) -> None:
        async with self.opened() as store:
            for name in ("a", "b", "c"):
                await fire(store, a_schedule(name))
            await self.spoil_schedule("b")
            found = await store.due(now=later(3600), limit=10)
            assert [row.name for row in found.schedules] == ["a", "c"]
            assert [(one.kind, one.name) for one in found.unreadable] == [("schedule", "b")]
            assert (await store.due(now=later(3600), limit=10)).unreadable == []
            assert [row.name for row in await store.schedules(limit=10)] == ["a", "c"]
            assert [row.name for row in await store.schedules(limit=2)] == ["a", "c"]
            finding = next(one for one in await store.diagnose() if one.about == "records")
            assert finding.verdict == "bad"
            assert "b" in finding.text
            assert await store.drop_schedules(["b"]) == ["b"]
            assert await self._records(store) == ("ok", False)

    @proves("V6")
    async def test_a_schedule_can_be_declared_in_place_of_an_unreadable_one(self) -> None:
        async with self.opened() as store:
            assert (await fire(store, a_schedule("a"))).stands
            await self.spoil_schedule("a")
            assert await store.schedules(["a"], limit=1) == []
            assert (await fire(store, a_schedule("a"))).stands
            assert [row.name for row in (await store.due(now=later(3600), limit=10)).schedules] == ["a"]

    @proves("V7")
    async def test_an_unreadable_worker_row_does_not_stop_other_workers(self) -> None:
        async with self.opened() as store:
            job = await start(store, worker="ada")
            await beat(store, "bob")
            await self.spoil_worker("ada")
            assert [row.info.id for row in await store.workers(now=NOW)] == ["bob"]
            assert (
                await store.orphaned(now=NOW, limit=10) == []
            )  # the worker is alive, even if its row cannot be decoded
            (other,) = await put(store, new_job())
            assert await claim_ids(store, "bob") == [other]
            assert (await beat(store, "ada")).holds == {job.id: job.lease}
            assert [row.info.id for row in await store.workers(now=NOW)] == ["ada", "bob"]

    @proves("V5")
    async def test_an_unreadable_job_can_be_deleted_in_any_state(self) -> None:
        async with self.opened() as store:
            (expiring,) = await put(store, new_job(task="other", expires_at=later(3600)))
            suspected = await make_suspect(store, task="third", expires_at=later(3600))
            done = await start(store, task="task")
            await finish_run(store, done, Done())
            dead = await start(store, task="task")
            await finish_run(store, dead, Discard())
            (pending,) = await put(store, new_job(tags=("tag",), unique_key="key"))
            ids = [pending, expiring, suspected, done.id, dead.id]
            for job_id in ids:
                await self.spoil_job(job_id)
            await claim(store, tasks=["other", "third"], now=later(1))
            assert (await act(store, Action.DELETE, *ids)).done == sorted(ids)
            assert await all_jobs(store) == []
            assert (await store.overview(now=NOW)).states == {}
            assert await self._records(store) == ("ok", False)
            (other,) = await put(store, new_job(tags=("tag",), unique_key="key"))
            assert await claim_ids(store) == [other]
            await store.prunable(State.COMPLETED, "task", keep=0, before=later(60), limit=10)
            assert await store.jobs(Filter(tags=("tag",)), now=NOW, limit=10) != []

    @proves("DO3", "DO6", "V4")
    async def test_an_unreadable_document_does_not_stop_others_and_can_be_dropped(self) -> None:
        async with self.opened() as store:
            documents = [Document(kind="key", name=name, text="{}") for name in ("a", "b", "c")]
            assert await store.put_documents(documents, now=NOW) == [True] * 3
            await self.spoil_document("key", "b")
            found = {one.name: one.text for one in await store.documents("key", now=NOW, limit=10)}
            assert found.keys() == {"a", "b", "c"}
            assert (found["a"], found["c"]) == ("{}", "{}")
            assert found["b"] != "{}"
            again = replace(documents[0], text="[]", revision=2)
            assert await store.put_documents([documents[1], again], now=NOW) == [False, True]
            assert await store.put_documents([DocumentDrop("key", "b")], now=NOW) == [True]
            assert await store.put_documents([documents[1]], now=NOW) == [True]

    @proves("DO5", "P4")
    async def test_an_unreadable_document_expires(self) -> None:
        async with self.opened() as store:
            document = Document(kind="key", name="a", text="{}", expires_at=later(10))
            assert await store.put_documents([document], now=NOW) == [True]
            await self.spoil_document("key", "a")
            await store.prune({}, audited_since=NOW, now=later(20))
            assert await store.documents("key", now=NOW, limit=10) == []
