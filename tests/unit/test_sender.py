"""The sender posts one message to one URL, and to no other server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from socket import gaierror

import pytest

from authority import Authority
from mainspring.webhook.address import Address, AllowList
from mainspring.webhook.sender import MAX_BODY_BYTES, MAX_HEAD_BYTES, Sender, SendFailed, WebhookResponse
from receiver import receiving, says

HERE = AllowList(["127.0.0.1", "::1"])
PUBLIC, LOOPBACK = ip_address("93.184.216.34"), ip_address("127.0.0.1")


class Names:
    """A resolver that returns its answers in order, and then repeats the last."""

    def __init__(self, *answers: Sequence[Address]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_the_sender_posts_the_whole_message():
    async with receiving() as receiver:
        answer = await Sender(HERE).post(receiver.url, {"webhook-id": "1"}, b'{"a": "\xc3\xa4"}')
    assert answer == WebhookResponse(204)
    (message,) = receiver.messages
    assert message.line == "POST /in?from=here HTTP/1.1"
    assert message.body == b'{"a": "\xc3\xa4"}'
    assert message.headers == {
        "host": f"127.0.0.1:{receiver.port}", "content-type": "application/json", "content-length": "11",
        "user-agent": "mainspring-webhooks", "accept": "*/*", "connection": "close", "webhook-id": "1",
    }  # fmt: skip


async def test_the_sender_refuses_an_address_that_is_not_public():
    async with receiving() as receiver:
        with pytest.raises(SendFailed, match=r"127.0.0.1 is not public"):
            await Sender(AllowList()).post(f"https://127.0.0.1:{receiver.port}/", {}, b"")
        names = Names([LOOPBACK])
        with pytest.raises(SendFailed, match=r"hooks.example is at 127.0.0.1, which is not public"):
            await Sender(AllowList(), resolve=names).post(f"https://hooks.example:{receiver.port}/", {}, b"")
    assert receiver.knocks == 0


async def test_a_host_name_is_resolved_once_and_the_checked_address_is_used():
    """The resolver returns an allowed address first, and then a forbidden one."""
    async with receiving() as first, receiving() as second:
        names = Names([ip_address("127.0.0.1")], [ip_address("127.0.0.2")])
        answer = await Sender(AllowList(["127.0.0.1"]), resolve=names).post(
            f"http://hooks.example:{first.port}/", {}, b""
        )
    assert answer.status == 204
    assert names.asked == [("hooks.example", first.port)]
    assert first.messages[0].headers["host"] == f"hooks.example:{first.port}"
    assert second.knocks == 0


async def test_one_private_address_refuses_all_addresses_of_a_host():
    async with receiving() as receiver:
        sender = Sender(AllowList(), resolve=Names([PUBLIC, LOOPBACK]))
        with pytest.raises(SendFailed, match="is not public"):
            await sender.post(f"https://hooks.example:{receiver.port}/", {}, b"")
    assert receiver.knocks == 0


async def test_the_next_address_is_tried_if_one_does_not_answer():
    async with receiving() as receiver:
        sender = Sender(AllowList(["hooks.example"]), resolve=Names([ip_address("::1"), LOOPBACK]))
        assert (await sender.post(f"http://hooks.example:{receiver.port}/", {}, b"")).status == 204


async def test_a_redirect_is_not_followed():
    async with receiving() as receiver, receiving() as elsewhere:
        receiver.answer = says(307, f"location: {elsewhere.url}", body="over there")
        assert await Sender(HERE).post(receiver.url, {}, b"") == WebhookResponse(307, None, "over there")
    assert (receiver.knocks, elsewhere.knocks) == (1, 0)


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    async with receiving() as receiver, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await Sender(HERE).post(receiver.url, {}, b"")
    assert (receiver.knocks, proxy.knocks) == (1, 0)


async def test_an_error_response_has_the_start_of_its_body_and_retry_after():
    async with receiving() as receiver:
        receiver.answer = says(429, "Retry-After:  7 ", body="x" * 10_000)
        assert await Sender(HERE).post(receiver.url, {}, b"") == WebhookResponse(429, "7", "x" * MAX_BODY_BYTES)


@pytest.mark.parametrize("status", [200, 500])
async def test_an_unfinished_response_body_is_not_awaited(status):
    async with receiving() as receiver:
        receiver.holds = True
        receiver.answer = f"HTTP/1.1 {status} So\r\ncontent-length: 1000000\r\n\r\nwords".encode()
        answer = await Sender(HERE).post(receiver.url, {}, b"")
    assert (answer.status, answer.body_start) == (status, "words" if status == 500 else "")


async def test_provisional_responses_are_skipped():
    async with receiving() as receiver:
        receiver.answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + says(200)
        assert (await Sender(HERE).post(receiver.url, {}, b"")).status == 200
        receiver.answer = b"HTTP/1.1 100 Continue\r\n\r\n" * 10
        with pytest.raises(SendFailed, match="no answer but provisional ones"):
            await Sender(HERE).post(receiver.url, {}, b"")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the connection was closed before an answer"),
        (b"HTTP/1.1 200 OK\r\nhalf", "the connection was closed before an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not an answer in HTTP: b'SSH-2.0"),
        (b"HTTP/1.1 999 So\r\n\r\n", "not an answer in HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * (2 * MAX_HEAD_BYTES) + b"\r\n\r\n",
            "the head of the answer is longer than 16,384",
        ),
    ],
)
async def test_a_response_that_is_not_http_raises_send_failed(answer, reason):
    async with receiving() as receiver:
        receiver.answer = answer
        with pytest.raises(SendFailed, match=reason):
            await Sender(HERE).post(receiver.url, {}, b"")


async def test_a_silent_receiver_times_out():
    async with receiving() as receiver:
        receiver.holds, receiver.answer = True, b"HTTP/1.1 200"
        with pytest.raises(SendFailed, match=r"no answer within 0.05 s"):
            await Sender(HERE, total=0.05).post(receiver.url, {}, b"")


async def test_a_hanging_resolver_times_out():
    async def never(host: str, port: int) -> Sequence[Address]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(SendFailed, match=r"no answer within 0.05 s"):
        await Sender(HERE, resolve=never, total=0.05).post("https://hooks.example/", {}, b"")


async def test_an_unknown_host_raises_send_failed():
    async def unknown(host: str, port: int) -> Sequence[Address]:
        raise gaierror(-2, "Name or service not known")

    with pytest.raises(SendFailed, match=r"hooks.example is not found: .*Name or service not known"):
        await Sender(HERE, resolve=unknown).post("https://hooks.example/", {}, b"")
    with pytest.raises(SendFailed, match=r"hooks.example has no address"):
        await Sender(HERE, resolve=Names([])).post("https://hooks.example/", {}, b"")


async def test_a_refused_connection_raises_send_failed():
    async with receiving() as receiver:
        pass
    with pytest.raises(SendFailed, match=r"no connection to 127.0.0.1"):
        await Sender(HERE).post(receiver.url, {}, b"")


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def speaking(authority: Authority, host: str) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.certificate(Path(host).name.replace(":", "-"), host))
    return tls


async def test_the_certificate_is_checked_against_the_host_name(authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca)
    sender = Sender(AllowList(["127.0.0.1"]), resolve=Names([LOOPBACK]))
    async with receiving(speaking(authority, "DNS:hooks.example")) as receiver:
        assert (await sender.post(f"https://hooks.example:{receiver.port}/", {}, b"")).status == 204
        with pytest.raises(SendFailed, match=r"no connection to other.example: .*certificate verify failed"):
            await sender.post(f"https://other.example:{receiver.port}/", {}, b"")
    assert len(receiver.messages) == 1


async def test_an_untrusted_certificate_is_refused(authority):
    sender = Sender(AllowList(["127.0.0.1"]), resolve=Names([LOOPBACK]))
    async with receiving(speaking(authority, "DNS:hooks.example")) as receiver:
        with pytest.raises(SendFailed, match="certificate verify failed"):
            await sender.post(f"https://hooks.example:{receiver.port}/", {}, b"")
    assert receiver.messages == []
