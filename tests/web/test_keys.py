"""API keys: shown once, stored as a hash, cached, and revoked."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from http_client import Client

from mainspring import ApiKeyExists, ApiKeyNotFound, BadInput, Mainspring, StoreUnavailable
from mainspring.actor import act_as
from mainspring.control import keys
from mainspring.records.api_key import SCOPES, hash_secret
from mainspring.testing import Faults, FaultStore, VirtualClock

NEVER = "msk_0123456789ab_" + "a" * 43


async def everything(spring: Mainspring) -> str:
    """All documents about keys in the store."""
    store = await spring.connect()
    kinds = ("key", "key_use", "session", "welcome")
    return str([await store.documents(kind, now=spring.clock.now(), limit=100) for kind in kinds])


class Reads:
    """Counts the reads of documents."""

    def __init__(self, spring: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        store: Any = spring._engine._root
        real = store.documents

        async def documents(*args: Any, **given: Any) -> Any:
            self.count += 1
            return await real(*args, **given)

        monkeypatch.setattr(store, "documents", documents)


# creating


async def test_a_key_is_stored_as_the_hash_of_its_secret(spring: Mainspring) -> None:
    secret = await spring.keys.create("deploy", "operator")
    kept = await everything(spring)
    assert secret not in kept
    assert secret.rpartition("_")[2] not in kept
    assert hash_secret(secret) in kept
    assert secret not in str(await spring.keys.list())


async def test_a_secret_has_a_prefix_and_the_id_of_its_key(spring: Mainspring) -> None:
    secret = await spring.keys.create("deploy")
    kind, id, rest = secret.split("_")
    assert (kind, id) == ("msk", (await spring.keys.list())[0].id)
    assert len(rest) == 43  # of 62 letters: 256 bits


async def test_no_two_secrets_are_the_same(spring: Mainspring) -> None:
    assert len({(await spring.keys.create(f"k{n}")).rpartition("_")[2] for n in range(50)}) == 50


async def test_a_list_of_keys_has_no_secrets(spring: Mainspring, clock: VirtualClock) -> None:
    with act_as("key:root"):
        await spring.keys.create("deploy", "operator", ["jobs:write", "jobs:write", "dead:read"], "30d")
    (key,) = await spring.keys.list()
    assert (key.name, key.role, key.scopes) == ("deploy", "operator", ("dead:read", "jobs:write"))
    assert (key.created_at, key.created_by) == (clock.now(), "key:root")
    assert (key.expires_at, key.last_used_at) == (clock.now() + timedelta(days=30), None)


async def test_the_name_of_a_key_is_unique(spring: Mainspring) -> None:
    await spring.keys.create("deploy")
    with pytest.raises(ApiKeyExists, match="there is an API key 'deploy' already; revoke it, or give this one another"):
        await spring.keys.create("deploy")


async def test_the_name_of_an_expired_key_is_free_again(spring: Mainspring, clock: VirtualClock) -> None:
    await spring.keys.create("deploy", expires=60)
    clock.advance(seconds=60)
    await spring.keys.create("deploy", "operator")
    assert [key.role for key in await spring.keys.list()] == ["operator"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"role": "root"}, r"no role 'root' \(known: viewer, operator, admin\)"),
        (
            {"scopes": ["job:write"]},
            r"no scope 'job:write' \(known: audit, batches, cron, .*each with :read or :write\)",
        ),
        ({"scopes": ["jobs"]}, "no scope 'jobs'"),
        ({"scopes": "jobs:write"}, "scopes are a list"),
        ({"scopes": []}, "scopes are a list"),
        ({"name": "a/b"}, "a key's name is 1 to 64 letters"),
        ({"name": ""}, "a key's name is"),
        ({"name": "a" * 65}, "a key's name is"),
        ({"name": "a\n"}, "a key's name is"),
        ({"expires": 0}, "expires must be a span of more than 0 seconds"),
        ({"expires": "soon"}, "expires must be a span"),
        ({"expires": datetime(2020, 1, 1, tzinfo=UTC)}, "a key expires in the future"),
        ({"expires": datetime(2040, 1, 1)}, "at an instant with its zone"),
        ({"expires": datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))}, "at an instant with its zone"),
    ],
)
async def test_an_invalid_key_is_refused_with_a_hint(spring: Mainspring, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        await spring.keys.create(**{"name": "deploy", **given})
    assert await spring.keys.list() == []


async def test_the_number_of_keys_is_limited(spring: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_API_KEYS", 2)
    await spring.keys.create("a")
    await spring.keys.create("b")
    with pytest.raises(BadInput, match="revoke those that are not used"):
        await spring.keys.create("c")


# finding


async def test_a_key_is_found_only_by_its_secret(spring: Mainspring) -> None:
    secret = await spring.keys.create("deploy")
    found = await spring.keys.find(secret)
    assert found is not None
    assert found.name == "deploy"
    wrong = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    for other in (wrong, secret + "a", secret[:-1], secret.upper(), NEVER, "", "msk_", "msk__", "deploy", found.id):
        assert await spring.keys.find(other) is None


async def test_an_expired_key_is_not_found(spring: Mainspring, clock: VirtualClock) -> None:
    secret = await spring.keys.create("deploy", expires=3)
    clock.advance(seconds=2)
    assert await spring.keys.find(secret)
    clock.advance(seconds=1)
    assert await spring.keys.find(secret) is None


async def test_a_found_key_is_cached_for_five_seconds(
    spring: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = await spring.keys.create("deploy")
    await spring.keys.find(secret)
    reads = Reads(spring, monkeypatch)
    for _ in range(100):
        assert await spring.keys.find(secret)
    clock.advance(seconds=4.9)
    assert await spring.keys.find(secret)
    assert reads.count == 0
    clock.advance(seconds=0.1)
    assert await spring.keys.find(secret)
    assert reads.count == 1


async def test_wrong_keys_read_the_store_at_most_once_a_second(
    spring: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spring.keys.find(await spring.keys.create("deploy"))
    reads = Reads(spring, monkeypatch)
    for n in range(1000):
        clock.advance(seconds=0.01)
        assert await spring.keys.find(f"msk_{n:012x}_{'a' * 43}") is None
    assert reads.count <= 10


async def test_a_revoked_key_is_unknown_here_at_once_and_elsewhere_within_five_seconds(clock: VirtualClock) -> None:
    here = Mainspring("memory://", clock=clock)
    elsewhere = Mainspring(here._engine._root, clock=clock)
    secret = await here.keys.create("deploy")
    assert await here.keys.find(secret)
    assert await elsewhere.keys.find(secret)
    await here.keys.revoke("deploy")
    assert await here.keys.find(secret) is None
    clock.advance(seconds=keys.KEY_CACHE_SECONDS)
    assert await elsewhere.keys.find(secret) is None


async def test_a_key_created_elsewhere_is_known_within_a_second(clock: VirtualClock) -> None:
    here = Mainspring("memory://", clock=clock)
    elsewhere = Mainspring(here._engine._root, clock=clock)
    await here.keys.find(NEVER)
    secret = await elsewhere.keys.create("deploy")
    assert await here.keys.find(secret) is None
    clock.advance(seconds=keys.UNKNOWN_KEY_RETRY_SECONDS)
    assert await here.keys.find(secret)


# revoking


async def test_a_key_is_revoked_by_name_or_id(spring: Mainspring) -> None:
    first, second = await spring.keys.create("first"), await spring.keys.create("second")
    await spring.keys.revoke("first")
    await spring.keys.revoke(second.split("_")[1])
    assert await spring.keys.list() == []
    assert await spring.keys.find(first) is None


async def test_a_new_key_with_a_revoked_name_does_not_revive_the_old_secret(
    spring: Mainspring, clock: VirtualClock
) -> None:
    old = await spring.keys.create("deploy")
    await spring.keys.find(old)
    await spring.keys.revoke("deploy")
    new = await spring.keys.create("deploy")
    assert await spring.keys.find(old) is None
    assert await spring.keys.find(new)
    clock.advance(hours=1)
    assert await spring.keys.find(old) is None


async def test_revoking_an_unknown_key_names_the_known_ones(spring: Mainspring) -> None:
    await spring.keys.create("deploy")
    with pytest.raises(ApiKeyNotFound, match="no API key 'deplyo'; did you mean 'deploy'"):
        await spring.keys.revoke("deplyo")


async def test_creating_and_revoking_a_key_is_audited_without_its_secret(spring: Mainspring) -> None:
    with act_as("key:root"):
        secret = await spring.keys.create("deploy", "operator", ["jobs:write"])
        await spring.keys.revoke("deploy")
    revoked, made = await spring.audit.list()
    assert [(entry.who, entry.action, entry.target) for entry in (made, revoked)] == [
        ("key:root", "keys.create", "deploy"),
        ("key:root", "keys.revoke", "deploy"),
    ]
    assert '"role":"operator"' in made.asked
    assert secret.split("_")[1] in str(made.outcome)
    assert secret.split("_")[1] in str(revoked.outcome)
    assert secret.rpartition("_")[2] not in str([made, revoked])
    assert hash_secret(secret) not in str([made, revoked])


# uses


async def test_the_last_use_of_a_key_is_stored_periodically(spring: Mainspring, clock: VirtualClock) -> None:
    secret, first = await spring.keys.create("deploy"), clock.now()
    await spring.keys.find(secret)
    clock.advance(minutes=9)
    await spring.keys.find(secret)
    assert [key.last_used_at for key in await spring.keys.list()] == [first]
    clock.advance(minutes=1)
    await spring.keys.find(secret)
    assert [key.last_used_at for key in await spring.keys.list()] == [clock.now()]


async def test_a_request_succeeds_if_the_last_use_of_its_key_cannot_be_stored(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock)
    secret = await app.keys.create("deploy")
    faults = Faults()
    faulty = Mainspring(FaultStore(app._engine._root, faults), clock=clock)
    faults.fail("put_documents", error=lambda: StoreUnavailable("busy"))
    assert await faulty.keys.find(secret)


# over HTTP


async def test_a_key_is_created_listed_and_revoked_over_http(client: Client) -> None:
    async with client("admin") as http:
        made = await http.post("/keys", json={"name": "deploy", "role": "operator", "expires": "30d"})
        assert made.status_code == 201
        secret, key = made.json()["secret"], made.json()["key"]
        assert key["created_by"] == "key:admin-0"
        listed = await http.get("/keys")
        assert [one["name"] for one in listed.json()] == ["admin-0", "deploy"]
        assert secret.rpartition("_")[2] not in listed.text
        mine = {"Authorization": f"Bearer {secret}"}
        assert (await http.get("/queues", headers=mine)).status_code == 200
        assert (await http.delete("/keys/deploy")).status_code == 204
        assert (await http.get("/queues", headers=mine)).status_code == 401


async def test_invalid_duplicate_and_unknown_keys_are_refused_over_http(client: Client) -> None:
    async with client("admin") as http:
        bad = await http.post("/keys", json={"name": "a b"})
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid")
        assert (await http.post("/keys", json={"name": "a", "role": "root"})).status_code == 422
        assert (await http.post("/keys", json={"name": "a", "rule": "admin"})).status_code == 422
        await http.post("/keys", json={"name": "a"})
        again = await http.post("/keys", json={"name": "a"})
        assert (again.status_code, again.json()["code"]) == (409, "key_exists")
        gone = await http.delete("/keys/b")
        assert (gone.status_code, gone.json()["code"]) == (404, "key_not_found")


@pytest.mark.parametrize(
    ("own", "wanted", "status"),
    [
        (None, None, 201),
        (None, ["jobs:write"], 201),
        (["keys:write"], None, 403),
        (["keys:write"], ["jobs:read"], 403),
        (["keys:write", "jobs:read"], ["jobs:write"], 403),
        (["keys:write", "jobs:write"], ["jobs:read"], 201),
        (["keys:write"], ["keys:write"], 201),
    ],
)
async def test_a_key_with_more_scopes_than_its_creator_is_refused(
    client: Client, own: Collection[str] | None, wanted: list[str] | None, status: int
) -> None:
    async with client("admin", own) as http:
        made = await http.post("/keys", json={"name": "deploy", "role": "viewer", "scopes": wanted})
        assert made.status_code == status, made.text


def test_scopes_have_the_verbs_read_and_write() -> None:
    assert {"jobs:read", "jobs:write", "schedules:write", "queues:read"} <= set(SCOPES)
