"""/session: a browser signs in with an API key, is told who it is, and signs out."""

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
from ...control.keys import HOLDS
from ...ids import new_id
from ...records.api_key import hash_secret
from ...records.audit import AuditEntry
from ...records.document import Document
from ...records.unreadable import decoded_documents
from ..access import cookie
from ..access.attempts import Bucket, SignInAttempts, address_of
from ..access.authenticate import ANYONE, UNSAFE, Connection, Principal, Who, may, unauthenticated
from ..access.bearer import of_key
from ..access.first_run import FIRST, is_token, used_up
from ..access.origin import check_not_foreign, check_same_origin
from ..problem import Problem

# Sessions that a process remembers.
_MOST = 10_000
_KIND = "session"
# Seconds between two entries of the audit trail that too many keys were wrong.
_SELDOM = 60.0
# Sessions that one key opens at once, and how many more in a second: each is kept in the store.
MAX_OPENED, OPENED_PER_SECOND = 60, 1 / 6


class _Text(Struct, frozen=True, kw_only=True):
    key: str | None
    """The id of the API key that opened it, without which it is void; None: a first start did."""
    created_at: datetime


class Sessions:
    """A way in, and what opens and closes it."""

    def __init__(self, app: Mainspring, attempts: SignInAttempts) -> None:
        self._app = app
        self.attempts = attempts
        # By hash: what the store said, and when; for a session that is not there it says so for good.
        self._known: OrderedDict[str, tuple[Document | None, float]] = OrderedDict()
        self._warned_at: float | None = None
        self._opened: dict[str, Bucket] = {}

    async def open(self, secret: str) -> tuple[str, Principal] | None:
        """The secret for the cookie, and who came in; None if nobody."""
        key = await self._app.keys.find(secret)
        if key is None and not (is_token(secret) and await used_up(self._app, secret)):
            return None
        if key is not None:
            self._check_pace(key.id)
        now = self._app.clock.now()
        end = now + timedelta(hours=self._app.settings.session_hours)
        if key is not None and key.expires_at is not None:
            end = min(end, key.expires_at)
        fresh = secrets.token_urlsafe(32)
        text = msgspec.json.encode(_Text(key=None if key is None else key.id, created_at=now)).decode()
        document = Document(kind=_KIND, name=hash_secret(fresh), text=text, expires_at=end)
        await (await self._app.opened()).put_documents([document], now=now)
        return fresh, replace(FIRST if key is None else of_key(key), expires_at=end)

    def _check_pace(self, key: str) -> None:
        """Raises Problem(429) if this key opens session after session."""
        now = self._app.clock.monotonic()
        if key not in self._opened and len(self._opened) >= _MOST:
            self._opened.clear()
        bucket = self._opened.setdefault(key, Bucket(MAX_OPENED, OPENED_PER_SECOND, now))
        if wait := bucket.take(now):
            again = math.ceil(wait)
            text = f"this key has opened {MAX_OPENED} sessions one after the other; try again in {again} s"
            raise Problem(429, "too_many_attempts", text, headers={"Retry-After": str(again)})

    async def failed(self, scope: Scope) -> None:
        """Raises Problem(429) if there were too many, and puts it into the audit trail: once a minute, so that nobody
        can fill it.
        """
        try:
            self.attempts.failed(scope)
        except Problem:
            now = self._app.clock.monotonic()
            if self._warned_at is None or now - self._warned_at >= _SELDOM:
                self._warned_at = now
                await self.note("nobody", "refuse", scope)
            raise

    async def note(self, who: str, what: str, scope: Scope) -> None:
        """Into the audit trail, with the address it came from."""
        now = self._app.clock.now()
        entry = AuditEntry(
            id=new_id(now), at=now, who=who, action=f"session.{what}", target=address_of(scope), outcome="{}"
        )
        await (await self._app.opened()).record([entry])

    async def close(self, secret: str) -> None:
        name = hash_secret(secret)
        await (await self._app.opened()).drop_documents(_KIND, [name])
        self._keep(name, None)

    async def __call__(self, connection: Connection) -> Principal | None:
        scope = connection.scope
        if (secret := cookie.read(scope)) is None:
            return None
        name = hash_secret(secret)
        if (found := await self._principal(name)) is None:
            if name not in self._known:
                self.attempts.failed(scope)
                self._keep(name, None)
            over = unauthenticated("this session is over: sign in again with POST /session")
            over.headers["Set-Cookie"] = cookie.taken(scope)
            raise over
        if scope.get("method") in UNSAFE:
            check_same_origin(scope)
        return found

    async def _principal(self, name: str) -> Principal | None:
        document = await self._document(name)
        if document is None or (document.expires_at is not None and document.expires_at <= self._app.clock.now()):
            return None
        found, _ = decoded_documents([document], lambda one: msgspec.json.decode(one.text, type=_Text))
        if not found:
            return None
        opened_by = found[0].key
        if opened_by is None:
            return replace(FIRST, expires_at=document.expires_at)
        key = await self._app.keys.by_id(opened_by)
        return None if key is None else replace(of_key(key), expires_at=document.expires_at)

    async def _document(self, name: str) -> Document | None:
        document, at = self._known.get(name, (None, 0.0))
        if name in self._known and (document is None or self._app.clock.monotonic() - at < HOLDS):
            return document
        found = await (await self._app.opened()).documents(_KIND, [name], now=self._app.clock.now(), limit=1)
        if found:
            self._keep(name, found[0])
        elif document is not None:
            self._keep(name, None)
        return found[0] if found else None

    def _keep(self, name: str, document: Document | None) -> None:
        self._known[name] = (document, self._app.clock.monotonic())
        self._known.move_to_end(name)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


# Bytes of a body, which anyone may send.
MAX_SIGN_IN_BYTES = 16 << 10


class SignIn(Struct, forbid_unknown_fields=True):
    key: str
    """An API key, or the token that a first start printed."""


@get("/session", **may("viewer", unscoped=True))
async def show_session(who: Who) -> Principal:
    """Who you are, and what you may."""
    return who


@post("/session", status_code=200, request_max_body_size=MAX_SIGN_IN_BYTES, **may(ANYONE, reads=True))
async def open_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[Sessions], data: JSONBody[SignIn]
) -> Response[Principal]:
    """Signs a browser in: its cookie counts from now on."""
    check_not_foreign(request.scope)
    if (opened := await sessions.open(data.key)) is None:
        await sessions.failed(request.scope)
        raise unauthenticated("this API key or token is not valid: mistyped, used, revoked or expired")
    secret, who = opened
    await sessions.note(who.name, "open", request.scope)
    return Response(who, headers={"Set-Cookie": cookie.given(request.scope, secret)})


@delete("/session", status_code=204, **may("viewer", unscoped=True))
async def close_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[Sessions], who: Who
) -> Response[None]:
    """Signs a browser out."""
    if (secret := cookie.read(request.scope)) is not None:
        await sessions.close(secret)
        await sessions.note(who.name, "close", request.scope)
    return Response(None, headers={"Set-Cookie": cookie.taken(request.scope)})


ROUTES = [show_session, open_session, close_session]
