"""Who sends Authorization: Bearer …: an API key, a JSON web token, or the token of a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar.types import Scope

from ...app import Mainspring
from ...records.api_key import ApiKey, key_id_of
from ..security_headers import header
from .attempts import SignInAttempts
from .authenticate import Connection, Principal, unauthenticated
from .first_run import FIRST, is_token, is_valid

if TYPE_CHECKING:
    from .webtoken import WebTokens


class Bearer:
    """A way in."""

    def __init__(self, app: Mainspring, attempts: SignInAttempts, tokens: WebTokens | None) -> None:
        self._app = app
        self._attempts = attempts
        self._tokens = tokens

    async def __call__(self, connection: Connection) -> Principal | None:
        if (secret := bearer(connection.scope)) is None:
            return None
        if key_id_of(secret) is not None:
            found, refused = await self._by_key(secret), "this API key is not valid: mistyped, revoked or expired"
        elif is_token(secret):
            found, refused = (
                await self._by_first_start(secret, connection),
                ("this token is for once: POST /session or POST /keys, within an hour, before there is any key"),
            )
        elif self._tokens is not None:
            found, refused = await self._tokens.read(secret)
        else:
            found, refused = None, "this is no API key, and JSON web tokens are off (setting jwt_algorithm)"
        if found is None:
            self._attempts.failed(connection.scope)
            raise unauthenticated(refused)
        return found

    async def _by_key(self, secret: str) -> Principal | None:
        key = await self._app.keys.find(secret)
        return None if key is None else of_key(key)

    async def _by_first_start(self, secret: str, connection: Connection) -> Principal | None:
        """Only looked at here: the route that takes it uses it up."""
        takes = connection.scope["route_handler"].opt.get("first_start")
        return FIRST if takes and await is_valid(self._app, secret) else None


def of_key(key: ApiKey) -> Principal:
    return Principal(name=f"key:{key.name}", role=key.role, scopes=key.scopes, expires_at=key.expires_at)


def bearer(scope: Scope) -> str | None:
    """What stands behind Bearer; other schemes are none of ours."""
    said = header(scope, b"authorization")
    if said is None:
        return None
    scheme, _, secret = said.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None
