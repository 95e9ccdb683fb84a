"""The Redis server that the tests start: isolated, can be emptied, killed and restarted, and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import ConnectionError as NotThere

import servers
from servers import Redis, redis_program


@pytest.fixture
def durable() -> Iterator[Redis]:
    server = Redis(appendonly=True, appendfsync="always")
    try:
        yield server
    finally:
        server.close()


def test_fresh_empties_one_prefix_and_no_other(redis: Redis) -> None:
    redis.run("MSET", "{left}:job:1", 1, "{left}:job:2", 2, "{right}:job:1", 3, "{left}er:job", 4)
    try:
        assert redis.fresh("left") == redis.url("left") == f"redis://127.0.0.1:{redis.port}/0?prefix=left"
        assert redis.run("MGET", "{left}:job:1", "{left}:job:2", "{right}:job:1", "{left}er:job") == [
            None, None, b"3", b"4",
        ]  # fmt: skip
    finally:
        redis.run("DEL", "{right}:job:1", "{left}er:job")


def test_redis_persistence_is_off_by_default(redis: Redis) -> None:
    assert redis.run("CONFIG", "GET", "appendonly") in ([b"appendonly", b"no"], {b"appendonly": b"no"})
    assert redis.run("CONFIG", "GET", "save") in ([b"save", b""], {b"save": b""})


def test_a_server_that_was_killed_starts_again_on_its_data(durable: Redis) -> None:
    durable.run("SET", "key", "value")
    durable.crash()
    with pytest.raises(NotThere):
        durable.run("PING")
    durable.start()
    assert durable.run("GET", "key") == b"value"


def test_a_server_that_was_ended_starts_again_with_further_settings(durable: Redis) -> None:
    durable.run("SET", "key", "value")
    durable.end()
    durable.start(maxmemory_policy="allkeys-lru")
    assert durable.run("GET", "key") == b"value"
    assert "allkeys-lru" in str(durable.run("CONFIG", "GET", "maxmemory-policy"))


def test_closing_a_server_removes_its_process_and_folder() -> None:
    server = Redis()
    folder, pid = server.log.parent, server.process.pid
    server.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)did not start.*no-such-policy"):
        Redis(maxmemory_policy="no-such-policy")


def test_the_redis_program_can_be_chosen_by_path_or_fetched_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "REDIS_CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"there is no redis-server on this machine: scripts/redis gets one"):
        redis_program(None)
    for name, release in (("redis-server", "redis-6.2"), ("valkey-server", "valkey-9")):
        (tmp_path / release / "bin").mkdir(parents=True)
        (tmp_path / release / "bin" / name).touch()
    assert redis_program("redis-6.2") == redis_program(f"{tmp_path}/redis-6.2/bin/redis-server")
    assert redis_program("valkey-9") == redis_program(None) == f"{tmp_path}/valkey-9/bin/valkey-server"
    with pytest.raises(RuntimeError, match="there is no valkey-8 on this machine"):
        redis_program("valkey-8")


def test_a_redis_server_in_the_path_is_chosen_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "redis-server"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis_program(None) == str(program)
