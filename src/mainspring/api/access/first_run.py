"""The first start: a token for once, where nobody could come in otherwise."""

from __future__ import annotations

from datetime import timedelta

from ...app import Mainspring
from ...records.api_key import TOKEN_PREFIX, hash_secret, key_id_of, new_secret
from ...records.document import Document
from .authenticate import Principal

LASTS = timedelta(hours=1)
_KIND = "welcome"
FIRST = Principal(name="first-start", role="admin")


async def welcome(app: Mainspring) -> str | None:
    """A token that opens one session, or makes one key, within an hour and before there is a key. Others are void.

    None if somebody can come in already: there is a key, or JSON web tokens are on.
    """
    if app.settings.jwt_algorithm or await app.keys.any():
        return None
    store, now, secret = await app.opened(), app.clock.now(), new_secret(TOKEN_PREFIX, "start")
    before = await store.documents(_KIND, now=now, limit=100)
    await store.drop_documents(_KIND, [document.name for document in before])
    document = Document(kind=_KIND, name=hash_secret(secret), text="{}", expires_at=now + LASTS)
    await store.put_documents([document], now=now)
    return secret


async def is_pending(app: Mainspring) -> bool:
    """Whether a token that was made before can still be used."""
    if app.settings.jwt_algorithm or await app.keys.any():
        return False
    return bool(await (await app.opened()).documents(_KIND, now=app.clock.now(), limit=1))


def is_token(secret: str) -> bool:
    return key_id_of(secret, TOKEN_PREFIX) is not None


async def is_valid(app: Mainspring, secret: str) -> bool:
    store, now = await app.opened(), app.clock.now()
    return bool(await store.documents(_KIND, [hash_secret(secret)], now=now, limit=1)) and not await app.keys.any()


async def used_up(app: Mainspring, secret: str) -> bool:
    """Whether it was valid until now; of several who ask at once, one is told so."""
    valid = await is_valid(app, secret)
    return valid and bool(await (await app.opened()).drop_documents(_KIND, [hash_secret(secret)]))


def address(origin: str, token: str) -> str:
    """Where a browser signs in with it: behind the #, so that it is in no log of any server."""
    return f"{origin}/#token={token}"
