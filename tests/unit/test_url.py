"""URLs are split in the same way by every release of Python."""

import pytest

from mainspring.url import UrlHost, split_url


def test_split_url_returns_all_parts() -> None:
    url = split_url("HTTPS://ada:p%40w@Host.example:99/a/b?c=d&e#f")
    assert url == ("https", "ada:p%40w", "Host.example:99", [UrlHost("Host.example", 99)], "/a/b", "c=d&e", "f")
    assert url.host == ("Host.example", 99)


def test_split_url_returns_empty_values_for_missing_parts() -> None:
    assert split_url("redis://") == ("redis", None, "", [UrlHost("", None)], "", "", None)
    assert split_url("redis://@h:?#") == ("redis", "", "h:", [UrlHost("h", None)], "", "", "")


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("[::1]", [("::1", None)]),
        ("[::1]:7001", [("::1", 7001)]),
        ("one,[::1]:7001", [("one", None), ("::1", 7001)]),
        ("[::1]:7001,[2001:db8::7],two:5", [("::1", 7001), ("2001:db8::7", None), ("two", 5)]),
        ("one,[::ffff:10.0.0.1]", [("one", None), ("::ffff:10.0.0.1", None)]),
        ("one,[fe80::1%25eth0]:1", [("one", None), ("fe80::1%eth0", 1)]),
        ("one,,two", [("one", None), ("", None), ("two", None)]),
    ],
)
def test_split_url_accepts_ipv6_addresses_in_a_list_of_hosts(hosts: str, expected: list[UrlHost]) -> None:
    assert split_url(f"redis+cluster://ada:pw@{hosts}/0", many=True).hosts == expected


def test_split_url_does_not_take_brackets_in_a_password_for_an_address() -> None:
    assert split_url("redis://ada:p[w@host/0").host == ("host", None)


@pytest.mark.parametrize(
    "hosts",
    [
        "[::1", "::1]", "[]", "[::1]x", "x[::1]", "[::1][::2]", "[[::1]]", "[127.0.0.1]", "[v1.a]", "[host]", "[::1]:x",
        "[:::1]", "::1", "host:http", "host:-1", "host:1234567", "host:²", "a b", "a[b]c", "a,b", "℀.example",
    ],
)  # fmt: skip
def test_split_url_refuses_a_bad_host(hosts: str) -> None:
    with pytest.raises(ValueError, match=r"^a bad host or port$"):
        split_url(f"redis://{hosts}/0")


@pytest.mark.parametrize("port", [0, 65_536, 999_999])
def test_split_url_refuses_a_port_out_of_range(port: int) -> None:
    with pytest.raises(ValueError, match=f"^port {port}, which is not from 1 to 65535$"):
        split_url(f"redis://one,[::1]:{port}/0", many=True)


@pytest.mark.parametrize("text", ["", "host", "//host/", "://host", "1a://host", "re dis://host"])
def test_split_url_refuses_a_url_without_a_scheme(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no scheme, such as https://$"):
        split_url(text)


@pytest.mark.parametrize("text", ["http://ho\nst/", "http://host/\t", "\x00http://host", "http://host/\x7f"])
def test_split_url_refuses_control_characters(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a character that must be percent-encoded$"):
        split_url(text)
