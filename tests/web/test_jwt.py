"""JSON web tokens: valid ones are accepted, all others are refused with a reason."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from http_client import browser
from jwt.algorithms import RSAAlgorithm

from mainspring import BadSetting, Mainspring
from mainspring.api.access import jwks as keyset
from mainspring.testing import VirtualClock

SECRET = "a secret of at least thirty-two bytes"
COMMON = {"jwt_issuer": "https://id.example", "jwt_audience": "mainspring"}
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = PRIVATE.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
NOBODY = {"alg": "none", "typ": "JWT"}


def jwk(key: rsa.RSAPrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    return json.loads(RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig", "alg": "RS256"} | more


def b64(data: bytes | dict[str, Any]) -> str:
    raw = json.dumps(data).encode() if isinstance(data, dict) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes = b"") -> str:
    """A token that a library would refuse to create."""
    body = f"{b64(header)}.{b64(claims)}"
    return f"{body}.{b64(hmac.digest(key, body.encode(), sha256)) if key else ''}"


@pytest.fixture
def claims(clock: VirtualClock) -> dict[str, Any]:
    now = int(clock.now().timestamp())
    return {
        "sub": "alice", "role": "operator", "iss": "https://id.example", "aud": "mainspring",
        "iat": now, "nbf": now, "exp": now + 300,
    }  # fmt: skip


def key_file_in(folder: Path) -> Path:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": [jwk(PRIVATE, "one")]}))
    return path


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return key_file_in(tmp_path)


def app_with(clock: VirtualClock, **settings: Any) -> Mainspring:
    return Mainspring("memory://", clock=clock, **{**COMMON, **settings})


ADDRESSES = count()


async def asked(service: Any, token: str) -> tuple[int, str]:
    """Status and detail of the response to this token; each call comes from its own address."""
    address = f"10.0.0.{next(ADDRESSES)}"
    async with browser(service, address, headers={"Authorization": f"Bearer {token}"}) as http:
        answer = await http.get("/session")
        return answer.status_code, answer.json().get("detail") or answer.json()["name"]


@pytest.fixture
def hs(clock: VirtualClock) -> Mainspring:
    return app_with(clock, jwt_algorithm="HS256", jwt_secret=SECRET)


@pytest.fixture
def rs(clock: VirtualClock, key_file: Path) -> Mainspring:
    return app_with(clock, jwt_algorithm="RS256", jwt_jwks=str(key_file))


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The service of an app like `rs`, shared by tests that do not change it."""
    file = key_file_in(tmp_path_factory.mktemp("keys"))
    return app_with(VirtualClock(), jwt_algorithm="RS256", jwt_jwks=str(file)).asgi()


@pytest.fixture(scope="module")
def secretive() -> Any:
    """The service of an app like `hs`, shared by tests that do not change it."""
    return app_with(VirtualClock(), jwt_algorithm="HS256", jwt_secret=SECRET).asgi()


def rs256(claims: dict[str, Any], key: Any = PRIVATE, **header: Any) -> str:
    return jwt.encode(claims, key, "RS256", headers={"kid": "one", **header})


# accepted tokens


async def test_a_token_signed_with_the_secret_is_accepted(secretive: Any, claims: dict[str, Any]) -> None:
    assert await asked(secretive, jwt.encode(claims, SECRET, "HS256")) == (200, "jwt:alice")


async def test_a_token_signed_by_a_key_of_the_set_is_accepted(pinned: Any, claims: dict[str, Any]) -> None:
    assert await asked(pinned, rs256(claims)) == (200, "jwt:alice")


async def test_the_role_and_the_subject_may_be_in_other_claims(clock: VirtualClock, claims: dict[str, Any]) -> None:
    app = app_with(clock, jwt_algorithm="HS256", jwt_secret=SECRET, jwt_role_claim="level", jwt_subject_claim="email")
    named = claims | {"level": "admin", "email": "alice@example.com"}
    assert await asked(app.asgi(), jwt.encode(named, SECRET, "HS256")) == (200, "jwt:alice@example.com")


async def test_the_role_claim_decides_what_a_token_allows(hs: Mainspring, claims: dict[str, Any]) -> None:
    viewer = jwt.encode(claims | {"role": "viewer"}, SECRET, "HS256")
    async with browser(hs.asgi(), headers={"Authorization": f"Bearer {viewer}"}) as http:
        assert (await http.get("/queues")).status_code == 200
        assert (await http.post("/queues/mail/pause")).status_code == 403


async def test_a_token_with_several_audiences_is_accepted(secretive: Any, claims: dict[str, Any]) -> None:
    token = jwt.encode(claims | {"aud": ["other", "mainspring"]}, SECRET, "HS256")
    assert await asked(secretive, token) == (200, "jwt:alice")


async def test_a_cached_token_expires(hs: Mainspring, clock: VirtualClock, claims: dict[str, Any]) -> None:
    token = jwt.encode(claims | {"exp": claims["iat"] + 3}, SECRET, "HS256")
    async with browser(hs.asgi(), headers={"Authorization": f"Bearer {token}"}) as http:
        clock.advance(seconds=12)  # a leeway of ten, for clocks that differ
        assert (await http.get("/session")).status_code == 200
        clock.advance(seconds=1)
        assert (await http.get("/session")).status_code == 401


async def test_time_claims_have_a_leeway(secretive: Any, claims: dict[str, Any]) -> None:
    ahead = claims | {"iat": claims["iat"] + 10, "nbf": claims["nbf"] + 10}
    assert await asked(secretive, jwt.encode(ahead, SECRET, "HS256")) == (200, "jwt:alice")


# refused tokens

Attack = Callable[[dict[str, Any]], str]


def but(**changes: Any) -> Attack:
    """A correctly signed token with other claims."""
    return lambda claims: rs256(claims | changes)


def without(claim: str) -> Attack:
    return lambda claims: rs256({name: value for name, value in claims.items() if name != claim})


def swapped(claims: dict[str, Any]) -> str:
    """Claims of one token under the signature of another."""
    head, _, signature = rs256(claims).split(".")
    return f"{head}.{b64(claims | {'role': 'admin'})}.{signature}"


MALFORMED = "malformed, or its signature is wrong"
ALGORITHM = "it is not signed with RS256"
KID = "its kid is missing or unknown"

ATTACKS: dict[str, tuple[Attack, str]] = {
    "no signature at all": (lambda claims: by_hand(NOBODY, claims), ALGORITHM),
    "none in other letters": (lambda claims: by_hand({**NOBODY, "alg": "nOnE"}, claims), ALGORITHM),
    "none with a kid": (lambda claims: by_hand({**NOBODY, "kid": "one"}, claims), ALGORITHM),
    "no algorithm": (lambda claims: by_hand({"typ": "JWT", "kid": "one"}, claims, PEM), "it is"),
    "key confusion: the public key as the secret": (
        lambda claims: by_hand({"alg": "HS256", "kid": "one"}, claims, PEM),
        ALGORITHM,
    ),
    "key confusion that says RS256": (
        lambda claims: by_hand({"alg": "RS256", "kid": "one"}, claims, PEM),
        MALFORMED,
    ),
    "another algorithm of the same key": (
        lambda claims: jwt.encode(claims, PRIVATE, "RS512", headers={"kid": "one"}),
        ALGORITHM,
    ),
    "a padding of the same key": (
        lambda claims: jwt.encode(claims, PRIVATE, "PS256", headers={"kid": "one"}),
        ALGORITHM,
    ),
    "somebody else's key": (lambda claims: rs256(claims, OTHER), MALFORMED),
    "a key named by jku": (
        lambda claims: rs256(claims, OTHER, jku="https://evil.example/keys"),
        "it has a header jku",
    ),
    "jku, well signed": (lambda claims: rs256(claims, jku="https://evil.example"), "it has a header jku"),
    "a key named by x5u": (lambda claims: rs256(claims, OTHER, x5u="https://evil.example/c"), "it has a header x5u"),
    "a key in the token": (lambda claims: rs256(claims, OTHER, jwk=jwk(OTHER, "one")), "it has a header jwk"),
    "a certificate in the token": (lambda claims: rs256(claims, OTHER, x5c=["MII="]), "it has a header x5c"),
    "something critical": (lambda claims: rs256(claims, crit=["b64"], b64=True), "it "),
    "an unknown kid": (lambda claims: rs256(claims, kid="two"), KID),
    "a kid that is a path": (lambda claims: rs256(claims, kid="../../../../dev/null"), KID),
    "a kid that is a statement": (lambda claims: rs256(claims, kid="' or '1'='1"), KID),
    "a kid that is no text": (lambda claims: by_hand({"alg": "RS256", "kid": 1}, claims, PEM), "it"),
    "no kid": (lambda claims: jwt.encode(claims, PRIVATE, "RS256"), KID),
    "expired": (lambda claims: rs256(claims | {"exp": claims["iat"] - 10}), "it has expired"),
    "expired long ago": (but(exp=1), "it has expired"),
    "not valid yet": (lambda claims: rs256(claims | {"nbf": claims["nbf"] + 11}), "it is not valid yet (nbf)"),
    "issued in the future": (lambda claims: rs256(claims | {"iat": claims["iat"] + 11}), "it is not valid yet (iat)"),
    "for ever": (but(exp=2**40), "it does not expire"),
    "an end that is no number": (but(exp="never"), "its exp is not a timestamp"),
    "an end that is a truth": (but(exp=True), "its exp is not a timestamp"),
    "an end beyond numbers": (but(exp=float("inf")), "it"),
    "another audience": (but(aud="payments"), "not for the audience 'mainspring'"),
    "an audience that begins alike": (but(aud="mainspring2"), "not for the audience"),
    "no audience": (without("aud"), "it has no aud"),
    "an empty list of audiences": (but(aud=[]), "it has no aud"),
    "another issuer": (but(iss="https://evil.example"), "not from the issuer 'https://id.example'"),
    "an issuer that ends alike": (but(iss="https://evil.example/https://id.example"), "not from the issuer"),
    "no issuer": (without("iss"), "it has no iss"),
    "no end": (without("exp"), "it has no exp"),
    "no beginning": (without("nbf"), "it has no nbf"),
    "no date": (without("iat"), "it has no iat"),
    "no role": (without("role"), "its role is not one of viewer, operator, admin"),
    "an unknown role": (but(role="root"), "its role is not one of"),
    "a list of roles": (but(role=["admin"]), "its role is not one of"),
    "a role in other letters": (but(role="ADMIN"), "its role is not one of"),
    "no subject": (without("sub"), "it has no valid subject"),
    "an empty subject": (but(sub=""), "it has no valid subject"),
    "a subject with a line break": (but(sub="a\nkey:root"), "it has no valid subject"),
    "truncated": (lambda claims: rs256(claims)[:-10], MALFORMED),
    "without its signature": (lambda claims: rs256(claims).rpartition(".")[0] + ".", MALFORMED),
    "two parts": (lambda claims: rs256(claims).rpartition(".")[0], MALFORMED),
    "other claims under a signature": (swapped, MALFORMED),
    "no JSON": (lambda claims: "a.b.c", MALFORMED),
    "a header that is a list": (lambda claims: f"{b64(b'[]')}.{b64(claims)}.aa", MALFORMED),
    "claims that are a list": (
        lambda claims: jwt.api_jws.encode(b"[]", PRIVATE, "RS256", headers={"kid": "one"}),
        MALFORMED,
    ),
    "encrypted": (lambda claims: "a.b.c.d.e", MALFORMED),
    "not even close": (lambda claims: "Bearer", MALFORMED),
    "too long": (lambda claims: rs256(claims | {"more": "a" * 8000}), "it is longer than 8192 characters"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_invalid_token_is_refused_with_the_reason(pinned: Any, claims: dict[str, Any], name: str) -> None:
    attack, words = ATTACKS[name]
    status, said = await asked(pinned, attack(claims))
    assert status == 401, said
    assert words in said


@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("another secret", lambda claims: jwt.encode(claims, "b" * 37, "HS256")),
        ("another algorithm", lambda claims: jwt.encode(claims, SECRET * 2, "HS512")),
        ("none", lambda claims: by_hand(NOBODY, claims)),
        ("an empty secret", lambda claims: by_hand({"alg": "HS256"}, claims)),
        ("a key of its own", lambda claims: rs256(claims)),
        ("a kid that names nothing", lambda claims: by_hand({"alg": "HS256", "kid": "/dev/null"}, claims)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_forged_token_is_refused_if_tokens_are_signed_with_a_secret(
    secretive: Any, claims: dict[str, Any], name: str, forge: Attack
) -> None:
    assert (await asked(secretive, forge(claims)))[0] == 401


async def test_tokens_are_refused_if_jwt_is_off(spring: Mainspring, claims: dict[str, Any]) -> None:
    status, said = await asked(spring.asgi(), jwt.encode(claims, SECRET, "HS256"))
    assert status == 401
    assert "JSON web tokens are off (setting jwt_algorithm)" in said


async def test_api_keys_are_accepted_if_jwt_is_on(rs: Mainspring) -> None:
    assert await asked(rs.asgi(), await rs.keys.create("deploy")) == (200, "key:deploy")


# the settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jwt_issuer": "a"}, "jwt_issuer is set, but JSON web tokens are off: set jwt_algorithm"),
        ({"jwt_algorithm": "HS256", **COMMON}, "jwt_algorithm HS256 needs jwt_secret too"),
        ({"jwt_algorithm": "RS256", **COMMON}, "jwt_algorithm RS256 needs jwt_jwks too"),
        ({"jwt_algorithm": "HS256", "jwt_secret": SECRET, "jwt_issuer": "a"}, "needs jwt_audience too"),
        ({"jwt_algorithm": "HS256", "jwt_secret": SECRET, "jwt_audience": "a"}, "needs jwt_issuer too"),
        ({"jwt_algorithm": "HS256", "jwt_secret": "a" * 31, **COMMON}, "at least 32 bytes long, got 31"),
        ({"jwt_algorithm": "RS256", "jwt_jwks": "http://id.example/k", **COMMON}, "an https:// URL or the path"),
        ({"jwt_algorithm": "RS256", "jwt_jwks": "keys", "jwt_secret": SECRET, **COMMON}, "jwt_secret is not for"),
        ({"jwt_algorithm": "HS256", "jwt_jwks": "keys", "jwt_secret": SECRET, **COMMON}, "jwt_jwks is not for"),
    ],
)
def test_inconsistent_jwt_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        Mainspring("memory://", **settings).asgi()


# the set of keys


async def test_an_unknown_kid_rereads_the_key_set_at_most_every_30_seconds(
    rs: Mainspring, clock: VirtualClock, claims: dict[str, Any], key_file: Path
) -> None:
    service = rs.asgi()

    async def status(token: str) -> int:
        async with browser(service, headers={"Authorization": f"Bearer {token}"}) as http:
            return (await http.get("/session")).status_code

    assert await status(rs256(claims)) == 200
    key_file.write_text(json.dumps({"keys": [jwk(OTHER, "two")]}))
    new = rs256(claims, OTHER, kid="two")
    assert await status(new) == 401
    clock.advance(seconds=keyset.RETRY_SECONDS)
    assert await status(new) == 200
    assert await status(rs256(claims)) == 401


async def test_cached_signing_keys_are_trusted_for_an_hour(
    rs: Mainspring, clock: VirtualClock, claims: dict[str, Any], key_file: Path
) -> None:
    service = rs.asgi()
    token = rs256(claims | {"exp": claims["exp"] + 7200})
    async with browser(service, headers={"Authorization": f"Bearer {token}"}) as http:
        assert (await http.get("/session")).status_code == 200
        key_file.write_text("no keys")
        clock.advance(minutes=59)
        assert (await http.get("/session")).status_code == 200
        clock.advance(minutes=1)
        stale = await http.get("/session")
        assert (stale.status_code, stale.json()["code"]) == (503, "no_signing_keys")
        assert stale.headers["Retry-After"] == "30"


@pytest.mark.parametrize(
    "keys",
    [
        [jwk(PRIVATE, "one", use="enc")],
        [jwk(PRIVATE, "one", alg="RS512")],
        [jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024), "one")],
        [{"kty": "oct", "kid": "one", "k": b64(PEM)}],
        [{"kty": "RSA", "kid": "one"}],
        [json.loads(RSAAlgorithm.to_jwk(PRIVATE)) | {"kid": "one"}],
        ["one"],
        [],
    ],
    ids=["for encryption", "of another algorithm", "too short", "a secret", "half", "private", "no key", "none"],
)
async def test_only_public_keys_that_sign_by_the_algorithm_are_used(
    rs: Mainspring, claims: dict[str, Any], key_file: Path, keys: list[Any]
) -> None:
    key_file.write_text(json.dumps({"keys": keys}))
    status, said = await asked(rs.asgi(), rs256(claims))
    assert (status, KID in said) == (401, True)


@pytest.mark.parametrize(
    "part", [b"[" * 4000, b'{"alg":' + b"[" * 4000, b'{"alg":' + b"9" * 4500 + b"}", b"\xff{}", b"null"]
)
@pytest.mark.parametrize("place", [0, 1])
async def test_a_token_with_malformed_json_is_refused(clock: VirtualClock, part: bytes, place: int) -> None:
    service = app_with(clock, jwt_algorithm="HS256", jwt_secret=SECRET).asgi()
    parts = [b64({"alg": "HS256", "typ": "JWT"}), b64(b"{}")]
    parts[place] = b64(part)
    body = ".".join(parts)
    signed = f"{body}.{b64(hmac.digest(SECRET.encode(), body.encode(), sha256))}"
    status, words = await asked(service, signed)
    assert status == 401
    assert "this token is refused" in words
