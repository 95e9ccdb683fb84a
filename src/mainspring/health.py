"""The health of an app: whether it is live and ready, and the reasons if it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from .errors import StoreUnavailable
from .mask import mask_text
from .survived_errors import SurvivedErrors

if TYPE_CHECKING:
    from .store import Store
    from .worker.worker import Worker

# Seconds of real time that the store may take to answer.
STORE_TIMEOUT_SECONDS = 5.0
NO_ANSWER = "the store does not answer"
_unanswered = SurvivedErrors("health", "the answer is that this process is not ready")
DEAF = "notifications do not reach it, so it looks for jobs at its poll interval; mainspring doctor says why"


class Health(Struct, frozen=True):
    """`live`: all loops of the workers here turned recently, even if the store fails. `ready`: it answers as well."""

    live: bool
    ready: bool
    reasons: list[str]
    """Why it is not live or not ready. Empty if it is both."""
    notes: list[str] = []
    """Problems that do not affect readiness."""

    def answer(self, question: Literal["live", "ready"]) -> ProbeResult:
        well = self.live if question == "live" else self.ready
        # The probe needs no authentication: the store's address and error are for the log only.
        reasons = [_without_details(reason) for reason in self.reasons]
        return ProbeResult(200 if well else 503, Body("ok" if well else "failing", reasons, self.notes))


def _without_details(reason: str) -> str:
    if not reason.startswith(NO_ANSWER):
        return reason
    _unanswered(StoreUnavailable(reason))
    return f"{NO_ANSWER}; the log says why"


class Body(Struct, frozen=True):
    status: Literal["ok", "failing"]
    reasons: list[str]
    notes: list[str]


class ProbeResult(Struct, frozen=True):
    """The HTTP response to a probe."""

    code: int
    body: Body


async def check_health(
    connect: Callable[[], Awaitable[Store]], workers: Iterable[Worker], *, store: bool = True
) -> Health:
    """The health of these workers and, with `store`, of the store.

    A liveness probe does not ask the store: a store that is down is no reason to restart the process.
    """
    workers = list(workers)
    stuck = [reason for worker in workers for reason in worker.stuck()]
    trouble = await _trouble(connect) if store else []
    deaf = [f"worker {worker.id} is deaf: {DEAF}" for worker in workers if worker.deaf]
    return Health(not stuck, not stuck and not trouble, stuck + trouble, deaf)


async def _trouble(connect: Callable[[], Awaitable[Store]]) -> list[str]:
    try:
        async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
            store = await connect()
            await store.time()
            trouble = (await store.schema()).trouble
    except TimeoutError:
        return [f"the store has not answered within {STORE_TIMEOUT_SECONDS:g} s"]
    except Exception as error:  # any error of the store is an answer to the probe
        return [mask_text(f"{NO_ANSWER}: {error}")]
    return [trouble] if trouble else []
