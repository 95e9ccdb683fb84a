"""Access to Redis: passwords, users and ACL rules, databases and sockets, and the errors they cause."""

import asyncio
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from visits import opened, refusal, whole_way

from clusters import RedisCluster
from mainspring.errors import StoreError, StoreUnavailable
from mainspring.records.job import Action
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis import connection
from mainspring.stores.redis.acl import needed_commands
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import act, all_jobs, new_job, put
from servers import Redis

# The ACL rule of docs/redis.md for a user of the store with this prefix.
COMMANDS = [
    "+@read", "+@write", "-@dangerous", "+@transaction", "+eval", "+evalsha", "+script|load", "+publish", "+subscribe",
    "+ping", "+time", "+info", "+select", "+client|setname",
]  # fmt: skip
RULE = ["~{fresh}*", "&{fresh}*", *COMMANDS]
IN_A_CLUSTER = ["~{fresh}*", "~{fresh:*", "&{fresh:*", *COMMANDS, "+cluster|slots"]


# passwords


@pytest.fixture(scope="module")
def locked_up() -> Iterator[int]:
    """The port of a server with a password; its own client was there before."""
    server = Redis()
    server.run("CONFIG", "SET", "requirepass", "open/sesame")
    try:
        yield server.port
    finally:
        server.close()


class TestPassword:
    @pytest.mark.parametrize("who", ["", "default"])
    async def test_a_password_alone_authenticates_the_default_user(self, locked_up: int, who: str) -> None:
        await whole_way(f"redis://{who}:open%2Fsesame@127.0.0.1:{locked_up}/0?prefix=fresh{who}")

    async def test_a_missing_password_is_named_in_the_error(self, locked_up: int) -> None:
        error = await refusal(f"redis://127.0.0.1:{locked_up}/0")
        assert not isinstance(error, StoreUnavailable)
        assert "refused us: NOAUTH" in str(error)
        assert str(error).endswith("; the URL needs user:password@ before the host")

    @pytest.mark.parametrize("who", ["", "default", "bob"])
    async def test_a_wrong_password_is_refused_for_good_and_never_shown(self, locked_up: int, who: str) -> None:
        error = await refusal(f"redis://{who}:hocus%2Fpocus@127.0.0.1:{locked_up}/0")
        assert not isinstance(error, StoreUnavailable)
        assert f"redis://{who}:***@127.0.0.1:{locked_up}/0 refused us: WRONGPASS" in str(error)
        while error is not None:
            assert "pocus" not in repr(error)
            error = error.__cause__  # type: ignore[assignment]

    async def test_a_password_for_a_server_without_one_is_refused_for_good(self, redis: Redis) -> None:
        error = await refusal(redis.url().replace("//", "//:secret@"))
        assert not isinstance(error, StoreUnavailable)
        assert "refused us: ERR AUTH" in str(error)


# users


class Ada:
    """A user of a server."""

    def __init__(self, *servers: Redis) -> None:
        self._servers = servers

    def may(self, *rules: str) -> None:
        for server in self._servers:
            server.run("ACL", "SETUSER", "ada", "reset", "on", ">secret", *rules)

    def may_not(self, *rules: str) -> None:
        for server in self._servers:
            server.run("ACL", "SETUSER", "ada", *rules)

    def leave(self) -> None:
        for server in self._servers:
            server.run("ACL", "DELUSER", "ada")


class TestUser:
    @pytest.fixture
    def ada(self, redis: Redis) -> Iterator[Ada]:
        ada = Ada(redis)
        ada.may(*RULE)
        self.server, self.url = redis, redis.fresh().replace("//", "//ada:secret@")
        try:
            yield ada
        finally:
            ada.leave()

    @pytest.mark.usefixtures("ada")
    async def test_the_documented_acl_rule_is_enough(self) -> None:
        await whole_way(self.url)
        async with opened(self.url) as store:
            await put(store, new_job())
            self.server.run("SCRIPT", "FLUSH")
            await put(store, new_job())

    async def test_the_documented_acl_rule_is_enough_in_a_cluster(self, redis_cluster: RedisCluster) -> None:
        ada = Ada(*redis_cluster.nodes)
        ada.may(*IN_A_CLUSTER)
        try:
            await whole_way(redis_cluster.fresh().replace("//", "//ada:secret@"))
        finally:
            ada.leave()

    @pytest.mark.usefixtures("ada")
    async def test_the_documented_acl_rule_allows_one_prefix_only(self) -> None:
        error = await refusal(self.url.replace("fresh", "fresher"))
        assert "refused us: NOPERM" in str(error)

    @pytest.mark.parametrize("lacking", ["hset", "zadd", "del", "publish", "evalsha", "eval", "script|load", "time",
                                         "info", "client|setname", "multi", "exec", "discard"])  # fmt: skip
    async def test_a_missing_permission_is_named_before_anything_is_written(self, ada: Ada, lacking: str) -> None:
        ada.may_not(f"-{lacking}")
        error = await refusal(self.url)
        assert not isinstance(error, StoreUnavailable)
        assert re.search(rf"refused us: .*NOPERM .*'{re.escape(lacking)}'.*; its ACL has to allow it", str(error))
        assert self.server.run("KEYS", "{fresh}*") == []

    @pytest.mark.parametrize(("lacking", "named"), [("~{fresh}*", "key"), ("&{fresh}*", "channel")])
    async def test_missing_key_and_channel_permissions_are_named(self, ada: Ada, lacking: str, named: str) -> None:
        ada.may(*(word for word in RULE if word != lacking))
        error = await refusal(self.url)
        assert re.search(rf"refused us: NOPERM .*{named}", str(error))
        assert self.server.run("KEYS", "{fresh}*") == []

    async def test_a_user_without_subscribe_polls(self, ada: Ada) -> None:
        ada.may_not("-subscribe")
        async with opened(self.url) as store, asyncio.timeout(20):
            await put(store, new_job())
            (found,) = [finding for finding in await store.diagnose() if finding.about == "listener"]
            assert (found.verdict, store.listening) == ("warn", "failed")
            assert re.search("NOPERM .*subscribe.*: jobs wait for the next poll", found.text)

    async def test_a_revoked_permission_is_a_store_error(self, ada: Ada) -> None:
        async with opened(self.url) as store:
            ada.may_not("-hset")
            ada.may_not("-hsetnx")
            with pytest.raises(StoreError, match=r"refused us: .*; its ACL has to allow it") as refused:
                await put(store, new_job())
            assert not isinstance(refused.value, StoreUnavailable)

    async def test_a_full_server_is_not_reported_as_a_missing_permission(self, ada: Ada) -> None:
        self.server.run("CONFIG", "SET", "maxmemory", "10kb")
        try:
            async with opened(self.url) as store:
                assert await store.time()
        finally:
            self.server.run("CONFIG", "SET", "maxmemory", "0")

    async def test_a_user_without_a_password_logs_in_as_itself(self, ada: Ada) -> None:
        url = self.url.replace("ada:secret@", "ada@")
        assert "refused us: WRONGPASS" in str(await refusal(url))
        ada.may_not("nopass")
        async with opened(url):
            assert b"name=mainspring" in (said := self.server.run("CLIENT", "LIST"))
            assert b"user=ada" in said

    def test_every_command_of_the_store_is_checked_by_acl(self) -> None:
        folder = files("mainspring.stores.redis")
        texts = [path.read_text() for path in folder.iterdir() if path.name.endswith((".lua", ".py"))]
        data = re.compile(r"""["']((?:[HSZLR][A-Z]{3,}|DEL|EXISTS|EXPIRE|PUBLISH|TIME))["']""")
        said = {word for text in texts for word in data.findall(text)}
        known = {str(name) for name, *_ in needed_commands("base")} | NO_DATA
        assert said - known == set()
        assert len(said) > 30


# Words that look like commands of data and are not, or that are checked elsewhere.
NO_DATA = {
    "TIME",
    "LOAD",
    "SCRIPT",
    "SELECT",
    "SENTINEL",
    "SETNAME",
    "SLOTS",
    "SUBSCRIBE",
    "LIMIT",
    "LOADING",
    "READONLY",
}


@pytest.mark.slow
class TestContractOfAUser(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> Iterator[None]:
        ada = Ada(redis)
        ada.may(*RULE)
        self.url = redis.fresh().replace("//", "//ada:secret@")
        yield
        ada.leave()

    def make_store(self) -> Store:
        return open_store(self.url)


# places


class TestPlaces:
    async def test_two_databases_of_one_server_are_separate_stores(self, redis: Redis) -> None:
        zero = redis.fresh()
        one = zero.replace("/0?", "/1?")
        async with opened(zero) as left, opened(one) as right:
            (job_id,) = await put(left, new_job(unique_key="key"))
            assert await all_jobs(right) == []
            assert await put(right, new_job(unique_key="key")) != [job_id]
            await act(right, Action.DELETE, *(job.id for job in await all_jobs(right)))
            assert [job.id for job in await all_jobs(left)] == [job_id]

    async def test_a_missing_database_is_a_store_error(self, redis: Redis) -> None:
        error = await refusal(redis.url().replace("/0?", "/99?"))
        assert not isinstance(error, StoreUnavailable)
        assert "DB index is out of range" in str(error)

    async def test_every_store_call_works_over_a_unix_socket(self, tmp_path: Path) -> None:
        path = tmp_path / "redis.sock"
        server = Redis(unixsocket=str(path))
        try:
            await whole_way(f"redis+unix://{path}?prefix=fresh")
            await whole_way(f"redis+unix://{path}?prefix=fresh&db=3")
        finally:
            server.close()

    async def test_a_missing_socket_is_unavailable(self, tmp_path: Path) -> None:
        error = await refusal(f"redis+unix://{tmp_path}/nobody.sock")
        assert isinstance(error, StoreUnavailable)
        assert "No such file" in str(error)


# first words


class TestFirstWords:
    async def test_a_server_with_too_many_clients_is_unavailable(self) -> None:
        server = Redis(maxclients="1")
        try:
            error = await refusal(server.url().replace("/0?", "/1?"))  # two questions, one answer
        finally:
            server.close()
        assert isinstance(error, StoreUnavailable)
        assert "cannot do that now: ERR max number of clients reached" in str(error)

    async def test_the_error_of_protected_mode_is_shown(self) -> None:
        error = await refusal_of(b"-DENIED Redis is running in protected mode\r\n")
        assert not isinstance(error, StoreUnavailable)
        assert "refused us: DENIED Redis is running in protected mode" in str(error)

    async def test_a_connection_closed_without_a_reply_suggests_rediss(self) -> None:
        error = await refusal_of(b"\x15\x03\x01\x00\x02\x02\x46")
        assert "(if it speaks TLS, use rediss://)" in str(error)

    async def test_a_silent_server_is_unavailable_after_the_connect_timeout(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.1)
        error = await refusal_of(b"", stays=True)
        assert isinstance(error, StoreUnavailable)
        assert "no answer in time; try again" in str(error)


async def refusal_of(words: bytes, *, stays: bool = False) -> StoreError:
    """Returns the error for a server that sends this to every client, and closes the connection."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        if stays:
            await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        return await refusal(f"redis://:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
