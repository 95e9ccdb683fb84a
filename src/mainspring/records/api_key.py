"""API keys: roles and scopes, the format of a secret, and the record of a key. Pure, except for random secrets."""

from __future__ import annotations

import hmac
import re
import secrets
import string
from collections.abc import Collection
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, get_args

from msgspec import Struct

from ..errors import BadInput

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
# The nouns of the API's routes; a test compares them.
NOUNS = (
    "audit", "batches", "cron", "dead", "events", "executions", "flows", "jobs", "keys", "metrics", "queues",
    "schedules", "scheduler", "settings", "stats", "tasks", "triggers", "webhooks", "workers",
)  # fmt: skip
SCOPES = tuple(f"{noun}:{verb}" for noun in NOUNS for verb in ("read", "write"))

# A secret begins with its kind, so that a leaked one is recognised: an API key, or the sign-in token of a first start.
KEY_PREFIX = "msk"
TOKEN_PREFIX = "mst"  # noqa: S105
_ALPHABET = string.ascii_letters + string.digits
# 43 characters of an alphabet of 62 have 256 random bits.
_SECRET_CHARACTERS = 43
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    """The middle part of the secret: it identifies a leaked key, so that it can be revoked."""
    name: str
    role: Role
    scopes: tuple[str, ...] | None = None
    """None: everything the role allows."""
    created_at: datetime
    created_by: str | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    """It may lag by some minutes; the last use in a process that was killed may be missing."""


class StoredKey(Struct, frozen=True):
    """An API key and the hash of its secret, as stored."""

    key: ApiKey
    hash: str

    def accepts(self, secret: str, now: datetime) -> bool:
        """Whether the secret is the key's and the key has not expired."""
        expired = self.key.expires_at is not None and self.key.expires_at <= now
        return hmac.compare_digest(self.hash, hash_secret(secret)) and not expired


def new_secret(kind: str, id: str) -> str:
    """A new secret: msk_ID_…"""
    return f"{kind}_{id}_{''.join(secrets.choice(_ALPHABET) for _ in range(_SECRET_CHARACTERS))}"


def new_key_id() -> str:
    return secrets.token_hex(6)


def hash_secret(secret: str) -> str:
    """The hash that is stored in place of the secret. A fast hash is enough: 256 random bits cannot be guessed."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def key_id_of(secret: str, kind: str = KEY_PREFIX) -> str | None:
    """The key's id in a secret. None if the text is not a secret of that kind."""
    parts = secret.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == kind else None


def scope_allows(scopes: Collection[str] | None, scope: str) -> bool:
    """Whether the scopes allow `scope`. A scope to write includes reading."""
    noun, _, verb = scope.partition(":")
    return scopes is None or scope in scopes or (verb == "read" and f"{noun}:write" in scopes)


def checked_key_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(f"a key's name is 1 to 64 letters, digits or any of ._@-, got {name!r:.80}")
    return name


def checked_role(role: Any) -> Role:
    if role not in ROLES:
        raise BadInput(f"there is no role {role!r:.80} (known: {', '.join(ROLES)})")
    found: Role = role
    return found


def checked_scopes(scopes: Any) -> tuple[str, ...] | None:
    if scopes is None:
        return None
    if isinstance(scopes, str) or not isinstance(scopes, Collection) or not scopes:
        raise BadInput(f"scopes are a list such as ['jobs:write'], or None for all the role may; got {scopes!r:.80}")
    for scope in scopes:
        if scope not in SCOPES:
            raise BadInput(f"there is no scope {scope!r:.80} (known: {', '.join(NOUNS)}, each with :read or :write)")
    return tuple(sorted(set(scopes)))
