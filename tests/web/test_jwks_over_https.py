"""Key sets over HTTPS: no redirects, no untrusted certificates, bounded size."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from authority import Authority
from mainspring.api.access.jwks import RETRY_SECONDS, KeySet
from mainspring.api.problem import Problem
from mainspring.testing import VirtualClock

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
SET = json.dumps({"keys": [json.loads(RSAAlgorithm.to_jwk(KEY)) | {"kid": "one"}]}).encode()


class Site:
    """Keys over HTTPS, with a certificate of our own authority."""

    def __init__(self, authority: Authority) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                status, headers, body = site.answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        certificate, key = authority.certificate("site", "DNS:localhost,IP:127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def site(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca)
    server = Site(authority)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def keys(site: Site) -> KeySet:
    return KeySet(site.url, VirtualClock())


async def test_the_key_set_is_read_over_https_and_cached(site: Site, keys: KeySet) -> None:
    site.answer = (200, {}, SET)
    assert await keys.get("one") is not None
    assert await keys.get("one") is not None
    assert site.asked == ["/keys"]


async def test_unknown_kids_do_not_refetch_the_key_set_before_the_retry_time(site: Site) -> None:
    clock = VirtualClock()
    keys = KeySet(site.url, clock)
    site.answer = (200, {}, SET)
    for n in range(20):
        assert await keys.get(f"two{n}") is None
    assert len(site.asked) == 1
    clock.advance(seconds=RETRY_SECONDS)
    assert await keys.get("two") is None
    assert len(site.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/elsewhere"}, b""),
        (200, {}, b" " * (300 << 10) + SET),
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (500, {}, SET),
    ],
    ids=["a redirect", "too much", "a page", "a list", "an error"],
)
async def test_an_invalid_key_set_has_no_keys(site: Site, keys: KeySet, answer: Any) -> None:
    site.answer = answer
    with pytest.raises(Problem) as refused:
        await keys.get("one")
    assert (refused.value.status, refused.value.code) == (503, "no_signing_keys")
    assert site.asked == ["/keys"]


async def test_a_key_set_with_an_untrusted_certificate_is_refused(
    site: Site, keys: KeySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    site.answer = (200, {}, SET)
    with pytest.raises(Problem):
        await keys.get("one")
    assert site.asked == []


async def test_a_missing_key_set_file_has_no_keys() -> None:
    with pytest.raises(Problem):
        await KeySet("/nowhere/keys.json", VirtualClock()).get("one")
