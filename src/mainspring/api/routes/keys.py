"""/keys: API keys, made, seen and revoked."""

from __future__ import annotations

from typing import Any

from litestar import Request, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from ...errors import ApiKeyNotFound
from ...records.api_key import ApiKey, Role, key_id_of, scope_allows
from ..access.authenticate import Principal, Spring, Who, may, unauthenticated
from ..access.bearer import bearer
from ..access.first_run import FIRST, used_up
from ..problem import Problem
from .values import KeyName


class NewKey(Struct, kw_only=True, forbid_unknown_fields=True):
    name: KeyName
    role: Role = "viewer"
    scopes: list[str] | None = None
    """Such as jobs:write; null: whatever the role may."""
    expires: float | str | None = None
    """Seconds from now, or a span such as 30d; null: never."""


class MadeKey(Struct, kw_only=True):
    """A key and, this once, its secret."""

    key: ApiKey
    secret: str


@get("/keys", **may("admin"))
async def list_keys(spring: Spring) -> list[ApiKey]:
    """Those that have not expired, by name; never their secrets."""
    return list(await spring.keys.list())


@post("/keys", **may("admin", first_start=True, unkept=True))
async def create_key(request: Request[Any, Any, Any], spring: Spring, who: Who, data: JSONBody[NewKey]) -> MadeKey:
    """Makes a key that may no more than whoever makes it. Its secret is told now and never again."""
    _within(data, who)
    spring.keys.draft(data.name, data.role, data.scopes, data.expires)
    if who is FIRST and not await used_up(spring, bearer(request.scope) or ""):
        raise unauthenticated("this token was used by somebody else just now")
    secret = await spring.keys.create(data.name, data.role, data.scopes, data.expires)
    made = await spring.keys.by_id(key_id_of(secret) or "")
    if made is None:
        raise ApiKeyNotFound(f"API key {data.name!r} was revoked while it was made")
    return MadeKey(key=made, secret=secret)


@delete("/keys/{name:str}", **may("admin"))
async def revoke_key(spring: Spring, name: FromPath[str]) -> None:
    """By name or id: it opens nothing any more, nor do the sessions it opened."""
    await spring.keys.revoke(name)


def _within(wanted: NewKey, who: Principal) -> None:
    """Roles need no look: only an admin gets here."""
    if who.scopes is None:
        return
    beyond = [scope for scope in wanted.scopes or () if not scope_allows(who.scopes, scope)]
    if beyond or wanted.scopes is None:
        raise Problem(
            403, "forbidden", f"{who.name} may not make a key that may more than itself: scopes {', '.join(who.scopes)}"
        )


ROUTES = [list_keys, create_key, revoke_key]
