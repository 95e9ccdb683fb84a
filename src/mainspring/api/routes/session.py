"""/session: the sign-in and sign-out of browsers, and their sessions."""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.types import Scope
from msgspec import Struct
from msgspec.structs import replace

from ...app import Mainspring
from ...control.keys import KEY_CACHE_SECONDS
from ...ids import new_id
from ...records.api_key import hash_secret
from ...records.audit import AuditEntry
from ...records.document import Document, DocumentDrop
from ...records.principal import Principal
from ...records.unreadable import decoded_documents
from ..access import cookie
from ..access.authenticate import ANYONE, UNSAFE_METHODS, Caller, Connection, allow, unauthenticated
from ..access.bearer import principal_of
from ..access.first_run import FIRST_RUN, is_token, use_token
from ..access.origin import check_not_foreign, check_same_origin
from ..access.sign_in_attempts import SignInAttempts, TokenBucket, address_of
from ..problem import Problem

# Of this process.
_MAX_CACHED_SESSIONS = 10_000
_KIND = "session"
# Between two audit entries about too many failed sign-ins.
_AUDIT_EVERY_SECONDS = 60.0
# Sessions that one key may open at once, and then per second: each is stored.
MAX_OPENED = 60
OPENED_PER_SECOND = 1 / 6


class _SessionRecord(Struct, frozen=True, kw_only=True):
    """A session in the store."""

    key: str | None
    """Id of the API key that opened it: the session ends with the key. None if the token of a first run opened it."""
    created_at: datetime


class Sessions:
    """Opens and closes sessions, and authenticates callers by their session cookie."""

    def __init__(self, app: Mainspring, attempts: SignInAttempts) -> None:
        self._app = app
        self.attempts = attempts
        # Sessions by hash of their secret, with the time they were read. None: there is no such session, for good.
        self._cached: OrderedDict[str, tuple[Document | None, float]] = OrderedDict()
        self._audited_at: float | None = None
        self._opened_by_key: dict[str, TokenBucket] = {}

    async def open(self, secret: str) -> tuple[str, Principal] | None:
        """Opens a session. Returns the secret for the cookie and the principal; None if the key is not valid."""
        key = await self._app.keys.find(secret)
        if key is None and not (is_token(secret) and await use_token(self._app, secret)):
            return None
        if key is not None:
            self._check_rate(key.id)
        now = self._app.clock.now()
        end = now + timedelta(hours=self._app.settings.session_hours)
        if key is not None and key.expires_at is not None:
            end = min(end, key.expires_at)
        session = secrets.token_urlsafe(32)
        text = msgspec.json.encode(_SessionRecord(key=None if key is None else key.id, created_at=now)).decode()
        document = Document(kind=_KIND, name=hash_secret(session), text=text, expires_at=end)
        await (await self._app.connect()).put_documents([document], now=now)
        return session, replace(FIRST_RUN if key is None else principal_of(key), expires_at=end)

    def _check_rate(self, key: str) -> None:
        """Raises Problem(429) if this key opens too many sessions."""
        now = self._app.clock.monotonic()
        if key not in self._opened_by_key and len(self._opened_by_key) >= _MAX_CACHED_SESSIONS:
            self._opened_by_key.clear()
        bucket = self._opened_by_key.setdefault(key, TokenBucket(MAX_OPENED, OPENED_PER_SECOND, now))
        if wait := bucket.take(now):
            seconds = math.ceil(wait)
            text = f"this key has opened {MAX_OPENED} sessions in a short time; try again in {seconds} s"
            raise Problem(429, "too_many_attempts", text, headers={"Retry-After": str(seconds)})

    async def failed(self, scope: Scope) -> None:
        """Counts a failed sign-in. Raises Problem(429) if there were too many, and records that in the audit trail:
        once a minute, so that no client can fill it."""
        try:
            self.attempts.failed(scope)
        except Problem:
            now = self._app.clock.monotonic()
            if self._audited_at is None or now - self._audited_at >= _AUDIT_EVERY_SECONDS:
                self._audited_at = now
                await self.audit("nobody", "refuse", scope)
            raise

    async def audit(self, actor: str, verb: str, scope: Scope) -> None:
        """Records an action on a session in the audit trail, with the client's address."""
        now = self._app.clock.now()
        entry = AuditEntry(
            id=new_id(now), at=now, who=actor, action=f"session.{verb}", target=address_of(scope), outcome="{}"
        )
        await (await self._app.connect()).record([entry])

    async def close(self, secret: str) -> None:
        name = hash_secret(secret)
        store, now = await self._app.connect(), self._app.clock.now()
        await store.put_documents([DocumentDrop(_KIND, name)], now=now)
        self._cache(name, None)

    async def __call__(self, connection: Connection) -> Principal | None:
        scope = connection.scope
        if (secret := cookie.session_secret(scope)) is None:
            return None
        name = hash_secret(secret)
        if (found := await self._principal(name)) is None:
            if name not in self._cached:
                self.attempts.failed(scope)
                self._cache(name, None)
            refused = unauthenticated("this session has ended: sign in again with POST /session")
            refused.headers["Set-Cookie"] = cookie.clear_cookie(scope)
            raise refused
        if scope.get("method") in UNSAFE_METHODS:
            check_same_origin(scope)
        return found

    async def _principal(self, name: str) -> Principal | None:
        document = await self._document(name)
        if document is None or (document.expires_at is not None and document.expires_at <= self._app.clock.now()):
            return None
        found, _ = decoded_documents([document], lambda one: msgspec.json.decode(one.text, type=_SessionRecord))
        if not found:
            return None
        opened_by = found[0].key
        if opened_by is None:
            return replace(FIRST_RUN, expires_at=document.expires_at)
        key = await self._app.keys.by_id(opened_by)
        return None if key is None else replace(principal_of(key), expires_at=document.expires_at)

    async def _document(self, name: str) -> Document | None:
        document, at = self._cached.get(name, (None, 0.0))
        if name in self._cached and (document is None or self._app.clock.monotonic() - at < KEY_CACHE_SECONDS):
            return document
        found = await (await self._app.connect()).documents(_KIND, [name], now=self._app.clock.now(), limit=1)
        if found:
            self._cache(name, found[0])
        elif document is not None:
            self._cache(name, None)
        return found[0] if found else None

    def _cache(self, name: str, document: Document | None) -> None:
        self._cached[name] = (document, self._app.clock.monotonic())
        self._cached.move_to_end(name)
        if len(self._cached) > _MAX_CACHED_SESSIONS:
            self._cached.popitem(last=False)


# Of a sign-in body, which anyone can send.
MAX_SIGN_IN_BYTES = 16 << 10


class SignInRequest(Struct, forbid_unknown_fields=True):
    key: str
    """An API key, or the token of a first run."""


@get("/session", **allow("viewer", unscoped=True))
async def show_session(caller: Caller) -> Principal:
    """The caller: its name, role and scopes."""
    return caller


@post("/session", status_code=200, request_max_body_size=MAX_SIGN_IN_BYTES, **allow(ANYONE, reads=True))
async def open_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[Sessions], data: JSONBody[SignInRequest]
) -> Response[Principal]:
    """Signs a browser in, with a session cookie."""
    check_not_foreign(request.scope)
    if (opened := await sessions.open(data.key)) is None:
        await sessions.failed(request.scope)
        raise unauthenticated("this API key or token is not valid: mistyped, used, revoked or expired")
    secret, principal = opened
    await sessions.audit(principal.name, "open", request.scope)
    return Response(principal, headers={"Set-Cookie": cookie.set_cookie(request.scope, secret)})


@delete("/session", status_code=204, **allow("viewer", unscoped=True))
async def close_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[Sessions], caller: Caller
) -> Response[None]:
    """Signs a browser out, and ends its session."""
    if (secret := cookie.session_secret(request.scope)) is not None:
        await sessions.close(secret)
        await sessions.audit(caller.name, "close", request.scope)
    return Response(None, headers={"Set-Cookie": cookie.clear_cookie(request.scope)})


ROUTES = [show_session, open_session, close_session]
