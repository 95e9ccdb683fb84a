"""Sign-in turned off: only this machine is served, and no page of another site in a browser on it."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import browser

from mainspring import BadSetting, Mainspring
from mainspring.api.access.loopback import check_bind, is_loopback
from mainspring.testing import VirtualClock

OPEN = Mainspring("memory://", clock=VirtualClock())
SERVICE = OPEN.asgi(auth=False)


async def status(method: str = "POST", path: str = "/queues/mail/pause", **options: Any) -> int:
    async with browser(SERVICE, options.pop("address", "127.0.0.1"), **options) as http:
        return (await http.request(method, path)).status_code


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:8765", "http://localhost:8765", "http://[::1]:8765"])
async def test_a_local_caller_is_an_admin_without_sign_in(base_url: str) -> None:
    assert await status(base_url=base_url) == 200
    async with browser(SERVICE, base_url=base_url) as http:
        assert (await http.get("/session")).json()["name"] == "anyone"
        assert (await http.get("/keys")).status_code == 200


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.7", "8.8.8.8", "2001:db8::1", "::ffff:10.0.0.1", "0.0.0.0"])
async def test_a_remote_caller_is_refused_without_sign_in(address: str) -> None:
    assert await status("GET", "/queues", address=address) == 403


@pytest.mark.parametrize("base_url", ["http://evil.example", "http://127.0.0.1.evil.example", "http://jobs:8765"])
async def test_a_foreign_host_name_is_refused_without_sign_in(base_url: str) -> None:
    """A foreign host name could resolve to this machine, and its page would have the same origin as the server."""
    assert await status("GET", "/queues", base_url=base_url) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    assert await status(headers=headers) == 403


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
    ids=str,
)
async def test_a_page_of_another_site_makes_the_server_read_nothing(headers: dict[str, str]) -> None:
    for path in ("/queues", "/jobs", "/events", "/metrics", "/openapi.json"):
        assert await status("GET", path, headers=headers) == 403, path
    assert await status("GET", "/queues", headers={"Sec-Fetch-Site": "none"}) == 200


async def test_a_page_of_the_same_origin_is_allowed_without_sign_in() -> None:
    assert await status(headers={"Origin": "http://127.0.0.1:8000"}) == 200
    assert await status(headers={"Sec-Fetch-Site": "same-origin"}) == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
async def test_a_forwarded_request_is_refused_without_sign_in(header: str) -> None:
    assert await status("GET", "/queues", headers={header: "for=8.8.8.8"}) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"]
)
def test_check_bind_allows_loopback_without_sign_in(host: str) -> None:
    assert is_loopback(host)
    check_bind(host, auth=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "example.com", "127.0.0.1.nip.io", "localhost.evil"])
def test_check_bind_refuses_other_addresses_without_sign_in(host: str) -> None:
    check_bind(host, auth=True)
    with pytest.raises(BadSetting, match=r"would be an admin: listen on 127\.0\.0\.1, or leave sign-in on"):
        check_bind(host, auth=False)
