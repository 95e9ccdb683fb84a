"""A hook for the fuzzer: selects which of its boundary values are tried on this store.

Of all wrong types for one field or parameter, only one is sent, and to one store: invalid values never reach it. Of
the valid values, each store gets every second one.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import schemathesis

HALF = int(os.environ["FUZZED_HALF"])
# The fuzzer has four or five of them.
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
    if HALF:
        return False
    if scenario != "incorrect_type" or told.parameter_location not in ("body", "query"):
        return True
    place = (case.operation.label, told.location)
    # Another one for the next, so that each is sent for some field: all bodies have the same decoder, all queries too.
    return _nth(place) == _turns.setdefault(place, len(_turns) % TYPES)


def _nth(place: tuple[str, str]) -> int:
    _tried[place] += 1
    return _tried[place] - 1
