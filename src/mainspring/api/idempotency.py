"""Idempotency-Key: a request that is repeated gets the answer of the first time, and is not carried out again."""

from __future__ import annotations

import secrets
from contextvars import ContextVar
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import Struct
from msgspec.structs import replace

from ..app import Mainspring
from ..errors import StoreError
from ..ids import new_id_series, nth_id
from ..records.document import Document
from ..records.unreadable import decoded_documents
from ..survived_errors import SurvivedErrors
from .access.authenticate import ANYONE
from .app_scope import served
from .body import read
from .problem import Problem
from .security_headers import header

_unkept = SurvivedErrors("idempotency", "an answer is not kept, so a request that is repeated is run again")
KIND = "answer"
HEADER = b"idempotency-key"
LONGEST = 255
KEPT = timedelta(hours=24)
# A request that has not been answered by then has died with its server, and may be taken over.
PATIENCE = timedelta(seconds=60)
# Answers that say: not you, not like this, not now. Nothing was done, so nothing is kept.
_PASSING = frozenset({401, 403, 408, 413, 415, 429})
_TRIES = 3

_series: ContextVar[str | None] = ContextVar("mainspring.series", default=None)


def minted(n: int = 0) -> str | None:
    """The id that the n-th job of this request has, however often it is repeated; None: any will do."""
    first = _series.get()
    return None if first is None else nth_id(first, n)


class StoredResponse(Struct, frozen=True, omit_defaults=True):
    status: int
    headers: list[tuple[str, str]]
    body: str


class Once(Struct, frozen=True, omit_defaults=True):
    """One request under its key, as a document has it."""

    fingerprint: str
    """Of what was asked."""
    series: str
    """The first of the ids for jobs it makes."""
    holder: str
    """Which server carries it out, and which time."""
    until: datetime
    """When another may."""
    answer: StoredResponse | None = None


class Idempotency:
    """Around every POST that names a key; others pass."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["method"] != "POST" or (key := _key(scope)) is None:
            await self._app(scope, receive, send)
            return
        opt = scope["route_handler"].opt
        if opt.get("role") == ANYONE or opt.get("unkept"):
            raise Problem(400, "bad_parameter", "the answer to this is never kept: leave Idempotency-Key out")
        if opt.get("reads"):  # to run it again changes nothing, and a viewer is to write nothing into the store
            await self._app(scope, receive, send)
            return
        body = await read(receive, self._limit)
        name = _hash(scope["user"].name, scope["path"], key)
        exchange = _Exchange(self._app, scope, receive, send, body)
        await served(scope).answers.once(name, _hash(scope["query_string"], body), exchange)


class Answers:
    """What an app's requests were answered, kept in its store."""

    def __init__(self, spring: Mainspring) -> None:
        self._spring = spring
        self._me = secrets.token_hex(8)
        self._under_way: set[str] = set()

    async def once(self, name: str, fingerprint: str, exchange: _Exchange) -> None:
        document = await self._begin(name, fingerprint)
        once = _read(document)
        if once.answer is not None:
            await exchange.give(once.answer, replayed=True)
            return
        token = _series.set(once.series)
        self._under_way.add(name)
        try:
            answer = await exchange.carry_out()
            await self._end(document, once, answer)
        finally:
            self._under_way.discard(name)
            _series.reset(token)
        await exchange.give(answer)

    async def _begin(self, name: str, fingerprint: str) -> Document:
        """The document of this request: with its answer, or for us to bring one."""
        store, now = await self._spring.opened(), self._spring.clock.now()
        once = Once(fingerprint, new_id_series(now), self._token(), now + PATIENCE)
        ours = Document(kind=KIND, name=name, text=_write(once), expires_at=now + KEPT)
        for _ in range(_TRIES):
            if (await store.put_documents([ours], now=now))[0]:
                return ours
            found = await store.documents(KIND, [name], now=now, limit=1)
            if not found:
                continue
            known = next(iter(decoded_documents(found, _read)[0]), None)
            if known is None or known.fingerprint != fingerprint:
                text = "this Idempotency-Key came with another request before: each request needs one of its own"
                raise Problem(422, "idempotency_mismatch", text)
            if known.answer is not None:
                return found[0]
            if known.until > now and not self._is_lost(name, known):
                break
            once = replace(known, holder=self._token(), until=now + PATIENCE)
            ours = replace(found[0], text=_write(once), revision=found[0].revision + 1)
        text = "the first request with this Idempotency-Key is not answered yet: ask again"
        raise Problem(409, "idempotency_in_progress", text, headers={"Retry-After": "1"})

    def _token(self) -> str:
        return f"{self._me}.{secrets.token_hex(4)}"

    def _is_lost(self, name: str, once: Once) -> bool:
        """Whether it was ours, and we do not carry it out any more: the store was away when we wanted to say so."""
        return once.holder.startswith(f"{self._me}.") and name not in self._under_way

    async def _end(self, document: Document, once: Once, answer: StoredResponse) -> None:
        """Keeps the answer. After an error nobody knows what was done: whoever repeats it does so with the same ids."""
        now = self._spring.clock.now()
        kept = replace(once, until=now) if answer.status >= 500 else replace(once, answer=answer)
        with _unkept.survive(StoreError):  # what was done is done, and the caller gets its answer
            store = await self._spring.opened()
            if answer.status in _PASSING:
                await store.drop_documents(KIND, [document.name])
            else:
                ended = replace(document, text=_write(kept), revision=document.revision + 1)
                await store.put_documents([ended], now=now)


class _Exchange:
    """A request whose body was read already, and the answer to it."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._body: bytes | None = body
        self._said: list[Any] = []

    async def carry_out(self) -> StoredResponse:
        await self._app(self._scope, self._again, self._hear)
        start, *parts = self._said
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        body = b"".join(part.get("body", b"") for part in parts)
        return StoredResponse(start["status"], headers, body.decode())

    async def _again(self) -> Any:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _hear(self, message: Message) -> None:
        self._said.append(message)

    async def give(self, answer: StoredResponse, *, replayed: bool = False) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        if replayed:
            headers.append((b"idempotent-replayed", b"true"))
        start: Any = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await self._send(start)
        body: Any = {"type": "http.response.body", "body": answer.body.encode(), "more_body": False}
        await self._send(body)


def _key(scope: Scope) -> str | None:
    key = header(scope, HEADER)
    if key is not None and (not 0 < len(key) <= LONGEST or not key.isascii() or not key.isprintable()):
        raise Problem(400, "bad_parameter", f"an Idempotency-Key has 1 to {LONGEST} printable ASCII characters")
    return key


def _hash(*parts: str | bytes) -> str:
    found = blake2b(digest_size=24)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "big") + data)
    return found.hexdigest()


def _write(once: Once) -> str:
    return msgspec.json.encode(once).decode()


def _read(document: Document) -> Once:
    return msgspec.json.decode(document.text, type=Once)
