"""The check of the jwt_* settings."""

from __future__ import annotations

from ...config import Settings
from ...errors import BadSetting

# The size of the hash in HS256: a shorter secret would be the weakest part.
_MIN_SECRET_BYTES = 32


def check_jwt(s: Settings) -> None:
    """Raises BadSetting if the jwt_* settings are incomplete or contradict each other."""
    given = [name for name in ("jwt_secret", "jwt_jwks", "jwt_issuer", "jwt_audience") if getattr(s, name)]
    if not s.jwt_algorithm:
        if given:
            raise BadSetting(f"{given[0]} is set, but JSON web tokens are off: set jwt_algorithm to HS256 or RS256")
        return
    needed, other = ("jwt_secret", "jwt_jwks") if s.jwt_algorithm == "HS256" else ("jwt_jwks", "jwt_secret")
    if other in given:
        raise BadSetting(f"{other} is not for jwt_algorithm {s.jwt_algorithm}, which takes {needed}: unset it")
    for name in (needed, "jwt_issuer", "jwt_audience", "jwt_role_claim", "jwt_subject_claim"):
        if not getattr(s, name):
            raise BadSetting(f"jwt_algorithm {s.jwt_algorithm} needs {name} too")
    if needed == "jwt_secret" and len(s.jwt_secret.encode()) < _MIN_SECRET_BYTES:
        raise BadSetting(
            f"jwt_secret must be at least {_MIN_SECRET_BYTES} bytes long, got {len(s.jwt_secret.encode())}"
        )
    if needed == "jwt_jwks" and "://" in s.jwt_jwks and not s.jwt_jwks.startswith("https://"):
        raise BadSetting(f"jwt_jwks must be an https:// URL or the path of a file, got {s.jwt_jwks!r}")
