"""ETags: digests under a secret of the store, since what they are of may be hidden from the reader."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from weakref import WeakKeyDictionary

from ..app import Mainspring
from ..errors import StoreUnavailable
from ..records.document import Document

KIND, NAME = "etag", "secret"
SECRET_BYTES, TAG_BYTES = 32, 16
# How often a server that starts looks for the secret that another has put there at the same moment.
TRIES = 5

_known: WeakKeyDictionary[Mainspring, bytes] = WeakKeyDictionary()


async def etag(spring: Mainspring, text: bytes) -> str:
    """The same on every server of the store; without the secret it does not reveal the value it was made from."""
    return keyed(await secret_of(spring), text)


def keyed(secret: bytes, text: bytes) -> str:
    return blake2b(text, key=secret, digest_size=TAG_BYTES).hexdigest()


async def secret_of(spring: Mainspring) -> bytes:
    """Made by the first server that needs one."""
    if (known := _known.get(spring)) is not None:
        return known
    store, now = await spring.opened(), spring.clock.now()
    for _ in range(TRIES):
        found = await store.documents(KIND, [NAME], now=now, limit=1)
        if found:
            _known[spring] = bytes.fromhex(found[0].text)
            return _known[spring]
        await store.put_documents([Document(kind=KIND, name=NAME, text=secrets.token_hex(SECRET_BYTES))], now=now)
    raise StoreUnavailable("the secret of ETags can neither be read nor written; try again")
