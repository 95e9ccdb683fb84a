"""Addresses that webhooks may reach."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from mainspring import BadInput, BadSetting
from mainspring.webhook.address import (
    AllowList,
    WebhookTarget,
    check_addresses,
    check_url,
    parse_target,
    why_not_public,
)

NOBODY = AllowList()

CLOSED = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.0.1
168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1
192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
240.0.0.1 255.255.255.255
:: ::1 ::2 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::808:808
64:ff9b:1::a00:1 100::1 1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1
2002:7f00:1:: 2002:a00:1::1 2a00:1450:4001::5efe:7f00:1 2a00:1450:4001:0:200:5efe:a00:1 3ffe::1 3fff::1 4000::1 5f00::1
fc00::1 fd00:ec2::254 fd12:3456::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 ff02::1 ff0e::1
""".split()  # noqa: SIM905
OPEN = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
168.63.129.15 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255
192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
2001:200::1 2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2a00:1450:4001:81b::200e
""".split()  # noqa: SIM905


@pytest.mark.parametrize("address", CLOSED)
def test_an_address_that_is_not_public_is_refused(address):
    assert why_not_public(ip_address(address))


@pytest.mark.parametrize("address", OPEN)
def test_a_public_address_is_allowed(address):
    assert why_not_public(ip_address(address)) is None


def test_a_webhook_url_is_parsed():
    assert parse_target("https://hooks.example.com/in?x=1") == WebhookTarget(True, "hooks.example.com", 443, "hooks.example.com", "/in?x=1")  # fmt: skip  # noqa: E501
    assert parse_target("http://Hooks.Example.com.:8080") == WebhookTarget(False, "hooks.example.com", 8080, "Hooks.Example.com.:8080", "/")  # fmt: skip  # noqa: E501
    assert parse_target("https://[2606:4700::1]:8443/") == WebhookTarget(
        True, "2606:4700::1", 8443, "[2606:4700::1]:8443", "/"
    )


HOSTILE = {
    "no text": 7,
    "nothing": "",
    "a file": "file:///etc/passwd",
    "gopher": "gopher://example.com/",
    "ftp": "ftp://example.com/",
    "no scheme": "//example.com/",
    "a path": "/in",
    "no host": "https:///in",
    "a user": "https://ada@example.com/",
    "a password": "https://ada:secret@example.com/",
    "a host that is a user": "https://example.com:443@127.0.0.1/",
    "an empty user": "https://@example.com/",
    "a fragment": "https://example.com/#x",
    "an empty fragment": "https://example.com/#",
    "a line break": "https://example.com/\r\nX-Evil: 1",
    "a tab in the host": "https://exam\tple.com/",
    "a space": "https://example.com/a b",
    "a NUL": "https://example.com/\x00",
    "a backslash": "https://example.com\\@127.0.0.1/",
    "letters of other scripts": "https://exämple.com/",
    "digits of other scripts": "https://①②⑦.0.0.1/",
    "a full stop of another script": "https://127。0。0。1/",
    "escapes in the host": "https://%31%32%37.0.0.1/",
    "an address as one number": "https://2130706433/",
    "an address in hex": "https://0x7f000001/",
    "an address in parts of hex": "https://0x7f.0x0.0x0.0x1/",
    "an address in octal": "https://0177.0.0.01/",
    "a short address": "https://127.1/",
    "a long address": "https://127.0.0.0.1/",
    "a zone": "https://[fe80::1%25eth0]/",
    "an address of the future": "https://[v1.a]/",
    "an IPv4 address in brackets": "https://[127.0.0.1]/",
    "an unclosed bracket": "https://[::1/",
    "a name before the brackets": "https://example.com[2606:4700::1]/",
    "a name after the brackets": "https://[2606:4700::1]example.com/",
    "two hosts": "https://example.com,[2606:4700::1]/",
    "port 0": "https://example.com:0/",
    "a port beyond": "https://example.com:65536/",
    "a port in letters": "https://example.com:https/",
    "a negative port": "https://example.com:-1/",
    "a label that is too long": f"https://{'a' * 64}.com/",
    "two dots": "https://example..com/",
    "a dash in front": "https://-example.com/",
    "too long": "https://example.com/" + "a" * 2048,
}


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
def test_an_ambiguous_webhook_url_is_refused(url):
    with pytest.raises(BadInput):
        check_url(url, NOBODY)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[fd00:ec2::254]", "0.0.0.0",
             "localhost", "LOCALHOST", "localhost.", "db.localhost"],
)  # fmt: skip
def test_a_url_with_a_private_address_is_refused_without_lookup(host):
    with pytest.raises(BadInput, match=r"is not public .*name it in the setting webhook_allow"):
        check_url(f"https://{host}/", NOBODY)


def test_http_is_refused_unless_its_host_is_allowed():
    for url in ("http://example.com/", "http://8.8.8.8/"):
        with pytest.raises(BadInput, match="is reached by https only; if you mean http, name it"):
            check_url(url, NOBODY)
    assert not check_url("http://example.com/", AllowList(["example.com"])).secure
    assert not check_url("http://8.8.8.8/", AllowList(["8.8.8.8"])).secure


def test_a_host_with_one_private_address_is_refused():
    to = parse_target("https://example.com/")
    check_addresses(to, [ip_address("8.8.8.8"), ip_address("2606:4700::1")], NOBODY)
    with pytest.raises(BadInput, match=r"example.com is at 10.0.0.1, which is not public \(private\)"):
        check_addresses(to, [ip_address("8.8.8.8"), ip_address("10.0.0.1")], NOBODY)


def test_the_allow_list_permits_hosts_and_networks():
    allowed = AllowList(["10.0.0.0/8", "::1", "hooks.lan", "*.corp.example", "LOCALHOST"])
    for url in ("https://10.1.2.3/", "http://10.1.2.3/", "https://[::1]/", "http://hooks.lan/",
                "http://a.b.corp.example/", "http://localhost:8080/"):  # fmt: skip
        check_url(url, allowed)
    for url in ("https://11.0.0.1.nip.io.localhost/", "https://192.168.0.1/", "https://[::2]/", "https://127.0.0.1/"):
        with pytest.raises(BadInput):
            check_url(url, allowed)
    for url in ("https://xhooks.lan/", "https://corp.example/", "https://xcorp.example/"):
        with pytest.raises(BadInput):
            check_addresses(parse_target(url), [ip_address("192.168.0.1")], allowed)


def test_http_to_a_host_name_is_checked_on_sending_if_networks_are_allowed():
    allowed = AllowList(["10.0.0.0/8"])
    to = check_url("http://hooks.lan/", allowed)
    check_addresses(to, [ip_address("10.0.0.1")], allowed)
    with pytest.raises(BadInput, match="https only"):
        check_addresses(to, [ip_address("10.0.0.1"), ip_address("8.8.8.8")], allowed)


@pytest.mark.parametrize(
    "entry", ["", "*", "10.0.0.1/8", "a b", "https://hooks.lan", "127.1", "*.*.lan", "hooks.lan:80"]
)
def test_a_bad_allow_list_entry_is_refused(entry):
    with pytest.raises(BadSetting, match="webhook_allow takes networks"):
        AllowList([entry])
