"""JSON web tokens: one algorithm, one issuer, one audience, every claim that bounds them."""

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
from .authenticate import Principal
from .keyset import KeySet

# Clocks differ by so many seconds.
LEEWAY = 10.0
LONGEST = 8192
_REQUIRED = ["exp", "nbf", "iat", "iss", "aud"]
# Where a token would say by itself which key it is to be verified with.
_TELLING = ("jku", "jwk", "x5u", "x5c")
_MOST = 1000
_REMEMBERED_FOR = KEY_CACHE_SECONDS


class TokenRefused(Exception):
    """Why a token is not believed."""


class WebTokens:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._keys = KeySet(settings.jwt_jwks, clock) if settings.jwt_algorithm == "RS256" else None
        # Verifying costs far more than finding it here: by hash, who it was, and when that was found out.
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    async def read(self, token: str) -> tuple[Principal | None, str]:
        """Whose it is; or nobody, and why not."""
        try:
            return await self._principal(token), ""
        except TokenRefused as refused:
            return None, f"this token is refused: {refused}"

    async def _principal(self, token: str) -> Principal:
        if len(token) > LONGEST:
            raise TokenRefused(f"it is longer than {LONGEST} characters")
        digest, now = sha256(token.encode("latin-1")).digest(), self._clock.monotonic()
        if (known := self._known.get(digest)) and now - known[1] < _REMEMBERED_FOR:
            _check_end(known[0].expires_at, self._clock.now())
            return known[0]
        found = self._believed(await self._claims(token))
        self._known[digest] = (found, now)
        self._known.move_to_end(digest)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found

    async def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        try:
            key = await self._key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token, key, algorithms=[settings.jwt_algorithm], audience=settings.jwt_audience,
                issuer=settings.jwt_issuer,
                # Times are compared by our clock, below.
                options={"require": _REQUIRED, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )  # fmt: skip
        except MissingRequiredClaimError as missing:
            raise TokenRefused(f"it has no {missing.claim}") from None
        except InvalidAudienceError:
            raise TokenRefused(f"it is not for the audience {settings.jwt_audience!r}") from None
        except InvalidIssuerError:
            raise TokenRefused(f"it is not of the issuer {settings.jwt_issuer!r}") from None
        except (PyJWTError, ValueError, RecursionError):
            raise TokenRefused("it is malformed, or its signature is wrong") from None
        return claims

    async def _key(self, header: dict[str, Any]) -> Any:
        if header.get("alg") != self._settings.jwt_algorithm:
            raise TokenRefused(f"it is not signed by {self._settings.jwt_algorithm}")
        if named := [name for name in (*_TELLING, "crit") if name in header]:
            raise TokenRefused(f"it has a header {named[0]}, which nobody heeds here")
        if self._keys is None:
            return self._settings.jwt_secret
        kid = header.get("kid")
        key = await self._keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise TokenRefused("its kid is missing, or names no key that signs here")
        return key

    def _believed(self, claims: dict[str, Any]) -> Principal:
        now, settings = self._clock.now(), self._settings
        for claim in ("nbf", "iat"):
            if _seconds(claims, claim) > now.timestamp() + LEEWAY:
                raise TokenRefused(f"it is not valid yet ({claim})")
        end = _seconds(claims, "exp")
        if end >= 2**33:
            raise TokenRefused("it does not end (exp)")
        expires_at = datetime.fromtimestamp(end, UTC)
        _check_end(expires_at, now)
        subject, role = claims.get(settings.jwt_subject_claim), claims.get(settings.jwt_role_claim)
        if not isinstance(subject, str) or not 0 < len(subject) <= 200 or not subject.isprintable():
            raise TokenRefused(f"it does not say who it is for ({settings.jwt_subject_claim})")
        if role not in ROLES:
            raise TokenRefused(f"its {settings.jwt_role_claim} is none of {', '.join(ROLES)}")
        return Principal(name=f"jwt:{subject}", role=role, expires_at=expires_at)


def _seconds(claims: dict[str, Any], claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**15:
        raise TokenRefused(f"its {claim} is no instant")
    return value


def _check_end(end: datetime | None, now: datetime) -> None:
    if end is not None and (now - end).total_seconds() >= LEEWAY:
        raise TokenRefused("it has expired")
