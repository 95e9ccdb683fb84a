"""Addresses that webhooks may reach: checks of URLs and of IP addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

from ..errors import BadInput, BadSetting
from ..url import split_url

Address = IPv4Address | IPv6Address

MAX_URL_CHARACTERS = 2048
PORTS = {"https": 443, "http": 80}
# RFC 1123, and the underscore that some hosts have; international names are in their ASCII form.
_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
# Texts that some resolvers read as an IPv4 address: 2130706433, 0x7f.1, 127.1
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_PRINTABLE = re.compile(r"[!-~]+")

# IANA's special-purpose registries, and addresses of cloud services.
_NOT_PUBLIC = {
    "0.0.0.0/8": "of this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "behind a carrier's NAT",
    "127.0.0.0/8": "this machine itself",
    "168.63.129.16/32": "a cloud's own service",
    "169.254.0.0/16": "link-local, where clouds keep their metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "a relay",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "::/128": "of this network",
    "::1/128": "this machine itself",
    "::ffff:0:0/96": "an IPv4 address in disguise",
    "64:ff9b::/96": "an IPv4 address in translation",
    "64:ff9b:1::/48": "an IPv4 address in translation",
    "2001::/32": "a tunnel to an IPv4 address",
    "2001::/23": "reserved",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a tunnel to an IPv4 address",
    "2620:4f:8000::/48": "reserved",
    "3ffe::/16": "reserved",
    "3fff::/20": "for documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "ff00::/8": "multicast",
}
_NETWORKS = [(ip_network(text), why) for text, why in _NOT_PUBLIC.items()]
# IPv6 addresses outside of it are not assigned.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# Bits 32 to 63 of an ISATAP address; the lower 32 bits are an IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)


class WebhookTarget(Struct, frozen=True):
    """A parsed webhook URL."""

    secure: bool
    host: str
    port: int
    authority: str
    """The value of the Host header."""
    path: str


class AllowList:
    """Hosts and networks that webhooks may reach although they are not public, or without TLS."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """Each entry is a network, an address, a host or *.domain. Raises BadSetting for any other."""
        self.networks: list[IPv4Network | IPv6Network] = []
        self._hosts: set[str] = set()
        self._domains: list[str] = []
        for entry in entries:
            try:
                self.networks.append(ip_network(entry.strip("[]")))
            except ValueError:
                self._add_host(entry.lower().rstrip("."))

    def _add_host(self, entry: str) -> None:
        host = entry.removeprefix("*.")
        if not _HOST.fullmatch(host) or _NUMERIC.fullmatch(host):
            raise BadSetting(
                f"webhook_allow takes networks (10.0.0.0/8), addresses and hosts (hooks.lan, *.lan); got {entry!r:.80}"
            )
        if host == entry:
            self._hosts.add(host)
        else:
            self._domains.append(entry[1:])

    def allows_host(self, host: str) -> bool:
        return host in self._hosts or any(host.endswith(domain) for domain in self._domains)

    def allows_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def why_not_public(address: Address) -> str | None:
    """Why a webhook may not go there without an entry in the allow list; None if the address is public."""
    for network, why in _NETWORKS:
        if address in network:
            return why
    if isinstance(address, IPv6Address):
        if address not in _GLOBAL_UNICAST:
            return "reserved"
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            return "a tunnel to an IPv4 address"
    return None


def parse_target(url: object) -> WebhookTarget:
    """Parses a URL strictly, so that no other parser reads it differently. Raises BadInput."""
    if (
        not isinstance(url, str)
        or not 0 < len(url) <= MAX_URL_CHARACTERS
        or not _PRINTABLE.fullmatch(url)
        or "\\" in url
    ):
        raise BadInput(
            f"a webhook's URL is up to {MAX_URL_CHARACTERS:,} printable ASCII characters without spaces or backslashes"
        )
    try:
        parts = split_url(url)
    except ValueError as bad:
        raise BadInput(f"a webhook's URL has {bad}") from None
    if parts.scheme not in PORTS:
        raise BadInput(
            "a webhook's URL begins with https:// (or http://, if webhook_allow names its host), "
            f"not {parts.scheme!r:.20}"
        )
    if parts.user is not None:
        raise BadInput("a webhook's URL has no user and no password in it: the signature identifies the sender")
    if "#" in url:
        raise BadInput("a webhook's URL has no #fragment: no server gets to see it")
    host, port = parts.host.name.lower().rstrip("."), parts.host.port
    own = ip_literal(host)
    named = own is None and _HOST.fullmatch(host) and not _NUMERIC.fullmatch(host)
    if not (named or own) or isinstance(own, IPv6Address) != ("[" in parts.authority):
        raise BadInput("a webhook's URL names its host as hooks.example.com, 203.0.113.7 or [2001:db8::7]")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookTarget(parts.scheme == "https", host, port or PORTS[parts.scheme], parts.authority, path)


def ip_literal(host: str) -> Address | None:
    """The host as an IP address; None if it is a name."""
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None


def check_addresses(to: WebhookTarget, addresses: Iterable[Address], allowed: AllowList) -> None:
    """Raises BadInput if an address is not public, or the target has no TLS, unless the allow list has it."""
    if allowed.allows_host(to.host):
        return
    for address in addresses:
        if allowed.allows_address(address):
            continue
        if (why := why_not_public(address)) is not None:
            where = to.host if to.host == str(address) else f"{to.host} is at {address}, which"
            raise BadInput(f"{where} is not public ({why}); if you mean it, name it in the setting webhook_allow")
        if not to.secure:
            raise _https_required(to.host)


def check_url(url: object, allowed: AllowList) -> WebhookTarget:
    """Checks a URL without a DNS lookup; the addresses of a name are checked when something is sent."""
    to = parse_target(url)
    own = ip_literal(to.host)
    if own is not None:
        check_addresses(to, [own], allowed)
    elif f".{to.host}".endswith(".localhost"):
        check_addresses(to, [IPv4Address("127.0.0.1")], allowed)
    elif not to.secure and not allowed.allows_host(to.host) and not allowed.networks:
        raise _https_required(to.host)
    return to


def _https_required(host: str) -> BadInput:
    return BadInput(f"{host} is reached by https only; if you mean http, name it in the setting webhook_allow")
