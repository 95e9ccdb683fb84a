"""The verification of JSON web tokens: one algorithm, one issuer, one audience, and all time claims."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import jwt
from jwt.exceptions import InvalidAudienceError, InvalidIssuerError, MissingRequiredClaimError, PyJWTError

from ...clock import Clock
from ...config import Settings
from ...control.keys import KEY_CACHE_SECONDS
from ...records.api_key import ROLES
from ...records.principal import Principal
from .jwks import KeySet

# Allowed difference between the issuer's clock and this one.
LEEWAY_SECONDS = 10.0
MAX_TOKEN_CHARACTERS = 8192
_REQUIRED_CLAIMS = ["exp", "nbf", "iat", "iss", "aud"]
# Headers by which a token would choose the key that verifies it.
_KEY_HEADERS = ("jku", "jwk", "x5u", "x5c")
_MAX_CACHED_TOKENS = 1000
_CACHE_SECONDS = KEY_CACHE_SECONDS


class TokenRefused(Exception):
    """A token is not valid; the text is the reason."""


class JwtVerifier:
    """Verifies tokens as the jwt_* settings require."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._keys = KeySet(settings.jwt_jwks, clock) if settings.jwt_algorithm == "RS256" else None
        # Verified tokens by hash, with the time of verification: a lookup is far cheaper than a verification.
        self._cached: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    async def read(self, token: str) -> tuple[Principal | None, str]:
        """The token's principal and an empty text; or None and the reason why it is refused."""
        try:
            return await self._principal(token), ""
        except TokenRefused as refused:
            return None, f"this token is refused: {refused}"

    async def _principal(self, token: str) -> Principal:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise TokenRefused(f"it is longer than {MAX_TOKEN_CHARACTERS} characters")
        digest, now = sha256(token.encode("latin-1")).digest(), self._clock.monotonic()
        if (cached := self._cached.get(digest)) and now - cached[1] < _CACHE_SECONDS:
            _check_not_expired(cached[0].expires_at, self._clock.now())
            return cached[0]
        found = self._principal_of(await self._claims(token))
        self._cached[digest] = (found, now)
        self._cached.move_to_end(digest)
        if len(self._cached) > _MAX_CACHED_TOKENS:
            self._cached.popitem(last=False)
        return found

    async def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        try:
            key = await self._key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[settings.jwt_algorithm],
                audience=settings.jwt_audience,
                issuer=settings.jwt_issuer,
                # Time claims are checked below, by the app's clock.
                options={"require": _REQUIRED_CLAIMS, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except MissingRequiredClaimError as missing:
            raise TokenRefused(f"it has no {missing.claim}") from None
        except InvalidAudienceError:
            raise TokenRefused(f"it is not for the audience {settings.jwt_audience!r}") from None
        except InvalidIssuerError:
            raise TokenRefused(f"it is not from the issuer {settings.jwt_issuer!r}") from None
        except (PyJWTError, ValueError, RecursionError):
            raise TokenRefused("it is malformed, or its signature is wrong") from None
        return claims

    async def _key(self, header: dict[str, Any]) -> Any:
        if header.get("alg") != self._settings.jwt_algorithm:
            raise TokenRefused(f"it is not signed with {self._settings.jwt_algorithm}")
        if named := [name for name in (*_KEY_HEADERS, "crit") if name in header]:
            raise TokenRefused(f"it has a header {named[0]}, which is not supported")
        if self._keys is None:
            return self._settings.jwt_secret
        kid = header.get("kid")
        key = await self._keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise TokenRefused("its kid is missing or unknown")
        return key

    def _principal_of(self, claims: dict[str, Any]) -> Principal:
        now, settings = self._clock.now(), self._settings
        for claim in ("nbf", "iat"):
            if _seconds(claims, claim) > now.timestamp() + LEEWAY_SECONDS:
                raise TokenRefused(f"it is not valid yet ({claim})")
        end = _seconds(claims, "exp")
        if end >= 2**33:
            raise TokenRefused("it does not expire (exp)")
        expires_at = datetime.fromtimestamp(end, UTC)
        _check_not_expired(expires_at, now)
        subject, role = claims.get(settings.jwt_subject_claim), claims.get(settings.jwt_role_claim)
        if not isinstance(subject, str) or not 0 < len(subject) <= 200 or not subject.isprintable():
            raise TokenRefused(f"it has no valid subject ({settings.jwt_subject_claim})")
        if role not in ROLES:
            raise TokenRefused(f"its {settings.jwt_role_claim} is not one of {', '.join(ROLES)}")
        return Principal(name=f"jwt:{subject}", role=role, expires_at=expires_at)


def _seconds(claims: dict[str, Any], claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**15:
        raise TokenRefused(f"its {claim} is not a timestamp")
    return value


def _check_not_expired(end: datetime | None, now: datetime) -> None:
    if end is not None and (now - end).total_seconds() >= LEEWAY_SECONDS:
        raise TokenRefused("it has expired")
