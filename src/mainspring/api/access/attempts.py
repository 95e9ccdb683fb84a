"""How often one may be wrong about who one is."""

from __future__ import annotations

import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from litestar.types import Scope

from ...clock import Clock
from ..problem import Problem

# Of one address, and of all of them: at once, and how many come back in a second.
BURST, RATE = 10, 1 / 6
BURST_OF_ALL, RATE_OF_ALL = 200, 10.0
# Addresses that are remembered; beyond, the one that was quiet longest is forgotten.
REMEMBERED = 10_000


class Bucket:
    """Tokens that come back at a rate."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = burst, now

    def take(self, now: float) -> float:
        """One, and 0; or how many seconds it takes until there is one."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class SignInAttempts:
    """Counts failures. Whoever is right comes in, however often others were wrong: secrets are of 256 bits, so there is
    nothing to be won by guessing, and nobody can lock out anybody else."""

    def __init__(self, clock: Clock, burst: float = BURST, rate: float = RATE) -> None:
        self._clock = clock
        self._burst, self._rate = burst, rate
        self._of: OrderedDict[str, Bucket] = OrderedDict()
        self._all = Bucket(BURST_OF_ALL, RATE_OF_ALL, clock.monotonic())

    def failed(self, scope: Scope) -> None:
        """Raises Problem(429) if there were too many, from there or at all."""
        now, address = self._clock.monotonic(), address_of(scope)
        bucket = self._of.pop(address, None) or Bucket(self._burst, self._rate, now)
        self._of[address] = bucket
        if len(self._of) > REMEMBERED:
            self._of.popitem(last=False)
        wait = bucket.take(now) or self._all.take(now)
        if wait:
            again = math.ceil(wait)
            raise Problem(
                429,
                "too_many_attempts",
                f"too many wrong keys, tokens or sessions; try again in {again} s",
                headers={"Retry-After": str(again)},
            )


def address_of(scope: Scope) -> str:
    """Whose attempts they are. Of IPv6 the first 64 bits: one customer has all the others."""
    client = scope.get("client")
    if not client:
        return "local"
    try:
        address = ip_address(client[0].partition("%")[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(getattr(address, "ipv4_mapped", None) or address)
