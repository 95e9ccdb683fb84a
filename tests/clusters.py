"""Redis servers that know of each other: a cluster, and a master with its copy and its sentinels."""

from __future__ import annotations

import random
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import redis

from servers import CHOSEN_REDIS, FIRST_WORD, Redis

SLOTS = 16384
# The offset of the bus port from the port of a node, in every release.
BUS = 10000
# Below the ephemeral ports of the machine, so that no other process takes one in between.
PORTS = range(10240, 22000)


def eventually(condition: Callable[[], Any], what: str, seconds: float = FIRST_WORD) -> Any:
    """Returns the condition's first true value; a server that does not answer yet is asked again."""
    end, said = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
        except (redis.RedisError, OSError) as error:
            said = f" ({error})"
        time.sleep(0.02)
    raise RuntimeError(f"not within {seconds:g} s: {what}{said}")


def free_pair() -> int:
    """A port that is free, as is that of its bus."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with suppress(OSError), ExitStack() as held:
            for number in (port, port + BUS):
                held.enter_context(socket.create_server(("127.0.0.1", number)))
            return port
    raise RuntimeError("no free pair of ports on this machine")


def role(server: Redis) -> str:
    """Returns master or slave; empty if the server is away."""
    try:
        said = server.run("ROLE")
    except (redis.RedisError, OSError):
        return ""
    return str(said[0], "ascii")


def follows(server: Redis, master: Redis) -> bool:
    """Whether it is a replica of the master and has all its data; if it is not a replica yet, it is
    made one."""
    said = server.run("ROLE")
    if said[0] != b"slave" or said[2] != master.port:
        server.run("REPLICAOF", "127.0.0.1", master.port)
        return False
    # It receives new writes only after it has acknowledged the earlier ones, up to a second later.
    return in_sync(server) and bool(master.run("SET", "following", "1") and master.run("WAIT", 1, 100))


def in_sync(server: Redis) -> bool:
    said = server.run("ROLE")
    return bool(said[0] == b"slave" and said[3] == b"connected")


def cut_off(copy: Redis, master: Redis) -> None:
    """Cuts the replica off from its master: it uses a wrong password."""
    copy.run("CONFIG", "SET", "masterauth", "wrong")
    master.run("CLIENT", "KILL", "TYPE", "replica")
    eventually(lambda: not in_sync(copy), "the copy is cut off")


class RedisCluster:
    """A cluster of masters with replicas; the slots are divided into equal ranges."""

    def __init__(self, masters: int = 3, replicas: int = 0, chosen: str | None = CHOSEN_REDIS, **settings: Any) -> None:
        self._settings = {
            "cluster_enabled": "yes", "cluster_node_timeout": "1000", "repl_diskless_sync_delay": "0", **settings,
        }  # fmt: skip
        self.nodes: list[Redis] = []
        try:
            for _ in range(masters * (1 + replicas)):
                self.nodes.append(Redis(chosen, port=free_pair(), **self._settings))
            self._join(masters)
        except BaseException:
            self.close()
            raise

    def _join(self, masters: int) -> None:
        for number, node in enumerate(self.nodes):
            node.run("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < masters:
                low, high = (SLOTS * n // masters for n in (number, number + 1))
                node.run("CLUSTER", "ADDSLOTS", *range(low, high))
            for other in self.nodes[:number]:
                node.run("CLUSTER", "MEET", "127.0.0.1", other.port)
        for node in self.nodes:
            eventually(lambda node=node: self._knows_all(node), f"{node.port} knows the cluster")
        for number, node in enumerate(self.nodes[masters:]):
            node.run("CLUSTER", "REPLICATE", self.nodes[number % masters].run("CLUSTER", "MYID"))
            eventually(lambda node=node: in_sync(node), f"{node.port} is a copy")
        self.wait()

    def _knows_all(self, node: Redis) -> bool:
        said = node.run("CLUSTER", "INFO")
        return f"cluster_known_nodes:{len(self.nodes)}\r".encode() in said and b"slots_assigned:16384\r" in said

    def wait(self) -> None:
        """Waits until every running node reports that the cluster is healthy."""
        for node in self.nodes:
            if node.process.poll() is None:
                eventually(lambda node=node: b"cluster_state:ok" in node.run("CLUSTER", "INFO"), f"{node.port} is well")

    def part(self, master: Redis) -> Redis:
        """Returns its replica, which receives no more writes of the master."""
        copy = next(node for node in self.nodes if role(node) == "slave" and node.run("ROLE")[2] == master.port)
        cut_off(copy, master)
        return copy

    @property
    def masters(self) -> list[Redis]:
        """The nodes that have slots now."""
        return [node for node in self.nodes if role(node) == "master"]

    def url(self, prefix: str = "mainspring") -> str:
        return f"redis+cluster://{addresses(self.nodes)}/?prefix={prefix}"

    def fresh(self, prefix: str = "fresh") -> str:
        """The URL of an empty store; stores whose prefix does not begin with this one are left alone."""
        for node in self.masters:
            tags: dict[bytes, list[bytes]] = {}
            for key in node.run("KEYS", f"{{{prefix}*"):  # they are of several slots
                tags.setdefault(key.partition(b"}")[0], []).append(key)
            for keys in tags.values():
                node.run("UNLINK", *keys)
        return self.url(prefix)

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class Sentinel(Redis):
    """A sentinel: it watches a master, and names the present one."""

    def __init__(self, chosen: str | None, port: int, lines: list[str]) -> None:
        self._lines = lines
        super().__init__(chosen, port=port)

    def _command(self, settings: dict[str, str]) -> list[str]:
        said = self._folder / "sentinel.conf"  # it stores its state there
        if not said.exists():
            told = [f"port {self.port}", "bind 127.0.0.1", f"dir {self._folder}", *self._lines]
            said.write_text("\n".join(told) + "\n")
        return [self._program, str(said), "--sentinel"]

    def named(self) -> int:
        """The port of the server that it considers the master."""
        return int(self.run("SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisWithSentinel.NAME)[1])


class RedisWithSentinel:
    """A master, its replica, and three sentinels, which agree within seconds that the master is gone."""

    NAME = "main"

    def __init__(self, chosen: str | None = CHOSEN_REDIS, **settings: Any) -> None:
        self.servers: list[Redis] = []
        self.sentinels: list[Sentinel] = []
        try:
            self.servers += (Redis(chosen, repl_diskless_sync_delay="0", **settings) for _ in range(2))
            master, copy = self.servers
            eventually(lambda: follows(copy, master), f"{copy.port} is a copy")
            self._watch(chosen)
        except BaseException:
            self.close()
            raise

    def _watch(self, chosen: str | None) -> None:
        """Introduces the sentinels to each other: to discover each other takes seconds."""
        (master, copy), ports = self.servers, [free_pair() for _ in range(3)]
        ids = {port: secrets.token_hex(20) for port in ports}
        for me in ports:
            lines = [f"sentinel myid {ids[me]}", f"sentinel monitor {self.NAME} 127.0.0.1 {master.port} 2",
                     f"sentinel down-after-milliseconds {self.NAME} 2000",
                     f"sentinel failover-timeout {self.NAME} 1000",
                     f"sentinel known-replica {self.NAME} 127.0.0.1 {copy.port}"]  # fmt: skip
            lines += [
                f"sentinel known-sentinel {self.NAME} 127.0.0.1 {port} {ids[port]}" for port in ports if port != me
            ]
            self.sentinels.append(Sentinel(chosen, me, lines))
        eventually(self._agree, "the sentinels can vote")

    def _agree(self) -> bool:
        said = [sentinel.run("SENTINEL", "CKQUORUM", self.NAME) for sentinel in self.sentinels]
        return all(answer.startswith(b"OK 3") for answer in said) and self.master() is not None

    def master(self) -> Redis | None:
        """The master that all sentinels name and that confirms it; None while they do not agree."""
        named = {sentinel.named() for sentinel in self.sentinels}
        found = [server for server in self.servers if named == {server.port} and role(server) == "master"]
        return found[0] if found else None

    def copy(self) -> Redis:
        """The other one."""
        return next(server for server in self.servers if server is not self.master())

    def settle(self) -> None:
        """Waits until the replica has all writes of the master."""
        eventually(self._settled, "the copy has everything")

    def _settled(self) -> bool:
        """Asks the present master: on a busy machine sentinels may elect another by themselves."""
        master = self.master()
        return master is not None and bool(master.run("SET", "{settled}", 1) and master.run("WAIT", 1, 1000))

    def part(self) -> None:
        """From now on the replica receives no writes of the master; it will be the next master."""
        cut_off(self.copy(), eventually(self.master, "the sentinels agree"))

    def fail_over(self, *, crash: bool = False, demote: bool = True) -> Redis:
        """Returns the new master, once all sentinels name it. A master that did not crash becomes its replica, or stays
        as it is until sentinels change that."""
        old = eventually(self.master, "the sentinels agree")
        if crash:
            old.crash()
        else:
            eventually(lambda: self._asked(old), "a sentinel has replaced the master")
        new = self.elected(old)
        if not crash and demote:
            self.rejoin(old)
        return new

    def elected(self, old: Redis) -> Redis:
        """The new master, once all sentinels name another than the old one. On a machine that is so busy that their
        clocks seem to jump they do nothing for half a minute."""
        new: Redis = eventually(lambda: (now := self.master()) is not old and now, "there is another master", 60)
        return new

    def _asked(self, old: Redis) -> bool:
        """Sentinels refuse during an earlier failover, or while the replica is not known to be healthy; they give up
        after a second."""
        if self.sentinels[0].named() == old.port:
            self.sentinels[0].run("SENTINEL", "FAILOVER", self.NAME)
        return self.sentinels[0].named() != old.port

    def rejoin(self, server: Redis) -> None:
        """Makes it a replica of the master, as sentinels do by themselves after eight seconds."""
        if server.process.poll() is not None:
            server.start()
        server.run("CONFIG", "SET", "masterauth", "")
        eventually(lambda: self._joined(server), f"{server.port} is a copy")
        for kind in ("normal", "pubsub"):
            server.run("CLIENT", "KILL", "TYPE", kind)

    def _joined(self, server: Redis) -> bool:
        """Sentinels may have elected another master meanwhile, or this one."""
        master = self.master()
        return master is not None and (master is server or follows(server, master))

    def url(self, prefix: str = "mainspring") -> str:
        return f"redis+sentinel://{addresses(self.sentinels)}/{self.NAME}/0?prefix={prefix}"

    def fresh(self, prefix: str = "fresh") -> str:
        eventually(self.master, "the sentinels agree").fresh(prefix)
        return self.url(prefix)

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.close()


def addresses(servers: list[Any]) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers)
