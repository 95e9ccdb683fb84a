"""What one question for the next tick costs: ours, croniter's and cronsim's, in one process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from meter import answer

TYPICAL = ("*/15 * * * *", "0 9 * * mon-fri", "30 2 1,15 * *", "0 */6 * * *", "15 14 1 * *")
RARE = ("0 0 29 2 *", "0 0 L * *", "0 0 31 * *", "0 12 * * 5#5", "0 0 29 2 1")
HOSTILE = ("0 0 31 2 *", "0 0 30 2 *", "*/0 * * * *", "9" * 200 + " * * * *", "x" * 10_000, "1," * 200 + "1 * * * *")
START = datetime(2026, 11, 15, 12, 34, 56, tzinfo=UTC)
Ask = Callable[[], object]


def ours(expr: str, zone: str) -> Ask:
    from mainspring import cron

    rule, after = cron(expr, tz=zone), START
    return lambda: rule.next(after)


def croniter(expr: str, zone: str) -> Ask:
    from croniter import croniter

    rule, after = croniter(expr, START.astimezone(ZoneInfo(zone))), START.astimezone(ZoneInfo(zone))
    return lambda: rule.get_next(datetime, start_time=after)


def cronsim(expr: str, zone: str) -> Ask:
    from cronsim import CronSim

    # It has no question to ask twice: an iterator is made for each, and that is part of the answer.
    after = START.astimezone(ZoneInfo(zone))
    return lambda: next(CronSim(expr, after))


def refusing(make: Callable[[str, str], Ask], expr: str) -> Ask:
    """From the text to the refusal; who accepts what never comes is asked for the next tick of it."""

    def ask() -> None:
        try:
            make(expr, "UTC")()
        except Exception:  # each has its own kind of refusal
            return

    return ask


def measure(ask: Ask, budget: float) -> float:
    """Microseconds a question, the fastest of three rounds."""
    ask()
    start = time.perf_counter()
    ask()
    calls = max(1, min(2000, int(budget / 3 / max(1e-7, time.perf_counter() - start))))
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            ask()
        rounds.append((time.perf_counter() - start) / calls)
    return 1e6 * min(rounds)


def mean(taken: list[float]) -> float:
    return sum(taken) / len(taken)


def main() -> None:
    system, budget = sys.argv[1], float(sys.argv[2])
    make = {"ours": ours, "croniter": croniter, "cronsim": cronsim}[system]
    typical = [measure(make(expr, "UTC"), budget) for expr in TYPICAL]
    london = [measure(make(expr, "Europe/London"), budget) for expr in TYPICAL]
    rare = [measure(make(expr, "UTC"), budget) for expr in RARE]
    hostile = [measure(refusing(make, expr), budget) for expr in HOSTILE]
    answer(
        typical=mean(typical), London=mean(london), rare=mean(rare), dearest=max(rare), hostile=mean(hostile)
    )  # fmt: skip
