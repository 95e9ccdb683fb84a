"""Idempotency-Key: a repeated request is not executed again, but gets the stored response of the first one."""

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
from ..records.document import Document, DocumentDrop
from ..records.unreadable import decoded_documents
from ..survived_errors import SurvivedErrors
from .access.authenticate import ANYONE
from .app_scope import app_scope
from .body import read_body
from .problem import Problem
from .security_headers import header

_unstored = SurvivedErrors("idempotency", "a response is not stored, so a repeated request is executed again")
KIND = "answer"
HEADER = b"idempotency-key"
MAX_KEY_CHARACTERS = 255
RETENTION = timedelta(hours=24)
# A request without a response after this time has died with its server: a repeated request may execute it.
TAKEOVER_AFTER = timedelta(seconds=60)
# Responses to requests that were refused before anything was done: not stored.
_UNSTORED_STATUSES = frozenset({401, 403, 408, 413, 415, 429})
_MAX_TRIES = 3

_series: ContextVar[str | None] = ContextVar("mainspring.series", default=None)


def job_id(n: int = 0) -> str | None:
    """The id of the n-th job that this request creates, the same in every repetition. None without Idempotency-Key."""
    first = _series.get()
    return None if first is None else nth_id(first, n)


class StoredResponse(Struct, frozen=True, omit_defaults=True):
    """The response of the first request with a key."""

    status: int
    headers: list[tuple[str, str]]
    body: str


class IdempotentRequest(Struct, frozen=True, omit_defaults=True):
    """The stored record of a request with an Idempotency-Key."""

    fingerprint: str
    """Digest of the query and the body."""
    series: str
    """The id of the first job that the request creates; the others follow from it."""
    holder: str
    """The server process that executes the request, and a token of this execution."""
    until: datetime
    """When another execution may take over."""
    answer: StoredResponse | None = None


class Idempotency:
    """Middleware that executes a POST with an Idempotency-Key once. Other requests pass through."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["method"] != "POST" or (key := _key(scope)) is None:
            await self._app(scope, receive, send)
            return
        opt = scope["route_handler"].opt
        if opt.get("role") == ANYONE or opt.get("unkept"):
            raise Problem(400, "bad_parameter", "the response to this request is never stored: omit Idempotency-Key")
        if opt.get("reads"):  # repeating it changes nothing, and a viewer must not write to the store
            await self._app(scope, receive, send)
            return
        body = await read_body(receive, self._limit)
        name = _hash(scope["user"].name, scope["path"], key)
        exchange = _Exchange(self._app, scope, receive, send, body)
        await app_scope(scope).responses.execute_once(name, _hash(scope["query_string"], body), exchange)


class StoredResponses:
    """The responses to an app's idempotent requests, in its store."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._process_id = secrets.token_hex(8)
        self._running: set[str] = set()

    async def execute_once(self, name: str, fingerprint: str, exchange: _Exchange) -> None:
        """Executes the request and stores its response, or replays the stored one."""
        document = await self._begin(name, fingerprint)
        stored = _read(document)
        if stored.answer is not None:
            await exchange.send(stored.answer, replayed=True)
            return
        token = _series.set(stored.series)
        self._running.add(name)
        try:
            response = await exchange.execute()
            await self._end(document, stored, response)
        finally:
            self._running.discard(name)
            _series.reset(token)
        await exchange.send(response)

    async def _begin(self, name: str, fingerprint: str) -> Document:
        """The request's document: with a response to replay, or held by this process, which executes the request.

        Raises Problem(422) if the key belongs to another request, 409 if another process is executing this one.
        """
        store, now = await self._app.connect(), self._app.clock.now()
        request = IdempotentRequest(fingerprint, new_id_series(now), self._token(), now + TAKEOVER_AFTER)
        ours = Document(kind=KIND, name=name, text=_write(request), expires_at=now + RETENTION)
        for _ in range(_MAX_TRIES):
            if (await store.put_documents([ours], now=now))[0]:
                return ours
            found = await store.documents(KIND, [name], now=now, limit=1)
            if not found:
                continue
            known = next(iter(decoded_documents(found, _read)[0]), None)
            if known is None or known.fingerprint != fingerprint:
                text = "this Idempotency-Key was used with a different request: use a new key for each request"
                raise Problem(422, "idempotency_mismatch", text)
            if known.answer is not None:
                return found[0]
            if known.until > now and not self._is_lost(name, known):
                break
            request = replace(known, holder=self._token(), until=now + TAKEOVER_AFTER)
            ours = replace(found[0], text=_write(request), revision=found[0].revision + 1)
        text = "the first request with this Idempotency-Key is still running: try again"
        raise Problem(409, "idempotency_in_progress", text, headers={"Retry-After": "1"})

    def _token(self) -> str:
        return f"{self._process_id}.{secrets.token_hex(4)}"

    def _is_lost(self, name: str, request: IdempotentRequest) -> bool:
        """Whether this process held the request but no longer executes it: the store was unreachable when it ended."""
        return request.holder.startswith(f"{self._process_id}.") and name not in self._running

    async def _end(self, document: Document, request: IdempotentRequest, response: StoredResponse) -> None:
        """Stores the response. After a server error (5xx) the result is unknown: a repeated request is executed again,
        with the same job ids."""
        now = self._app.clock.now()
        updated = replace(request, until=now) if response.status >= 500 else replace(request, answer=response)
        with _unstored.survive(StoreError):  # the request was executed, so the caller gets its response anyway
            store = await self._app.connect()
            if response.status in _UNSTORED_STATUSES:
                await store.put_documents([DocumentDrop(KIND, document.name)], now=now)
            else:
                ended = replace(document, text=_write(updated), revision=document.revision + 1)
                await store.put_documents([ended], now=now)


class _Exchange:
    """A request whose body has been read, and its response."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._body: bytes | None = body
        self._messages: list[Any] = []

    async def execute(self) -> StoredResponse:
        """Runs the handler and returns its response without sending it."""
        await self._app(self._scope, self._receive_again, self._record)
        start, *parts = self._messages
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        body = b"".join(part.get("body", b"") for part in parts)
        return StoredResponse(start["status"], headers, body.decode())

    async def _receive_again(self) -> Any:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _record(self, message: Message) -> None:
        self._messages.append(message)

    async def send(self, response: StoredResponse, *, replayed: bool = False) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
        if replayed:
            headers.append((b"idempotent-replayed", b"true"))
        start: Any = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(start)
        body: Any = {"type": "http.response.body", "body": response.body.encode(), "more_body": False}
        await self._send(body)


def _key(scope: Scope) -> str | None:
    key = header(scope, HEADER)
    if key is not None and (not 0 < len(key) <= MAX_KEY_CHARACTERS or not key.isascii() or not key.isprintable()):
        raise Problem(
            400, "bad_parameter", f"an Idempotency-Key has 1 to {MAX_KEY_CHARACTERS} printable ASCII characters"
        )
    return key


def _hash(*parts: str | bytes) -> str:
    found = blake2b(digest_size=24)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "big") + data)
    return found.hexdigest()


def _write(request: IdempotentRequest) -> str:
    return msgspec.json.encode(request).decode()


def _read(document: Document) -> IdempotentRequest:
    return msgspec.json.decode(document.text, type=IdempotentRequest)
