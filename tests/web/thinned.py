"""A hook for the fuzzer: selects which of its boundary values are tried on this store.

Of all the wrong types it has for one place of a body, one is sent; what is wrong never gets to a store. Of what is
right, each store gets every other one.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import schemathesis

HALF = int(os.environ["FUZZED_HALF"])
# It has four or five of them.
TYPES = 4
_tried: Counter[tuple[str, str]] = Counter()
_turns: dict[tuple[str, str], int] = {}


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    told = case.meta.phase.data
    if (scenario := getattr(told, "scenario", None)) is None:
        return True
    if case.meta.generation.mode.is_positive:
        return _nth((case.operation.label, "right")) % 2 == HALF
    if scenario != "incorrect_type" or told.parameter_location != "body":
        return True
    place = (case.operation.label, told.location)
    # Another one at the next place, so that each is sent somewhere: all bodies have the same reader.
    return _nth(place) == _turns.setdefault(place, len(_turns) % TYPES)


def _nth(place: tuple[str, str]) -> int:
    _tried[place] += 1
    return _tried[place] - 1
