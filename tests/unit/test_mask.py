"""Masking: secrets are hidden, and everything else stays readable."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.mask import MASK, MAX_DEPTH, is_secret, mask, mask_text

CANARY = "kan4ri-vogel"

SECRET_NAMES = [
    "password", "PASSWORD", "db_password", "dbPassword", "passwd", "passphrase", "token", "access_token", "accessToken",
    "refresh-token", "tokens", "secret", "client_secret", "SECRET_KEY", "authorization", "Authorization",
    "Proxy-Authorization", "cookie", "Set-Cookie", "cookies", "dsn", "DSN", "redis_dsn", "redisDsn", "api_key",
    "apiKey",
    "x-api-key", "APIKEY", "access_key_id", "privateKey", "credentials", "pwd", "dbPwd", "auth", "jwt", "session_id",
    "sessionid", "connection_string",
]  # fmt: skip
PLAIN_NAMES = [
    "author", "authority", "compass", "bypass", "passes", "passenger", "key", "keyboard", "monkey", "name", "user",
    "id", "status", "dsns3", "path", "session", "pwdx", "",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_mask_hides_values_with_a_secret_name(name: str) -> None:
    assert is_secret(name)
    assert mask({name: CANARY}) == {name: MASK}
    assert mask({"in": [{name: {"deep": [CANARY]}}]}) == {"in": [{name: MASK}]}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_mask_shows_values_with_an_ordinary_name(name: str) -> None:
    assert not is_secret(name)
    assert mask({name: "a value"}) == {name: "a value"}


@pytest.mark.parametrize("data", [None, True, 3, 2.5, "text", "", [1, [2]], {"a": {"b": None}}, {"password": None}])
def test_mask_leaves_data_without_secrets_unchanged(data: Any) -> None:
    assert mask(data) == data


def test_mask_hides_a_numeric_password_and_shows_max_tokens() -> None:
    assert mask({"password": 12345, "token": 99, "max_tokens": 500}) == {
        "password": MASK,
        "token": MASK,
        "max_tokens": 500,
    }
    assert mask_text("max_tokens=500, token=123456") == f"max_tokens=500, token={MASK}"


def test_mask_does_not_change_its_input() -> None:
    data = {"password": CANARY, "list": [{"token": CANARY}]}
    mask(data)
    assert data == {"password": CANARY, "list": [{"token": CANARY}]}


def test_mask_hides_data_below_max_depth() -> None:
    data: Any = CANARY
    for _ in range(5_000):
        data = [data]
    hidden, depth = mask(data), 0
    while isinstance(hidden, list):
        hidden, depth = hidden[0], depth + 1
    assert (hidden, depth) == (MASK, MAX_DEPTH)


LEAKS = [
    f"postgresql://user:{CANARY}@host/db",
    f"postgresql://user:{CANARY}@host:5432/db?sslmode=require",
    f"redis://:{CANARY}@host:6379/0",
    f"postgresql://user:with/slash@and:{CANARY}@host/db",
    f"cannot reach amqp://u:{CANARY}@a,b: refused",
    f"host=db user=u password={CANARY} dbname=x",
    f"host=db password='with space {CANARY}' dbname=x",
    f"host=db password=a,b;{CANARY} dbname=x",
    f"Server=db;Pwd={CANARY};Timeout=3",
    f"https://x.org/path?token={CANARY}&page=2",
    f"Authorization: Bearer {CANARY}",
    f"Authorization: Digest username=u, response={CANARY}",
    f"curl -H 'authorization: {CANARY} and more' https://x.org",
    f"got Bearer {CANARY} and refused it",
    f"Cookie: a=1; session={CANARY}; b=2",
    f'{{"password": "{CANARY}", "user": "u"}}',
    f'{{"password":"quote \\" and {CANARY}","user":"u"}}',
    f'{{"token":["a",{{"b":"{CANARY}"}},"]"],"user":"u"}}',
    f'{{"token":{{"a":{{"b":1}},"c":"{CANARY}"}},"user":"u"}}',
    f'{{"text":"{{\\"password\\": \\"{CANARY}\\"}}"}}',
    f'"{{\\\\\\"api_key\\\\\\": \\\\\\"{CANARY}\\\\\\"}}"',
    f"{{'password': '{CANARY}', 'user': 'u'}}",
    f"connect(password='{CANARY}', user='u')",
    f"connect(password=b'a b {CANARY}')",
    f"assert password == '{CANARY}'",
    f"headers['X-Api-Key'] = '{CANARY}'",
    f"mysql --user u --password {CANARY} db",
    f"mysql --db-password='{CANARY}'",
    f"SECRET_KEY := {CANARY}",
    f'"secret": "{CANARY}',
    f"ValueError: bad apiKey: {CANARY}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{CANARY}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ{CANARY}.{CANARY}",
    "Basic " + base64.b64encode(b"user:" + CANARY.encode()).decode(),
]


@pytest.mark.parametrize("text", LEAKS)
def test_mask_text_hides_every_secret(text: str) -> None:
    hidden = mask_text(text)
    assert CANARY not in hidden
    assert base64.b64encode(b"user:" + CANARY.encode()).decode() not in hidden
    assert MASK in hidden
    assert mask_text(hidden) == hidden


@pytest.mark.parametrize("text", LEAKS)
def test_mask_hides_secrets_in_nested_values_and_keys(text: str) -> None:
    assert CANARY not in json.dumps(mask({"a": ["b", text], text: 1}))


@pytest.mark.parametrize(
    "text",
    [
        "send_email: 3 of 10 rows",
        "password authentication failed for user 'u'",
        "http://host:8080/people/a@b.c",
        "https://x.org:443/?mail=a@b.c",
        "postgresql://user@host/db",
        "Basic configuration of the tokenizer",
        'File "auth.py", line 3, in tokenize',
        "the author: Ann; passes: 3",
        '{"password": null, "token": ""}',
        "password=None",
    ],
)
def test_mask_text_leaves_text_without_secrets_unchanged(text: str) -> None:
    assert mask_text(text) == text


def test_mask_text_hides_only_the_secret() -> None:
    assert mask_text(f"redis://u:{CANARY}@h:1/0 and postgresql://v:{CANARY}@h/d") == (
        f"redis://u:{MASK}@h:1/0 and postgresql://v:{MASK}@h/d"
    )
    assert mask_text(f"host=db password={CANARY} port=1") == f"host=db password={MASK} port=1"
    assert mask_text(f"?token={CANARY}&page=2") == f"?token={MASK}&page=2"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "token", "pwd"]), inner),
    )
)
def test_mask_text_keeps_json_valid(data: Any) -> None:
    text = json.dumps({"password": CANARY, "data": data})
    assert CANARY not in mask_text(text)
    json.loads(mask_text(json.dumps({"token": data, "apiKey": [data], "b": 1})))


@given(st.text())
def test_mask_text_accepts_any_text_and_is_idempotent(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once
    assert mask_text(f"password={CANARY} {text}").startswith(f"password={MASK}")


@pytest.mark.parametrize(
    "text", ["://a:", "password=", "a" * 10, '"', "token[", "Bearer ", "\\", "-", 'pwd="\\"', "eyJ"]
)
def test_mask_text_of_a_hostile_text_is_not_quadratic(text: str) -> None:
    """A quadratic pattern would take minutes here."""
    mask_text(text * (400_000 // len(text)))


@pytest.mark.parametrize("kind", ["msk_0123456789ab", "mst_start"])
def test_mask_text_hides_mainspring_api_keys_and_tokens(kind: str) -> None:
    assert mask_text(f"called with {kind}_{'Ab1' * 14}x, twice") == f"called with {MASK}, twice"
