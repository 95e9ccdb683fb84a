"""Signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest

from mainspring import BadInput
from mainspring.webhook.signature import check_secret, is_signed, new_secret, sign, signature_headers

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"another key, of as many as it is").decode()
AT = datetime(2030, 1, 1, tzinfo=UTC)


def by_hand(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """A signature as the standard describes, without our code."""
    key = base64.b64decode(secret.split("_", 1)[1])
    content = f"{id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def test_a_signature_follows_the_standard():
    made = signature_headers([SECRET], "msg_1", AT, b'{"a": 1}')
    assert made["webhook-id"] == "msg_1"
    assert made["webhook-timestamp"] == "1893456000"
    assert made["webhook-signature"] == by_hand(SECRET, "msg_1", "1893456000", b'{"a": 1}')


def test_a_signature_equals_the_standards_example():
    # The example of the specification's reference libraries.
    secret, id, timestamp = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
    made = sign(secret, id, timestamp, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_secrets_make_two_valid_signatures():
    made = signature_headers([SECRET, OTHER], "1", AT, b"x")["webhook-signature"]
    assert made == f"{by_hand(SECRET, '1', '1893456000', b'x')} {by_hand(OTHER, '1', '1893456000', b'x')}"
    assert is_signed([SECRET], "1", "1893456000", made, b"x")
    assert is_signed([OTHER], "1", "1893456000", made, b"x")


@pytest.mark.parametrize(
    ("id", "timestamp", "body", "given"),
    [
        ("2", "1", b"x", None),
        ("1", "2", b"x", None),
        ("1", "1", b"y", None),
        ("1.1", "", b"x", None),
        ("1", "1", b"x", ""),
        ("1", "1", b"x", "v1,"),
        ("1", "1", b"x", "v2," + by_hand(SECRET, "1", "1", b"x")[3:]),
        ("1", "1", b"x", by_hand(OTHER, "1", "1", b"x")),
        ("1", "1", b"x", "v1,ä"),
    ],
)
def test_any_other_signature_is_invalid(id, timestamp, body, given):
    good = by_hand(SECRET, "1", "1", b"x")
    assert is_signed([SECRET], "1", "1", good, b"x")
    assert not is_signed([SECRET], id, timestamp, good if given is None else given, body)


def test_without_a_secret_no_signature_is_valid():
    assert not is_signed([], "1", "1", by_hand(SECRET, "1", "1", b"x"), b"x")


def test_a_new_secret_has_32_random_bytes():
    one, two = new_secret(), new_secret()
    assert one != two
    assert len(base64.b64decode(one.removeprefix("whsec_"))) == 32
    assert check_secret(one) == one


@pytest.mark.parametrize(
    "secret", [None, 7, "", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_not base64 at all",
               "whsec_" + base64.b64encode(bytes(65)).decode()],
)  # fmt: skip
def test_a_malformed_secret_is_refused(secret):
    with pytest.raises(BadInput, match="a secret is 'whsec_' and 24 to 64 random bytes in base64"):
        check_secret(secret)
