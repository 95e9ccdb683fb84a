"""Authentication by `Authorization: Bearer …`: an API key, a JSON web token, or the token of a first run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar.types import Scope

from ...app import Mainspring
from ...records.api_key import ApiKey, key_id_of
from ...records.principal import Principal
from ..security_headers import header
from .authenticate import Connection, unauthenticated
from .first_run import FIRST_RUN, is_token, is_valid
from .sign_in_attempts import SignInAttempts

if TYPE_CHECKING:
    from .jwt_verifier import JwtVerifier


class BearerAuthenticator:
    """Authenticates a caller by its bearer token. `tokens` is None if JSON web tokens are off."""

    def __init__(self, app: Mainspring, attempts: SignInAttempts, tokens: JwtVerifier | None) -> None:
        self._app = app
        self._attempts = attempts
        self._tokens = tokens

    async def __call__(self, connection: Connection) -> Principal | None:
        if (secret := bearer_token(connection.scope)) is None:
            return None
        if key_id_of(secret) is not None:
            found, refused = await self._by_key(secret), "this API key is not valid: mistyped, revoked or expired"
        elif is_token(secret):
            found = await self._by_first_run(secret, connection)
            refused = "this token works once: for POST /session or POST /keys, within an hour, before there is a key"
        elif self._tokens is not None:
            found, refused = await self._tokens.read(secret)
        else:
            found, refused = None, "this is not an API key, and JSON web tokens are off (setting jwt_algorithm)"
        if found is None:
            self._attempts.failed(connection.scope)
            raise unauthenticated(refused)
        return found

    async def _by_key(self, secret: str) -> Principal | None:
        key = await self._app.keys.find(secret)
        return None if key is None else principal_of(key)

    async def _by_first_run(self, secret: str, connection: Connection) -> Principal | None:
        """Checks the token of a first run. The route that accepts it then uses it up."""
        accepts = connection.scope["route_handler"].opt.get("first_run")
        return FIRST_RUN if accepts and await is_valid(self._app, secret) else None


def principal_of(key: ApiKey) -> Principal:
    return Principal(name=f"key:{key.name}", role=key.role, scopes=key.scopes, expires_at=key.expires_at)


def bearer_token(scope: Scope) -> str | None:
    """The token of the Authorization header. None without one, or with another scheme."""
    authorization = header(scope, b"authorization")
    if authorization is None:
        return None
    scheme, _, secret = authorization.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None
