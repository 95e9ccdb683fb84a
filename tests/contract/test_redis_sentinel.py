"""The Redis store behind sentinels: the contract, also across a failover."""

import asyncio
import inspect
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from books import audit
from clusters import RedisWithSentinel
from mainspring.errors import StoreError, StoreUnavailable
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis import connector
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import Contract, all_jobs, beat, new_job, put
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.twin import twin_machine


class Moved:
    """A store whose master changes at its n-th call; a caller repeats its failed call, as every client has to."""

    def __init__(self, store: Store, sentinel: RedisWithSentinel, at: int) -> None:
        self.store, self._sentinel, self._left = store, sentinel, at

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.store, name)
        return self._insisting(value) if inspect.iscoroutinefunction(value) else value

    def _insisting(self, verb: Any) -> Any:
        async def insisting(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self._sentinel.settle()
                self._sentinel.fail_over()
            async with asyncio.timeout(20):
                while True:
                    try:
                        return await verb(*args, **kwargs)
                    except StoreUnavailable:
                        await asyncio.sleep(0)

        return insisting


class Watched(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_sentinel: RedisWithSentinel) -> None:
        self.sentinel, self.url = redis_sentinel, redis_sentinel.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


@pytest.mark.slow
class TestSentinel(Watched, StoreContract, CheckpointContract, FlowContract):
    """Now and then a failover happens during a test. After every test the store is audited."""

    numbers = count(1)

    def make_store(self) -> Store:
        store = super().make_store()
        return store if next(self.numbers) % 40 else cast(Store, Moved(store, self.sentinel, at=4))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            yield store
            if (shards := cast(RedisStore, store)._shards) is not None:
                await audit(shards)


class TestFailOver(Watched):
    async def test_a_store_continues_at_the_new_master(self, caplog: pytest.LogCaptureFixture) -> None:
        async with self.opened() as store:
            await beat(store)
            (first,) = await put(store, new_job())
            moved = cast(Store, Moved(store, self.sentinel, at=1))
            (second,) = await put(moved, new_job())
            assert [job.id for job in await all_jobs(store)] == [first, second]
            await beat(store)
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    async def test_a_store_leaves_a_master_that_was_replaced_though_it_still_answers(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            self.sentinel.settle()
            try:
                new = self.sentinel.fail_over(demote=False)
                (job_id,) = await put(store, new_job())
                assert new.run("HEXISTS", "{fresh}:job", packed(job_id))
            finally:
                self.sentinel.rejoin(self.sentinel.copy())

    async def test_a_sentinel_without_an_answer_delays_one_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connector, "SENTINEL_REFRESH_SECONDS", 0.0)
        silent, loop = self.sentinel.sentinels[0].process, asyncio.get_running_loop()
        async with self.opened() as store:
            silent.send_signal(signal.SIGSTOP)
            try:
                began = loop.time()
                for _ in range(5):
                    await put(store, new_job())
                assert (
                    connector.SENTINEL_TIMEOUT_SECONDS <= loop.time() - began < 3 * connector.SENTINEL_TIMEOUT_SECONDS
                )
            finally:
                silent.send_signal(signal.SIGCONT)

    async def test_an_unknown_sentinel_service_is_a_store_error(self) -> None:
        with pytest.raises(StoreError, match="watch nothing named 'other'") as refused:
            await open_store(self.url.replace("/main/", "/other/")).open()
        assert not isinstance(refused.value, StoreUnavailable)


@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_redis_answers_as_memory_does_during_a_sentinel_failover(
    redis_sentinel: RedisWithSentinel, examples: int
) -> None:
    def fresh() -> Store:
        return cast(Store, Moved(open_store(redis_sentinel.fresh()), redis_sentinel, at=20))

    so_many = settings(max_examples=examples, stateful_step_count=30, derandomize=True, deadline=None,
                       suppress_health_check=list(HealthCheck))  # fmt: skip
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=so_many)
