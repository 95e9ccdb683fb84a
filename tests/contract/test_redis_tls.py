"""Redis over TLS: server and client certificates, and the errors without them."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from visits import refusal, whole_way

from authority import Authority
from mainspring.errors import BadSetting, StoreUnavailable
from mainspring.stores import open_store
from mainspring.stores.redis import connection
from servers import Redis, free_port


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


class Guarded(Redis):
    """It speaks TLS at a port of its own; the fetched Valkey cannot, so any that is in the path is taken."""

    def __init__(self, authority: Authority, clients: str, **settings: str) -> None:
        cert, key = authority.certificate(f"server-{clients}", "IP:127.0.0.1")
        self.tls_port = free_port()
        super().__init__(
            None, tls_port=str(self.tls_port), tls_auth_clients=clients,
            tls_cert_file=cert, tls_key_file=key, tls_ca_cert_file=authority.ca, **settings,
        )  # fmt: skip

    def tls(self, host: str = "127.0.0.1", **options: str) -> str:
        return f"rediss://{host}:{self.tls_port}/0?{urlencode(options)}"


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[Guarded]:
    server = Guarded(authority, "no")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def asking(authority: Authority) -> Iterator[Guarded]:
    """It asks for a certificate."""
    server = Guarded(authority, "yes")
    try:
        yield server
    finally:
        server.close()


class TestTls:
    async def test_every_store_call_works_over_tls(self, guarded: Guarded, authority: Authority) -> None:
        await whole_way(guarded.tls(ca=authority.ca))

    async def test_a_client_certificate_is_accepted(self, asking: Guarded, authority: Authority) -> None:
        cert, key = authority.certificate("client")
        await whole_way(asking.tls(ca=authority.ca, cert=cert, key=key))

    async def test_a_missing_client_certificate_is_named_in_the_error(
        self, asking: Guarded, authority: Authority
    ) -> None:
        error = await refusal(asking.tls(ca=authority.ca))
        assert "if it asks for a certificate, name one that it trusts with ?cert=file&key=file" in str(error)

    async def test_a_missing_client_certificate_is_a_store_error_before_tls_1_3(self, authority: Authority) -> None:
        old = Guarded(authority, "yes", tls_protocols="TLSv1.2")
        try:
            error = await refusal(old.tls(ca=authority.ca))
        finally:
            old.close()
        assert not isinstance(error, StoreUnavailable)
        assert re.search(r"refused us: .* alert .* \(if it asks for a certificate, name one that it trusts", str(error))

    async def test_an_untrusted_client_certificate_is_named_in_the_error(
        self, asking: Guarded, authority: Authority, stranger: Authority
    ) -> None:
        cert, key = stranger.certificate("client")
        error = await refusal(asking.tls(ca=authority.ca, cert=cert, key=key))
        assert "if it asks for a certificate, name one that it trusts with ?cert=file&key=file" in str(error)

    async def test_an_untrusted_server_certificate_is_a_store_error(
        self, guarded: Guarded, stranger: Authority
    ) -> None:
        for url in (guarded.tls(ca=stranger.ca), guarded.tls()):
            error = await refusal(url)
            assert not isinstance(error, StoreUnavailable)
            assert re.search(r"has an untrusted certificate: .*; name its authority with \?ca=file$", str(error))

    async def test_a_server_certificate_of_another_host_is_a_store_error(
        self, guarded: Guarded, authority: Authority
    ) -> None:
        error = await refusal(guarded.tls("localhost", ca=authority.ca))
        assert not isinstance(error, StoreUnavailable)
        assert re.search(
            "has an untrusted certificate: .*not valid for 'localhost'; use a host that it names$", str(error)
        )

    async def test_redis_scheme_at_a_tls_port_suggests_rediss(self, guarded: Guarded) -> None:
        error = await refusal(f"redis://127.0.0.1:{guarded.tls_port}/0")
        assert "(if it speaks TLS, use rediss://)" in str(error)

    async def test_rediss_scheme_at_a_plain_port_suggests_redis(
        self, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert connection.HANDSHAKE_SECONDS < connection.CONNECT_SECONDS
        monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.2)
        error = await refusal(f"rediss://127.0.0.1:{guarded.port}/0")
        assert "(if it does not speak TLS, use redis://)" in str(error)

    async def test_unusable_certificate_files_are_named(self, authority: Authority, stranger: Authority) -> None:
        cert, key = authority.certificate("useless")
        other = stranger.certificate("useless")[1]
        for options, said in (
            ({"ca": key}, f"^ca={key} in store URL .* has no certificate of an authority"),
            ({"cert": cert}, f"^cert={cert} in store URL .* and its key \\(or name that with key=file\\)"),
            ({"cert": cert, "key": other}, f"^cert={cert} .* and key={other} its key, without a pass phrase"),
            ({"cert": cert, "key": locked(key)}, "without a pass phrase"),
        ):
            with pytest.raises(BadSetting, match=said):
                await open_store(f"rediss://127.0.0.1:1/0?{urlencode(options)}").open()


def locked(key: str) -> str:
    """The same key behind a pass phrase, which must not be prompted for."""
    lock = f"{key}.locked"
    Authority.openssl("ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", lock)
    return lock
