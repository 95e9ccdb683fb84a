"""Task versions: the fingerprint of a job's payload, and since when it waits for a worker with that version."""

from __future__ import annotations

from typing import Any

import pytest

from ...records.job import Action, Job, State
from ...records.outcome import Discard, Done, Retry, Snooze
from ...records.query import Filter, Update
from ...records.run import Failure
from ...records.skew import UndecodablePayload
from ...store import Store
from .build import (
    A_MINUTE_LATER,
    NOW,
    Contract,
    a_schedule,
    a_worker,
    act,
    claim_job,
    finish_run,
    fire,
    later,
    new_job,
    next_revision,
    put,
    read_job,
    read_schedule,
    start,
    tick_job,
)
from .sentences import proves

FINGERPRINT = "0011223344"
OTHER_FINGERPRINT = "aabbccddee"
UNDECODABLE = UndecodablePayload(Failure("BadPayload", "no"), OTHER_FINGERPRINT, "(n: int)", skew=3600)
# Other options that are stored next to a fingerprint.
OTHER_OPTIONS: list[dict[str, Any]] = [
    {}, {"tags": ("a",)}, {"run_at": later(-5)}, {"expires_at": later(50)}, {"metadata": {"a": 1}, "timeout": None},
    {"unique_key": "key"}, {"idempotency_key": "key", "priority": 3}, {"fingerprint": 'a "b" \\ é'},
]  # fmt: skip


async def postponed_job(store: Store, **fields: Any) -> Job:
    """A job whose payload a run could not decode, at NOW."""
    job = await start(store, fingerprint=FINGERPRINT, **fields)
    assert await finish_run(store, job, UNDECODABLE, now=later(1)) == {job.id}
    return await read_job(store, job.id)


class VersionContract(Contract):
    # the fingerprint

    @proves("E15")
    @pytest.mark.parametrize("options", OTHER_OPTIONS, ids=str)
    async def test_a_fingerprint_is_kept_and_claimed_with_its_job(self, options: dict[str, Any]) -> None:
        async with self.opened() as store:
            new = new_job(**{"fingerprint": FINGERPRINT, **options})
            await put(store, new)
            assert (await read_job(store, new.id)).fingerprint == new.fingerprint
            assert (await claim_job(store, new.id)).fingerprint == new.fingerprint
            assert (await read_job(store, new.id)).fingerprint == new.fingerprint

    @proves("E15")
    async def test_a_batch_keeps_the_fingerprint_of_each_job(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(fingerprint=made_by) for made_by in (FINGERPRINT, None, OTHER_FINGERPRINT) * 20]
            await put(store, *jobs)
            fingerprints = {job.id: job.fingerprint for job in await store.jobs(Filter(), now=NOW, limit=99)}
            assert fingerprints == {job.id: job.fingerprint for job in jobs}

    @proves("E15")
    @pytest.mark.parametrize("ended", [Done('"x"'), Done(), Retry(5), Snooze(5), Discard()], ids=repr)
    async def test_a_fingerprint_is_kept_after_every_ending(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store, fingerprint=FINGERPRINT)
            await finish_run(store, job, ended)
            assert (await read_job(store, job.id)).fingerprint == FINGERPRINT

    @proves("E15", "F9")
    async def test_a_follow_up_job_keeps_its_fingerprint(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job(fingerprint=FINGERPRINT)
            await finish_run(store, job, Done(), then=(after,))
            assert (await read_job(store, after.id)).fingerprint == FINGERPRINT

    @proves("E15", "V10")
    async def test_a_schedule_and_its_job_keep_their_fingerprints(self) -> None:
        async with self.opened() as store:
            schedule = a_schedule(spec={"fingerprint": FINGERPRINT})
            job = tick_job(schedule, fingerprint=OTHER_FINGERPRINT)
            assert (await fire(store, schedule, jobs=(job,))).stands
            assert (await fire(store, next_revision(schedule))).stands
            assert (await read_schedule(store)).spec.fingerprint == FINGERPRINT
            assert (await read_job(store, job.id)).fingerprint == OTHER_FINGERPRINT
            assert (await claim_job(store, job.id)).fingerprint == OTHER_FINGERPRINT

    @proves("E15")
    @pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
    @pytest.mark.parametrize("made_by", [OTHER_FINGERPRINT, None])
    async def test_a_replaced_payload_brings_its_own_fingerprint(self, on_conflict: str, made_by: str | None) -> None:
        async with self.opened() as store:
            (first,) = await put(store, new_job(unique_key="key", fingerprint=FINGERPRINT))
            await put(store, new_job(unique_key="key", fingerprint=made_by, on_conflict=on_conflict))
            assert (await read_job(store, first)).fingerprint == made_by

    @proves("E15")
    @pytest.mark.parametrize("action", [Action.UPDATE, Action.RETRY])
    async def test_a_new_payload_brings_its_own_fingerprint(self, action: Action) -> None:
        async with self.opened() as store:
            new = new_job(fingerprint=FINGERPRINT)
            await put(store, new)
            if action is Action.RETRY:
                await act(store, Action.CANCEL, new.id)
            await act(store, action, new.id, update=Update(payload='{"a":1}', fingerprint=OTHER_FINGERPRINT))
            job = await read_job(store, new.id)
            assert (job.payload, job.fingerprint) == ('{"a":1}', OTHER_FINGERPRINT)

    @proves("E15")
    async def test_a_new_payload_without_a_fingerprint_has_none(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job(fingerprint=FINGERPRINT))
            await act(store, Action.UPDATE, id, update=Update(payload='{"a":1}'))
            assert (await read_job(store, id)).fingerprint is None

    @proves("A10", "E15")
    async def test_an_update_of_other_values_leaves_the_fingerprint(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job(fingerprint=FINGERPRINT))
            await act(store, Action.UPDATE, id, update=Update(priority=3, queue="other", tags=("a",)))
            assert (await read_job(store, id)).fingerprint == FINGERPRINT

    @proves("B5", "V10")
    async def test_a_worker_lists_the_fingerprints_of_its_tasks(self) -> None:
        async with self.opened() as store:
            await store.beat(a_worker(fingerprints=(FINGERPRINT,)), until=A_MINUTE_LATER, now=NOW)
            (worker,) = await store.workers(now=NOW)
            assert worker.info.fingerprints == (FINGERPRINT,)

    # the start of the wait

    @proves("F4")
    async def test_a_postponed_job_waits_without_losing_an_attempt(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store)
            assert (job.state, job.attempt, job.runs) == (State.PENDING, 0, 1)
            assert job.run_at > later(1)
            assert job.failure is not None
            assert (job.failure.type, job.failure.since) == ("VersionSkew", NOW)
            (run,) = await store.executions(job.id)
            assert (run.ending, run.failure) == ("released", job.failure)

    @proves("F7")
    async def test_the_start_of_a_postponement_is_kept_by_the_next_run(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store)
            again = await claim_job(store, job.id, now=later(30))
            assert again.failure is not None
            assert again.failure.since == NOW
            await finish_run(store, again, UNDECODABLE, now=later(31))
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert failure.since == NOW

    @proves("A11")
    async def test_a_retry_clears_the_start_of_a_postponement(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store)
            await act(store, Action.CANCEL, job.id)
            await act(store, Action.RETRY, job.id)
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert (failure.type, failure.since) == ("VersionSkew", None)

    @proves("A11")
    async def test_an_update_of_payload_clears_the_start_of_a_postponement(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store)
            await act(store, Action.UPDATE, job.id, update=Update(payload='{"a":1}'))
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert failure.since is None

    @proves("A11")
    async def test_a_replaced_payload_clears_the_start_of_a_postponement(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store, unique_key="key")
            await put(store, new_job(unique_key="key", on_conflict="replace"))
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert failure.since is None

    @proves("A11")
    async def test_changes_of_other_values_keep_the_start_of_a_postponement(self) -> None:
        async with self.opened() as store:
            job = await postponed_job(store)
            await act(store, Action.UPDATE, job.id, update=Update(priority=3))
            await act(store, Action.PAUSE, job.id)
            await act(store, Action.RESUME, job.id)
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert failure.since == NOW
