"""/keys: creates, lists and revokes API keys."""

from __future__ import annotations

from typing import Any

from litestar import Request, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from ...errors import ApiKeyNotFound
from ...records.api_key import ApiKey, Role, key_id_of, scope_allows
from ...records.principal import Principal
from ..access.authenticate import App, Caller, allow, unauthenticated
from ..access.bearer import bearer_token
from ..access.first_run import FIRST_RUN, use_token
from ..problem import Problem
from .field_types import KeyName


class NewKey(Struct, kw_only=True, forbid_unknown_fields=True):
    name: KeyName
    role: Role = "viewer"
    scopes: list[str] | None = None
    """Such as jobs:write; null for everything that the role allows."""
    expires: float | str | None = None
    """Seconds from now, or a span such as 30d; null for never."""


class CreatedKey(Struct, kw_only=True):
    """A new key and its secret, which is shown only here."""

    key: ApiKey
    secret: str


@get("/keys", **allow("admin"))
async def list_keys(app: App) -> list[ApiKey]:
    """The keys that have not expired, by name, without their secrets."""
    return list(await app.keys.list())


@post("/keys", **allow("admin", first_run=True, unkept=True))
async def create_key(request: Request[Any, Any, Any], app: App, caller: Caller, data: JSONBody[NewKey]) -> CreatedKey:
    """Creates a key with at most the caller's own rights. Its secret is returned only now."""
    _check_scopes(data, caller)
    app.keys.draft(data.name, data.role, data.scopes, data.expires)
    if caller is FIRST_RUN and not await use_token(app, bearer_token(request.scope) or ""):
        raise unauthenticated("another request has just used this token")
    secret = await app.keys.create(data.name, data.role, data.scopes, data.expires)
    created = await app.keys.by_id(key_id_of(secret) or "")
    if created is None:
        raise ApiKeyNotFound(f"API key {data.name!r} was revoked while it was created")
    return CreatedKey(key=created, secret=secret)


@delete("/keys/{name:str}", **allow("admin"))
async def revoke_key(app: App, name: FromPath[str]) -> None:
    """Revokes a key, by name or id, and ends the sessions that were opened with it."""
    await app.keys.revoke(name)


def _check_scopes(wanted: NewKey, caller: Principal) -> None:
    """Raises Problem(403) if the key would have scopes that the caller lacks. Only admins get here, so any role is
    allowed."""
    if caller.scopes is None:
        return
    beyond = [scope for scope in wanted.scopes or () if not scope_allows(caller.scopes, scope)]
    if beyond or wanted.scopes is None:
        raise Problem(
            403,
            "forbidden",
            f"{caller.name} may not create a key with more scopes than its own: {', '.join(caller.scopes)}",
        )


ROUTES = [list_keys, create_key, revoke_key]
