"""The public keys that verify JSON web tokens (JWKS), read from a file or over HTTPS, and cached."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from ...clock import Clock
from ...survived_errors import count_error
from ..problem import Problem

# Age at which the keys are read again.
REFRESH_SECONDS = 300.0
# Least time between two reads: after a failed one, or for a token with an unknown key.
RETRY_SECONDS = 30.0
# Age at which keys are no longer trusted if they cannot be read again.
MAX_AGE_SECONDS = 3600.0
FETCH_TIMEOUT_SECONDS = 5.0
MAX_KEY_SET_BYTES = 256 << 10
MAX_SIGNING_KEYS = 100
MIN_KEY_BITS = 2048
_logger = logging.getLogger("mainspring")


class KeySet:
    """The key set at `source`, a path or an https:// URL."""

    def __init__(self, source: str, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._keys: dict[str, PyJWK] = {}
        self._read_at = self._tried_at = -MAX_AGE_SECONDS
        self._reading = asyncio.Lock()

    async def get(self, kid: str) -> PyJWK | None:
        """The key with this id. None if there is none. Raises Problem(503) if the keys are too old to be trusted."""
        if self._is_due(kid):
            async with self._reading:
                if self._is_due(kid):
                    await self._refresh()
        if self._clock.monotonic() - self._read_at >= MAX_AGE_SECONDS:
            raise Problem(
                503,
                "no_signing_keys",
                "the keys that verify tokens cannot be read; see the server's log",
                headers={"Retry-After": str(int(RETRY_SECONDS))},
            )
        return self._keys.get(kid)

    def _is_due(self, kid: str) -> bool:
        """Whether the keys should be read again before this one is looked up."""
        now = self._clock.monotonic()
        old = kid not in self._keys or now - self._read_at >= REFRESH_SECONDS
        return old and now - self._tried_at >= RETRY_SECONDS

    async def _refresh(self) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_SECONDS):
                text = await (_read_url(self._source) if "://" in self._source else _read_file(self._source))
            self._keys, self._read_at = _parse_keys(text), self._tried_at
        except (OSError, TimeoutError, httpx.HTTPError, msgspec.MsgspecError, ValueError) as error:
            _logger.warning("cannot read the signing keys of %s: %s: %s", self._source, type(error).__name__, error)
            count_error("signing_keys", error)


async def _read_file(path: str) -> bytes:
    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(MAX_KEY_SET_BYTES + 1)

    return _check_size(await asyncio.to_thread(read))


async def _read_url(url: str) -> bytes:
    """The content at a URL. Redirects are not followed: only the host in the settings is trusted."""
    found = b""
    async with (
        httpx.AsyncClient(follow_redirects=False, timeout=FETCH_TIMEOUT_SECONDS) as client,
        client.stream("GET", url, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code != 200:
            raise ValueError(f"the response has status {response.status_code}")
        async for part in response.aiter_bytes():
            found = _check_size(found + part)
    return found


def _check_size(text: bytes) -> bytes:
    if len(text) > MAX_KEY_SET_BYTES:
        raise ValueError(f"more than {MAX_KEY_SET_BYTES:,} bytes")
    return text


def _parse_keys(text: bytes) -> dict[str, PyJWK]:
    """The keys by id that verify RS256. Others are ignored."""
    members = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    if not isinstance(members, list):
        raise ValueError("it has no list of keys")
    found = [_parse_key(one) for one in members[:MAX_SIGNING_KEYS]]
    return {key.key_id: key for key in found if key is not None and key.key_id is not None}


def _parse_key(member: Any) -> PyJWK | None:
    if not isinstance(member, dict) or not isinstance(member.get("kid"), str) or member.get("kty") != "RSA":
        return None
    if member.get("use", "sig") != "sig" or member.get("alg", "RS256") != "RS256":
        return None
    try:
        key = PyJWK.from_dict(member, algorithm="RS256")
    except (PyJWTError, ValueError, TypeError):
        return None
    return key if isinstance(key.key, RSAPublicKey) and key.key.key_size >= MIN_KEY_BITS else None
