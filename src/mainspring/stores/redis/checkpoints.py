"""Calls of keep.lua: checkpoints of runs that go on, fenced by their leases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ...ids import JobId
from ...records.run import RunReport
from ..rules.finish import has_only_checkpoints
from .connection import Arg
from .records import packed
from .shard import Shard

_encode = msgspec.json.Encoder().encode
# What one call of the script has, unless a single report has more: the server does nothing else meanwhile.
MAX_CALL_BYTES = 4 << 20
MAX_CALL_REPORTS = 1_000


async def keep_checkpoints(shard: Shard, reports: Sequence[RunReport]) -> tuple[set[JobId], list[RunReport]]:
    """Stores reports of checkpoints. Returns the jobs whose reports are accepted, and the reports that are not written:
    all of a job if one has more in it, and those whose jobs are locked by a transaction."""
    mixed = {report.id for report in reports if not has_only_checkpoints(report)}
    accepted, others = set[JobId](), [report for report in reports if report.id in mixed]
    for some in _calls([report for report in reports if report.id not in mixed] if mixed else reports):
        answers = await shard.script("keep", [arg for report in some for arg in _args(report)])
        for report, answer in zip(some, answers, strict=True):
            if answer == 1:
                accepted.add(report.id)
            elif answer == 2:
                others.append(report)
    return accepted, others


def _args(report: RunReport) -> Iterator[Arg]:
    yield from (packed(report.id), report.id, report.lease, len(report.checkpoints))
    for one in report.checkpoints:
        yield from (one.name, _encode(one))


def _calls(reports: Sequence[RunReport]) -> Iterator[Sequence[RunReport]]:
    some, total = list[RunReport](), 0
    for report in reports:
        size = sum(len(one.value) for one in report.checkpoints)
        if some and (len(some) >= MAX_CALL_REPORTS or total + size > MAX_CALL_BYTES):
            yield some
            some, total = [], 0
        some.append(report)
        total += size
    if some:
        yield some
