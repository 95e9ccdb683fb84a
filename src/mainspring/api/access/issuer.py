"""Who may sign tokens for this service: what the jwt_* settings say, if they fit together."""

from __future__ import annotations

from ...config import Settings
from ...errors import BadSetting

# As long as the hash that HS256 is made of: a shorter secret is easier to guess than that.
_LEAST_SECRET = 32


def check_jwt(s: Settings) -> None:
    """Refuses jwt_* settings that do not fit together."""
    given = [name for name in ("jwt_secret", "jwt_jwks", "jwt_issuer", "jwt_audience") if getattr(s, name)]
    if not s.jwt_algorithm:
        if given:
            raise BadSetting(f"{given[0]} is set, but JSON web tokens are off: set jwt_algorithm to HS256 or RS256")
        return
    needed, other = ("jwt_secret", "jwt_jwks") if s.jwt_algorithm == "HS256" else ("jwt_jwks", "jwt_secret")
    if other in given:
        raise BadSetting(f"{other} is not for jwt_algorithm {s.jwt_algorithm}, which takes {needed}: leave it out")
    for name in (needed, "jwt_issuer", "jwt_audience", "jwt_role_claim", "jwt_subject_claim"):
        if not getattr(s, name):
            raise BadSetting(f"jwt_algorithm {s.jwt_algorithm} needs {name} too")
    if needed == "jwt_secret" and len(s.jwt_secret.encode()) < _LEAST_SECRET:
        raise BadSetting(f"jwt_secret must be at least {_LEAST_SECRET} bytes long, got {len(s.jwt_secret.encode())}")
    if needed == "jwt_jwks" and "://" in s.jwt_jwks and not s.jwt_jwks.startswith("https://"):
        raise BadSetting(f"jwt_jwks must be an https:// URL or the path of a file, got {s.jwt_jwks!r}")
