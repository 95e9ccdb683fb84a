"""app.keys: API keys, created, listed, revoked and recognised."""

from __future__ import annotations

import asyncio
from builtins import list as List
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

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
from ..records.document import Document, DocumentDrop
from ..records.job import UnreadableRecord
from ..records.unreadable import decoded_documents
from ..span import Span
from ..store import Store
from ..suggest import did_you_mean
from ..survived_errors import SurvivedErrors
from .audit_log import annotate, audited

if TYPE_CHECKING:
    from ..engine import Engine

_use_errors = SurvivedErrors("key_use", "it is not recorded that an API key was used")
# How long a process may use its cached keys: a revoked one opens nothing after that.
KEY_CACHE_SECONDS = 5.0
# An unknown key may be new: the store is asked again after this time.
UNKNOWN_KEY_RETRY_SECONDS = 1.0
# How often the use of a key is recorded.
USE_INTERVAL = timedelta(minutes=10)
_RECORD_USE_SECONDS = 1.0
_USE_RETENTION = timedelta(days=400)
# All keys are read together, so their number is limited.
MAX_API_KEYS = 1000
_USE = "key_use"


class _KeyDocument(Struct, frozen=True, kw_only=True):
    """A key's document; the name and the expiry are the document's own."""

    id: str
    hash: str
    role: Role
    scopes: tuple[str, ...] | None
    created_at: datetime
    created_by: str | None


class _CachedKeys(Struct, frozen=True):
    """All keys by id, as of an instant of the monotonic clock."""

    keys: dict[str, StoredKey]
    at: float


class Keys:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache: _CachedKeys | None = None
        self._reading: asyncio.Task[_CachedKeys] | None = None
        self._recorded_uses: dict[str, datetime] = {}

    @audited("keys.create")
    async def create(
        self,
        name: str,
        role: Role = "viewer",
        scopes: Collection[str] | None = None,
        expires: Span | datetime | None = None,
    ) -> str:
        """Creates a key and returns its secret, which is not shown again. `expires`: an instant, or a span from now."""
        key = self.draft(name, role, scopes, expires)
        secret, store = new_secret(KEY_PREFIX, key.id), await self._engine.connect()
        if len(await store.documents("key", now=key.created_at, limit=MAX_API_KEYS)) == MAX_API_KEYS:
            raise BadInput(f"there are {MAX_API_KEYS} API keys already: revoke those that are not used")
        text = _KeyDocument(
            id=key.id,
            hash=hash_secret(secret),
            role=key.role,
            scopes=key.scopes,
            created_at=key.created_at,
            created_by=key.created_by,
        )
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
        """The key that create() would make. Raises what it would raise."""
        now = self._engine.clock.now()
        return ApiKey(
            id=new_key_id(),
            name=checked_key_name(name),
            role=checked_role(role),
            scopes=checked_scopes(scopes),
            created_at=now,
            created_by=current_actor(),
            expires_at=_expiry(expires, now),
        )

    async def list(self) -> Sequence[ApiKey]:
        """All keys that have not expired, by name."""
        store = await self._engine.connect()
        found = await self._read(store)
        uses = await store.documents(
            _USE, [stored.key.id for stored in found], now=self._engine.clock.now(), limit=MAX_API_KEYS
        )
        used = dict(decoded_documents(uses, lambda use: (use.name, _used_at(use)))[0])
        return [replace(stored.key, last_used_at=used.get(stored.key.id)) for stored in found]

    async def revoke(self, key: str) -> ApiKey:
        """Revokes a key by name or id, and its sessions; other processes notice within KEY_CACHE_SECONDS."""
        found, broken = await self._decoded(await self._engine.connect())
        known = [stored.key for stored in found] + [undecoded_key(one.name) for one in broken]
        named = [one for one in known if one.name == key] or [one for one in known if one.id == key]
        if not named or not await self._drop(named[0]):
            raise ApiKeyNotFound(f"there is no API key {key!r:.80}; {did_you_mean(key, [one.name for one in known])}")
        return named[0]

    # The audited part is not `revoke` itself: its argument may be a secret by mistake, and must not be recorded.
    @audited("keys.revoke")
    async def _drop(self, key: ApiKey) -> bool:
        store, now = await self._engine.connect(), self._engine.clock.now()
        if not (await store.put_documents([DocumentDrop("key", key.name)], now=now))[0]:
            return False
        self.forget()
        await store.put_documents([DocumentDrop(_USE, key.id)], now=now)
        annotate(before=key if key.id else None, after=None)
        return True

    async def find(self, secret: str) -> ApiKey | None:
        """The key with this secret; None if there is none or it has expired.

        As a rule the store is not asked: keys are cached for KEY_CACHE_SECONDS.
        """
        stored = await self._stored(key_id_of(secret))
        if stored is None or not stored.accepts(secret, now := self._engine.clock.now()):
            return None
        if stored.key.id not in self._recorded_uses or now - self._recorded_uses[stored.key.id] >= USE_INTERVAL:
            await self._record_use(stored.key, now)
        return stored.key

    async def by_id(self, id: str) -> ApiKey | None:
        """The key with that id, None if it was revoked or has expired; cached like find()."""
        stored = await self._stored(id)
        if stored is None:
            return None
        expires_at = stored.key.expires_at
        return stored.key if expires_at is None or expires_at > self._engine.clock.now() else None

    async def unreadable(self) -> Sequence[UnreadableRecord]:
        """Keys that this release cannot decode: they open nothing."""
        return (await self._decoded(await self._engine.connect()))[1]

    async def any(self) -> bool:
        """Whether there is any key."""
        return bool(await (await self._engine.connect()).documents("key", now=self._engine.clock.now(), limit=1))

    def forget(self) -> None:
        """Drops the cached keys: the next call asks the store."""
        self._cache = self._reading = None

    async def _stored(self, id: str | None) -> StoredKey | None:
        if id is None:
            return None
        cached = self._cache
        age = self._engine.clock.monotonic() - cached.at if cached else KEY_CACHE_SECONDS
        if cached is None or age >= KEY_CACHE_SECONDS or (id not in cached.keys and age >= UNKNOWN_KEY_RETRY_SECONDS):
            cached = await self._refresh()
        return cached.keys.get(id)

    async def _refresh(self) -> _CachedKeys:
        """Concurrent callers share one read; it continues if the caller that started it is cancelled."""
        reading = self._reading
        if reading is None or reading.done() or reading.get_loop() is not asyncio.get_running_loop():
            self._reading = reading = asyncio.create_task(self._read_all())
        return await asyncio.shield(reading)

    async def _read_all(self) -> _CachedKeys:
        at = self._engine.clock.monotonic()
        cached = _CachedKeys({stored.key.id: stored for stored in await self._read(await self._engine.connect())}, at)
        # Not if forget() was called meanwhile.
        if self._reading is asyncio.current_task():
            self._cache = cached
            self._recorded_uses = {id: at for id, at in self._recorded_uses.items() if id in cached.keys}
        return cached

    async def _read(self, store: Store) -> Sequence[StoredKey]:
        return (await self._decoded(store))[0]

    async def _decoded(self, store: Store) -> tuple[List[StoredKey], List[UnreadableRecord]]:
        return decoded_documents(
            await store.documents("key", now=self._engine.clock.now(), limit=MAX_API_KEYS), _stored
        )

    async def _record_use(self, key: ApiKey, now: datetime) -> None:
        """Records the use of a key, unless it was recorded lately. Never makes a request fail."""
        self._recorded_uses[key.id] = now
        with _use_errors.survive(StoreError, TimeoutError):
            async with asyncio.timeout(_RECORD_USE_SECONDS):
                store = await self._engine.connect()
                last = next(iter(await store.documents(_USE, [key.id], now=now, limit=1)), None)
                recorded = [] if last is None else decoded_documents([last], _used_at)[0]
                if not recorded or now - recorded[0] >= USE_INTERVAL:
                    use = Document(
                        kind=_USE,
                        name=key.id,
                        text=msgspec.json.encode(now).decode(),
                        revision=last.revision + 1 if last else 1,
                        expires_at=now + _USE_RETENTION,
                    )
                    await store.put_documents([use], now=now)


def _stored(document: Document) -> StoredKey:
    text = msgspec.json.decode(document.text, type=_KeyDocument)
    key = ApiKey(
        id=text.id,
        name=document.name,
        role=text.role,
        scopes=text.scopes,
        created_at=text.created_at,
        created_by=text.created_by,
        expires_at=document.expires_at,
    )
    return StoredKey(key, text.hash)


def _used_at(use: Document) -> datetime:
    return msgspec.json.decode(use.text, type=datetime)


def undecoded_key(name: str) -> ApiKey:
    """A placeholder for a key whose document cannot be decoded: it has no role and opens nothing."""
    return ApiKey(id="", name=name, role="viewer", scopes=(), created_at=EPOCH, created_by=None, expires_at=None)


def _expiry(expires: Span | datetime | None, now: datetime) -> datetime | None:
    if expires is None:
        return None
    end = expires if isinstance(expires, datetime) else now + timedelta(seconds=read_span(expires, "expires"))
    if not is_instant(end) or end <= now:
        raise BadInput(f"a key expires in the future, at an instant with its zone, or after a span; got {expires!r}")
    return end
