"""app.keys: API keys, made, seen, revoked and recognised."""

from __future__ import annotations

import asyncio
from builtins import list as List
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..actor import current_actor
from ..clock import EPOCH, is_instant
from ..config import read_span
from ..errors import ApiKeyExists, ApiKeyNotFound, BadInput, StoreError
from ..records.api_key import (
    KEY_PREFIX,
    ApiKey,
    Role,
    StoredKey,
    checked_key_name,
    checked_role,
    checked_scopes,
    hash_secret,
    key_id_of,
    new_key_id,
    new_secret,
)
from ..records.document import Document
from ..records.job import UnreadableRecord
from ..records.unreadable import decoded_documents
from ..span import Span
from ..store import Store
from ..suggest import did_you_mean
from ..survived_errors import SurvivedErrors
from .audit_log import annotate, audited
from .ground import Ground

_unnoted = SurvivedErrors("key_use", "it is not recorded that an API key was used")
# So long, in seconds, a process may go by what it knows of keys: a revoked one opens nothing after it.
HOLDS = 5.0
# A key that is not known may be new: so soon the store is asked again.
AGAIN = 1.0
# How often a use is written down, how long that may take, and how long it is remembered.
USED = timedelta(minutes=10)
_PATIENCE = 1.0
_REMEMBERED = timedelta(days=400)
# A key is read with all the others, so there may not be any number of them.
MOST = 1000
_USE = "key_use"


class _Text(Struct, frozen=True, kw_only=True):
    """A key's document; its name and its end are the document's own."""

    id: str
    hash: str
    role: Role
    scopes: tuple[str, ...] | None
    created_at: datetime
    created_by: str | None


class _Ring(Struct, frozen=True):
    """The keys by id, as they were at an instant of the monotonic clock."""

    keys: dict[str, StoredKey]
    at: float


class Keys:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._ring: _Ring | None = None
        self._reading: asyncio.Task[_Ring] | None = None
        self._noted: dict[str, datetime] = {}

    @audited("keys.create")
    async def create(
        self,
        name: str,
        role: Role = "viewer",
        scopes: Collection[str] | None = None,
        expires: Span | datetime | None = None,
    ) -> str:
        """The secret of a new key: it is told now and never again. `expires`: when, or how long from now."""
        key = self.draft(name, role, scopes, expires)
        secret, store = new_secret(KEY_PREFIX, key.id), await self._ground.opened()
        if len(await store.documents("key", now=key.created_at, limit=MOST)) == MOST:
            raise BadInput(f"there are {MOST} API keys, and no room for more: revoke what nobody uses")
        text = _Text(
            id=key.id, hash=hash_secret(secret), role=key.role, scopes=key.scopes, created_at=key.created_at,
            created_by=key.created_by,
        )  # fmt: skip
        document = Document(
            kind="key", name=key.name, text=msgspec.json.encode(text).decode(), expires_at=key.expires_at
        )
        (stands,) = await store.put_documents([document], now=key.created_at)
        if not stands:
            raise ApiKeyExists(f"there is an API key {name!r} already; revoke it, or give this one another name")
        self.forget()
        annotate(before=None, after=key)
        return secret

    def draft(self, name: str, role: Role, scopes: Collection[str] | None, expires: Span | datetime | None) -> ApiKey:
        """The key that `create` would make of these; refuses what it would."""
        now = self._ground.clock.now()
        return ApiKey(
            id=new_key_id(), name=checked_key_name(name), role=checked_role(role), scopes=checked_scopes(scopes),
            created_at=now, created_by=current_actor(), expires_at=_end(expires, now),
        )  # fmt: skip

    async def list(self) -> Sequence[ApiKey]:
        """Those that have not expired, by name."""
        store = await self._ground.opened()
        found = await self._read(store)
        uses = await store.documents(_USE, [kept.key.id for kept in found], now=self._ground.clock.now(), limit=MOST)
        used = dict(decoded_documents(uses, lambda use: (use.name, _used_at(use)))[0])
        return [replace(kept.key, last_used_at=used.get(kept.key.id)) for kept in found]

    async def revoke(self, key: str) -> ApiKey:
        """By name or id. It opens nothing any more, nor do sessions opened with it; elsewhere within HOLDS seconds."""
        found, broken = await self._decoded(await self._ground.opened())
        known = [kept.key for kept in found] + [undecoded_key(one.name) for one in broken]
        named = [one for one in known if one.name == key] or [one for one in known if one.id == key]
        if not named or not await self._drop(named[0]):
            raise ApiKeyNotFound(f"there is no API key {key!r:.80}; {did_you_mean(key, [one.name for one in known])}")
        return named[0]

    # Not `revoke` itself: what it was given may be a secret by mistake, and belongs into no trail.
    @audited("keys.revoke")
    async def _drop(self, key: ApiKey) -> bool:
        store = await self._ground.opened()
        if not await store.drop_documents("key", [key.name]):
            return False
        self.forget()
        await store.drop_documents(_USE, [key.id])
        annotate(before=key if key.id else None, after=None)
        return True

    async def find(self, secret: str) -> ApiKey | None:
        """The key that has this secret, if there is one and it has not expired.

        As a rule the store is not asked: what it said up to HOLDS seconds ago counts.
        """
        kept = await self._kept(key_id_of(secret))
        if kept is None or not kept.accepts(secret, now := self._ground.clock.now()):
            return None
        if kept.key.id not in self._noted or now - self._noted[kept.key.id] >= USED:
            await self._note(kept.key, now)
        return kept.key

    async def by_id(self, id: str) -> ApiKey | None:
        """The key of that id, if it still counts; asks the store as seldom as `find`."""
        kept = await self._kept(id)
        gone = kept is None or (kept.key.expires_at is not None and kept.key.expires_at <= self._ground.clock.now())
        return None if kept is None or gone else kept.key

    async def unreadable(self) -> Sequence[UnreadableRecord]:
        """Those that this release cannot decode: they open nothing."""
        return (await self._decoded(await self._ground.opened()))[1]

    async def any(self) -> bool:
        """Whether there is one at all."""
        return bool(await (await self._ground.opened()).documents("key", now=self._ground.clock.now(), limit=1))

    def forget(self) -> None:
        """What this process knows of keys: the store is asked next time."""
        self._ring = self._reading = None

    async def _kept(self, id: str | None) -> StoredKey | None:
        if id is None:
            return None
        ring = self._ring
        age = self._ground.clock.monotonic() - ring.at if ring else HOLDS
        if ring is None or age >= HOLDS or (id not in ring.keys and age >= AGAIN):
            ring = await self._asked()
        return ring.keys.get(id)

    async def _asked(self) -> _Ring:
        """All who want to know at a time share one reading; it goes on if whoever began it gives up."""
        reading = self._reading
        if reading is None or reading.done() or reading.get_loop() is not asyncio.get_running_loop():
            self._reading = reading = asyncio.create_task(self._fresh())
        return await asyncio.shield(reading)

    async def _fresh(self) -> _Ring:
        at = self._ground.clock.monotonic()
        ring = _Ring({kept.key.id: kept for kept in await self._read(await self._ground.opened())}, at)
        # Unless something has changed meanwhile.
        if self._reading is asyncio.current_task():
            self._ring = ring
            self._noted = {id: at for id, at in self._noted.items() if id in ring.keys}
        return ring

    async def _read(self, store: Store) -> Sequence[StoredKey]:
        return (await self._decoded(store))[0]

    async def _decoded(self, store: Store) -> tuple[List[StoredKey], List[UnreadableRecord]]:
        return decoded_documents(await store.documents("key", now=self._ground.clock.now(), limit=MOST), _kept)

    async def _note(self, key: ApiKey, now: datetime) -> None:
        """Writes down that it is used, unless somebody has of late. No request fails for it."""
        self._noted[key.id] = now
        with _unnoted.survive(StoreError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                store = await self._ground.opened()
                last = next(iter(await store.documents(_USE, [key.id], now=now, limit=1)), None)
                noted = [] if last is None else decoded_documents([last], _used_at)[0]
                if not noted or now - noted[0] >= USED:
                    use = Document(
                        kind=_USE, name=key.id, text=msgspec.json.encode(now).decode(),
                        revision=last.revision + 1 if last else 1, expires_at=now + _REMEMBERED,
                    )  # fmt: skip
                    await store.put_documents([use], now=now)


def _kept(document: Document) -> StoredKey:
    text = msgspec.json.decode(document.text, type=_Text)
    key = ApiKey(
        id=text.id, name=document.name, role=text.role, scopes=text.scopes, created_at=text.created_at,
        created_by=text.created_by, expires_at=document.expires_at,
    )  # fmt: skip
    return StoredKey(key, text.hash)


def _used_at(use: Document) -> datetime:
    return msgspec.json.decode(use.text, type=datetime)


def undecoded_key(name: str) -> ApiKey:
    """What is known of a key whose document cannot be decoded: it has no role and opens nothing."""
    return ApiKey(id="", name=name, role="viewer", scopes=(), created_at=EPOCH, created_by=None, expires_at=None)


def _end(expires: Span | datetime | None, now: datetime) -> datetime | None:
    if expires is None:
        return None
    end = expires if isinstance(expires, datetime) else now + timedelta(seconds=read_span(expires, "expires"))
    if not is_instant(end) or end <= now:
        raise BadInput(f"a key expires in the future, at an instant with its zone, or after a span; got {expires!r}")
    return end
