"""Bugs that can be planted in the code for durable steps: each breaks one rule of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from mainspring.records.run import Checkpoint, RunReport
from mainspring.stores.memory import jobs
from mainspring.stores.rules.finish import report_one
from mainspring.stores.rules.tables import Tables
from mainspring.worker.durable import DurableSteps
from mainspring.worker.report_buffer import RunReports, Urgency

from .patch import patch

Plant = Callable[[], AbstractContextManager[None]]


def _checkpoint_without_lease() -> AbstractContextManager[None]:
    def unfenced(tables: Tables, report: RunReport) -> bool:
        accepted = report_one(tables, report)
        if not accepted and report.checkpoints and tables.job(report.id) is not None:
            tables.add_checkpoints(report.id, report.checkpoints)
        return accepted

    return patch(jobs, "report_one", unfenced)


def _forgotten_checkpoints() -> AbstractContextManager[None]:
    async def nothing(self: DurableSteps) -> Sequence[Checkpoint]:
        return []

    return patch(DurableSteps, "_read", nothing)


def _hopeful_step() -> AbstractContextManager[None]:
    async def keep(self: RunReports, checkpoint: Checkpoint) -> bool:
        with self._lock:
            self._checkpoints.append(checkpoint)
        self._add_to_buffer()
        self._buffer.urge(Urgency.WAITING)
        return True

    return patch(RunReports, "keep", keep)


BUGS: Mapping[str, tuple[str, Plant]] = {
    "checkpoint-without-lease": ("a step is stored for a run that does not hold its job", _checkpoint_without_lease),
    "forgotten-checkpoints": ("a run does not read the steps of those before it", _forgotten_checkpoints),
    "hopeful-step": ("a run goes on before its step is stored", _hopeful_step),
}
