"""The token of a first run: signs in once, while there is no other way to sign in."""

from __future__ import annotations

from datetime import timedelta

from ...app import Mainspring
from ...records.api_key import TOKEN_PREFIX, hash_secret, key_id_of, new_secret
from ...records.document import Document, DocumentDrop
from ...records.principal import Principal

TOKEN_LIFETIME = timedelta(hours=1)
_KIND = "welcome"
FIRST_RUN = Principal(name="first-start", role="admin")


async def create_token(app: Mainspring) -> str | None:
    """Creates a token that opens one session, or creates one key, within an hour and while there is no key.

    Earlier tokens become invalid. Returns None if there is a key, or JSON web tokens are on.
    """
    if app.settings.jwt_algorithm or await app.keys.any():
        return None
    store, now, secret = await app.connect(), app.clock.now(), new_secret(TOKEN_PREFIX, "start")
    before = await store.documents(_KIND, now=now, limit=100)
    document = Document(kind=_KIND, name=hash_secret(secret), text="{}", expires_at=now + TOKEN_LIFETIME)
    await store.put_documents([*(DocumentDrop(_KIND, one.name) for one in before), document], now=now)
    return secret


async def is_pending(app: Mainspring) -> bool:
    """Whether a token exists that can still be used."""
    if app.settings.jwt_algorithm or await app.keys.any():
        return False
    return bool(await (await app.connect()).documents(_KIND, now=app.clock.now(), limit=1))


def is_token(secret: str) -> bool:
    return key_id_of(secret, TOKEN_PREFIX) is not None


async def is_valid(app: Mainspring, secret: str) -> bool:
    store, now = await app.connect(), app.clock.now()
    return bool(await store.documents(_KIND, [hash_secret(secret)], now=now, limit=1)) and not await app.keys.any()


async def use_token(app: Mainspring, secret: str) -> bool:
    """Uses up the token. Returns True if it was valid: for one of several concurrent calls."""
    if not await is_valid(app, secret):
        return False
    drop = DocumentDrop(_KIND, hash_secret(secret))
    return (await (await app.connect()).put_documents([drop], now=app.clock.now()))[0]


def sign_in_url(origin: str, token: str) -> str:
    """The URL at which a browser signs in. The token follows the #, so no server logs it."""
    return f"{origin}/#token={token}"
