"""Failed sign-ins are rate limited, without locking out other callers."""

from __future__ import annotations

import sys
from typing import Any

import httpx
import pytest
from http_client import Client, browser

from mainspring import Mainspring
from mainspring.api.access import sign_in_attempts as attempts
from mainspring.api.access.sign_in_attempts import SignInAttempts, address_of
from mainspring.api.problem import Problem
from mainspring.testing import VirtualClock

WRONG = "msk_0123456789ab_" + "a" * 43


async def statuses(http: httpx.AsyncClient, times: int) -> list[int]:
    return [(await http.get("/queues", headers={"Authorization": f"Bearer {WRONG}"})).status_code for _ in range(times)]


async def test_too_many_wrong_keys_are_429_with_retry_after(service: Any, clock: VirtualClock) -> None:
    async with browser(service) as http:
        assert await statuses(http, 12) == [401] * 10 + [429] * 2
        refused = await http.get("/queues", headers={"Authorization": f"Bearer {WRONG}"})
        assert (refused.json()["code"], refused.headers["Retry-After"]) == ("too_many_attempts", "6")
        clock.advance(seconds=6)
        assert await statuses(http, 2) == [401, 429]


@pytest.mark.parametrize("body", [{"key": WRONG}, {"key": "mst_start_" + "a" * 43}, {"key": "password"}], ids=str)
async def test_too_many_failed_sign_ins_are_429(service: Any, body: dict[str, str]) -> None:
    async with browser(service) as http:
        found = [(await http.post("/session", json=body)).status_code for _ in range(12)]
        assert found == [401] * 10 + [429] * 2


async def test_wrong_session_cookies_count_but_an_ended_session_only_once(service: Any) -> None:
    async with browser(service) as http:
        stale = [
            (await http.get("/queues", headers={"Cookie": "mainspring-8000=stale"})).status_code for _ in range(50)
        ]
        assert stale == [401] * 50
        guessed = [
            (await http.get("/queues", headers={"Cookie": f"mainspring-8000=guess{n}"})).status_code for n in range(11)
        ]
        assert guessed == [401] * 9 + [429] * 2


async def test_a_request_without_credentials_is_not_counted(service: Any) -> None:
    async with browser(service) as http:
        assert {(await http.get("/queues")).status_code for _ in range(30)} == {401}


async def test_failures_of_one_address_do_not_lock_out_other_addresses(
    service: Any, client: Client, spring: Mainspring
) -> None:
    async with client("viewer", address="10.0.0.2") as http, browser(service, "10.0.0.1") as wrong:
        await statuses(wrong, 300)
        assert (await http.get("/queues")).status_code == 200
        secret = await spring.keys.create("ada")
        assert (await http.post("/session", json={"key": secret})).status_code == 200


async def test_failures_do_not_lock_out_a_valid_key_of_the_same_address(service: Any, client: Client) -> None:
    """Behind a proxy or a router all callers have one address, and guessing 256 bits is hopeless."""
    async with client("viewer", address="10.0.0.1") as http, browser(service, "10.0.0.1") as wrong:
        await statuses(wrong, 20)
        assert (await http.get("/queues")).status_code == 200


async def test_failures_of_all_addresses_together_are_limited(
    service: Any, clock: VirtualClock, client: Client
) -> None:
    found: list[int] = []
    for n in range(210):
        async with browser(service, f"10.0.{n // 250}.{n % 250}") as http:
            found += await statuses(http, 1)
    assert found == [401] * 200 + [429] * 10
    async with client("viewer", address="10.9.9.9") as http:
        assert (await http.get("/queues")).status_code == 200


def scope(address: str | None) -> Any:
    return {"type": "http", "client": (address, 4711) if address else None}


def test_an_ipv6_network_counts_as_one_address() -> None:
    assert address_of(scope("2001:db8:0:1::1")) == address_of(scope("2001:db8:0:1:ffff::2"))
    assert address_of(scope("2001:db8:0:1::1")) != address_of(scope("2001:db8:0:2::1"))
    assert address_of(scope("::ffff:10.0.0.1")) == address_of(scope("10.0.0.1")) == "10.0.0.1"
    assert address_of(scope("fe80::1%eth0")) == address_of(scope("fe80::2%eth1"))
    assert address_of(scope(None)) == "local"
    assert address_of(scope("testclient")) == "testclient"


def test_the_number_of_counted_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_ADDRESSES", 100)
    monkeypatch.setattr(attempts, "TOTAL_BURST", sys.maxsize)
    limited = SignInAttempts(VirtualClock())
    for n in range(5000):
        limited.failed(scope(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"))
    assert len(limited._by_address) == 100


def test_the_token_bucket_refills_up_to_its_burst() -> None:
    clock = VirtualClock()
    limited = SignInAttempts(clock)

    def until_refused() -> int:
        for n in range(1000):
            try:
                limited.failed(scope("10.0.0.1"))
            except Problem:
                return n
        return 1000

    assert until_refused() == 10
    clock.advance(seconds=60)
    assert until_refused() == 10
    clock.advance(hours=9)
    assert until_refused() == 10
