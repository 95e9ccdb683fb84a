"""Backoff: the delay before the n-th retry. Pure."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import force_setattr

from .bounds import MAX_SPAN_SECONDS
from .errors import BadSetting
from .span import Span
from .span import seconds as in_seconds
from .suggest import SuggestingStructMeta


class Backoff(Struct, frozen=True, omit_defaults=True, metaclass=SuggestingStructMeta):
    """The delay before retry n: initial · multiplier^(n-1), at most `max`, minus a random share of up to `jitter`.

    `Backoff.constant(5)` and `Backoff.linear(2)` are the other curves. A task may also have a function of the attempt's
    number that returns a span. `initial` and `max` are spans: Backoff("4s", max="1h").
    """

    initial: float = 1.0
    multiplier: float = 2.0
    max: float = 3600.0
    jitter: float = 0.25
    curve: Literal["exponential", "linear"] = "exponential"

    if TYPE_CHECKING:  # stored as seconds; accepts any span

        def __init__(
            self,
            initial: Span = 1.0,
            multiplier: float = 2.0,
            max: Span = 3600.0,
            jitter: float = 0.25,
            curve: Literal["exponential", "linear"] = "exponential",
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("initial", "max"):
            given: object = getattr(self, name)
            if isinstance(given, str | timedelta):
                force_setattr(self, name, in_seconds(given, f"backoff {name}"))
        for name in ("initial", "multiplier", "max", "jitter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadSetting(f"backoff {name} must be a number, got {value!r}")
        if self.curve not in ("exponential", "linear"):
            raise BadSetting(f"backoff curve is 'exponential' or 'linear', got {self.curve!r}")
        if not math.isfinite(self.max):
            raise BadSetting(f"backoff initial and max must be finite, got initial={self.initial}, max={self.max}")
        if not 0 < self.initial <= self.max:
            raise BadSetting(f"backoff needs 0 < initial <= max, got initial={self.initial}, max={self.max}")
        if not 1 <= self.multiplier < math.inf:
            raise BadSetting(f"backoff multiplier must be at least 1, got {self.multiplier}")
        if not 0 <= self.jitter < 1:
            raise BadSetting(f"backoff jitter is a share from 0 up to (not including) 1, got {self.jitter}")

    @classmethod
    def constant(cls, seconds: Span, *, jitter: float = 0.25) -> Backoff:
        wait = in_seconds(seconds, "Backoff.constant()")
        return cls(initial=wait, multiplier=1.0, max=max(wait, 3600.0), jitter=jitter)

    @classmethod
    def linear(cls, step: Span, *, max: Span = 3600.0, jitter: float = 0.25) -> Backoff:
        return cls(initial=step, max=max, jitter=jitter, curve="linear")

    def delay(self, n: int, seed: str = "") -> float:
        """Seconds before retry `n` (from 1). The jitter depends on `seed`, so that many jobs do not retry together."""
        return self.full_delay(n) * (1 - self.jitter * _share(f"{seed}:{n}"))

    def full_delay(self, n: int) -> float:
        """Seconds without the jitter, at most MAX_SPAN_SECONDS: a job of an earlier release may have a larger `max`."""
        most = min(self.max, MAX_SPAN_SECONDS)
        # 2.0 ** 1024 overflows a float. `max` is reached long before.
        steps = min(n - 1, 500)
        try:
            if self.curve == "linear":
                return float(min(self.initial * n, most))
            return float(min(self.initial * self.multiplier**steps, most))
        except OverflowError:
            return most


def _share(seed: str) -> float:
    """A pseudo-random number in [0, 1), the same for the same seed."""
    return crc32(seed.encode()) / 2**32
