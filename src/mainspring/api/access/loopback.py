"""Loopback addresses: those that only this machine can reach."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

from ...errors import BadSetting


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host: a loopback address or the name localhost."""
    host = host.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_bind(host: str, auth: bool) -> None:
    """Raises BadSetting if sign-in is off and other machines could reach the host."""
    if not auth and not is_loopback(host):
        raise BadSetting(
            f"without sign-in everyone who can reach {host or 'this machine'} would be an admin: "
            "listen on 127.0.0.1, or leave sign-in on and create keys (mainspring keys create NAME)"
        )


def host_name(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def host_port(host: str) -> str:
    return host.removeprefix(host_name(host)).removeprefix(":")
