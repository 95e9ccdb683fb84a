"""What is this machine and nobody else."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

from ...errors import BadSetting


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether an address, or the name localhost, can be reached from this machine alone."""
    host = host.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_bind(host: str, auth: bool) -> None:
    """Refuses to serve others without asking who they are."""
    if not auth and not is_loopback(host):
        raise BadSetting(
            f"without sign-in anybody who reaches {host or 'this machine'} would be an admin: "
            "listen on 127.0.0.1, or leave sign-in on and make keys (mainspring keys create NAME)"
        )


def name_of(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def port_of(host: str) -> str:
    return host.removeprefix(name_of(host)).removeprefix(":")
