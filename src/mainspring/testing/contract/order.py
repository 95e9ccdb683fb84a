"""order: what operators want of live workers, and how those hear it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from ...records.worker import WorkerCommands, WorkerRow
from ...store import Store
from .build import NOW, Contract, a_worker, beat, later

DRAIN, SLOW = WorkerCommands(drained=True), WorkerCommands(concurrency=1)


async def crew(store: Store, *names: str) -> None:
    for name in names:
        await beat(store, name)


class OrderContract(Contract):
    async def test_a_worker_that_was_given_none_hears_plain_orders(self) -> None:
        async with self.opened() as store:
            assert (await beat(store)).orders == WorkerCommands()

    async def test_a_worker_hears_its_orders_at_every_beat(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada")
            assert await store.order(["ada"], DRAIN, now=NOW) == ["ada"]
            assert [(await beat(store)).orders for _ in range(2)] == [DRAIN, DRAIN]

    async def test_orders_are_listed_with_their_worker(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada")
            await store.order(["ada"], SLOW, now=NOW)
            assert await store.workers(now=NOW) == [WorkerRow(a_worker("ada"), later(60), SLOW)]

    async def test_orders_are_kept_whole(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada")
            whole = WorkerCommands(concurrency=3, drained=True, stopped=True)
            await store.order(["ada"], whole, now=NOW)
            assert (await beat(store)).orders == whole
            assert [row.orders for row in await store.workers(now=NOW)] == [whole]

    async def test_later_orders_take_the_place_of_earlier_ones(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada")
            await store.order(["ada"], WorkerCommands(concurrency=3, drained=True), now=NOW)
            await store.order(["ada"], SLOW, now=NOW)
            assert (await beat(store)).orders == SLOW
            await store.order(["ada"], WorkerCommands(), now=NOW)
            assert (await beat(store)).orders == WorkerCommands()

    async def test_orders_reach_those_they_name_and_nobody_else(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada", "bob", "cyd")
            assert await store.order(["cyd", "ada", "unknown"], DRAIN, now=NOW) == ["ada", "cyd"]
            assert [(await beat(store, name)).orders for name in ("ada", "bob", "cyd")] == [
                DRAIN,
                WorkerCommands(),
                DRAIN,
            ]

    @pytest.mark.parametrize(("named", "reached"), [(None, ["ada", "bob"]), ((), [])], ids=["all", "nobody"])
    async def test_orders_for_all_reach_all_and_for_nobody_nobody(
        self, named: Collection[str] | None, reached: list[str]
    ) -> None:
        async with self.opened() as store:
            await crew(store, "bob", "ada")
            assert await store.order(named, DRAIN, now=NOW) == reached
            drained = [row.info.id for row in await store.workers(now=NOW) if row.orders == DRAIN]
            assert drained == reached

    @pytest.mark.parametrize("named", [None, ["ada", "bob"]], ids=["all", "by name"])
    async def test_a_silent_worker_is_given_no_orders(self, named: Collection[str] | None) -> None:
        async with self.opened() as store:
            await beat(store, "ada", until=later(20))
            await beat(store, "bob", until=later(20.000001))
            assert await store.order(named, DRAIN, now=later(20)) == ["bob"]
            assert (await beat(store, "ada", now=later(21))).orders == WorkerCommands()

    async def test_orders_outlast_a_silence(self) -> None:
        async with self.opened() as store:
            await beat(store, until=later(20))
            await store.order(None, DRAIN, now=NOW)
            assert (await beat(store, until=later(90), now=later(50))).orders == DRAIN

    async def test_orders_go_with_the_worker_that_leaves(self) -> None:
        async with self.opened() as store:
            await crew(store, "ada")
            await store.order(["ada"], DRAIN, now=NOW)
            await beat(store, until=NOW)
            assert await store.order(["ada"], SLOW, now=NOW) == []
            assert (await beat(store)).orders == WorkerCommands()
            assert await store.workers(now=NOW) == [WorkerRow(a_worker("ada"), later(60), WorkerCommands())]

    async def test_an_order_to_stop_stays_whatever_follows_it(self) -> None:
        async with self.opened() as store:
            await beat(store)
            await store.order(None, WorkerCommands(stopped=True), now=NOW)
            assert await store.order(None, WorkerCommands(concurrency=3, drained=True), now=NOW) == ["ada"]
            (row,) = await store.workers(now=NOW)
            assert row.orders == WorkerCommands(concurrency=3, drained=True, stopped=True)
            assert (await beat(store)).orders == row.orders

    async def test_with_seen_only_workers_with_those_orders_get_new_ones(self) -> None:
        async with self.opened() as store:
            for name in ("ada", "bob"):
                await beat(store, name)
            await store.order(["bob"], WorkerCommands(drained=True), now=NOW)
            assert await store.order(None, WorkerCommands(concurrency=5), now=NOW, seen=WorkerCommands()) == ["ada"]
            assert await store.order(
                None, WorkerCommands(concurrency=6), now=NOW, seen=WorkerCommands(drained=True)
            ) == ["bob"]
            assert [row.orders.concurrency for row in await store.workers(now=NOW)] == [5, 6]

    async def test_of_many_orders_for_what_was_seen_one_is_given(self) -> None:
        async with self.opened() as store:
            await beat(store)
            orders = [
                store.order(["ada"], WorkerCommands(concurrency=n), now=NOW, seen=WorkerCommands())
                for n in range(1, 21)
            ]
            given = await asyncio.gather(*orders)
            assert sorted(given) == [[]] * 19 + [["ada"]]
            (row,) = await store.workers(now=NOW)
            assert row.orders.concurrency == given.index(["ada"]) + 1
