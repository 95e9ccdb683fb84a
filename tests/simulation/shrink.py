"""Makes a failing plan smaller."""

from __future__ import annotations

from msgspec.structs import replace

from .plan import Plan
from .simulation import Verdict, play


def shrink(verdict: Verdict, bug: str | None = None) -> Verdict:
    """Returns the verdict on a smaller plan, without the moves that the first violation does not need."""
    size = len(verdict.plan.moves) // 2
    while size:
        start = 0
        while start < len(verdict.plan.moves):
            smaller = play(_without(verdict.plan, start, start + size), bug)
            if verdict.violations[0].rule in (violation.rule for violation in smaller.violations[:1]):
                verdict = smaller
            else:
                start += size
        size //= 2
    return verdict


def _without(plan: Plan, start: int, end: int) -> Plan:
    return replace(plan, moves=plan.moves[:start] + plan.moves[end:])
