"""A Redis server: one shared connection that is reopened when it is lost; its errors become StoreErrors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from ssl import SSLCertVerificationError

from hiredis import ReplyError

from ...errors import ShuttingDown, StoreError, StoreUnavailable
from ..package_file import read_package_file
from .connection import Arg, ConnectionLost, RedisConnection, Reply, connect, pack
from .url import ConnectTarget

# Errors that pass: the server is full, loading, a replica, busy with a script, or in a failover.
TRANSIENT_ERRORS = (
    "LOADING", "OOM", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS",
    "ERR max number of clients",
)  # fmt: skip
AUTH_ERRORS = ("NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "ERR AUTH", "ERR Client sent AUTH", "ERR invalid password")
# Errors of a script or transaction that ran a command our user is not allowed; older servers do not name the command.
ACL_ERRORS = ("NOPERM", "ACL failure in script", "The user executing the script can't")
# By OpenSSL's verify code: the certificate is of another host, of another address, or has expired.
REMEDIES = {62: "use a host that it names", 64: "use an address that it names", 10: "the server needs a new one"}
# What claim.lua calls of claim_limited.lua and turns.lua.
CLAIM_LIMITED = [
    "move_due",
    "forget_idle",
    "end_rates",
    "with_limited",
    "lock_of_limit",
    "next_later",
    "next_rate",
    "has_room",
    "opens_at",
    "placed",
    "write_limited",
    "forget_groups",
]


def _read_lua(name: str) -> str:
    return read_package_file(f"redis/{name}.lua")


def _on_demand(name: str, lua: str, functions: Iterable[str]) -> str:
    """A function that returns these functions of the text, which it makes at its first call.

    Else each run of a script makes all of its functions.
    """
    table = ", ".join(f"{one} = {one}" for one in functions)
    made = f"if made then return made end\n{lua}\nmade = {{ {table} }}\nreturn made\n"
    return f"local made\nlocal function {name}()\n{made}end\n"


SCRIPTS = {name: _read_lua(name) for name in ("due", "page", "names", "tidy", "publish", "news", "read", "among")}
SCRIPTS |= {"enqueue_one": _read_lua("heads") + _read_lua("enqueue_one")}
SCRIPTS |= {name: _read_lua("locks") + _read_lua(name) for name in ("collect", "keep")}
_COMMON = _read_lua("locks") + _read_lua("heads") + _read_lua("turns")
_ON_DEMAND = _on_demand("limit_functions", _read_lua("turns") + _read_lua("claim_limited"), CLAIM_LIMITED)
SCRIPTS |= {
    "rearm": _read_lua("turns") + _read_lua("rearm"),
    "enqueue": _COMMON + _read_lua("enqueue"),
    "claim": _read_lua("locks") + _read_lua("heads") + _ON_DEMAND + _read_lua("claim"),
    "forget": _COMMON + _read_lua("claim_limited") + _read_lua("forget"),
}
SCRIPTS |= {
    name: _COMMON + _read_lua("prelude") + _read_lua(name)
    for name in ("finish", "commit", "write", "prepare", "lock", "resolve", "add_items")
}


class Moved(StoreUnavailable):
    """The keys have moved to another server of the cluster."""


class RedisServer:
    """One server, used from one event loop."""

    def __init__(self, target: ConnectTarget, shown: str) -> None:
        self._target, self._shown = target, shown
        self._connection: RedisConnection | None = None
        self._connecting = asyncio.Lock()
        self._sha_of: dict[str, str] = {}
        self._closed = False

    async def call(self, *args: Arg) -> Reply:
        """The reply to one command."""
        (reply,) = await self._request(pack(args), 1)
        return reply

    async def multi(self, commands: Sequence[Sequence[Arg]]) -> list[Reply]:
        """The replies to several commands, run as one transaction (MULTI) in one round trip."""
        packed = [pack(tuple(command)) for command in (("MULTI",), *commands, ("EXEC",))]
        *_, replies = await self._request(b"".join(packed), len(packed))
        return self._checked(replies)

    async def check_allowed(self, commands: Sequence[Sequence[Arg]]) -> None:
        """Raises StoreError if our user may not run one of these commands. None of them is run."""
        packed = [pack(tuple(command)) for command in (("MULTI",), *commands, ("DISCARD",))]
        await self._request(b"".join(packed), len(packed), ("NOPERM",))

    async def script(self, name: str, base: str, args: Sequence[Arg]) -> Reply:
        """The reply of one of our scripts."""
        if (sha := self._sha_of.get(name)) is None:
            sha = self._sha_of[name] = (await self.call("SCRIPT", "LOAD", SCRIPTS[name])).decode()
        try:
            (reply,) = await self._request(pack(("EVALSHA", sha, 1, base, *args)), 1)
            return reply
        except StoreError as error:
            if not str(error.__cause__).startswith("NOSCRIPT"):
                raise
        return await self.call("EVAL", SCRIPTS[name], 1, base, *args)

    async def scripts(self, name: str, base: str, lists: Sequence[Sequence[Arg]]) -> list[Reply]:
        """The replies of one of our scripts, called with each of these argument lists in one transaction."""
        sha = self._sha_of.get(name) or (await self.call("SCRIPT", "LOAD", SCRIPTS[name])).decode()
        self._sha_of[name] = sha
        # The first call is an EVAL: a server that was restarted does not know the script until then.
        first: tuple[Arg, ...] = ("EVAL", SCRIPTS[name])
        commands = [(*(("EVALSHA", sha) if n else first), 1, base, *args) for n, args in enumerate(lists)]
        return await self.multi(commands)

    async def listen(self, on_message: Callable[[Reply], None]) -> RedisConnection:
        """A new connection for SUBSCRIBE; every reply on it is passed to `on_message`."""
        try:
            return await connect(self._target, on_message)
        except (ReplyError, ConnectionLost, OSError, TimeoutError) as error:
            raise store_error_of(error, self._shown) from error

    async def _request(self, packed: bytes, count: int, prefixes: tuple[str, ...] = ("",)) -> list[Reply]:
        try:
            connection = self._connection
            if connection is None or connection.lost.done():
                connection = await self._connect()
            return self._checked(await connection.send(packed, count), prefixes)
        except (ConnectionLost, OSError, TimeoutError, ReplyError) as error:
            raise store_error_of(error, self._shown) from error

    def _checked(self, replies: list[Reply], prefixes: tuple[str, ...] = ("",)) -> list[Reply]:
        for reply in replies:
            if isinstance(reply, ReplyError) and str(reply).startswith(prefixes):
                raise store_error_of(reply, self._shown) from reply
        return replies

    async def _connect(self) -> RedisConnection:
        async with self._connecting:
            if self._closed:
                raise ShuttingDown(f"the store {self._shown} is closed")
            if self._connection is None or self._connection.lost.done():
                self._connection = await connect(self._target)
            return self._connection

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            await self._connection.lost

    def forget(self) -> None:
        """Drops the connection without closing it: its event loop has ended, or this is a forked child."""
        self._closed = True


def store_error_of(error: Exception, shown: str) -> StoreError:
    """The StoreError for an error of the server or the connection: StoreUnavailable if it may pass."""
    text = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    if any(part in text for part in ACL_ERRORS):
        return StoreError(f"{shown} refused us: {text}; its ACL has to allow it (ACL LOG shows the command)")
    if text.startswith("NOAUTH"):
        return StoreError(f"{shown} refused us: {text.rstrip('.')}; the URL needs user:password@ before the host")
    if text.startswith(AUTH_ERRORS) or (isinstance(error, ConnectionLost) and " alert " in text):
        return StoreError(f"{shown} refused us: {text}")
    if isinstance(error, SSLCertVerificationError):
        remedy = REMEDIES.get(error.verify_code, "name its authority with ?ca=file")
        return StoreError(f"{shown} has an untrusted certificate: {error.verify_message.rstrip('.')}; {remedy}")
    if not isinstance(error, ReplyError):
        return StoreUnavailable(f"cannot reach {shown}: {text}; try again")
    if text.startswith(("MOVED", "ASK")):
        return Moved(f"{shown} moves its keys: {text}; try again")
    # Before Redis 7 the error of a command in a script is quoted in the middle of the script's error.
    if text.startswith(TRANSIENT_ERRORS) or any(f": -{word} " in text for word in TRANSIENT_ERRORS):
        return StoreUnavailable(f"{shown} cannot do that now: {text}; try again")
    return StoreError(f"{shown}: {text}")
