"""Failpoints: named places where a test can kill or stop the process. They do nothing by default.

`MAINSPRING_FAILPOINTS="claim.after_commit=kill:3"` kills the process the third time it reaches that point.
`stop` in place of `kill` stops it until it is continued. $MAINSPRING_FAILPOINT_LOG names a file to which a line is
written for each failpoint that acts.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "claim.after_commit", "run.started", "run.returned", "finish.mid_batch", "finish.after_commit",
    "transaction.after_commit", "step.returned", "step.stored", "fire.planned", "fire.mid_step", "fire.after_commit",
)  # fmt: skip
_SIGNALS = {"kill": "SIGKILL", "stop": "SIGSTOP"}


def _parse(text: str) -> dict[str, tuple[str, int]]:
    armed: dict[str, tuple[str, int]] = {}
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        verb, _, count = action.partition(":")
        if name not in POINTS or verb not in _SIGNALS or not (count or "1").isdigit() or count == "0":
            raise ValueError(f"unknown failpoint {part!r} (points: {', '.join(POINTS)}; actions: kill, stop)")
        armed[name] = (_SIGNALS[verb], int(count or 1))
    return armed


_armed = _parse(os.environ.get("MAINSPRING_FAILPOINTS", ""))


def failpoint(name: str) -> None:
    """Kills or stops the process here if the failpoint is armed and its count is reached."""
    if name not in _armed:
        return
    action, left = _armed[name]
    _armed[name] = (action, left - 1)
    if left == 1:
        if log := os.environ.get("MAINSPRING_FAILPOINT_LOG"):
            with open(log, "a") as file:
                file.write(f"{name}\n")
        os.kill(os.getpid(), getattr(signal, action))
