"""Scenarios of flows: the questions, and on which systems each is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import flow_measures as measures
from .flow_measures import Figures, FlowEngine
from .harness import Case, Figure, Scenario
from .processes import FLOW_ABSURD, FLOW_BULLMQ, FLOW_CELERY, FLOW_CHANCY, FLOW_DBOS, FLOW_MAINSPRING, FLOW_STREAQ
from .scenarios import RATE, other, ours

STORE = "Flows"
OURS = {
    "Mainspring, SQLite": FlowEngine(FLOW_MAINSPRING, 500),
    "Mainspring, PostgreSQL": FlowEngine(FLOW_MAINSPRING, 500, "postgres"),
    "Mainspring, Redis": FlowEngine(FLOW_MAINSPRING, 500, "redis"),
}
ON_REDIS = {
    "BullMQ": FlowEngine(FLOW_BULLMQ, 100, "redis"),
    "Celery": FlowEngine(FLOW_CELERY, 1, "redis"),
    "streaq": FlowEngine(FLOW_STREAQ, 100, "redis"),
}
ON_POSTGRES = {
    "DBOS": FlowEngine(FLOW_DBOS, 100, "postgres"),
    "Absurd": FlowEngine(FLOW_ABSURD, 100, "postgres"),
    "Chancy": FlowEngine(FLOW_CHANCY, 500, "postgres"),
}
PEERS = ON_REDIS | ON_POSTGRES
REFERENCES = {"best on Redis": tuple(ON_REDIS), "best on PostgreSQL": tuple(ON_POSTGRES)}


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    items: int = 10_000
    chains: int = 1_000
    slow_chains: int = 200
    patience: float = 150


FULL = Sizes()
QUICK = Sizes(items=1_000, chains=100, slow_chains=50, patience=30)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (fan, chains, killed)]


def fan(sizes: Sizes) -> Scenario:
    return Scenario(
        "flow-fan",
        f"One flow of {sizes.items:,} no-op jobs and one behind them that adds up what they returned: from before the "
        "call that starts it to the sum, with a worker that has run such a flow before.",
        (Figure("seconds", "s"),),
        _cases(measures.fan, lambda _: {"items": sizes.items}),
        REFERENCES,
        store=STORE,
        rounds=3,
    )


def chains(sizes: Sizes) -> Scenario:
    slow = {"DBOS", "Absurd", "Chancy"}

    def words(system: str) -> dict[str, Any]:
        return {"count": sizes.slow_chains if system in slow else sizes.chains}

    return Scenario(
        "flow-chains",
        f"{sizes.chains:,} flows ({sizes.slow_chains:,} for {', '.join(sorted(slow))}) of ten no-op jobs, each of "
        "which takes what the one before it returned: steps per second from before the call that starts them to the "
        "last end.",
        RATE,
        _cases(measures.chains, words),
        REFERENCES,
        store=STORE,
        rounds=3,
    )


def killed(sizes: Sizes) -> Scenario:
    return Scenario(
        "flow-killed",
        f"The flow of `flow-fan`, whose worker is killed (SIGKILL) when half of the items have run; another starts at "
        f"once, with what each system does by default. How long until the sum is there (a dash: not within "
        f"{sizes.patience:g} s), how often the last job was called, how often with a wrong sum, and how many items ran "
        "again (less than zero: never ran).",
        (
            Figure("ended", "s after the kill"),
            Figure("calls", "of the last job"),
            Figure("wrong", "sums"),
            Figure("again", "items run"),
        ),
        _cases(measures.killed, lambda _: {"items": sizes.items, "patience": sizes.patience}),
        store=STORE,
        rounds=1,
    )


def _cases(measure: Callable[..., Figures], words: Callable[[str], dict[str, Any]]) -> tuple[Case, ...]:
    return tuple(
        (ours if system in OURS else other)(system, measure, engine=engine, **words(system))
        for system, engine in (OURS | PEERS).items()
    )
