"""Scenarios of durable steps: the questions, and on which systems each is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import step_measures as measures
from .flow_measures import Figures, FlowEngine
from .harness import Case, Figure, Scenario
from .processes import STEP_ABSURD, STEP_DBOS, STEP_MAINSPRING, STEP_OPENWORKFLOW, STEP_PGWORKFLOWS
from .scenarios import other, ours

STORE = "Steps"
RATE = (Figure("rate", "steps/s", more_is_better=True),)
OURS = {
    "Mainspring, SQLite": FlowEngine(STEP_MAINSPRING, 100),
    "Mainspring, PostgreSQL": FlowEngine(STEP_MAINSPRING, 100, "postgres"),
    "Mainspring, Redis": FlowEngine(STEP_MAINSPRING, 100, "redis"),
}
PEERS = {
    "DBOS": FlowEngine(STEP_DBOS, 100, "postgres"),
    "Absurd": FlowEngine(STEP_ABSURD, 100, "postgres"),
    "OpenWorkflow": FlowEngine(STEP_OPENWORKFLOW, 100, "postgres"),
    "pg-workflows": FlowEngine(STEP_PGWORKFLOWS, 100, "postgres"),
}
REFERENCES = {"best peer": tuple(PEERS)}


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    steps: int = 1_000
    jobs: int = 100
    steps_a_job: int = 100
    patience: float = 150


FULL = Sizes()
QUICK = Sizes(steps=200, jobs=20, steps_a_job=20, patience=45)


def scenarios(sizes: Sizes) -> list[Scenario]:
    return [make(sizes) for make in (one, many, killed)]


def one(sizes: Sizes) -> Scenario:
    return Scenario(
        "steps-one",
        f"One job of {sizes.steps:,} durable steps, each of which takes what the one before it returned: steps per "
        "second from the first step to the end, with a worker that has run such a job before.",
        RATE,
        _cases(measures.walks, jobs=1, steps=sizes.steps),
        REFERENCES,
        store=STORE,
        rounds=3,
    )


def many(sizes: Sizes) -> Scenario:
    return Scenario(
        "steps-many",
        f"{sizes.jobs:,} such jobs of {sizes.steps_a_job:,} steps at once.",
        RATE,
        _cases(measures.walks, jobs=sizes.jobs, steps=sizes.steps_a_job),
        REFERENCES,
        store=STORE,
        rounds=3,
    )


def killed(sizes: Sizes) -> Scenario:
    return Scenario(
        "steps-killed",
        f"The job of `steps-one`, whose worker is killed (SIGKILL) when half of the steps have run; another starts at "
        "once, with what each system does by default. How long until a step runs that had not run before (a dash: not "
        f"within {sizes.patience:g} s), how many steps ran again (one was under way), and whether it ended wrong, or "
        "not at all.",
        (Figure("resumed", "s after the kill"), Figure("again", "steps run"), Figure("wrong", "jobs")),
        _cases(measures.killed, steps=sizes.steps, patience=sizes.patience),
        store=STORE,
        rounds=1,
    )


def _cases(measure: Callable[..., Figures], **words: Any) -> tuple[Case, ...]:
    return tuple(
        (ours if system in OURS else other)(system, measure, engine=engine, **words)
        for system, engine in (OURS | PEERS).items()
    )
