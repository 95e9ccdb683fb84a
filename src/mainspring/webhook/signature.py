"""The Standard Webhooks signature: who has the secret can tell that a message is whole, and whose it is. Pure."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable
from datetime import datetime

from ..errors import BadInput

PREFIX = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# Bytes of a key: fewer can be guessed, and more bring nothing.
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


def new_secret() -> str:
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: object) -> str:
    """One that somebody else has chosen; refuses what cannot be a key."""
    try:
        if not isinstance(secret, str) or not secret.startswith(PREFIX):
            raise ValueError
        if not MIN_SECRET_BYTES <= len(_key_bytes(secret)) <= MAX_SECRET_BYTES:
            raise ValueError
    except (Error, ValueError):
        raise BadInput(f"a secret is {PREFIX!r} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes in base64; leave it out to be given one") from None  # fmt: skip  # noqa: E501
    return secret


def signature_headers(keys: Iterable[str], id: str, at: datetime, body: bytes) -> dict[str, str]:
    """What goes with the body: a signature for each secret, so that both hold while one takes the other's place."""
    timestamp = str(int(at.timestamp()))
    made = " ".join(sign(secret, id, timestamp, body) for secret in keys)
    return {ID: id, TIMESTAMP: timestamp, SIGNATURE: made}


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join([id.encode(), timestamp.encode(), body])
    return "v1," + b64encode(hmac.digest(_key_bytes(secret), signed, "sha256")).decode()


def is_signed(keys: Iterable[str], id: str, timestamp: str, given: str, body: bytes) -> bool:
    """Whether one of the signatures given is by one of the keys; takes as long whether or not."""
    offered = [one.encode() for one in given.split(" ")[:MAX_SECRET_BYTES]]
    found = False
    for secret in keys:
        wanted = sign(secret, id, timestamp, body).encode()
        for one in offered:
            found |= hmac.compare_digest(wanted, one)
    return found


def _key_bytes(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX), validate=True)
