"""The public keys that sign JSON web tokens, from a file or over HTTPS: cached, bounded, and asked for seldom."""

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

# In seconds. Keys are read anew after FRESH, for a key that is not known no sooner than AGAIN after the last time;
# those that were read last count for STALE if they cannot be.
FRESH, AGAIN, STALE = 300.0, 30.0, 3600.0
PATIENCE = 5.0
LIMIT = 256 << 10
MOST = 100
LEAST_BITS = 2048
_logger = logging.getLogger("mainspring")


class KeySet:
    def __init__(self, source: str, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._keys: dict[str, PyJWK] = {}
        self._read_at = self._tried_at = -STALE
        self._reading = asyncio.Lock()

    async def get(self, kid: str) -> PyJWK | None:
        """The key of that id. Problem(503) if no keys could be read for long."""
        if self._wants(kid):
            async with self._reading:
                if self._wants(kid):
                    await self._refresh()
        if self._clock.monotonic() - self._read_at >= STALE:
            raise Problem(
                503, "no_signing_keys", "the keys that sign tokens cannot be read; the server's log says why",
                headers={"Retry-After": str(int(AGAIN))},
            )  # fmt: skip
        return self._keys.get(kid)

    def _wants(self, kid: str) -> bool:
        now = self._clock.monotonic()
        old = kid not in self._keys or now - self._read_at >= FRESH
        return old and now - self._tried_at >= AGAIN

    async def _refresh(self) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                text = await (_fetched(self._source) if "://" in self._source else _file(self._source))
            self._keys, self._read_at = _usable(text), self._tried_at
        except (OSError, TimeoutError, httpx.HTTPError, msgspec.MsgspecError, ValueError) as error:
            _logger.warning("cannot read the signing keys of %s: %s: %s", self._source, type(error).__name__, error)
            count_error("signing_keys", error)


async def _file(path: str) -> bytes:
    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(LIMIT + 1)

    return _bounded(await asyncio.to_thread(read))


async def _fetched(url: str) -> bytes:
    """No redirects: whoever is named in the settings answers, or nobody."""
    found = b""
    async with (
        httpx.AsyncClient(follow_redirects=False, timeout=PATIENCE) as client,
        client.stream("GET", url, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code != 200:
            raise ValueError(f"the answer is {response.status_code}")
        async for part in response.aiter_bytes():
            found = _bounded(found + part)
    return found


def _bounded(text: bytes) -> bytes:
    if len(text) > LIMIT:
        raise ValueError(f"more than {LIMIT:,} bytes")
    return text


def _usable(text: bytes) -> dict[str, PyJWK]:
    """Those with an id that verify RS256; the others are for somebody else."""
    said = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    if not isinstance(said, list):
        raise ValueError("there is no list of keys in it")
    found = [_key(one) for one in said[:MOST]]
    return {key.key_id: key for key in found if key is not None and key.key_id is not None}


def _key(said: Any) -> PyJWK | None:
    if not isinstance(said, dict) or not isinstance(said.get("kid"), str) or said.get("kty") != "RSA":
        return None
    if said.get("use", "sig") != "sig" or said.get("alg", "RS256") != "RS256":
        return None
    try:
        key = PyJWK.from_dict(said, algorithm="RS256")
    except (PyJWTError, ValueError, TypeError):
        return None
    return key if isinstance(key.key, RSAPublicKey) and key.key.key_size >= LEAST_BITS else None
