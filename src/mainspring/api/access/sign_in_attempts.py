"""The rate limit of failed sign-ins."""

from __future__ import annotations

import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from litestar.types import Scope

from ...clock import Clock
from ..problem import Problem

# Failures of one address: at once, and then per second.
ADDRESS_BURST = 10
ADDRESS_RATE_PER_SECOND = 1 / 6
# Failures of all addresses together.
TOTAL_BURST = 200
TOTAL_RATE_PER_SECOND = 10.0
# Addresses with a bucket. Beyond this number the one without a failure for longest is dropped.
MAX_ADDRESSES = 10_000


class TokenBucket:
    """A token bucket: holds up to `burst` tokens and refills at `rate` tokens per second."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = burst, now

    def take(self, now: float) -> float:
        """Takes a token and returns 0. If there is none, returns the seconds until there is one."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class SignInAttempts:
    """Counts failed sign-ins. Valid credentials are always accepted: secrets have 256 bits, so they cannot be guessed,
    and no client can lock out another."""

    def __init__(self, clock: Clock, burst: float = ADDRESS_BURST, rate: float = ADDRESS_RATE_PER_SECOND) -> None:
        self._clock = clock
        self._burst, self._rate = burst, rate
        self._by_address: OrderedDict[str, TokenBucket] = OrderedDict()
        self._total = TokenBucket(TOTAL_BURST, TOTAL_RATE_PER_SECOND, clock.monotonic())

    def failed(self, scope: Scope) -> None:
        """Counts a failure. Raises Problem(429) if there were too many, from this address or in total."""
        now, address = self._clock.monotonic(), address_of(scope)
        bucket = self._by_address.pop(address, None) or TokenBucket(self._burst, self._rate, now)
        self._by_address[address] = bucket
        if len(self._by_address) > MAX_ADDRESSES:
            self._by_address.popitem(last=False)
        wait = bucket.take(now) or self._total.take(now)
        if wait:
            seconds = math.ceil(wait)
            raise Problem(
                429,
                "too_many_attempts",
                f"too many wrong keys, tokens or sessions; try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )


def address_of(scope: Scope) -> str:
    """The client's address, by which failures are counted. For IPv6 the first 64 bits: one customer has the rest."""
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
