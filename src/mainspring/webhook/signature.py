"""Signatures of Standard Webhooks: they prove the sender and the integrity of a message. Pure."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable
from datetime import datetime

from ..errors import BadInput

PREFIX = "whsec_"
# Names of the headers.
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# Shorter keys can be guessed.
MIN_SECRET_BYTES = 24
# Longer keys add no security.
MAX_SECRET_BYTES = 64
# Signatures in one header that are checked.
MAX_SIGNATURES = 64


def new_secret() -> str:
    """A random secret."""
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: object) -> str:
    """Checks a secret that a user chose. Raises BadInput if it cannot be a key."""
    try:
        if not isinstance(secret, str) or not secret.startswith(PREFIX):
            raise ValueError
        if not MIN_SECRET_BYTES <= len(_key_bytes(secret)) <= MAX_SECRET_BYTES:
            raise ValueError
    except (Error, ValueError):
        raise BadInput(
            f"a secret is {PREFIX!r} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes in base64; "
            "leave it out to be given one"
        ) from None
    return secret


def signature_headers(keys: Iterable[str], id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers of a message, with a signature for each secret, so that both are valid during rotation."""
    timestamp = str(int(at.timestamp()))
    made = " ".join(sign(secret, id, timestamp, body) for secret in keys)
    return {ID: id, TIMESTAMP: timestamp, SIGNATURE: made}


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """The signature of a message."""
    signed = b".".join([id.encode(), timestamp.encode(), body])
    return "v1," + b64encode(hmac.digest(_key_bytes(secret), signed, "sha256")).decode()


def is_signed(keys: Iterable[str], id: str, timestamp: str, given: str, body: bytes) -> bool:
    """Whether one of the given signatures is by one of the keys, in constant time."""
    offered = [one.encode() for one in given.split(" ")[:MAX_SIGNATURES]]
    found = False
    for secret in keys:
        wanted = sign(secret, id, timestamp, body).encode()
        for one in offered:
            found |= hmac.compare_digest(wanted, one)
    return found


def _key_bytes(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX), validate=True)
