"""Flows of a plan that wait for signals: what they do before and behind them, and when the signals are given."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec import json

from mainspring.records.plan import Input, Operand, Plan, PlannedStep, SignalStep, StepOptions, ValueOf

from .signal_log import SIGNAL

# What a signal is worth if nobody gives it in time.
DEFAULT = "nobody answered in time"


def draw_waiting_flow(chance: Random) -> tuple[Plan, float]:
    """A step, a signal that is asked for behind it or at once, and steps behind the signal; and its timeout."""
    timeout = chance.choice((None, round(chance.uniform(1.0, 15.0), 3)))
    defaulted = timeout is not None and chance.random() < 0.5
    inputs = [_behaviour(chance) for _ in range(3)]
    options = StepOptions(queue=chance.choice(("default", "mail")), max_retries=1)
    behind: dict[str, Operand] = {"how": Input(1), "a": ValueOf(1)}
    steps = (
        PlannedStep("before", "part", args={"how": Input(0)}, options=options),
        PlannedStep(
            SIGNAL,
            "",
            after=(0,) if chance.random() < 0.7 else (),
            signal=SignalStep(timeout, Input(3) if defaulted else None),
        ),
        PlannedStep("behind", "part", args=behind, after=(0,), options=options),
        PlannedStep("last", "part", args={"how": Input(2)}, after=(2,), on="end", options=options),
    )
    texts = [json.encode(one).decode() for one in (*inputs, DEFAULT)]
    return Plan(steps, tuple(texts), ValueOf(2)), timeout or 15.0


def _behaviour(chance: Random) -> Mapping[str, Any]:
    does = chance.choice((None, None, None, "flaky", "broken"))
    found: dict[str, Any] = {"x": 1, "seconds": round(chance.uniform(0.0, 4.0), 3)}
    return found if does is None else {**found, "does": does}
