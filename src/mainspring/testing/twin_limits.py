"""Steps of the twin test that concern limits: jobs in groups, and limits that change while they wait and run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from hypothesis import strategies as st

from ..records.limit import AT_ONCE, StoredLimit, limit_name
from ..store import LimitStore, Store

# The groups of requests, by the last digits of their ids; {queue} is their queue.
LIMIT_KEYS = (None, "task:one\na", "task:one\nb", "queue:{queue}\n", f"{AT_ONCE}1\nx")
_numbers = st.fixed_dictionaries(
    {},
    optional={
        "running": st.sampled_from([0, 1, 1, 2, 3]),
        "rate": st.sampled_from([1, 2, 3]),
        "per": st.sampled_from([0.000002, 1.0, 10.0]),
        "burst": st.sampled_from([1, 2]),
        "total": st.sampled_from([0, 1, 2, 3]),
    },
)
_names = st.sampled_from(["task:one", "queue:high", "queue:low"])
LIMIT_STEPS: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    (6, "set_limits", {"limits": st.dictionaries(_names, st.none() | _numbers, min_size=1)}),
    (3, "read_limits", {"key": st.sampled_from([None, "a", ""]), "limit": st.sampled_from([9, 1])}),
    (1, "recount", {"limit": st.sampled_from([1, 100])}),
]


def limit_key_of_request(request: Mapping[str, Any], keys: Sequence[str | None]) -> str | None:
    """The group of a request, by the last digits of its id."""
    digits = "".join(one for one in request["id"] if one.isdecimal())
    key = keys[int(digits[-6:]) % len(keys)]
    return None if key is None else key.format(queue=request["queue"])


class LimitSteps:
    """Steps of a twin machine; `limit_keys` is empty if its stores have no limits."""

    now: datetime
    limit_keys: Sequence[str | None] = ()
    _both: Callable[..., Any]

    def set_limits(self, limits: Mapping[str, Mapping[str, Any] | None]) -> None:
        new = [StoredLimit(name=name, **numbers) for name, numbers in limits.items() if numbers is not None]
        removed = [name for name, numbers in limits.items() if numbers is None]

        def verb(store: Store) -> Awaitable[None]:
            return cast(LimitStore, store).set_limits(new, removed=removed, now=self.now)

        self._both(verb)

    def read_limits(self, key: str | None, limit: int) -> None:
        self._both(lambda store: cast(LimitStore, store).limits())
        for name in sorted({limit_name(one) for one in self.limit_keys if one is not None and "{" not in one}):
            self._both(lambda store, name=name: cast(LimitStore, store).limit_groups(name, key=key, limit=limit))

    def recount(self, limit: int) -> None:
        """No store has anything to correct."""

        async def wrong(store: Store) -> list[str]:
            counted = await cast(LimitStore, store).recount_limits(limit=limit, now=self.now)
            found = [*counted.wrong]
            while counted.after is not None:
                counted = await cast(LimitStore, store).recount_limits(after=counted.after, limit=limit, now=self.now)
                found += counted.wrong
            return found

        assert self._both(wrong) == []
